"""Every kernel on a CUDA device equals its reference on the CPU, bit for bit; so does the reference on the
device."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from magma_kernels import backend, beam_search, semantic_link
from magma_kernels.beam_search import cases as beam_cases
from magma_kernels.beam_search import reference as beam_reference
from magma_kernels.semantic_link import cases as link_cases
from magma_kernels.semantic_link import reference as link_reference

CUDA = torch.device("cuda", 0)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() == 0, reason="no CUDA device"),
]


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills torch.empty with what no correct output holds."""
    empty = torch.empty

    def poisoned(*args: object, **kwargs: object) -> torch.Tensor:
        out = empty(*args, **kwargs)
        if out.dtype == torch.bool:
            return out.fill_(True)
        return out.fill_(float("nan") if out.is_floating_point() else -77)

    monkeypatch.setattr(torch, "empty", poisoned)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks for the compiled kernel, so that nothing falls back unseen."""
    monkeypatch.setenv(backend.VARIABLE, backend.COMPILED)


def moved(value: Any, device: torch.device) -> Any:
    """Returns a dataclass of tensors on a device."""
    there = {}
    for field in fields(value):
        part = getattr(value, field.name)
        if isinstance(part, torch.Tensor):
            part = part.to(device)
        elif isinstance(part, (beam_search.BeamGraph, beam_search.BeamQueries)):
            part = moved(part, device)
        there[field.name] = part
    return replace(value, **there)


def assert_same(got: Any, want: Any) -> None:
    for field in fields(want):
        a, b = getattr(got, field.name).cpu(), getattr(want, field.name)
        assert a.dtype == b.dtype, field.name
        if a.is_floating_point():
            a, b = a.view(torch.int32), b.view(torch.int32)
        assert torch.equal(a, b), field.name


def search(case: beam_cases.Case) -> beam_search.BeamResult:
    there = moved(case, CUDA)
    return beam_search.beam_search(there.graph, there.queries, there.params)


def defined(case: beam_cases.Case) -> beam_search.BeamResult:
    return beam_reference.beam_search(case.graph, case.queries, case.params)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("case", beam_cases.awkward_cases(), ids=lambda case: case.name)
def test_beam_awkward_shapes(case):
    assert_same(search(case), defined(case))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_beam_random_graphs(first):
    for seed in range(first, first + 100):
        case = beam_cases.random_case(seed)
        assert_same(search(case), defined(case))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("num_memories", "num_events", "num_queries"), [(16, 600, 1024), (2, 20_000, 64)])
def test_beam_conversations(num_memories, num_events, num_queries):
    case = beam_cases.events_case(num_memories=num_memories, num_events=num_events, num_queries=num_queries, seed=1)
    want = defined(case)
    for _ in range(3):
        assert_same(search(case), want)


def test_beam_reference_on_the_device():
    for seed in range(0, 60):
        case = beam_cases.random_case(seed)
        there = moved(case, CUDA)
        assert_same(beam_reference.beam_search(there.graph, there.queries, there.params), defined(case))


@pytest.mark.usefixtures("compiled")
def test_beam_runs_on_the_current_stream():
    case = beam_cases.events_case(num_memories=4, num_events=200, num_queries=200, seed=1)
    want = defined(case)
    there = moved(case, CUDA)
    affinity = there.queries.affinity.clone()
    stream = torch.cuda.Stream(CUDA)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        # Right only if the kernel waits for this copy, which the stream has queued.
        late = torch.zeros_like(affinity)
        late.copy_(affinity)
        queries = replace(there.queries, affinity=late)
        got = beam_search.beam_search(there.graph, queries, there.params)
    assert_same(got, want)


@pytest.mark.usefixtures("compiled")
def test_beam_mistakes_are_asserted():
    case = beam_cases.events_case(num_memories=1, num_events=30, num_queries=3, seed=1)
    outside = replace(case, queries=replace(case.queries, anchor_node=case.queries.anchor_node + 1000))
    with pytest.raises(AssertionError):
        search(outside)
    assert_same(search(case), defined(case))


@pytest.mark.usefixtures("compiled")
def test_links_are_those_of_the_reference():
    small = [link_cases.random_case(seed) for seed in range(60)]
    for case in [*small, *link_cases.awkward_cases()]:
        there = moved(case, CUDA)
        want = link_reference.semantic_link(
            case.x_ND, case.ptr, case.order_N, case.usable_N, k=case.k, threshold=case.threshold
        )
        got = semantic_link.semantic_link(
            there.x_ND, there.ptr, there.order_N, there.usable_N, k=case.k, threshold=case.threshold
        )
        assert_same(got, want)


@pytest.mark.usefixtures("compiled")
def test_links_of_near_duplicates_equal_those_of_the_cpu():
    case = link_cases.duplicates_case(6000, 384, seed=1)
    there = moved(case, CUDA)
    arguments = {"k": case.k, "threshold": case.threshold}
    want = semantic_link.semantic_link(case.x_ND, case.ptr, case.order_N, case.usable_N, **arguments)
    got = semantic_link.semantic_link(there.x_ND, there.ptr, there.order_N, there.usable_N, **arguments)
    assert_same(got, want)


def test_what_is_chosen(monkeypatch):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    assert [choice.name for choice in backend.choices(CUDA)] == ["cupy", "tiled"]

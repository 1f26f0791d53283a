"""Which implementation is chosen, what an explicit request does, and that a choice is said once."""

import importlib.util
import logging

import pytest
import torch

from magma_kernels import backend
from magma_kernels.beam_search import beam_search
from magma_kernels.beam_search.cases import awkward_cases, random_case

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    backend._said.cache_clear()


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_compiled_is_the_default_where_its_package_is():
    pytest.importorskip("numba")
    choice = backend.choose("beam_search", CPU)
    assert (choice.name, choice.reason, choice.forced) == ("numba", "numba is installed", False)


def test_variable_forces(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "reference")
    assert backend.choose("beam_search", CPU).name == "reference"
    monkeypatch.setenv(backend.VARIABLE, "fast")
    with pytest.raises(backend.KernelUnavailableError, match="got 'fast'"):
        backend.choose("beam_search", CPU)


@pytest.mark.usefixtures("without_packages")
def test_explicit_request_that_cannot_be_met_raises(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "compiled")
    with pytest.raises(backend.KernelUnavailableError, match="numba is not installed"):
        backend.choose("beam_search", CPU)
    with pytest.raises(backend.KernelUnavailableError, match="no compiled beam_search for xpu"):
        backend.choose("beam_search", torch.device("xpu"))


@pytest.mark.usefixtures("without_packages")
def test_automatic_choice_falls_back_and_says_so_once(caplog):
    with caplog.at_level(logging.INFO, logger=backend.__name__):
        for _ in range(3):
            assert backend.choose("beam_search", CPU).name == "reference"
    assert [record.getMessage() for record in caplog.records] == [
        "beam_search on cpu: reference (the package numba is not installed)"
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_call_that_a_kernel_cannot_take():
    choice = backend.Choice("beam_search", "cuda", "cupy", "cupy is installed")
    assert backend.fall_back(choice, "too wide").name == "reference"
    forced = backend.Choice("beam_search", "cuda", "cupy", "asked for", forced=True)
    with pytest.raises(backend.KernelUnavailableError, match="too wide"):
        backend.fall_back(forced, "too wide")


@pytest.mark.parametrize("value", ["", "reference", "compiled"])
def test_public_function_obeys_and_agrees(monkeypatch, value):
    pytest.importorskip("numba")
    case = random_case(5)
    default = beam_search(case.graph, case.queries, case.params)
    monkeypatch.setenv(backend.VARIABLE, value)
    result = beam_search(case.graph, case.queries, case.params)
    assert torch.equal(result.node_QV, default.node_QV)
    assert {choice.op for choice in backend.choices(CPU)} >= {"beam_search"}


def test_memory_too_large_for_a_key_goes_to_the_reference(monkeypatch):
    pytest.importorskip("numba")
    case = awkward_cases()[2]
    want = beam_search(case.graph, case.queries, case.params)
    monkeypatch.setattr("magma_kernels.beam_search.relation_bits", lambda queries: 40)
    result = beam_search(case.graph, case.queries, case.params)
    assert torch.equal(result.node_QV, want.node_QV)
    monkeypatch.setenv(backend.VARIABLE, "compiled")
    with pytest.raises(backend.KernelUnavailableError, match="do not fit in 32 bits"):
        beam_search(case.graph, case.queries, case.params)

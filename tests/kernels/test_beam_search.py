"""Beam search: by hand, then the reference against the oracle, then the compiled loop against the reference.

The last two hold bit for bit. conftest.py fills what torch.empty allocates, so that an output not written
shows.
"""

from dataclasses import fields, replace

import beam_oracle
import numpy as np
import pytest
import torch

from magma_kernels.beam_search import BeamParams, BeamQueries, BeamResult, beam_search, reference
from magma_kernels.beam_search.cases import Case, awkward_cases, events_case, graph_of, random_case


def compiled(case: Case, num_threads: int | None = None) -> BeamResult:
    pytest.importorskip("numba")
    from magma_kernels.beam_search import _numba

    return _numba.beam_search(case.graph, case.queries, case.params, num_threads)


def defined(case: Case) -> BeamResult:
    return reference.beam_search(case.graph, case.queries, case.params)


def assert_same(got: BeamResult, want: BeamResult) -> None:
    for field in fields(BeamResult):
        a, b = getattr(got, field.name), getattr(want, field.name)
        assert a.dtype == b.dtype, field.name
        assert a.shape == b.shape, field.name
        if a.is_floating_point():
            a, b = a.view(torch.int32), b.view(torch.int32)
        assert torch.equal(a, b), field.name


def assert_as_oracle(result: BeamResult, case: Case) -> None:
    expected = beam_oracle.search(case.graph, case.queries, case.params)
    width = max((len(visits) for visits, _ in expected), default=0)
    assert result.node_QV.shape == (len(expected), width)
    for q, (visits, truncated) in enumerate(expected):
        pad = width - len(visits)
        assert result.num_Q[q] == len(visits)
        assert bool(result.truncated_Q[q]) == truncated
        assert result.node_QV[q].tolist() == [v.node for v in visits] + [-1] * pad
        assert result.hop_QV[q].tolist() == [v.hop for v in visits] + [-1] * pad
        assert result.parent_QV[q].tolist() == [v.parent for v in visits] + [-1] * pad
        assert result.relation_QV[q].tolist() == [v.relation for v in visits] + [-1] * pad
        scores = np.array([v.score for v in visits] + [0] * pad, dtype=np.float32)
        assert result.score_QV[q].numpy().tobytes() == scores.tobytes()


# A path 0 - 1 - 2 - 3 and a shortcut 0 - 2; relation 0 forward, 1 backward; the shortcut is of type 1.
PATH = graph_of(5, np.array([0, 1, 2, 0]), np.array([1, 2, 3, 2]), np.array([0, 0, 0, 1]))


def path_case(params: BeamParams, anchors: dict[int, float], structure: list[float] | None = None) -> Case:
    queries = BeamQueries(
        base_Q=torch.tensor([0]),
        affinity=torch.tensor([1.0, 2.0, 1.0, 0.5, 1.0]),
        affinity_ptr=torch.tensor([0, 5]),
        structure_QR=torch.tensor([structure or [1.0, 1.0, 0.25, 0.25]]),
        anchor_ptr=torch.tensor([0, len(anchors)]),
        anchor_node=torch.tensor(list(anchors), dtype=torch.int64),
        anchor_score=torch.tensor(list(anchors.values()), dtype=torch.float32),
    )
    return Case("path", PATH, queries, params)


def visits(result: BeamResult, q: int = 0) -> list[tuple[int, float, int, int, int]]:
    columns = (result.node_QV, result.score_QV, result.hop_QV, result.parent_QV, result.relation_QV)
    return list(zip(*(column[q].tolist() for column in columns), strict=True))


BOTH = pytest.mark.parametrize("search", [defined, compiled], ids=["reference", "compiled"])


@BOTH
def test_path_worked_by_hand(search):
    params = BeamParams(max_depth=5, beam_width=20, max_nodes=200, decay=0.5, drop_threshold=0.0)
    result = search(path_case(params, {0: 1.0}))
    # Step 1 from 0: node 1 is 0.5 + 1 * 2 = 2.5, node 2 over the shortcut 0.5 + 0.25 * 1 = 0.75. Step 2:
    # node 3 from 2 is 0.375 + 0.5 = 0.875; node 2 is visited, so the better way through 1 does not come.
    assert visits(result) == [(0, 1.0, 0, -1, -1), (1, 2.5, 1, 0, 0), (2, 0.75, 1, 0, 2), (3, 0.875, 2, 2, 0)]
    assert not bool(result.truncated_Q[0])


@BOTH
def test_candidate_is_dropped_below_the_share_of_the_best(search):
    params = BeamParams(decay=0.5, drop_threshold=0.3125)
    # The floor of step 1 is 0.3125 * 2.5 = 0.78125, above 0.75; node 2 then comes from 1: 1.25 + 1 = 2.25.
    result = search(path_case(params, {0: 1.0}))
    assert visits(result)[:3] == [(0, 1.0, 0, -1, -1), (1, 2.5, 1, 0, 0), (2, 2.25, 2, 1, 0)]
    # A value equal to the floor stays: 0.3 * 2.5 is 0.75 when both are exact; 0.25 * 3 is.
    kept = search(path_case(BeamParams(decay=1.0, drop_threshold=0.5, max_depth=1), {0: 0.5}))
    assert visits(kept)[1:] == [(1, 2.5, 1, 0, 0)]
    kept = search(path_case(BeamParams(decay=1.0, drop_threshold=0.5, max_depth=1), {0: 1.5}))
    assert visits(kept)[1:] == [(1, 3.5, 1, 0, 0), (2, 1.75, 1, 0, 2)]


@BOTH
def test_ties_go_to_smaller_node_parent_and_relation(search):
    params = BeamParams(decay=0.0, drop_threshold=0.0, max_depth=1)
    # Node 2 is reached from 1 and from 3, all equal with decay 0: parent 1, although 3 has the higher
    # anchor score.
    result = search(path_case(params, {3: 1.0, 1: 0.5}))
    assert visits(result) == [(3, 1.0, 0, -1, -1), (1, 0.5, 0, -1, -1), (0, 1.0, 1, 1, 1), (2, 1.0, 1, 1, 0)]
    # With equal structure the two nodes reached from 2 that tie are in the order of their numbers.
    graph = graph_of(3, np.array([0, 0, 0]), np.array([1, 1, 2]), np.array([1, 0, 0]))
    queries = BeamQueries(
        base_Q=torch.tensor([0]),
        affinity=torch.ones(3),
        affinity_ptr=torch.tensor([0, 3]),
        structure_QR=torch.ones(1, 4),
        anchor_ptr=torch.tensor([0, 1]),
        anchor_node=torch.tensor([0]),
        anchor_score=torch.ones(1),
    )
    result = search(Case("parallel", graph, queries, params))
    assert visits(result)[1:] == [(1, 1.0, 1, 0, 0), (2, 1.0, 1, 0, 0)]


@BOTH
def test_max_nodes_cuts_and_says_so(search):
    anchors = {4: 1.0, 0: 1.0, 3: 2.0}
    result = search(path_case(BeamParams(max_nodes=2), anchors))
    assert result.node_QV.tolist() == [[3, 0]]
    assert result.truncated_Q.tolist() == [True]
    exactly = search(path_case(BeamParams(max_nodes=3), anchors))
    assert exactly.node_QV.tolist() == [[3, 0, 4]]
    assert exactly.truncated_Q.tolist() == [False]
    step = search(path_case(BeamParams(max_nodes=2, drop_threshold=0.0), {0: 1.0}))
    assert step.node_QV.tolist() == [[0, 1]]
    assert step.truncated_Q.tolist() == [True]
    # A beam of one would have kept no more: max_nodes is not what cut.
    narrow = search(path_case(BeamParams(max_nodes=2, drop_threshold=0.0, beam_width=1), {0: 1.0}))
    assert narrow.truncated_Q.tolist() == [False]


@BOTH
def test_decay_is_float32_and_not_fused(search):
    case = path_case(BeamParams(decay=0.1, max_depth=1, drop_threshold=0.0), {0: 0.7}, [0.3, 1.0, 0.25, 0.25])
    want = np.float32(0.1) * np.float32(0.7) + np.float32(0.3) * np.float32(2.0)
    assert np.float32(visits(search(case))[1][1]) == want


@pytest.mark.parametrize("case", awkward_cases(), ids=lambda case: case.name)
def test_awkward_shapes(case):
    result = defined(case)
    assert_as_oracle(result, case)
    assert_same(compiled(case), result)


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_random_graphs(first):
    for seed in range(first, first + 100):
        case = random_case(seed)
        result = defined(case)
        assert_as_oracle(result, case)
        assert_same(compiled(case), result)


def test_random_cases_reach_every_branch():
    """Guards the generator: the comparison above is worth little when nothing is cut, dropped or tied."""
    truncated = deep = tied = 0
    for seed in range(100):
        result = defined(random_case(seed))
        truncated += bool(result.truncated_Q.any())
        deep += bool((result.hop_QV >= 3).any())
        same = (result.score_QV[:, 1:] == result.score_QV[:, :-1]) & (result.hop_QV[:, 1:] >= 1)
        tied += bool(same.any())
    assert min(truncated, deep, tied) >= 15


def test_threads_change_nothing():
    case = events_case(num_memories=3, num_events=120, num_queries=700, seed=3)
    want = defined(case)
    for num_threads in (1, 2, 5):
        assert_same(compiled(case, num_threads), want)


def test_a_query_does_not_depend_on_its_batch():
    case = random_case(11)
    whole = defined(case)
    queries = case.queries
    for q in range(queries.base_Q.shape[0]):
        a, b = queries.affinity_ptr[q : q + 2].tolist()
        c, d = queries.anchor_ptr[q : q + 2].tolist()
        alone = BeamQueries(
            base_Q=queries.base_Q[q : q + 1],
            affinity=queries.affinity[a:b],
            affinity_ptr=torch.tensor([0, b - a]),
            structure_QR=queries.structure_QR[q : q + 1],
            anchor_ptr=torch.tensor([0, d - c]),
            anchor_node=queries.anchor_node[c:d],
            anchor_score=queries.anchor_score[c:d],
        )
        result = beam_search(case.graph, alone, case.params)
        num = int(result.num_Q[0])
        assert num == int(whole.num_Q[q])
        assert torch.equal(result.node_QV[0], whole.node_QV[q, :num])
        assert torch.equal(result.score_QV[0], whole.score_QV[q, :num])


MISTAKES = {
    "anchor-outside": {"anchor_node": torch.tensor([5])},
    "anchor-twice": {
        "anchor_node": torch.tensor([0, 0]),
        "anchor_score": torch.ones(2),
        "anchor_ptr": torch.tensor([0, 2]),
    },
    "nan-score": {"anchor_score": torch.tensor([float("nan")])},
    "infinite-score": {"anchor_score": torch.tensor([float("inf")])},
    "negative-zero": {"structure_QR": torch.tensor([[1.0, 1.0, -0.0, 1.0]])},
    "negative-affinity": {"affinity": torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0])},
    "small-memory": {"affinity": torch.ones(2), "affinity_ptr": torch.tensor([0, 2])},
    "base-outside": {"base_Q": torch.tensor([3]), "anchor_node": torch.tensor([4])},
    "few-relations": {"structure_QR": torch.ones(1, 2)},
    "wrong-dtype": {"affinity": torch.ones(5, dtype=torch.float64)},
    "wrong-length": {"affinity_ptr": torch.tensor([0, 2, 5])},
    "ptr-too-long": {"anchor_ptr": torch.tensor([0, 9])},
}


@BOTH
@pytest.mark.parametrize("change", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_asserted(search, change):
    case = path_case(BeamParams(), {0: 1.0})
    search(case)
    with pytest.raises(AssertionError):
        search(replace(case, queries=replace(case.queries, **change)))


@BOTH
@pytest.mark.parametrize("name", ["max_depth", "beam_width", "max_nodes", "decay", "drop_threshold"])
def test_parameters_are_asserted(search, name):
    case = path_case(BeamParams(), {0: 1.0})
    with pytest.raises(AssertionError, match=name):
        search(replace(case, params=replace(case.params, **{name: -1})))

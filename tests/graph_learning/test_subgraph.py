"""Query subgraphs: which edges join two candidates, batches as PyG makes them, files that load safely."""

from pathlib import Path

import numpy as np
import pytest
import torch

from magma_gpu.config import Config, SearchConfig
from magma_gpu.errors import InputError
from magma_gpu.features import NAMES
from magma_gpu.graph import TYPE_CODE
from magma_gpu.graph_learning.pseudo import pseudo_questions
from magma_gpu.graph_learning.subgraph import (
    RELATIONS,
    QueryGraphs,
    edges_among,
    join,
    load_graphs,
    query_graphs,
    save_graphs,
    triple,
)
from magma_gpu.memory import Memory


@pytest.fixture(scope="module")
def memory(examples_store: Path) -> Memory:
    return Memory.open(examples_store, Config(search=SearchConfig(policy="learned")))


def made(memory: Memory, chosen: np.ndarray) -> QueryGraphs:
    indexes = memory.indexes(["ana"])
    (view,) = memory.views(indexes)
    x = np.random.default_rng(0).normal(size=(*chosen.shape, len(NAMES))).astype(np.float32)
    label = (chosen % 7 == 0).astype(np.float32)
    return query_graphs(indexes[0], view, chosen, x, label)


CHOSEN = np.array([[4, 3, 5, 40, -1, -1], [10, 11, 13, 9, 2, 0], [-1, -1, -1, -1, -1, -1], [7, -1, -1, -1, -1, -1]])


def test_temporal_edges_by_hand(memory: Memory) -> None:
    """Turns 3, 4 and 5 follow each other in one session; the messages of `previous` come from the turn before."""
    graphs = made(memory, CHOSEN[:1])
    index = memory.indexes(["ana"])[0]
    assert len(set(index.session_E[3:6].tolist())) == 1
    ends = {tuple(e) for e in graphs.edge_index["previous"].T.tolist()}
    # Candidate 0 is turn 4, 1 is turn 3, 2 is turn 5.
    assert ends == {(1, 0), (0, 2)}
    assert {tuple(e) for e in graphs.edge_index["next"].T.tolist()} == {(0, 1), (2, 0)}
    assert graphs.edge_index["previous2"].T.tolist() == [[1, 2]]
    assert graphs.edge_weight["previous"].tolist() == [1.0, 1.0]


def test_every_edge_is_one_of_the_memory(memory: Memory) -> None:
    indexes = memory.indexes(["ana"])
    (view,) = memory.views(indexes)
    index = indexes[0]
    chosen = np.stack([np.random.default_rng(s).permutation(index.num_events)[:-9] for s in range(4)])
    graph = index.graph
    found = edges_among(index, view, chosen)
    assert found["semantic"][0].shape[1] > 0
    assert found["cause"][0].shape[1] > 0
    for relation, (ends, weight) in found.items():
        question = ends[0] // chosen.shape[1]
        assert np.array_equal(question, ends[1] // chosen.shape[1]), "no edge leaves its question"
        assert (np.diff(ends[1]) >= 0).all()
        sums = np.bincount(ends[1], weights=weight, minlength=chosen.size)
        assert relation in ("previous", "next", "previous2", "next2") or float(sums.max()) <= 1 + 1e-5
    causal = graph.type_E.numpy() == TYPE_CODE["causal"]
    real = set(zip(graph.src_E.numpy()[causal].tolist(), graph.dst_E.numpy()[causal].tolist(), strict=True))
    ends = chosen.reshape(-1)[found["cause"][0]]
    assert {tuple(e) for e in ends.T.tolist()} <= real
    back = chosen.reshape(-1)[found["effect"][0]]
    assert {(b, a) for a, b in back.T.tolist()} == {tuple(e) for e in ends.T.tolist()}
    # All causal edges with both ends among the candidates are there.
    wanted = sum(a in row and b in row for row in chosen.tolist() for a, b in real)
    assert ends.shape[1] == wanted


def test_a_batch_is_what_pyg_makes_of_the_single_graphs(memory: Memory) -> None:
    from torch_geometric.data import Batch

    graphs = made(memory, CHOSEN)
    rows = [1, 3, 2, 0]
    mine, theirs = graphs.batch(rows), Batch.from_data_list([graphs.graph(r) for r in rows])
    theirs.validate()
    for name in ("x", "y", "event", "batch", "ptr"):
        assert torch.equal(mine["event"][name], theirs["event"][name]), name
    for relation in RELATIONS:
        assert torch.equal(mine[triple(relation)].edge_index, theirs[triple(relation)].edge_index)
        assert torch.equal(mine[triple(relation)].edge_attr, theirs[triple(relation)].edge_attr)
    assert mine["event"].event.tolist() == [10, 11, 13, 9, 2, 0, 7, 4, 3, 5, 40]


def equal(a: QueryGraphs, b: QueryGraphs) -> bool:
    plain = all(torch.equal(getattr(a, n), getattr(b, n)) for n in ("x_NF", "y_N", "event_N", "ptr_Q", "weight_Q"))
    return plain and all(
        torch.equal(getattr(a, n)[r], getattr(b, n)[r])
        for n in ("edge_index", "edge_weight", "edge_ptr")
        for r in RELATIONS
    )


def test_taking_and_joining(memory: Memory) -> None:
    graphs = made(memory, CHOSEN)
    assert equal(join([graphs.take([0, 1]), graphs.take([2, 3])]), graphs)
    assert equal(graphs.take([3, 2, 1, 0]).take([3, 2, 1, 0]), graphs)
    assert graphs.positives().tolist() == [0.0, 1.0, 0.0, 1.0]
    head = graphs.head(2)
    assert head.sizes().tolist() == [2, 2, 0, 1]
    assert [tuple(e) for e in head.take([0]).edge_index["previous"].T.tolist()] == [(1, 0)]
    assert equal(graphs.head(6), graphs)


def test_files_are_tensors_and_nothing_else(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = made(memory, CHOSEN)
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_graphs(graphs, a)
    save_graphs(graphs, b)
    assert a.read_bytes() == b.read_bytes()
    assert equal(load_graphs(a), graphs)
    b.write_bytes(b"\x80\x04junk")
    with pytest.raises(InputError, match="cannot be read"):
        load_graphs(b)
    monkeypatch.setattr("magma_gpu.graph_learning.subgraph.NAMES", NAMES[:-1])
    with pytest.raises(InputError, match="other features"):
        load_graphs(a)


def test_pseudo_questions(memory: Memory) -> None:
    index = memory.indexes(["ana"])[0]
    questions, evidence = pseudo_questions(index, 20, seed=3)
    assert len(questions) == len(evidence) == 20
    assert len({e for (e,) in evidence}) == 20
    assert pseudo_questions(index, 20, seed=3)[0] == questions
    assert pseudo_questions(index, 20, seed=4)[0] != questions
    texts = dict(zip(index.turn_ids, index.texts, strict=True))
    shares = []
    for question, (turn,) in zip(questions, evidence, strict=True):
        words = set(texts[turn].lower().split())
        shares.append(len(words & set(question.question.lower().rstrip("?").split())) / len(words))
    # It shares words with its evidence and is not a copy of it.
    assert 0.05 < float(np.mean(shares)) < 0.6

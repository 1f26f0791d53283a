import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.graph import NO_TIME, NODE_TYPES, TRIPLES, TYPE_CODE, GraphBatch, MemoryGraph, build_graph, from_hetero
from magma_gpu.schema import TABLES, vectors_schema
from magma_gpu.types import EDGE_TYPES
from small_logs import all_tables, turn


def edges(name: str, pairs: list[tuple[str, str, float]]) -> pa.Table:
    rows = [
        {"memory_id": "m", "src": a, "dst": b, "type": name, "weight": w, "origin": "order", "evidence": None}
        for a, b, w in pairs
    ]
    return pa.Table.from_pylist(rows, schema=TABLES[f"edges/{name}"])


def tables_of(
    sessions: list[str], episodes: list[tuple[str, str, int, int]] = (), entities: list[str] = (), **pairs: Any
) -> dict[str, pa.Table]:
    """Events e0, e1, ... in these sessions, with vectors along the axes and hours as times."""
    num = len(sessions)
    events = []
    for at, session in enumerate(sessions):
        row: dict[str, Any] = dict.fromkeys(TABLES["events"].names, "")
        row |= {"event_id": f"e{at}", "session_id": session, "position": at, "part": 0, "seq": at}
        row |= {"time": None if at == 1 else at * 1000, "caption": None, "reply_to": None, "time_text": None}
        events.append(row)
    x = np.eye(num, max(num, 1), dtype=np.float32)
    vectors = [
        {
            "memory_id": "m",
            "event_id": f"e{i}",
            "vector": x[i].tolist(),
            "num_tokens": 1,
            "status": "ok",
            "text_hash": "",
        }
        for i in range(num)
    ]
    made = {
        "events": pa.Table.from_pylist(events, schema=TABLES["events"]),
        "vectors": pa.Table.from_pylist(vectors, schema=vectors_schema(max(num, 1))),
        "episodes": pa.Table.from_pylist(
            [
                {"memory_id": "m", "episode_id": i, "session_id": s, "first": a, "last": b, "title": ""}
                for i, s, a, b in episodes
            ],
            schema=TABLES["episodes"],
        ),
        "entities": pa.Table.from_pylist(
            [
                {"memory_id": "m", "entity_id": i, "name": i, "type": "person", "aliases": [], "num_events": 1}
                for i in entities
            ],
            schema=TABLES["entities"],
        ),
    }
    return made | {f"edges/{name}": edges(name, rows) for name, rows in pairs.items()}


def by_hand() -> MemoryGraph:
    return build_graph(
        "m",
        tables_of(
            ["s", "t", "s", "s"],
            [("p", "s", 0, 2), ("q", "t", 1, 1), ("r", "s", 3, 3)],
            ["ana", "bo"],
            temporal=[("e0", "e1", 1.0), ("e1", "e2", 1.0), ("e2", "e3", 1.0)],
            semantic=[("e0", "e3", 0.75)],
            causal=[("e0", "e2", 0.5)],
            entity=[("e0", "ana", 0.25), ("e3", "ana", 0.25), ("e1", "bo", 1.0)],
        ),
    )


def edge_list(graph: MemoryGraph) -> list[tuple[str, str, str, float]]:
    return [
        (graph.node_id(a), graph.node_id(b), EDGE_TYPES[t], w)
        for a, b, t, w in zip(
            graph.src_E.tolist(), graph.dst_E.tolist(), graph.type_E.tolist(), graph.weight_E.tolist(), strict=True
        )
    ]


def test_a_graph_by_hand() -> None:
    graph = by_hand()
    assert graph.num_nodes == 9
    assert [graph.node_id(n) for n in range(9)] == ["e0", "e1", "e2", "e3", "p", "q", "r", "ana", "bo"]
    assert [graph.first_node(t) for t in NODE_TYPES] == [0, 4, 7]
    with pytest.raises(IndexError):
        graph.node_id(9)
    assert edge_list(graph) == [
        ("e0", "e1", "temporal", 1.0),
        ("e0", "e2", "causal", 0.5),
        ("e0", "e3", "semantic", 0.75),
        ("e0", "p", "episode", 1.0),
        ("e0", "ana", "entity", 0.25),
        ("e1", "e2", "temporal", 1.0),
        ("e1", "q", "episode", 1.0),
        ("e1", "bo", "entity", 1.0),
        ("e2", "e3", "temporal", 1.0),
        ("e2", "p", "episode", 1.0),
        ("e3", "r", "episode", 1.0),
        ("e3", "ana", "entity", 0.25),
    ]
    assert graph.time_N.tolist() == [0, NO_TIME, 2000, 3000]
    assert (graph.src_E.dtype, graph.type_E.dtype, graph.weight_E.dtype, graph.x_ND.dtype) == (
        torch.int64,
        torch.int32,
        torch.float32,
        torch.float32,
    )


def test_episodes_and_entities_have_the_unit_mean_of_their_events() -> None:
    half = np.float32(1 / np.sqrt(2))
    x = by_hand().x_ND
    assert x[4].tolist() == [half, 0, half, 0]
    assert x[5].tolist() == [0, 1, 0, 0]
    assert x[7].tolist() == [half, 0, 0, half]
    tables = tables_of(["s", "s"], [("p", "s", 0, 1)], ["nobody"])
    tables["vectors"] = tables["vectors"].set_column(
        2, tables["vectors"].schema.field("vector"), pa.array([[1.0, 0.0], [-1.0, 0.0]], pa.list_(pa.float32(), 2))
    )
    # Nothing to point at: zeros, not NaN.
    assert build_graph("m", tables).x_ND[2:].tolist() == [[0, 0], [0, 0]]


def test_tables_that_are_not_there_are_empty() -> None:
    tables = {"events": tables_of(["s", "s"])["events"]}
    graph = build_graph("m", tables)
    assert (graph.num_nodes, len(graph.src_E), tuple(graph.x_ND.shape)) == (2, 0, (2, 0))


def test_a_memory_without_events() -> None:
    graph = build_graph("m", tables_of([]))
    assert graph.num_nodes == 0
    data = graph.to_hetero()
    assert data.validate()
    assert_same(from_hetero(data), graph)


# ------------------------------------------------------------------------------------------------------ HeteroData


def assert_same(a: MemoryGraph, b: MemoryGraph) -> None:
    for name in a.__slots__:
        left, right = getattr(a, name), getattr(b, name)
        if isinstance(left, torch.Tensor):
            assert left.dtype == right.dtype, name
            assert torch.equal(left, right), name
        else:
            assert left == right, name


def test_hetero_and_back() -> None:
    graph = by_hand()
    data = graph.to_hetero()
    assert data.validate()
    assert set(data.node_types) == set(NODE_TYPES)
    assert set(data.edge_types) == set(TRIPLES.values())
    assert data["event", "entity", "entity"].edge_index.tolist() == [[0, 1, 3], [0, 1, 0]]
    assert data["event", "episode", "episode"].edge_index.tolist() == [[0, 1, 2, 3], [0, 1, 0, 2]]
    assert_same(from_hetero(data), graph)


def test_every_edge_type_is_there_when_it_is_empty() -> None:
    data = build_graph("m", tables_of(["s"])).to_hetero()
    assert set(data.edge_types) == set(TRIPLES.values())
    for triple in TRIPLES.values():
        assert tuple(data[triple].edge_index.shape) == (2, 0)
        assert data[triple].edge_index.dtype == torch.int64
    assert data["entity"].num_nodes == 0
    assert tuple(data["entity"].x.shape) == (0, 1)
    assert data.validate()


def test_a_built_memory_survives_the_round_trip() -> None:
    log = [turn(f"Ana met Bo in Porto because it rained on day {i}.", turn_id=str(i), seq=i, at=i) for i in range(9)]
    tables = all_tables(log)
    graph = build_graph("m", {n: t for n, t in tables.items() if n not in ("rejected", "queries")})
    assert {EDGE_TYPES[t] for t in set(graph.type_E.tolist())} >= {"temporal", "semantic", "entity", "episode"}
    data = graph.to_hetero()
    assert data.validate()
    assert_same(from_hetero(data), graph)


def case_c29() -> dict[str, MemoryGraph]:
    return {
        "g1": build_graph("g1", tables_of(["s"] * 2, temporal=[("e0", "e1", 1.0)])),
        "g2": build_graph(
            "g2",
            tables_of(
                ["s"] * 3,
                entities=["ana", "bo"],
                temporal=[("e0", "e1", 1.0), ("e1", "e2", 1.0)],
                causal=[("e0", "e2", 0.5)],
                entity=[("e0", "bo", 1.0)],
            ),
        ),
        "g3": build_graph("g3", tables_of([])),
    }


@pytest.mark.parametrize("order", list(itertools.permutations(["g1", "g2", "g3"])), ids="-".join)
def test_case_c29_batches_keep_every_type_and_edge(order: tuple[str, ...]) -> None:
    from torch_geometric.data import Batch

    graphs = case_c29()
    made = []
    for name in order:
        data = graphs[name].to_hetero()
        # Of different numbers of dimensions; PyG stacks rows of one width.
        for node_type in NODE_TYPES:
            data[node_type].x = torch.zeros((data[node_type].num_nodes, 4))
        made.append(data)
    batch = Batch.from_data_list(made)
    assert set(batch.edge_types) == set(TRIPLES.values())
    counts = {name: batch[triple].edge_index.shape[1] for name, triple in TRIPLES.items()}
    assert counts == {"temporal": 3, "semantic": 0, "causal": 1, "entity": 1, "episode": 0}
    ours = GraphBatch.of([graphs[name] for name in order])
    kinds = np.bincount(ours.relation.numpy() // 2, minlength=5)
    assert dict(zip(EDGE_TYPES, (kinds // 2).tolist(), strict=True)) == counts


# ------------------------------------------------------------------------------------------------------ GraphBatch


def arcs(batch: GraphBatch) -> list[tuple[int, int, int]]:
    tail = np.repeat(np.arange(len(batch.indptr) - 1), np.diff(batch.indptr.numpy()))
    return list(zip(tail.tolist(), batch.dst.tolist(), batch.relation.tolist(), strict=True))


def test_a_batch_by_hand() -> None:
    graph = build_graph("m", tables_of(["s"] * 2, temporal=[("e0", "e1", 1.0)], causal=[("e0", "e1", 1.0)]))
    batch = GraphBatch.of([graph, graph])
    temporal, causal = 2 * TYPE_CODE["temporal"], 2 * TYPE_CODE["causal"]
    one = [(0, 1, temporal), (0, 1, causal), (1, 0, temporal + 1), (1, 0, causal + 1)]
    assert arcs(batch) == one + [(a + 2, b + 2, r) for a, b, r in one]
    assert batch.node_ptr_M.tolist() == [0, 2, 4]
    assert batch.relation.dtype == torch.int32


def test_a_batch_of_nothing() -> None:
    empty = build_graph("m", tables_of([]))
    for batch, sizes in ((GraphBatch.of([]), [0]), (GraphBatch.of([empty, empty]), [0, 0, 0])):
        assert batch.node_ptr_M.tolist() == sizes
        assert batch.indptr.tolist() == [0]
        assert len(batch.dst) == 0


def test_an_edge_to_a_node_that_is_not_there_is_told() -> None:
    tables = tables_of(["s"], [("p", "s", 0, 0)], causal=[("e0", "e7", 1.0)])
    with pytest.raises(AssertionError, match="causal names a node that is not there"):
        build_graph("m", tables)


def test_events_belong_to_the_episode_that_starts_last_before_them() -> None:
    # Episodes stand in any order; those of another session start at the same positions.
    episodes = [("a2", "a", 2, 3), ("b1", "b", 0, 1), ("a1", "a", 0, 1), ("b2", "b", 2, 2)]
    graph = build_graph("m", tables_of(["a", "a", "b", "a", "b", "b", "a"], episodes))
    owner = {s: d for s, d, kind, _ in edge_list(graph) if kind == "episode"}
    assert owner == {"e0": "a1", "e1": "a1", "e2": "b2", "e3": "a2", "e4": "b2", "e5": "b2", "e6": "a2"}


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    seed=st.integers(0, 1 << 30),
)
def test_a_batch_is_symmetric_and_joins_no_memories(sizes: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    graphs = []
    for n in sizes:
        pairs: dict[str, list[tuple[str, str, float]]] = {"temporal": [], "causal": []}
        for rows in pairs.values():
            chosen = {(int(a), int(b)) for a, b in draw.integers(0, max(n, 1), (3, 2)) if n and a != b}
            rows.extend((f"e{a}", f"e{b}", 1.0) for a, b in sorted(chosen))
        graphs.append(build_graph("m", tables_of(["s"] * n, [("p", "s", 0, n - 1)] if n else [], **pairs)))
    batch = GraphBatch.of(graphs)
    made = arcs(batch)
    assert made == sorted(made)
    assert sorted((b, a, r ^ 1) for a, b, r in made) == made
    assert len(made) == 2 * sum(len(g.src_E) for g in graphs)
    of = np.repeat(np.arange(len(graphs)), np.diff(batch.node_ptr_M.numpy()))
    assert all(of[a] == of[b] for a, b, _ in made)
    # A memory is the same alone, but for the shift.
    for m, graph in enumerate(graphs):
        first = int(batch.node_ptr_M[m])
        own = [(a - first, b - first, r) for a, b, r in made if of[a] == m]
        assert own == arcs(GraphBatch.of([graph]))

"""Seeded inputs for beam search: what the tests compare implementations on, and what the benchmark times.

Weights are drawn from a handful of values in most random cases, so that ties of every kind are the rule.
"""

from dataclasses import dataclass

import numpy as np
import torch

from magma_kernels.beam_search import BeamGraph, BeamParams, BeamQueries

NUM_TYPES = 5
NUM_RELATIONS = 2 * NUM_TYPES
# Exact in float32, so that different sums can be equal.
_FEW = np.array([0.0, 0.25, 0.5, 1.0, 1.0, 1.5], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Case:
    """One input with a readable name."""

    name: str
    graph: BeamGraph
    queries: BeamQueries
    params: BeamParams


def graph_of(num_nodes: int, src: np.ndarray, dst: np.ndarray, edge_type: np.ndarray) -> BeamGraph:
    """Returns the CSR form of stored edges, each walkable both ways (relations 2t and 2t + 1 of type t)."""
    start = np.concatenate([src, dst]).astype(np.int64)
    end = np.concatenate([dst, src]).astype(np.int64)
    relation = np.concatenate([2 * edge_type, 2 * edge_type + 1]).astype(np.int32)
    order = np.argsort(start, kind="stable")
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(start, minlength=num_nodes), out=indptr[1:])
    return BeamGraph(
        indptr=torch.from_numpy(indptr),
        dst=torch.from_numpy(end[order]),
        relation=torch.from_numpy(relation[order]),
    )


def random_case(seed: int) -> Case:
    """Returns a small random batch: several memories, some empty, multigraph edges, loops, ties on
    purpose."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, rng.choice([3, 20, 40, 90]), size=rng.integers(1, 5))
    num_edges = (sizes * rng.choice([0, 0.5, 1, 3, 8], size=sizes.shape[0])).astype(np.int64)
    num_queries = int(rng.integers(0, 12))
    params = BeamParams(
        max_depth=int(rng.choice([0, 1, 2, 3, 5, 5, 7])),
        beam_width=int(rng.choice([1, 2, 3, 5, 20])),
        max_nodes=int(rng.choice([1, 2, 5, 10, 30, 200])),
        decay=float(rng.choice([0.0, 0.5, 0.9, 1.0])),
        drop_threshold=float(rng.choice([0.0, 0.15, 0.15, 0.5, 1.0])),
    )
    memory_Q = rng.integers(0, sizes.shape[0], size=num_queries)
    return _case(f"random-{seed}", rng, sizes, num_edges, memory_Q, 12, params, ties=seed % 4 != 0)


def awkward_cases() -> tuple[Case, ...]:
    """Returns the shapes that break loops: nothing, one, a row more or less than 64, empty rows, large
    rows."""
    params = BeamParams()
    cases = []
    for size in (0, 1, 63, 64, 65, 1000):
        rng = np.random.default_rng(size)
        sizes = np.array([size, 0, size])
        memory_Q = np.array([0, 1, 2, 2, 0])
        cases.append(_case(f"{size}-nodes", rng, sizes, 4 * sizes, memory_Q, 25, params))
    rng = np.random.default_rng(7)
    cases.append(_case("no-queries", rng, np.array([5]), np.array([9]), np.zeros(0, np.int64), 3, params))
    cases.append(_case("no-edges", rng, np.array([9, 4]), np.array([0, 0]), np.array([0, 1, 1]), 3, params))
    cases.append(_case("no-anchors", rng, np.array([9, 4]), np.array([30, 9]), np.array([0, 1]), 0, params))
    narrow = BeamParams(max_depth=40, beam_width=1, max_nodes=33)
    cases.append(_case("deep-and-narrow", rng, np.array([300]), np.array([600]), np.zeros(9, int), 2, narrow))
    wide = BeamParams(max_depth=3, beam_width=500, max_nodes=1000)
    cases.append(_case("wide", rng, np.array([2500]), np.array([20000]), np.zeros(4, int), 40, wide))
    crowded = BeamParams(max_nodes=10)
    cases.append(_case("more-anchors-than-nodes", rng, np.array([80]), np.array([200]), np.zeros(6, int), 60, crowded))
    return tuple(cases)


def events_case(
    *, num_memories: int, num_events: int, num_queries: int, seed: int, params: BeamParams | None = None
) -> Case:
    """Returns graphs of the shape that a long conversation has, with weights as the policy `paper` makes
    them.

    A memory has `num_events` events in a temporal chain, five semantic edges and two mentions an event, an
    entity node for ten events, an episode node for twenty, and a causal edge for five.
    """
    rng = np.random.default_rng(seed)
    num_entities, num_episodes = max(1, num_events // 10), max(1, num_events // 20)
    size = num_events + num_entities + num_episodes
    event = np.arange(num_events)
    parts = [
        (event[:-1], event[1:], 0),
        (np.repeat(event, 5), rng.integers(0, num_events, 5 * num_events), 1),
        (rng.integers(0, num_events, num_events // 5), rng.integers(0, num_events, num_events // 5), 2),
        (np.repeat(event, 2), num_events + rng.integers(0, num_entities, 2 * num_events), 3),
        (event, num_events + num_entities + event * num_episodes // max(num_events, 1), 4),
    ]
    src = np.concatenate([part[0] for part in parts])
    dst = np.concatenate([part[1] for part in parts])
    edge_type = np.concatenate([np.full(part[0].shape[0], part[2]) for part in parts])
    one = graph_of(size, src, dst, edge_type)
    first = torch.arange(num_memories)[:, None]
    graph = BeamGraph(
        indptr=torch.cat([(one.indptr[:-1] + one.dst.shape[0] * first).ravel(), one.indptr[-1:] * num_memories]),
        dst=(one.dst + size * first).ravel(),
        relation=one.relation.repeat(num_memories),
    )
    memory_Q = rng.integers(0, num_memories, num_queries)
    # Rows of phi for the intents why, when, entity, open (types temporal, semantic, causal, entity, episode).
    phi = np.array([[1, 1, 4, 2.5, 0.5], [4, 0.5, 1, 2.5, 1], [0.5, 1, 1, 6, 0.5], [1, 1, 1, 1, 1]])
    structure_QR = np.exp(np.repeat(phi, 2, axis=1)[rng.integers(0, 4, num_queries)])
    affinity = np.exp(0.5 * rng.uniform(-0.1, 0.8, num_queries * size))
    num_anchors = min(20, num_events)
    anchors = [size * m + rng.choice(num_events, num_anchors, replace=False) for m in memory_Q]
    queries = BeamQueries(
        base_Q=torch.from_numpy(size * memory_Q),
        affinity=_floats(affinity),
        affinity_ptr=size * torch.arange(num_queries + 1),
        structure_QR=_floats(structure_QR),
        anchor_ptr=num_anchors * torch.arange(num_queries + 1),
        anchor_node=torch.from_numpy(np.concatenate([*anchors, np.zeros(0, np.int64)]).astype(np.int64)),
        anchor_score=_floats(rng.uniform(0.1, 1.0, num_queries * num_anchors)),
    )
    return Case(f"{num_memories}x{num_events}-events", graph, queries, params or BeamParams())


def _case(
    name: str,
    rng: np.random.Generator,
    sizes: np.ndarray,
    num_edges: np.ndarray,
    memory_Q: np.ndarray,
    max_anchors: int,
    params: BeamParams,
    ties: bool = True,
) -> Case:
    bases = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ends = [
        base + rng.integers(0, max(size, 1), (2, count if size else 0))
        for base, size, count in zip(bases, sizes, num_edges, strict=False)
    ]
    src, dst = np.concatenate(ends, axis=1)
    graph = graph_of(int(bases[-1]), src, dst, rng.integers(0, NUM_TYPES, src.shape[0]))
    sizes_Q = sizes[memory_Q]
    counts = [int(rng.integers(0, min(size, max_anchors) + 1)) for size in sizes_Q]
    nodes = [
        bases[m] + rng.choice(sizes[m], count, replace=False) if count else np.zeros(0, np.int64)
        for m, count in zip(memory_Q, counts, strict=True)
    ]

    def weights(count: int) -> torch.Tensor:
        return _floats(rng.choice(_FEW, count) if ties else rng.uniform(0, 3, count))

    queries = BeamQueries(
        base_Q=torch.from_numpy(bases[memory_Q]),
        affinity=weights(int(sizes_Q.sum())),
        affinity_ptr=_offsets(sizes_Q),
        structure_QR=weights(len(memory_Q) * NUM_RELATIONS).reshape(-1, NUM_RELATIONS),
        anchor_ptr=_offsets(np.array(counts, np.int64)),
        anchor_node=torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *nodes]).astype(np.int64)),
        anchor_score=weights(sum(counts)),
    )
    return Case(name, graph, queries, params)


def _floats(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))


def _offsets(counts: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

"""Beam search in plain PyTorch: the definition that every other implementation must equal, bit for bit.

It advances all queries together, one step at a time, on ragged arrays; it has no loop over queries, nodes
or edges. It checks every value that the contract restricts, so it is also the place to run inputs that are
in doubt.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from magma_kernels.beam_search import (
    BeamGraph,
    BeamParams,
    BeamQueries,
    BeamResult,
    check_shapes,
    check_weights,
)


class _Visits(NamedTuple):
    """Nodes visited in one step: sorted by query, then by their place in its row."""

    query: Tensor
    column: Tensor
    node: Tensor
    score: Tensor
    parent: Tensor
    relation: Tensor


class _Candidates(NamedTuple):
    """Ways to reach nodes from a beam, one row an edge."""

    query: Tensor
    # Place of the node in the flat affinities: unique to (query, node), and ordered as nodes are in a query.
    slot: Tensor
    node: Tensor
    value: Tensor
    parent: Tensor
    relation: Tensor

    def at(self, index: Tensor) -> "_Candidates":
        return _Candidates(*(column[index] for column in self))


def beam_search(graph: BeamGraph, queries: BeamQueries, params: BeamParams) -> BeamResult:
    """As `magma_kernels.beam_search.beam_search`."""
    check_shapes(graph, queries, params)
    _check_values(graph, queries)
    device = graph.dst.device
    num_queries = queries.base_Q.shape[0]
    # Queries are told from one another by where their affinities start.
    shift_Q = queries.affinity_ptr[:-1] - queries.base_Q
    seen = torch.zeros(queries.affinity.shape[0], dtype=torch.bool, device=device)

    query = _segment_ids(queries.anchor_ptr)
    room_Q = torch.full((num_queries,), params.max_nodes, dtype=torch.int64, device=device)
    kept, rank, found_Q = _best_first(query, queries.anchor_score, queries.anchor_node, room_Q)
    truncated_Q = found_Q > params.max_nodes
    num_Q = torch.minimum(found_Q, room_Q)
    none = torch.full_like(kept, -1)
    beam = _Visits(query[kept], rank, queries.anchor_node[kept], queries.anchor_score[kept], none, none.to(torch.int32))
    steps = [beam]
    for _ in range(params.max_depth):
        seen[shift_Q[beam.query] + beam.node] = True
        room_Q = params.max_nodes - num_Q
        ways = _expand(graph, queries, shift_Q, beam, room_Q, seen, params.decay)
        if ways.query.numel() == 0:
            break
        candidates = _drop(_best_way(ways), num_queries, params.drop_threshold)
        limit_Q = room_Q.clamp(max=params.beam_width)
        kept, rank, found_Q = _best_first(candidates.query, candidates.value, candidates.node, limit_Q)
        truncated_Q |= (room_Q < params.beam_width) & (found_Q > room_Q)
        chosen = candidates.at(kept)
        beam = _Visits(
            chosen.query,
            num_Q[chosen.query] + rank,
            chosen.node,
            chosen.value,
            chosen.parent,
            chosen.relation,
        )
        steps.append(beam)
        num_Q = num_Q + torch.minimum(found_Q, limit_Q)
    return _padded(steps, num_Q, truncated_Q)


def _segment_ids(ptr: Tensor) -> Tensor:
    """Returns, for a [Q + 1] array of offsets, the segment of each item."""
    index = torch.arange(ptr.shape[0] - 1, device=ptr.device)
    return torch.repeat_interleave(index, ptr.diff())


def _best_first(query: Tensor, value: Tensor, node: Tensor, limit_Q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sorts by (query, value descending, node) and cuts each query to its limit.

    Returns:
        The rows kept, in order; the rank of each in its query; the number of rows of each query before the
        cut.
    """
    order = torch.argsort(node, stable=True)
    order = order[torch.argsort(value[order], descending=True, stable=True)]
    order = order[torch.argsort(query[order], stable=True)]
    query = query[order]
    found_Q = torch.bincount(query, minlength=limit_Q.shape[0])
    first_Q = found_Q.cumsum(0) - found_Q
    rank = torch.arange(query.shape[0], device=query.device) - first_Q[query]
    keep = rank < limit_Q[query]
    return order[keep], rank[keep], found_Q


def _expand(
    graph: BeamGraph,
    queries: BeamQueries,
    shift_Q: Tensor,
    beam: _Visits,
    room_Q: Tensor,
    seen: Tensor,
    decay: float,
) -> _Candidates:
    """Returns every way from the beams of queries with room left to nodes that they have not visited."""
    open_beam = room_Q[beam.query] > 0
    first = graph.indptr[beam.node]
    num_edges = torch.where(open_beam, graph.indptr[beam.node + 1] - first, 0)
    row = torch.repeat_interleave(torch.arange(num_edges.shape[0], device=first.device), num_edges)
    within = torch.arange(row.shape[0], device=first.device) - (num_edges.cumsum(0) - num_edges)[row]
    edge = first[row] + within
    query, node, relation = beam.query[row], graph.dst[edge], graph.relation[edge]
    slot = shift_Q[query] + node
    inside = (slot >= queries.affinity_ptr[query]) & (slot < queries.affinity_ptr[query + 1])
    assert bool(inside.all()), "an edge leaves its memory"
    # Three operations, three roundings: fusing any two would change last bits.
    gain = queries.structure_QR[query, relation.to(torch.int64)] * queries.affinity[slot]
    kept_back = torch.tensor(decay, dtype=torch.float32, device=first.device) * beam.score[row]
    ways = _Candidates(query, slot, node, kept_back + gain, beam.node[row], relation)
    return ways.at(~seen[slot])


def _best_way(ways: _Candidates) -> _Candidates:
    """Keeps one way to each node: highest value, then smallest parent, then smallest relation."""
    order = torch.argsort(ways.relation, stable=True)
    order = order[torch.argsort(ways.parent[order], stable=True)]
    order = order[torch.argsort(ways.value[order], descending=True, stable=True)]
    order = order[torch.argsort(ways.slot[order], stable=True)]
    slot = ways.slot[order]
    first = torch.ones_like(slot, dtype=torch.bool)
    first[1:] = slot[1:] != slot[:-1]
    return ways.at(order[first])


def _drop(candidates: _Candidates, num_queries: int, drop_threshold: float) -> _Candidates:
    """Drops what is below the threshold's share of the best value of its query."""
    best_Q = torch.zeros(num_queries, dtype=torch.float32, device=candidates.value.device)
    best_Q = best_Q.scatter_reduce(0, candidates.query, candidates.value, "amax")
    floor_Q = torch.tensor(drop_threshold, dtype=torch.float32, device=best_Q.device) * best_Q
    return candidates.at(candidates.value >= floor_Q[candidates.query])


def _padded(steps: list[_Visits], num_Q: Tensor, truncated_Q: Tensor) -> BeamResult:
    num_queries = num_Q.shape[0]
    width = int(num_Q.max()) if num_queries else 0
    hop = torch.cat([torch.full_like(visits.column, step) for step, visits in enumerate(steps)])
    query, column, node, score, parent, relation = (torch.cat(parts) for parts in zip(*steps, strict=True))

    def fill(values: Tensor, padding: int, dtype: torch.dtype) -> Tensor:
        out = torch.full((num_queries, width), padding, dtype=dtype, device=num_Q.device)
        out[query, column] = values.to(dtype)
        return out

    return BeamResult(
        node_QV=fill(node, -1, torch.int64),
        score_QV=fill(score, 0, torch.float32),
        hop_QV=fill(hop, -1, torch.int16),
        parent_QV=fill(parent, -1, torch.int64),
        relation_QV=fill(relation, -1, torch.int32),
        num_Q=num_Q,
        truncated_Q=truncated_Q,
    )


def _check_values(graph: BeamGraph, queries: BeamQueries) -> None:
    """Asserts what the contract says of values; a violation is a mistake of the caller's code, not of its
    user."""
    num_nodes = graph.indptr.shape[0] - 1
    for name, ptr, items in (
        ("indptr", graph.indptr, graph.dst),
        ("affinity_ptr", queries.affinity_ptr, queries.affinity),
        ("anchor_ptr", queries.anchor_ptr, queries.anchor_node),
    ):
        ends = [int(ptr[0]), int(ptr[-1])]
        assert ends == [0, items.shape[0]], f"{name} must go from 0 to {items.shape[0]} (got {ends})"
        assert bool((ptr.diff() >= 0).all()), f"{name} must not descend"
    inside = (graph.dst >= 0) & (graph.dst < num_nodes)
    assert bool(inside.all()), "dst must be in [0, N)"
    known = (graph.relation >= 0) & (graph.relation < queries.structure_QR.shape[1])
    assert bool(known.all()) or queries.base_Q.shape[0] == 0, "relation must be in [0, R)"
    check_weights(queries)
    last_Q = queries.base_Q + queries.affinity_ptr.diff()
    assert bool(((queries.base_Q >= 0) & (last_Q <= num_nodes)).all()), "a memory must lie in [0, N]"
    query = _segment_ids(queries.anchor_ptr)
    node = queries.anchor_node
    inside = (node >= queries.base_Q[query]) & (node < last_Q[query])
    assert bool(inside.all()), "an anchor must be in its query's memory"
    by_node = torch.argsort(node, stable=True)
    order = by_node[torch.argsort(query[by_node], stable=True)]
    equal = (node[order][1:] == node[order][:-1]) & (query[order][1:] == query[order][:-1])
    assert not bool(equal.any()), "the anchors of a query must be distinct"

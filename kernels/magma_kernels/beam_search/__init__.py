"""Beam search over many memory graphs at once: the contract, and the function that dispatches.

It knows nothing of embeddings, intents or edge types: the exponentials of the transition score come in
ready, once per node (`affinity`) and once per relation (`structure_QR`), so that every implementation only
multiplies and adds in float32, in one fixed order, and all agree to the last bit. `reference.py` is the
definition.

Shape suffixes: Q queries, R relations, V visited nodes of the query that visited most. Ragged arrays come
with a `_ptr` array of [Q + 1] offsets.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from magma_kernels import backend

OP = "beam_search"

# What the compiled implementations say of an input that breaks the contract; they check as they go.
MISTAKES = {
    1: "an offset array must not descend, nor leave what it points into",
    2: "a memory must lie in [0, N]",
    3: "an anchor must be in its query's memory",
    4: "the anchors of a query must be distinct",
    5: "an edge leaves its memory",
    6: "relation must be in [0, R)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamGraph:
    """A disjoint union of memories in CSR form; every edge stands once for each direction it can be walked.

    Attributes:
        indptr: int64 [N + 1], the edges of node u are [indptr[u], indptr[u + 1]).
        dst: int64 [E], the node at the other end.
        relation: int32 [E], edge type and direction as one number in [0, R).
    """

    indptr: Tensor
    dst: Tensor
    relation: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamQueries:
    """Queries, each inside one memory.

    Attributes:
        base_Q: int64, first node of the query's memory.
        affinity: float32 flat, exp(lambda2 * cos(x_v, q)); node base_Q[q] + j is at affinity_ptr[q] + j.
        affinity_ptr: int64 [Q + 1]; its differences are the sizes of the memories.
        structure_QR: float32, exp(lambda1 * phi(relation, intent of q)).
        anchor_ptr: int64 [Q + 1].
        anchor_node: int64 flat, global, distinct within a query.
        anchor_score: float32 flat.

    Scores and weights are finite and have no sign bit: neither negative nor a negative zero.
    """

    base_Q: Tensor
    affinity: Tensor
    affinity_ptr: Tensor
    structure_QR: Tensor
    anchor_ptr: Tensor
    anchor_node: Tensor
    anchor_score: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamParams:
    """How far a search goes; defaults are those of the policy `paper`.

    Attributes:
        max_depth: steps, in [0, 32767].
        beam_width: nodes kept in a step, at least 1. Anchors are not cut by it.
        max_nodes: visited nodes in all, anchors included, at least 1.
        decay: weight of the parent's score, in [0, 1]; used as float32.
        drop_threshold: share of the step's best value below which a candidate is dropped, in [0, 1]; used
            as float32.
    """

    max_depth: int = 5
    beam_width: int = 20
    max_nodes: int = 200
    decay: float = 0.9
    drop_threshold: float = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamResult:
    """What each query visited: anchors first, then step by step, each best first.

    Attributes:
        node_QV: int64, global node; -1 where padded.
        score_QV: float32; 0 where padded.
        hop_QV: int16, the step, 0 for anchors; -1 where padded.
        parent_QV: int64, global node that it was reached from; -1 for anchors and padding.
        relation_QV: int32, of the edge that it was reached over; -1 for anchors and padding.
        num_Q: int64, visited nodes.
        truncated_Q: bool, max_nodes cut off anchors, or candidates of a step that beam_width would have kept.
    """

    node_QV: Tensor
    score_QV: Tensor
    hop_QV: Tensor
    parent_QV: Tensor
    relation_QV: Tensor
    num_Q: Tensor
    truncated_Q: Tensor


def beam_search(graph: BeamGraph, queries: BeamQueries, params: BeamParams) -> BeamResult:
    """Searches every query's memory from its anchors (the paper's Algorithm 1, equations 5 and 6).

    The anchors, by (score descending, node ascending) and cut to `max_nodes`, are visited and are the first
    beam. A step looks at every edge u -> v from a beam node to a node not visited; its value is `decay *
    score(u) + structure_QR[q, relation] * affinity(v)`, rounded after each operation. Of several ways to v
    the highest value counts, ties go to the smaller parent, then the smaller relation. Values below
    `drop_threshold` times the step's best are dropped; by (value descending, node ascending) the first
    min(beam_width, max_nodes - visited) become the next beam. It ends after `max_depth` steps, without
    candidates, or with `max_nodes` visited.

    Args:
        graph: all on one device, as the queries.
        queries: none, or queries without anchors, are fine.
        params: the same for all queries.

    Returns:
        A BeamResult on the same device. It depends neither on the implementation nor on what else is in the
        batch (but for the width V).

    Raises:
        magma_kernels.backend.KernelUnavailableError: MAGMA_KERNELS asks for what cannot run here.
    """
    check_shapes(graph, queries, params)
    choice = backend.choose(OP, graph.dst.device)
    if choice.name != backend.REFERENCE:
        limit = _too_large(queries)
        choice = backend.fall_back(choice, limit) if limit else choice
    if choice.name == "cupy":
        from magma_kernels.beam_search import _cupy

        problem = _cupy.problem(graph.dst.device)
        if not problem:
            return _cupy.beam_search(graph, queries, params)
        choice = backend.fall_back(choice, problem)
    if choice.name == "numba":
        from magma_kernels.beam_search import _numba

        return _numba.beam_search(graph, queries, params)
    from magma_kernels.beam_search import reference

    return reference.beam_search(graph, queries, params)


def check_shapes(graph: BeamGraph, queries: BeamQueries, params: BeamParams) -> None:
    """Asserts dtypes, shapes, devices and the range of the parameters; reads no values from a device."""
    dtypes = {"relation": torch.int32} | dict.fromkeys(("affinity", "structure_QR", "anchor_score"), torch.float32)
    device = graph.dst.device
    for group in (graph, queries):
        for field in fields(group):
            tensor = getattr(group, field.name)
            want = dtypes.get(field.name, torch.int64)
            assert tensor.dtype == want, f"{field.name} must be {want} (got {tensor.dtype})"
            dims = 2 if field.name == "structure_QR" else 1
            assert tensor.dim() == dims, f"{field.name} must have {dims} axes (got {tensor.dim()})"
            assert tensor.device == device, f"{field.name} must be on {device} (got {tensor.device})"
    num_queries = queries.base_Q.shape[0]
    assert graph.indptr.shape[0] >= 1, "indptr has N + 1 items"
    assert graph.dst.shape == graph.relation.shape, "dst and relation have one item an edge"
    assert queries.affinity_ptr.shape[0] == num_queries + 1, "affinity_ptr has Q + 1 items"
    assert queries.anchor_ptr.shape[0] == num_queries + 1, "anchor_ptr has Q + 1 items"
    assert queries.structure_QR.shape[0] == num_queries, "structure_QR has a row a query"
    assert queries.anchor_node.shape == queries.anchor_score.shape, "an anchor has a node and a score"
    assert 0 <= params.max_depth <= 32767, f"max_depth in [0, 32767] (got {params.max_depth})"
    assert params.beam_width >= 1, f"beam_width at least 1 (got {params.beam_width})"
    assert params.max_nodes >= 1, f"max_nodes at least 1 (got {params.max_nodes})"
    assert 0.0 <= params.decay <= 1.0, f"decay in [0, 1] (got {params.decay})"
    assert 0.0 <= params.drop_threshold <= 1.0, f"drop_threshold in [0, 1] (got {params.drop_threshold})"


def check_weights(queries: BeamQueries) -> None:
    """Asserts that weights and scores are finite and without a sign bit (waits for the device)."""
    for name in ("affinity", "structure_QR", "anchor_score"):
        weight = getattr(queries, name)
        # As unsigned integers, floats without a sign are in order; above them are infinity, NaN and all
        # with one.
        if weight.device.type == "cpu":
            # NumPy has unsigned integers, and wakes no threads that then compete with those of the search.
            highest = int(weight.contiguous().numpy().view(np.uint32).max(initial=0))
        else:
            bits = weight.view(torch.int32)
            highest = int(torch.where(bits < 0, 0x7FFFFFFF, bits).max()) if bits.numel() else 0
        assert highest < 0x7F800000, f"{name} must be finite and not negative"


def relation_bits(queries: BeamQueries) -> int:
    """Returns the bits that a relation takes in the compiled implementations' keys."""
    return max(queries.structure_QR.shape[1] - 1, 0).bit_length()


def most_visited(queries: BeamQueries, params: BeamParams) -> int:
    """Returns a number of nodes that no query visits more of: what a row of the result must have room for."""
    if queries.base_Q.shape[0] == 0:
        return 0
    largest = int(queries.affinity_ptr.diff().max())
    most_anchors = int(queries.anchor_ptr.diff().max())
    return max(0, min(params.max_nodes, largest, most_anchors + params.max_depth * params.beam_width))


def _too_large(queries: BeamQueries) -> str:
    """Returns why the compiled implementations cannot take the call: their keys hold a node and a
    relation."""
    largest = int(queries.affinity_ptr.diff().max()) if queries.base_Q.shape[0] else 0
    if largest << relation_bits(queries) < 2**32:
        return ""
    return f"{largest} nodes in a memory and {queries.structure_QR.shape[1]} relations do not fit in 32 bits"

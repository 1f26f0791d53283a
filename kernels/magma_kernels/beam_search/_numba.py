"""Beam search as a compiled loop on the CPU: one query after the other, a few threads over parts of the
batch.

Numba's own parallel loops are not used: their threads end the process when two Python threads call at once.
A part is searched without the interpreter lock instead, so plain threads do; a query's result does not
depend on its part.
"""

import concurrent.futures
import itertools
from typing import Any

import numpy as np
import torch

from magma_kernels.beam_search import (
    MISTAKES,
    BeamGraph,
    BeamParams,
    BeamQueries,
    BeamResult,
    check_shapes,
    check_weights,
    most_visited,
    relation_bits,
)
from magma_kernels.compile import compiled

# Weights are floats without a sign bit, so they sort as their bits do. A key is 64 bits: a value's bits
# above, and below them what breaks ties, counted downwards, so that the highest key is the best.

# Below this many queries a thread costs more than it saves.
_MIN_PER_THREAD = 128
# Into how many equal parts the bits of a step's values are sorted roughly.
_BUCKETS = 128


@compiled
def _key(bits: Any, low: int) -> Any:
    """Returns a number that orders by a value's bits, then by a smaller `low`."""
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(0xFFFFFFFF - low)


@compiled
def _low(key: Any) -> Any:
    return 0xFFFFFFFF - np.int64(key & np.uint64(0xFFFFFFFF))


@compiled
def _bits(key: Any) -> Any:
    return np.uint32(key >> np.uint64(32))


@compiled
def _value(key: Any) -> Any:
    return np.uint32(key >> np.uint64(32)).view(np.float32)


@compiled
def _bits_of(value: Any) -> Any:
    return np.float32(value).view(np.uint32)


@compiled
def _keep(best: Any, num: int, limit: int, key: Any) -> int:
    """Offers a key to the highest `limit` so far, in descending order; returns how many there are."""
    if num == limit:
        if key <= best[num - 1]:
            return num
        num -= 1
    at = num
    while at > 0 and best[at - 1] < key:
        best[at] = best[at - 1]
        at -= 1
    best[at] = key
    return num + 1


@compiled
def _least(keys: Any, num: int, floor: Any, best: Any, limit: int, counts: Any) -> tuple[int, Any]:
    """Returns how many keys have a value of `floor` or more, and a value that at least `limit` of them reach.

    Most candidates are told from the best few by it, without a sort and without a branch that is hard to foresee.
    """
    shift = np.uint32(0)
    while ((best - floor) >> shift) >= np.uint32(_BUCKETS):
        shift += np.uint32(1)
    counts[:] = 0
    for i in range(num):
        bits = _bits(keys[i])
        # Those below the floor are counted in a place of their own, the last.
        place = np.uint64((bits - floor) >> shift) if bits >= floor else np.uint64(_BUCKETS)
        counts[place] += 1
    num_left = num - counts[_BUCKETS]
    bucket, reached = _BUCKETS - 1, counts[_BUCKETS - 1]
    while reached < limit and bucket > 0:
        bucket -= 1
        reached += counts[bucket]
    return num_left, floor + (np.uint32(bucket) << shift)


@compiled
def _touch(dst: Any, relation: Any, indptr: Any, nodes: Any) -> Any:
    """Reads an item of every cache line of the edges of some nodes: these wait for memory all at once, where a walk
    would wait for one node after the other. Offsets that leave the arrays are skipped, and found later."""
    total = np.int64(0)
    for i in range(nodes.shape[0]):
        first, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        if 0 <= first <= end <= dst.shape[0]:
            for edge in range(first, end, 8):
                total += dst[edge]
            for edge in range(first, end, 16):
                total += relation[edge]
    return total


@compiled
def _offer(
    dst: Any,
    relation: Any,
    edges_first: int,
    edges_end: int,
    base: int,
    way: Any,
    kept_back: Any,
    structure_R: Any,
    affinity: Any,
    best_way: Any,
    found: Any,
    num_found: int,
) -> tuple[Any, int]:
    """Offers the node at the end of each edge of one beam node; returns how many were found, and a
    mistake."""
    size = np.uint64(affinity.shape[0])
    num_relations = np.uint64(structure_R.shape[0])
    num = np.uint64(num_found)
    # Unsigned indices, as signed ones are first tested for counting from the end.
    for edge in range(np.uint64(edges_first), np.uint64(edges_end)):
        v = np.uint64(dst[edge] - base)
        r = np.uint64(relation[edge])
        if v >= size:
            return np.int64(num), 5
        if r >= num_relations:
            return np.int64(num), 6
        value = kept_back + structure_R[r] * affinity[v]
        key = (np.uint64(_bits_of(value)) << np.uint64(32)) | (way - r)
        # No branch from here on, so none is mispredicted: a visited node's key is higher than any other,
        # and the higher of two keys has the better value, else the smaller parent, else the smaller
        # relation.
        old = best_way[v]
        found[num] = np.int64(v)
        num += np.uint64(1) if old == np.uint64(0) else np.uint64(0)
        best_way[v] = key if key > old else old
    return np.int64(num), 0


@compiled
def _search_part(
    first: int,
    last: int,
    order_Q: Any,
    indptr: Any,
    dst: Any,
    relation: Any,
    base_Q: Any,
    affinity: Any,
    affinity_ptr: Any,
    structure_QR: Any,
    anchor_ptr: Any,
    anchor_node: Any,
    anchor_score: Any,
    max_depth: int,
    beam_width: int,
    max_nodes: int,
    decay: Any,
    drop_threshold: Any,
    relation_bits: int,
    node_QV: Any,
    score_QV: Any,
    hop_QV: Any,
    parent_QV: Any,
    relation_QV: Any,
    num_Q: Any,
    truncated_Q: Any,
) -> int:
    """Searches queries order_Q[first:last] and writes their rows; returns 0 or the number of a mistake."""
    num_nodes = indptr.shape[0] - 1
    largest = 0
    for at in range(first, last):
        q = order_Q[at]
        size = affinity_ptr[q + 1] - affinity_ptr[q]
        if size < 0 or affinity_ptr[q] < 0 or affinity_ptr[q + 1] > affinity.shape[0]:
            return 1
        if anchor_ptr[q] < 0 or anchor_ptr[q + 1] < anchor_ptr[q] or anchor_ptr[q + 1] > anchor_node.shape[0]:
            return 1
        if base_Q[q] < 0 or base_Q[q] + size > num_nodes:
            return 2
        largest = max(largest, size)
    # For each node of the memory the key of the best way to it so far in this step, or one of these two.
    unseen, visited = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
    best_way = np.zeros(largest, np.uint64)
    # One more than there can be: the place after the last is written before it is known to count.
    found = np.zeros(largest + 1, np.int64)
    found_near = np.zeros(largest + 1, np.int64)
    keys = np.zeros(largest, np.uint64)
    counts = np.zeros(_BUCKETS + 1, np.int64)
    heap = np.zeros(min(largest, max_nodes), np.uint64)
    for at in range(first, last):
        q = order_Q[at]
        base = base_Q[q]
        affinity_here = affinity[affinity_ptr[q] : affinity_ptr[q + 1]]
        size = np.uint64(affinity_here.shape[0])
        structure_R = structure_QR[q]
        # As in `_touch`.
        touched: Any = np.int64(0)
        for slot in range(0, affinity_here.shape[0], 16):
            touched += np.int64(affinity_here[slot] > np.float32(0.0))
        num = 0
        for a in range(anchor_ptr[q], anchor_ptr[q + 1]):
            v = np.uint64(anchor_node[a] - base)
            if v >= size:
                return 3
            if best_way[v] != unseen:
                return 4
            best_way[v] = visited
            num = _keep(heap, num, max_nodes, _key(_bits_of(anchor_score[a]), np.int64(v)))
        truncated_Q[q] = anchor_ptr[q + 1] - anchor_ptr[q] > max_nodes
        for a in range(anchor_ptr[q], anchor_ptr[q + 1]):
            best_way[anchor_node[a] - base] = unseen
        for i in range(num):
            best_way[_low(heap[i])] = visited
            node_QV[q, i] = base + _low(heap[i])
            score_QV[q, i] = _value(heap[i])
            hop_QV[q, i] = 0
            parent_QV[q, i] = -1
            relation_QV[q, i] = -1
        beam_first = 0
        for hop in range(1, max_depth + 1):
            room = max_nodes - num
            if room == 0:
                break
            num_found = 0
            touched += _touch(dst, relation, indptr, node_QV[q, beam_first:num])
            for i in range(beam_first, num):
                u = node_QV[q, i]
                edges_end = indptr[u + 1]
                if indptr[u] < 0 or indptr[u] > edges_end or edges_end > dst.shape[0]:
                    return 1
                kept_back = decay * score_QV[q, i]
                way = np.uint64(0xFFFFFFFF - ((u - base) << relation_bits))
                num_found, mistake = _offer(
                    dst,
                    relation,
                    indptr[u],
                    edges_end,
                    base,
                    way,
                    kept_back,
                    structure_R,
                    affinity_here,
                    best_way,
                    found,
                    num_found,
                )
                if mistake != 0:
                    return int(mistake)
            if num_found == 0:
                break
            best = unseen
            for i in range(num_found):
                keys[i] = best_way[found[i]]
                best = max(best, keys[i])
            floor = _bits_of(drop_threshold * _value(best))
            limit = min(room, beam_width)
            num_left, least = _least(keys, num_found, floor, _bits(best), limit, counts)
            num_near = 0
            for i in range(num_found):
                # Written where it may not count, so that there is no branch.
                found_near[num_near] = found[i]
                num_near += 1 if _bits(keys[i]) >= least else 0
            num_kept = 0
            for i in range(num_near):
                v = found_near[i]
                num_kept = _keep(heap, num_kept, limit, _key(_bits(best_way[v]), v))
            if room < beam_width and num_left > room:
                truncated_Q[q] = True
            beam_first = num
            for i in range(num_kept):
                v = _low(heap[i])
                rest = _low(best_way[v])
                node_QV[q, num] = base + v
                score_QV[q, num] = _value(heap[i])
                hop_QV[q, num] = hop
                parent_QV[q, num] = base + (rest >> relation_bits)
                relation_QV[q, num] = rest & ((1 << relation_bits) - 1)
                num += 1
            for i in range(num_found):
                best_way[found[i]] = unseen
            for i in range(num_kept):
                best_way[_low(heap[i])] = visited
        num_Q[q] = num
        # Without a use, what was touched would not be read at all.
        counts[0] = touched
        for i in range(num):
            best_way[node_QV[q, i] - base] = unseen
        for i in range(num, node_QV.shape[1]):
            node_QV[q, i] = -1
            score_QV[q, i] = 0
            hop_QV[q, i] = -1
            parent_QV[q, i] = -1
            relation_QV[q, i] = -1
    return 0


def beam_search(
    graph: BeamGraph, queries: BeamQueries, params: BeamParams, num_threads: int | None = None
) -> BeamResult:
    """As `magma_kernels.beam_search.beam_search`.

    Args:
        graph: on the CPU.
        queries: on the CPU.
        params: as there.
        num_threads: None for as many as PyTorch uses.
    """
    check_shapes(graph, queries, params)
    num_queries = queries.base_Q.shape[0]
    width = most_visited(queries, params)
    check_weights(queries)
    shape = (num_queries, width)
    out = (
        torch.empty(shape, dtype=torch.int64),
        torch.empty(shape, dtype=torch.float32),
        torch.empty(shape, dtype=torch.int16),
        torch.empty(shape, dtype=torch.int64),
        torch.empty(shape, dtype=torch.int32),
        torch.empty(num_queries, dtype=torch.int64),
        torch.empty(num_queries, dtype=torch.bool),
    )
    inputs = (
        graph.indptr,
        graph.dst,
        graph.relation,
        queries.base_Q,
        queries.affinity,
        queries.affinity_ptr,
        queries.structure_QR,
        queries.anchor_ptr,
        queries.anchor_node,
        queries.anchor_score,
    )
    arguments = (
        # Queries of one memory one after the other: its edges are then in the cache.
        np.argsort(queries.base_Q.numpy(), kind="stable"),
        *(tensor.detach().contiguous().numpy() for tensor in inputs),
        params.max_depth,
        params.beam_width,
        params.max_nodes,
        np.float32(params.decay),
        np.float32(params.drop_threshold),
        relation_bits(queries),
        *(tensor.numpy() for tensor in out),
    )
    threads = torch.get_num_threads() if num_threads is None else num_threads
    threads = max(1, min(threads, num_queries // _MIN_PER_THREAD))
    cuts = [num_queries * part // threads for part in range(threads + 1)]
    if threads == 1:
        codes = [_search_part(0, num_queries, *arguments)]
    else:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            parts = itertools.pairwise(cuts)
            codes = list(pool.map(lambda part: _search_part(*part, *arguments), parts))
    mistake = next((code for code in codes if code), 0)
    assert mistake == 0, MISTAKES[mistake]
    used = int(out[5].max()) if num_queries else 0
    node_QV, score_QV, hop_QV, parent_QV, relation_QV = (tensor[:, :used].contiguous() for tensor in out[:5])
    return BeamResult(
        node_QV=node_QV,
        score_QV=score_QV,
        hop_QV=hop_QV,
        parent_QV=parent_QV,
        relation_QV=relation_QV,
        num_Q=out[5],
        truncated_Q=out[6],
    )

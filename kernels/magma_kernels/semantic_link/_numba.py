"""Mutual nearest neighbours on a CPU: a float32 product proposes, the defined float64 sum decides what is close.

Each memory's product is taken in strips of its upper half, so that a pair is multiplied once, and a strip is searched
while it is in the cache. A float32 sum is off by at most `_margin`; only neighbours that lie closer than that to the
cut at k or to the threshold, and the cosines of the edges themselves, are summed again. Rows of which more lie that
close than there is room for go to `_tiled`.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from magma_kernels.compile import compiled
from magma_kernels.semantic_link import MISTAKES, LinkResult, _tiled, check_shapes

# With more neighbours wanted the candidates of all rows no longer fit the caches.
_MOST_NEIGHBORS = 64
# Rows and columns of a strip: of a small memory, and of one that does not fit the caches.
_STRIP = 128
_LARGE_STRIP = 512
_LARGE = 4096
# Products that are looked at in one go.
_LOOK = 32


def _margin(width: int) -> np.float32:
    """Returns how far a float32 sum of products of unit rows (within 1e-3) may be from the sum in float64."""
    return np.float32((width + 4) * 2.0**-24 * 1.01)


@compiled
def _take(
    x: Any, node: Any, first: int, last: int, k: int, factors: Any, rows: Any, local: Any, group: Any, work: Any
) -> Any:
    """Copies the rows of one memory that can be near to anything; returns how many, and how they are grouped.

    To any node all equal vectors are equally near, so of each group only the first k, one more for a member itself,
    are ever among the nearest of anything.

    Args:
        node: the usable nodes, each memory's in the order of ties.
        first: its first place in `node`.
        last: the place after its last.
        factors: odd numbers, one a column.
        rows: receives rows, without negative zeros.
        local: receives the place in `node` of each row.
        group: receives the number of the first row that equals it.
        work: scratch, a table of twice as many places as rows at least, a power of two.

    Returns:
        rows kept (-1: one is not of unit length), and whether any two are equal.
    """
    width = x.shape[1]
    words = rows.view(np.uint32)
    size = 16
    while size < 2 * (last - first):
        size *= 2
    table = work[:size]
    table[:] = -1
    count = work[work.shape[0] // 2 :]
    num = 0
    equal = False
    for at in range(first, last):
        source = x[node[at]]
        row = rows[num]
        for d in range(width):
            # Plus zero: a negative zero equals a positive one.
            row[d] = source[d] + np.float32(0.0)
        # A sum in no stated order may be done many at a time, of integers by itself, of floats by four.
        mixed = np.uint64(0)
        for d in range(width):
            mixed += np.uint64(words[num, d]) * factors[d]
        lengths = (0.0, 0.0, 0.0, 0.0)
        for d in range(0, width - 3, 4):
            lengths = (
                lengths[0] + np.float64(row[d]) * np.float64(row[d]),
                lengths[1] + np.float64(row[d + 1]) * np.float64(row[d + 1]),
                lengths[2] + np.float64(row[d + 2]) * np.float64(row[d + 2]),
                lengths[3] + np.float64(row[d + 3]) * np.float64(row[d + 3]),
            )
        length = lengths[0] + lengths[1] + lengths[2] + lengths[3]
        for d in range(width - width % 4, width):
            length += np.float64(row[d]) * np.float64(row[d])
        # Written so that a NaN is none either.
        if not (0.999**2 < length < 1.001**2):
            return -1, equal
        place = np.int64((mixed >> np.uint64(33)) & np.uint64(size - 1))
        while True:
            other = table[place]
            if other < 0:
                table[place] = num
                count[num] = 0
                group[num] = num
                local[num] = at
                num += 1
                break
            same = True
            for d in range(width):
                if rows[other, d] != row[d]:
                    same = False
                    break
            if same:
                equal = True
                count[other] += 1
                if count[other] <= k:
                    group[num] = other
                    local[num] = at
                    # Never a first row of a group: only those are looked up.
                    num += 1
                break
            place = (place + 1) & (size - 1)
    return num, equal


@compiled
def _exact(rows: Any, a: int, b: int, equal: bool) -> Any:
    """Returns the cosine of two rows as the contract defines it."""
    if equal:
        return np.float32(1.0)
    total = 0.0
    for d in range(rows.shape[1]):
        total += np.float64(rows[a, d]) * np.float64(rows[b, d])
    return min(np.float32(total) + np.float32(0.0), np.float32(1.0))


@compiled
def _exact_pairs(rows: Any, group: Any, a_P: Any, b_P: Any, out: Any) -> None:
    """As `_exact`, of many pairs: four sums side by side, as each waits for its own last addition."""
    num = a_P.shape[0]
    for first in range(0, num - 3, 4):
        a0, a1, a2, a3 = rows[a_P[first]], rows[a_P[first + 1]], rows[a_P[first + 2]], rows[a_P[first + 3]]
        b0, b1, b2, b3 = rows[b_P[first]], rows[b_P[first + 1]], rows[b_P[first + 2]], rows[b_P[first + 3]]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for d in range(rows.shape[1]):
            t0 += np.float64(a0[d]) * np.float64(b0[d])
            t1 += np.float64(a1[d]) * np.float64(b1[d])
            t2 += np.float64(a2[d]) * np.float64(b2[d])
            t3 += np.float64(a3[d]) * np.float64(b3[d])
        for p, total in enumerate((t0, t1, t2, t3)):
            equal = group[a_P[first + p]] == group[b_P[first + p]]
            cos = np.float32(1.0) if equal else min(np.float32(total) + np.float32(0.0), np.float32(1.0))
            out[first + p] = cos
    for p in range(num - num % 4, num):
        out[p] = _exact(rows, a_P[p], b_P[p], group[a_P[p]] == group[b_P[p]])


@compiled
def _sort(score: Any, column: Any, num: int) -> None:
    """Sorts candidates by (score descending, column)."""
    for i in range(1, num):
        s, c = score[i], column[i]
        at = i
        while at > 0 and (score[at - 1] < s or (score[at - 1] == s and column[at - 1] > c)):
            score[at], column[at] = score[at - 1], column[at - 1]
            at -= 1
        score[at], column[at] = s, c


@compiled
def _offer(
    row: int, score: Any, other: int, score_NC: Any, column_NC: Any, num_N: Any, floor_N: Any, k: int, margin: Any
) -> None:
    """Adds a candidate to a row; when there is no room, drops those that are clearly not among the k nearest."""
    room = score_NC.shape[1]
    num = num_N[row]
    if num == room:
        _sort(score_NC[row], column_NC[row], num)
        floor = score_NC[row, k - 1] - np.float32(2.0) * margin
        while num > k and score_NC[row, num - 1] < floor:
            num -= 1
        num_N[row] = num
        floor_N[row] = max(floor_N[row], floor)
        if num == room:
            # Too many are too close: the row is left to somebody else.
            num_N[row] = room + 1
            floor_N[row] = np.inf
        if score <= floor_N[row]:
            return
    score_NC[row, num] = score
    column_NC[row, num] = other
    num_N[row] = num + 1


@compiled
def _any_above(values: Any, floors: Any, own: Any, begin: int) -> Any:
    """Whether any of the next few products is above a floor. It has no branch and unsigned places, so that it is
    compiled to a few wide instructions."""
    hit = np.uint32(0)
    first = np.uint64(begin)
    for step in range(np.uint64(_LOOK)):
        value = values[first + step]
        hit |= np.uint32(value > own) | np.uint32(value > floors[first + step])
    return hit != np.uint32(0)


@compiled
def _search(
    product: Any,
    first: int,
    left: int,
    group: Any,
    equal: bool,
    score_NC: Any,
    column_NC: Any,
    num_N: Any,
    floor_N: Any,
    k: int,
    margin: Any,
) -> None:
    """Offers what is above the floors of a strip of products to both ends; columns up to a row's own are skipped."""
    one = np.float32(1.0)
    for t in range(product.shape[0]):
        row = first + t
        values = product[t]
        floors = floor_N[left : left + product.shape[1]]
        begin = max(0, row + 1 - left)
        while begin < product.shape[1]:
            end = min(begin + _LOOK, product.shape[1])
            if end - begin < _LOOK or _any_above(values, floors, floor_N[row], begin):
                for s in range(begin, end):
                    column = left + s
                    value = min(values[s], one)
                    if equal and group[row] == group[column]:
                        value = one
                    if value > floor_N[row]:
                        _offer(row, value, column, score_NC, column_NC, num_N, floor_N, k, margin)
                    if value > floor_N[column]:
                        _offer(column, value, row, score_NC, column_NC, num_N, floor_N, k, margin)
            begin = end


@compiled
def _decide(rows: Any, group: Any, row: int, score: Any, column: Any, num: int, k: int, floor: Any, margin: Any) -> int:
    """Leaves the nearest of one row: those above the threshold, at most k, in no order; returns how many."""
    kept = 0
    for i in range(num):
        s, c = score[i], column[i]
        if s < floor - margin:
            continue
        if s <= floor + margin:
            s = _exact(rows, row, c, group[row] == group[c])
            if not s > floor:
                continue
        score[kept], column[kept] = s, c
        kept += 1
    if kept <= k:
        return kept
    _sort(score, column, kept)
    close = np.float32(2.0) * margin
    if score[k - 1] - score[k] > close:
        return k
    high, low = score[k] + close, score[k - 1] - close
    sure = 0
    while score[sure] > high:
        sure += 1
    end = sure
    while end < kept and score[end] >= low:
        score[end] = _exact(rows, row, column[end], group[row] == group[column[end]])
        end += 1
    _sort(score[sure:], column[sure:], end - sure)
    return k


@compiled
def _link_memories(
    x: Any,
    node: Any,
    first_M: Any,
    k: int,
    threshold: Any,
    margin: Any,
    strip: int,
    large_strip: int,
    large: int,
    src_E: Any,
    dst_E: Any,
    cos_E: Any,
    capped_N: Any,
    left_out_M: Any,
) -> Any:
    """Links every memory; returns the edges found, and a mistake."""
    largest = 0
    for m in range(first_M.shape[0] - 1):
        largest = max(largest, first_M[m + 1] - first_M[m])
    width = x.shape[1]
    table = 16
    while table < 2 * largest:
        table *= 2
    room = 2 * k + 6
    rows = np.empty((largest + 1, width), np.float32)
    local = np.empty(largest + 1, np.int64)
    group = np.empty(largest + 1, np.int64)
    factors = np.empty(width, np.uint64)
    factor = np.uint64(1)
    for d in range(width):
        factor *= np.uint64(6364136223846793005)
        factors[d] = factor
    work = np.empty(2 * table, np.int64)
    score_NC = np.empty((largest, room), np.float32)
    column_NC = np.empty((largest, room), np.int32)
    num_N = np.empty(largest, np.int64)
    floor_N = np.empty(largest, np.float32)
    height = strip if largest <= large else max(strip, large_strip)
    flat = np.empty(max(min(height, largest) * min(largest, large), 1), np.float32)
    edges = 0
    for m in range(first_M.shape[0] - 1):
        if first_M[m + 1] - first_M[m] < 2:
            continue
        n, equal = _take(x, node, first_M[m], first_M[m + 1], k, factors, rows, local, group, work)
        if n < 0:
            return edges, 1
        if np.float32(1.0) > threshold:
            # Rows that were not taken have k equals.
            capped_N[first_M[m] : first_M[m + 1]] = True
        for i in range(n):
            capped_N[local[i]] = False
        num_N[:n] = 0
        floor_N[:n] = threshold - margin
        height, reach = (strip, n) if n <= large else (large_strip, large)
        for top in range(0, n, height):
            bottom = min(n, top + height)
            for left in range(top, n, reach):
                right = min(n, left + reach)
                product = flat[: (bottom - top) * (right - left)].reshape(bottom - top, right - left)
                np.dot(rows[top:bottom], rows[left:right].T, product)
                _search(product, top, left, group, equal, score_NC, column_NC, num_N, floor_N, k, margin)
        for i in range(n):
            if num_N[i] > room:
                left_out_M[m] = True
                break
            num_N[i] = _decide(rows, group, i, score_NC[i], column_NC[i], num_N[i], k, threshold, margin)
            capped_N[local[i]] = num_N[i] == k
        if left_out_M[m]:
            continue
        before = edges
        for i in range(n):
            for a in range(num_N[i]):
                j = column_NC[i, a]
                if j > i:
                    for b in range(num_N[j]):
                        if column_NC[j, b] == i:
                            src_E[edges], dst_E[edges] = i, j
                            edges += 1
                            break
        _exact_pairs(rows, group, src_E[before:edges], dst_E[before:edges], cos_E[before:edges])
        for e in range(before, edges):
            one, other = node[local[src_E[e]]], node[local[dst_E[e]]]
            src_E[e], dst_E[e] = min(one, other), max(one, other)
    return edges, 0


def pair_cosines(x_ND: Tensor, a_P: Tensor, b_P: Tensor) -> Tensor:
    """As `magma_kernels.semantic_link.pair_cosines`."""
    out = np.empty(a_P.shape[0], np.float32)
    rows = x_ND.contiguous().numpy()
    _exact_pairs(rows, np.arange(rows.shape[0]), a_P.numpy(), b_P.numpy(), out)
    return torch.from_numpy(out)


def semantic_link(
    x_ND: Tensor,
    ptr: Tensor,
    order_N: Tensor,
    usable_N: Tensor,
    *,
    k: int,
    threshold: float,
    strip: int = _STRIP,
    large_strip: int = _LARGE_STRIP,
    large: int = _LARGE,
) -> LinkResult:
    """As `magma_kernels.semantic_link.semantic_link`.

    Args:
        x_ND: as there, on the CPU.
        ptr: as there.
        order_N: as there.
        usable_N: as there.
        k: as there.
        threshold: as there.
        strip: rows of a strip of products.
        large_strip: the same in memories of more than `large` rows.
        large: columns of a strip at most.
    """
    check_shapes(x_ND, ptr, order_N, usable_N, k)
    if k > _MOST_NEIGHBORS or x_ND.shape[1] == 0:
        return _tiled.semantic_link(x_ND, ptr, order_N, usable_N, k=k, threshold=threshold)
    x, order, bounds = x_ND.contiguous().numpy(), order_N.numpy(), ptr.numpy()
    node = np.flatnonzero(usable_N.numpy())
    memory = np.searchsorted(bounds, node, side="right") - 1
    node = node[np.lexsort((order[node], memory))]
    assert bool(((np.diff(order[node]) > 0) | (np.diff(memory) > 0)).all()), "order_N must be distinct within a memory"
    first_M = np.searchsorted(memory, np.arange(bounds.shape[0]))
    most = len(node) * k // 2
    src_E, dst_E = np.empty(most, np.int64), np.empty(most, np.int64)
    cos_E = np.empty(most, np.float32)
    capped, left_out_M = np.zeros(len(node), bool), np.zeros(bounds.shape[0] - 1, bool)
    num, mistake = _link_memories(
        x,
        node,
        first_M,
        k,
        np.float32(threshold),
        _margin(x.shape[1]),
        strip,
        large_strip,
        large,
        src_E,
        dst_E,
        cos_E,
        capped,
        left_out_M,
    )
    assert mistake == 0, MISTAKES[mistake]
    capped_N = np.zeros(x.shape[0], bool)
    capped_N[node] = capped
    src_E, dst_E, cos_E = src_E[:num], dst_E[:num], cos_E[:num]
    if left_out_M.any():
        only = left_out_M[np.searchsorted(bounds, np.arange(x.shape[0]), side="right") - 1] & usable_N.numpy()
        rest = _tiled.semantic_link(x_ND, ptr, order_N, torch.from_numpy(only), k=k, threshold=threshold)
        src_E = np.concatenate([src_E, rest.src_E.numpy()])
        dst_E = np.concatenate([dst_E, rest.dst_E.numpy()])
        cos_E = np.concatenate([cos_E, rest.cos_E.numpy()])
        capped_N[only] = rest.capped_N.numpy()[only]
    by = np.lexsort((dst_E, src_E))
    return LinkResult(
        src_E=torch.from_numpy(src_E[by]),
        dst_E=torch.from_numpy(dst_E[by]),
        cos_E=torch.from_numpy(cos_E[by]),
        capped_N=torch.from_numpy(capped_N),
    )

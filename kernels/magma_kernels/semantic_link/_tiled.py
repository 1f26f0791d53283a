"""Mutual nearest neighbours by blocks of a float64 matrix product, on a GPU or a CPU.

A matrix product sums in an order of its own, so a cosine from it is off by a few units of 2^-53. That
decides its float32 rounding except within that distance of the middle between two floats: those few are
summed again, in the defined order. Never more than a block of cosines is in memory, however large a memory
is.
"""

import torch
from torch import Tensor

from magma_kernels.semantic_link import LinkResult, check_inputs

# Cosines in a block; a few arrays of this many float64 exist at once.
_BLOCK = 1 << 21
# Pairs above the threshold, per neighbour wanted, that are sorted without a closer look.
_MANY = 16
# Floats gathered at once where cosines are summed again.
_GATHER = 1 << 24


def semantic_link(
    x_ND: Tensor,
    ptr: Tensor,
    order_N: Tensor,
    usable_N: Tensor,
    *,
    k: int,
    threshold: float,
    block: int = _BLOCK,
) -> LinkResult:
    """As `magma_kernels.semantic_link.semantic_link`.

    Args:
        x_ND: as there.
        ptr: as there.
        order_N: as there.
        usable_N: as there.
        k: as there.
        threshold: as there.
        block: most cosines in memory at once (one row at least).
    """
    check_inputs(x_ND, ptr, order_N, usable_N, k)
    device = x_ND.device
    memory_N = torch.repeat_interleave(torch.arange(ptr.shape[0] - 1, device=device), ptr.diff())
    node = _sorted(torch.nonzero(usable_N)[:, 0], memory_N, order_N)
    order, memory = order_N[node], memory_N[node]
    assert bool(((order.diff() > 0) | (memory.diff() > 0)).all()), "order_N must be distinct within a memory"
    # Plus zero: a negative zero equals a positive one.
    kept, group = _can_be_near(x_ND[node] + 0.0, memory, k)
    # Rows that are left out have k equals.
    capped_N = usable_N & bool(torch.tensor(threshold, dtype=torch.float32) < 1.0)
    node = node[kept]
    capped_N[node] = False
    rows = x_ND[node].to(torch.float64)
    count_M = torch.bincount(memory_N[node], minlength=ptr.shape[0] - 1)
    first_M = count_M.cumsum(0) - count_M
    near, cos = [], []
    for memories, size in _groups(count_M, x_ND.shape[1], block):
        first_B = first_M[memories]
        step = max(1, block // (size * memories.shape[0]))
        for begin in range(0, size, step):
            row_BT = torch.arange(begin, min(begin + step, size), device=device).expand(memories.shape[0], -1)
            pair, value = _nearest(rows, group, first_B, count_M[memories], row_BT, size, k, threshold)
            capped_N[node[pair[0]]] = torch.bincount(pair[0], minlength=len(node))[pair[0]] == k
            near.append(pair)
            cos.append(value)
    return _mutual(node, near, cos, capped_N)


def _sorted(node: Tensor, memory_N: Tensor, order_N: Tensor) -> Tensor:
    """Sorts nodes by memory, then by the order of ties."""
    node = node[torch.argsort(order_N[node], stable=True)]
    return node[torch.argsort(memory_N[node], stable=True)]


def _can_be_near(x: Tensor, memory: Tensor, k: int) -> tuple[Tensor, Tensor | None]:
    """Returns the rows that are among the first k + 1 of their memory with the same vector, and for each of them a
    number that it shares with its equals alone; None where no two are equal.

    To any node all equal vectors are equally near, so of each group only the first k by order, one more for a
    member itself, are ever among the nearest of anything; an edge needs both its ends to be.
    """
    # Two floats as one integer.
    words = torch.nn.functional.pad(x, (0, x.shape[1] % 2)).view(torch.int64)
    factor = torch.full((words.shape[1],), 6364136223846793005, dtype=torch.int64, device=x.device).cumprod(0)
    mixed = (words * factor).sum(1)
    order = torch.argsort(mixed, stable=True)
    order = order[torch.argsort(memory[order], stable=True)]
    start = torch.ones_like(order, dtype=torch.bool)
    same = (memory[order][1:] == memory[order][:-1]) & (mixed[order][1:] == mixed[order][:-1])
    pair = torch.nonzero(same)[:, 0]
    # The sums of different rows can be equal; where they are, rows that are equal lie side by side again after a sort
    # by all words, which is for that rare case alone.
    different = (words[order[pair]] != words[order[pair + 1]]).any(1)
    if bool(different.any()):
        for word in words.T.flip(0):
            order = order[torch.argsort(word[order], stable=True)]
        order = order[torch.argsort(memory[order], stable=True)]
        same = memory[order][1:] == memory[order][:-1]
        same &= (words[order[1:]] == words[order[:-1]]).all(1)
        start[1:] = ~same
    else:
        start[pair + 1] = False
    index = torch.arange(order.shape[0], device=order.device)
    place = index - torch.where(start, index, 0).cummax(0).values
    kept = order[place <= k].sort().values
    group = torch.empty_like(order)
    group[order] = start.cumsum(0)
    return kept, None if bool(start.all()) else group[kept]


def _groups(count_M: Tensor, width: int, block: int) -> list[tuple[Tensor, int]]:
    """Puts memories of similar size together, to be padded to the largest: (memories, size), all of them
    once."""
    by_size = torch.argsort(count_M, stable=True)
    groups: list[tuple[Tensor, int]] = []
    sizes = count_M[by_size].tolist()
    last = len(sizes)
    while last > 0 and sizes[last - 1] > 1:
        size = sizes[last - 1]
        first = last - 1
        while first > 0 and 4 * sizes[first - 1] >= 3 * size and (last - first + 1) * size * max(size, width) <= block:
            first -= 1
        groups.append((by_size[first:last], size))
        last = first
    return groups


def _nearest(
    rows: Tensor,
    group: Tensor | None,
    first_B: Tensor,
    count_B: Tensor,
    row_BT: Tensor,
    size: int,
    k: int,
    threshold: float,
) -> tuple[Tensor, Tensor]:
    """Returns the pairs [2, P] (row, one of its k nearest) above the threshold, and their cosines [P].

    Args:
        rows: float64 [N, D] of the usable nodes.
        group: the same number for rows that are equal [N]; None where none are.
        first_B: first row of each memory.
        count_B: rows of each memory.
        row_BT: rows to look from, counted within the memory; those past its end are padding.
        size: the largest of count_B.
        k: neighbours to find.
        threshold: as in the contract.
    """
    device = rows.device
    column_S = torch.arange(size, device=device)
    if first_B.shape[0] == 1:
        # One memory, perhaps a large one: a view of its rows instead of a copy for each block.
        here = rows[int(first_B[0]) : int(first_B[0]) + size]
        product = torch.matmul(here[row_BT[0, 0] : row_BT[0, -1] + 1], here.T)[None].clamp_(max=1.0)
        at_BT, at_BS = first_B[:, None] + row_BT, first_B[:, None] + column_S
    else:
        # Padding points at the memory's first row; the products are then masked.
        exists_BT = row_BT < count_B[:, None]
        exists_BS = column_S < count_B[:, None]
        at_BT = first_B[:, None] + torch.where(exists_BT, row_BT, 0)
        at_BS = first_B[:, None] + torch.where(exists_BS, column_S, 0)
        product = torch.matmul(rows[at_BT], rows[at_BS].transpose(1, 2)).clamp_(max=1.0)
        product.masked_fill_(~(exists_BT[:, :, None] & exists_BS[:, None, :]), float("-inf"))
    if group is not None:
        equal = group[at_BT][:, :, None] == group[at_BS][:, None, :]
        product.masked_fill_(equal & (product > float("-inf")), 1.0)
    product.scatter_(2, row_BT[:, :, None], float("-inf"))
    # Two sums of D products differ by at most this, whatever their orders (lengths are 1 within 1e-3).
    margin = 2.02 * (rows.shape[1] + 2) * 2.0**-53
    floor = torch.tensor(threshold, dtype=torch.float32, device=device)
    near = product > floor.to(torch.float64) - margin
    if int(near.sum()) > _MANY * k * row_BT.numel():
        # Too many to sort: also nothing that rounds to less than the k-th of its row, a float32 apart being
        # 2^-23.
        least = torch.topk(product, min(k, size), dim=2).values[:, :, -1:]
        near &= product >= least - 2.0**-22
    b, t, s = torch.nonzero(near, as_tuple=True)
    row, column = first_B[b] + row_BT[b, t], first_B[b] + s
    value = product[b, t, s]
    cos = value.to(torch.float32)
    unsure = torch.nonzero((value - margin).to(torch.float32) != (value + margin).to(torch.float32))[:, 0]
    cos[unsure] = _summed_again(rows, row[unsure], column[unsure]).clamp(max=1.0)
    row, column, cos = (part[cos > floor] for part in (row, column, cos))
    # Rows of a memory are in the order of ties, and columns ascend here: stable sorts leave ties as they
    # must be.
    order = torch.argsort(cos, descending=True, stable=True)
    order = order[torch.argsort(row[order], stable=True)]
    row, column, cos = row[order], column[order], cos[order]
    start = torch.ones_like(row, dtype=torch.bool)
    start[1:] = row[1:] != row[:-1]
    index = torch.arange(row.shape[0], device=device)
    kept = index - torch.where(start, index, 0).cummax(0).values < k
    return torch.stack([row[kept], column[kept]]), cos[kept]


def _summed_again(rows: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Returns the cosines of pairs of rows, summed in the defined order."""
    total = torch.zeros(a.shape[0], dtype=torch.float64, device=rows.device)
    step = max(1, _GATHER // max(rows.shape[1], 1))
    for begin in range(0, a.shape[0], step):
        part = slice(begin, begin + step)
        products = (rows[a[part]] * rows[b[part]]).T.contiguous()
        for product in products:
            total[part] += product
    return total.to(torch.float32) + 0.0


def _mutual(node: Tensor, near: list[Tensor], cos: list[Tensor], capped_N: Tensor) -> LinkResult:
    """Keeps the pairs that were found from both ends."""
    pair = torch.cat([torch.zeros(2, 0, dtype=torch.int64, device=node.device), *near], dim=1)
    value = torch.cat([torch.zeros(0, dtype=torch.float32, device=node.device), *cos])
    ends = node[pair]
    src, dst = ends.amin(0), ends.amax(0)
    by_dst = torch.argsort(dst, stable=True)
    order = by_dst[torch.argsort(src[by_dst], stable=True)]
    src, dst, value = src[order], dst[order], value[order]
    again = torch.zeros_like(src, dtype=torch.bool)
    again[1:] = (src[1:] == src[:-1]) & (dst[1:] == dst[:-1])
    return LinkResult(src_E=src[again], dst_E=dst[again], cos_E=value[again], capped_N=capped_N)

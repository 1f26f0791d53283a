"""Mutual nearest neighbours in plain PyTorch: the definition that every other implementation must equal.

It holds the whole matrix of cosines of one memory at a time, so it is no way to link a large memory.
"""

import itertools

import torch
from torch import Tensor

from magma_kernels.semantic_link import LinkResult, check_inputs


def semantic_link(
    x_ND: Tensor, ptr: Tensor, order_N: Tensor, usable_N: Tensor, *, k: int, threshold: float
) -> LinkResult:
    """As `magma_kernels.semantic_link.semantic_link`."""
    check_inputs(x_ND, ptr, order_N, usable_N, k)
    bounds = ptr.tolist()
    found = []
    capped_N = torch.zeros_like(usable_N)
    for first, last in itertools.pairwise(bounds):
        node = first + torch.nonzero(usable_N[first:last])[:, 0]
        # In the order of ties: a stable sort by cosine then leaves ties as they must be.
        node = node[torch.argsort(order_N[node], stable=True)]
        assert bool((order_N[node].diff() > 0).all()), "order_N must be distinct within a memory"
        cos = cosines(x_ND[node], x_ND[node]).clamp(max=1.0)
        # Plus zero: a negative zero equals a positive one.
        _, group = torch.unique(x_ND[node] + 0.0, dim=0, return_inverse=True)
        cos = torch.where(group[:, None] == group[None, :], 1.0, cos)
        near = _among_nearest(cos, k) & (cos > torch.tensor(threshold, dtype=torch.float32))
        capped_N[node] = near.sum(1) == k
        src, dst = torch.nonzero(torch.triu(near & near.T), as_tuple=True)
        ends = torch.stack([node[src], node[dst]])
        found.append((ends.amin(0), ends.amax(0), cos[src, dst]))
    none = torch.zeros(0, dtype=torch.int64, device=x_ND.device)
    found.append((none, none, none.to(torch.float32)))
    src, dst, cos = (torch.cat(parts) for parts in zip(*found, strict=True))
    by_dst = torch.argsort(dst, stable=True)
    order = by_dst[torch.argsort(src[by_dst], stable=True)]
    return LinkResult(src_E=src[order], dst_E=dst[order], cos_E=cos[order], capped_N=capped_N)


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Returns the dot product of each row of `a` with each of `b`: summed in float64 along the axis, as
    float32. Neither equal rows nor a sum above one are looked at.

    The product of two float32 is exact in float64, so it does not matter whether hardware fuses it with the
    sum.
    """
    total = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64, device=a.device)
    columns_a, columns_b = a.to(torch.float64).T, b.to(torch.float64).T
    for column_a, column_b in zip(columns_a, columns_b, strict=True):
        total += column_a[:, None] * column_b[None, :]
    # A negative sum that underflows would be a negative zero; adding zero leaves one zero only.
    return total.to(torch.float32) + 0.0


def pair_cosines(x_ND: Tensor, a_P: Tensor, b_P: Tensor) -> Tensor:
    """As `magma_kernels.semantic_link.pair_cosines`."""
    total = torch.zeros(a_P.shape[0], dtype=torch.float64, device=x_ND.device)
    for column in x_ND.to(torch.float64).T:
        total += column[a_P] * column[b_P]
    return torch.where(a_P == b_P, 1.0, (total.to(torch.float32) + 0.0).clamp(max=1.0))


def _among_nearest(cos: Tensor, k: int) -> Tensor:
    """Returns a mask: column j is among the k highest of row i, the diagonal aside, ties to the smaller j."""
    others = cos.clone().fill_diagonal_(float("-inf"))
    best = torch.argsort(others, dim=1, descending=True, stable=True)[:, :k]
    near = torch.zeros_like(cos, dtype=torch.bool).scatter_(1, best, True)
    return near.fill_diagonal_(False)

"""Mutual nearest neighbours inside each of many memories: the contract, and the function that dispatches.

It knows nothing of events or ids: ties go by `order`, numbers that the caller ranks nodes by. The one thing a
reader would not guess: a cosine is defined to the last bit, because a threshold and a cut at k turn a last bit
into an edge. It is the sum of products in float64 in the order of the axis, rounded to float32, but at most 1, and 1
between equal rows, so that no other row passes an equal one by the error of a rounding.

Shape suffixes: N nodes, D embedding, M memories, E edges found.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from magma_kernels import backend

OP = "semantic_link"

# What the compiled implementation says of an input that breaks the contract; it checks as it goes.
MISTAKES = {1: "usable rows must be finite and of unit length"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResult:
    """Undirected edges, each once, sorted by (src, dst).

    Attributes:
        src_E: int64, the smaller node.
        dst_E: int64, the larger node.
        cos_E: float32.
        capped_N: bool, the node has k neighbours above the threshold, so there may be more.
    """

    src_E: Tensor
    dst_E: Tensor
    cos_E: Tensor
    capped_N: Tensor


def semantic_link(
    x_ND: Tensor, ptr: Tensor, order_N: Tensor, usable_N: Tensor, *, k: int, threshold: float
) -> LinkResult:
    """Links nodes of a memory when each is among the other's k nearest and their cosine passes a threshold.

    The neighbours of a node are all other usable nodes of its memory, by (cosine descending, order
    ascending); the first k are its nearest. So no node has more than k edges, duplicates or not.

    Args:
        x_ND: float32, rows of unit length where usable; other rows may hold anything, also NaN.
        ptr: int64 [M + 1], memory m has nodes [ptr[m], ptr[m + 1]).
        order_N: int64, distinct within a memory.
        usable_N: bool, False for nodes that are not linked.
        k: at least 1.
        threshold: an edge needs a cosine above it; used as float32.

    Returns:
        A LinkResult on the same device; it depends neither on the implementation nor on what else is in the
        batch.

    Raises:
        magma_kernels.backend.KernelUnavailableError: MAGMA_KERNELS asks for what cannot run here.
    """
    check_shapes(x_ND, ptr, order_N, usable_N, k)
    choice = backend.choose(OP, x_ND.device)
    if choice.name == "numba":
        from magma_kernels.semantic_link import _numba

        return _numba.semantic_link(x_ND, ptr, order_N, usable_N, k=k, threshold=threshold)
    if choice.name == "tiled":
        from magma_kernels.semantic_link import _tiled

        return _tiled.semantic_link(x_ND, ptr, order_N, usable_N, k=k, threshold=threshold)
    from magma_kernels.semantic_link import reference

    return reference.semantic_link(x_ND, ptr, order_N, usable_N, k=k, threshold=threshold)


def pair_cosines(x_ND: Tensor, a_P: Tensor, b_P: Tensor) -> Tensor:
    """Returns the cosines of pairs of rows as `semantic_link` defines them, but for rows that are equal and not one:
    those must not be among `x_ND`.

    Args:
        x_ND: float32, rows of unit length, on the CPU.
        a_P: int64, one row of each pair.
        b_P: int64, the other; a row with itself has cosine 1.
    """
    assert x_ND.dtype == torch.float32, f"x_ND must be float32 (got {x_ND.dtype})"
    assert a_P.shape == b_P.shape, "a pair has two ends"
    if backend.choose(OP, x_ND.device).name == "numba":
        from magma_kernels.semantic_link import _numba

        return _numba.pair_cosines(x_ND, a_P, b_P)
    from magma_kernels.semantic_link import reference

    return reference.pair_cosines(x_ND, a_P, b_P)


def check_inputs(x_ND: Tensor, ptr: Tensor, order_N: Tensor, usable_N: Tensor, k: int) -> None:
    """Asserts dtypes, shapes, devices and offsets, and that usable rows have unit length."""
    check_shapes(x_ND, ptr, order_N, usable_N, k)
    length = torch.linalg.vector_norm(x_ND[usable_N], dim=1)
    assert bool(((length - 1).abs() < 1e-3).all()), MISTAKES[1]


def check_shapes(x_ND: Tensor, ptr: Tensor, order_N: Tensor, usable_N: Tensor, k: int) -> None:
    """Asserts dtypes, shapes, devices and offsets; reads no row."""
    assert x_ND.dtype == torch.float32, f"x_ND must be float32 (got {x_ND.dtype})"
    assert x_ND.dim() == 2, f"x_ND must have 2 axes (got {x_ND.dim()})"
    num_nodes = x_ND.shape[0]
    for name, tensor, dtype in (
        ("ptr", ptr, torch.int64),
        ("order_N", order_N, torch.int64),
        ("usable_N", usable_N, torch.bool),
    ):
        assert tensor.dtype == dtype, f"{name} must be {dtype} (got {tensor.dtype})"
        assert tensor.device == x_ND.device, f"{name} must be on {x_ND.device} (got {tensor.device})"
        assert tensor.dim() == 1, f"{name} must have one axis (got {tensor.dim()})"
    assert order_N.shape[0] == num_nodes, f"order_N must have {num_nodes} items (got {order_N.shape[0]})"
    assert usable_N.shape[0] == num_nodes, f"usable_N must have {num_nodes} items (got {usable_N.shape[0]})"
    assert ptr.shape[0] >= 1, "ptr has M + 1 items"
    assert k >= 1, f"k must be at least 1 (got {k})"
    ends = [int(ptr[0]), int(ptr[-1])]
    assert ends == [0, num_nodes], f"ptr must go from 0 to {num_nodes} (got {ends})"
    assert bool((ptr.diff() >= 0).all()), "ptr must not descend"

"""How far a kernel is from what the machine allows: bytes and operations it cannot do without, over rates measured in
the same run.

It times no kernel. The rates are of a copy, of a matrix product, and of a loop that does of a search only what no
search can do without.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def timed(call: Callable[[], Any], device: torch.device) -> float:
    finish(device)
    start = time.perf_counter()
    call()
    finish(device)
    return time.perf_counter() - start


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def beam_roofline(case: Any, result: Any, timing: Any, device: torch.device) -> dict[str, Any]:
    """Compares the edges walked with what memory could bring: a search is bound by loads, not by
    arithmetic."""
    degree = case.graph.indptr.diff()
    walked = (result.hop_QV >= 0) & (result.hop_QV < case.params.max_depth)
    edges = int(degree[result.node_QV.clamp(min=0)][walked].sum())
    # An edge brings a node, a relation and an affinity, and reads and writes a key; a row of the result is
    # 26 bytes.
    moved_bytes = edges * (8 + 4 + 4 + 2 * 8) + int(result.num_Q.sum()) * 26
    peak = bandwidth(device)
    share = moved_bytes / timing.median_s / peak
    text = (
        f"roofline, {timing.case}: {edges / timing.median_s / 1e6:.0f} M edges/s, "
        f"{moved_bytes / timing.median_s / 1e9:.2f} GB/s of {peak / 1e9:.1f} GB/s that a copy reaches ({share:.1%})"
    )
    line = {
        "case": timing.case,
        "edges": edges,
        "bytes": moved_bytes,
        "copy_bytes_per_s": peak,
        "share": share,
        "text": text,
    }
    if device.type == "cpu" and timing.items > 1:
        line["floor_s"] = beam_floor(case, result) / torch.get_num_threads()
        line["times_the_floor"] = round(timing.median_s / line["floor_s"], 2)
        line["text"] += f"; {line['times_the_floor']} times the floor of {line['floor_s'] * 1e3:.2f} ms"
    return line


def beam_floor(case: Any, result: Any) -> float:
    """Returns the seconds that one thread takes to do of a search what no search can do without, and nothing else.

    The nodes that were walked from are known beforehand; every edge of each is read once, its value computed, and the
    best way to its end kept: three loads, three operations, a load and a store an edge. No visited set, no choice of
    the best, no result.
    """
    from magma_kernels.compile import compiled

    @compiled
    def walk(
        node_QV: Any, open_QV: Any, base_Q: Any, ptr: Any, dst: Any, relation: Any, affinity: Any, at: Any, weight: Any
    ) -> Any:
        best = np.zeros(affinity.shape[0], np.float32)
        for q in range(node_QV.shape[0]):
            near = best[: at[q + 1] - at[q]]
            own = affinity[at[q] : at[q + 1]]
            for i in range(node_QV.shape[1]):
                if open_QV[q, i]:
                    u = node_QV[q, i]
                    for edge in range(ptr[u], ptr[u + 1]):
                        v = np.uint64(dst[edge] - base_Q[q])
                        value = np.float32(0.5) + weight[q, np.uint64(relation[edge])] * own[v]
                        near[v] = max(near[v], value)
        return best

    queries = case.queries
    order = torch.argsort(queries.base_Q, stable=True)
    open_QV = (result.hop_QV >= 0) & (result.hop_QV < case.params.max_depth)
    if int(order.shape[0]) and not torch.equal(order, torch.arange(order.shape[0])):
        # As the search does it: queries of one memory one after the other.
        sizes = queries.affinity_ptr.diff()[order]
        ptr = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
        affinity = torch.cat([queries.affinity[queries.affinity_ptr[q] : queries.affinity_ptr[q + 1]] for q in order])
    else:
        ptr, affinity = queries.affinity_ptr, queries.affinity
    arguments = [
        tensor.contiguous().numpy()
        for tensor in (
            result.node_QV[order],
            open_QV[order],
            queries.base_Q[order],
            case.graph.indptr,
            case.graph.dst,
            case.graph.relation,
            affinity,
            ptr,
            queries.structure_QR[order],
        )
    ]
    cpu = torch.device("cpu")
    return statistics.median([timed(lambda: walk(*arguments), cpu) for _ in range(8)][1:])


def link_roofline(num_memories: int, num_events: int, timing: Any, device: torch.device) -> dict[str, Any]:
    """Compares the products with what a matrix product of the kind that is used reaches here.

    Counted are the products of all rows with all; an implementation that makes half of them and mirrors the rest can
    do more than the peak.
    """
    operations = 2 * 384 * num_memories * num_events**2
    kind = "float32" if timing.implementation == "numba" else "float64"
    peak = product_rate(device, kind)
    share = operations / timing.median_s / peak
    text = (
        f"roofline, {timing.case}: {operations / timing.median_s / 1e9:.1f} GFLOP/s of {peak / 1e9:.0f} GFLOP/s "
        f"that a {kind} product reaches ({share:.1%})"
    )
    return {
        "case": timing.case,
        "operations": operations,
        "product_per_s": peak,
        "share": share,
        "text": text,
    }


def bandwidth(device: torch.device) -> float:
    """Returns bytes read and written a second by a copy larger than the caches."""
    source = torch.ones(1 << 25, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    spent = [timed(lambda: target.copy_(source), device) for _ in range(6)][1:]
    return 2 * source.numel() * 4 / statistics.median(spent)


def product_rate(device: torch.device, kind: str) -> float:
    """Returns floating point operations a second of a matrix product; on a CPU the best of NumPy's and PyTorch's."""
    size = 4096 if device.type == "cuda" else 1024
    a = torch.rand(size, size, dtype=getattr(torch, kind), device=device)
    calls: list[Callable[[], Any]] = [lambda: a @ a]
    if device.type == "cpu":
        array = a.numpy()
        calls.append(lambda: array @ array)
    return max(2 * size**3 / statistics.median([timed(call, device) for _ in range(9)][1:]) for call in calls)

"""Beam search on a CUDA device: launches beam_search.cu, which CuPy compiles on first use and keeps on disk.

It allocates with PyTorch and runs on PyTorch's current stream; CuPy only compiles and launches. What the
kernel is passed, and in which order, is made here without CuPy, so that a host build of the same source
takes it too.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

SOURCE = Path(__file__).with_name("beam_search.cu")
NUM_THREADS = 128
# The block's own memory, in bytes: a head, and two keys for each node of the largest memory. Every device
# has 48 KiB.
_HEAD = 16
_MOST_SHARED = 2048
_INT_MAX = 2**31 - 1


def problem(device: torch.device) -> str:
    """Returns why the kernel cannot run on a device, as a phrase; empty when it can. Compiles it."""
    try:
        _kernel(_index(device))
    except (ImportError, OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def beam_search(graph: BeamGraph, queries: BeamQueries, params: BeamParams) -> BeamResult:
    """As `magma_kernels.beam_search.beam_search`, for tensors on a CUDA device."""
    import cupy

    check_shapes(graph, queries, params)
    check_weights(queries)
    num_queries = queries.base_Q.shape[0]
    outputs, shared = allocate(queries, params)
    if num_queries:
        device = graph.dst.device
        with torch.cuda.device(device):
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream)
            kernel = _kernel(_index(device))
            with stream:
                # `held` keeps contiguous copies alive until the launch is queued; PyTorch's allocator then
                # gives their memory to later work of the same stream only.
                arguments, held = launch_arguments(graph, queries, params, outputs, shared)
                kernel((num_queries,), (NUM_THREADS,), arguments, shared_mem=_HEAD + 16 * shared)
                del held
    return result(outputs)


def allocate(queries: BeamQueries, params: BeamParams) -> tuple[dict[str, Tensor], int]:
    """Returns the tensors that the kernel writes, in its order, and how many nodes fit in a block's
    memory."""
    device = queries.base_Q.device
    num_queries = queries.base_Q.shape[0]
    largest = max(int(queries.affinity_ptr.diff().max()), 0) if num_queries else 0
    shape = (num_queries, most_visited(queries, params))
    shared = min(largest, _MOST_SHARED)
    num_spare = 2 * queries.affinity.shape[0] if largest > shared else 0
    outputs = {
        "node": torch.empty(shape, dtype=torch.int64, device=device),
        "score": torch.empty(shape, dtype=torch.float32, device=device),
        "hop": torch.empty(shape, dtype=torch.int16, device=device),
        "parent": torch.empty(shape, dtype=torch.int64, device=device),
        "relation": torch.empty(shape, dtype=torch.int32, device=device),
        "num": torch.empty(num_queries, dtype=torch.int64, device=device),
        "truncated": torch.empty(num_queries, dtype=torch.bool, device=device),
        "mistake": torch.zeros(1, dtype=torch.int32, device=device),
        "spare": torch.empty(num_spare, dtype=torch.int64, device=device),
    }
    return outputs, shared


def launch_arguments(
    graph: BeamGraph, queries: BeamQueries, params: BeamParams, outputs: dict[str, Tensor], shared: int
) -> tuple[tuple[np.generic, ...], list[Tensor]]:
    """Returns what a launch passes, in the order of PARAMETERS in the source, and the tensors it points
    into."""
    inputs = [
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
    ]
    held = [tensor.contiguous() for tensor in inputs]
    numbers = (
        graph.indptr.shape[0] - 1,
        graph.dst.shape[0],
        queries.affinity.shape[0],
        queries.anchor_node.shape[0],
        queries.structure_QR.shape[1],
        params.max_depth,
        min(params.beam_width, _INT_MAX),
        min(params.max_nodes, _INT_MAX),
        relation_bits(queries),
        outputs["node"].shape[1],
        shared,
    )
    arguments: tuple[np.generic, ...] = (
        *(np.uint64(tensor.data_ptr()) for tensor in held),
        *(np.int64(number) for number in numbers),
        np.float32(params.decay),
        np.float32(params.drop_threshold),
        *(np.uint64(tensor.data_ptr()) for tensor in outputs.values()),
    )
    return arguments, held


def result(outputs: dict[str, Tensor]) -> BeamResult:
    """Returns what the kernel wrote, cut to the widest row (waits for the device)."""
    mistake = int(outputs["mistake"])
    assert mistake == 0, MISTAKES[mistake]
    num_Q = outputs["num"]
    used = int(num_Q.max()) if num_Q.shape[0] else 0
    rows = {name: outputs[name][:, :used].contiguous() for name in ("node", "score", "hop", "parent", "relation")}
    return BeamResult(
        node_QV=rows["node"],
        score_QV=rows["score"],
        hop_QV=rows["hop"],
        parent_QV=rows["parent"],
        relation_QV=rows["relation"],
        num_Q=num_Q,
        truncated_Q=outputs["truncated"],
    )


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


@functools.cache
def _kernel(device_index: int) -> Any:
    """Compiles the source for a device; CuPy keeps what it compiled in its own cache folder."""
    import cupy
    from cupy.cuda.compiler import CompileException

    with cupy.cuda.Device(device_index):
        try:
            module = cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=("--std=c++14",))
            return module.get_function("beam_search")
        except CompileException as error:
            raise RuntimeError(f"beam_search.cu does not compile: {error}") from error

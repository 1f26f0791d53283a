"""Algorithm 1 of the paper over many memories at once: anchors in, visited nodes with the way to each out.

This module prepares the numbers (equations 5 and 6: one exponential per edge type and query, one per node and query)
and reads the paths back; the walk itself is `magma_kernels.beam_search`. Q queries, V visited.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from magma_gpu.anchors import cosines
from magma_gpu.config import SearchConfig
from magma_gpu.graph import GraphBatch
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.types import EDGE_TYPES
from magma_kernels.beam_search import BeamGraph, BeamParams, BeamQueries, BeamResult, beam_search


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """What the queries of a batch visited; node numbers are local to each query's memory.

    Attributes:
        node_QV: int64, anchors first (by score), then hop by hop; -1 past the end.
        score_QV: float32 of equation 5, summed along the way with decay.
        hop_QV: int16; parent_QV: int64, -1 for anchors; edge_type_QV: index into EDGE_TYPES, -1 for anchors.
        truncated_Q: the node budget cut something off.
    """

    node_QV: npt.NDArray[np.int64]
    score_QV: npt.NDArray[np.float32]
    hop_QV: npt.NDArray[np.int16]
    parent_QV: npt.NDArray[np.int64]
    edge_type_QV: npt.NDArray[np.int32]
    truncated_Q: npt.NDArray[np.bool_]

    def places(self, num_nodes: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Where each node of a memory stands in the rows, [Q, N], and the parent of each visited one, [Q, V]; else -1.

        Args:
            num_nodes: of the memory, to which all queries of the batch were put.
        """
        rows = np.arange(len(self.node_QV))[:, None]
        # A column more for what is no node.
        at = np.full((len(rows), num_nodes + 1), -1, dtype=np.int32)
        at[rows, self.node_QV] = np.arange(self.node_QV.shape[1], dtype=np.int32)
        at[:, -1] = -1
        return at[:, :-1], at[rows, self.parent_QV]

    def path(self, query: int, at: int, parent_QV: npt.NDArray[np.int32]) -> tuple[tuple[int, str], ...]:
        """The way to a visited node: (node, edge type walked from it), from the anchor on; empty for an anchor.

        Args:
            at: where the node stands in the query's row; `parent_QV` says it of its parent, see `places`.
        """
        steps: list[tuple[int, str]] = []
        while (above := parent_QV.item(query, at)) >= 0:
            steps.append((self.parent_QV.item(query, at), EDGE_TYPES[self.edge_type_QV.item(query, at)]))
            at = above
        return tuple(steps[::-1])


def walk(
    indexes: Sequence[MemoryIndex],
    batch: GraphBatch,
    memory_Q: npt.NDArray[np.int64],
    query_QD: npt.NDArray[np.float32],
    structure_QR: npt.NDArray[np.float32],
    anchors: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]],
    config: SearchConfig,
) -> Walks:
    """Walks from the anchors of every query.

    Args:
        indexes: the memories of `batch`, in its order.
        memory_Q: which of them each query is put to.
        structure_QR: `policy.structure_QR`.
        anchors: for each query its anchors (event numbers) and their scores.
    """
    sizes = np.array([i.graph.num_nodes for i in indexes], dtype=np.int64)
    affinity: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(memory_Q)
    for m, index in enumerate(indexes):
        rows = np.flatnonzero(memory_Q == m)
        if len(rows):
            near = np.exp(config.lambda_affinity * cosines(query_QD[rows], index.graph.x_ND.numpy()).astype(np.float64))
            for row, values in zip(rows, near.astype(np.float32), strict=True):
                affinity[row] = values
    base = batch.node_ptr_M.numpy()[memory_Q]
    counts = np.array([len(nodes) for nodes, _ in anchors], dtype=np.int64)
    result = beam_search(
        BeamGraph(indptr=batch.indptr, dst=batch.dst, relation=batch.relation),
        BeamQueries(
            base_Q=torch.from_numpy(base),
            affinity=torch.from_numpy(np.concatenate(affinity) if affinity else np.empty(0, np.float32)),
            affinity_ptr=torch.from_numpy(_ptr(sizes[memory_Q])),
            structure_QR=torch.from_numpy(structure_QR),
            anchor_ptr=torch.from_numpy(_ptr(counts)),
            anchor_node=torch.from_numpy(_flat([n for n, _ in anchors], np.int64) + np.repeat(base, counts)),
            anchor_score=torch.from_numpy(_flat([s for _, s in anchors], np.float32)),
        ),
        BeamParams(
            max_depth=config.max_depth,
            beam_width=config.beam_width,
            max_nodes=config.max_nodes,
            decay=config.decay,
            drop_threshold=config.drop_threshold,
        ),
    )
    return _local(result, base)


def _ptr(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _flat(parts: Sequence[npt.NDArray[np.generic]], dtype: type) -> npt.NDArray[np.generic]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)


def _local(result: BeamResult, base: npt.NDArray[np.int64]) -> Walks:
    node, parent = result.node_QV.numpy(), result.parent_QV.numpy()
    relation = result.relation_QV.numpy()
    return Walks(
        node_QV=np.where(node >= 0, node - base[:, None], -1),
        score_QV=result.score_QV.numpy(),
        hop_QV=result.hop_QV.numpy(),
        parent_QV=np.where(parent >= 0, parent - base[:, None], -1),
        edge_type_QV=np.where(relation >= 0, relation // 2, -1).astype(np.int32),
        truncated_Q=result.truncated_Q.numpy(),
    )

"""Edges of the fast path: the temporal chain of each memory, and semantic edges between similar events.

The chain follows the total order of positions through the whole memory (paper section 3.2: the immutable backbone),
across sessions too, with weight 1. Semantic edges are undirected and stored once, from the smaller event id to the
larger, with their cosine as weight.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from magma_gpu.columns import memory_slices, vectors_of
from magma_gpu.config import LinkConfig
from magma_gpu.knn import link_exactly, mutual_neighbors
from magma_gpu.schema import TABLES

CODE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Linked:
    """Edges of one shard and what was counted on the way."""

    temporal: pa.Table
    semantic: pa.Table
    counts: dict[str, Any]


def load_kernel(device: str = "cpu") -> None:
    """Loads the compiled code of an exact search, which takes longer than a small shard does."""
    link_exactly(np.eye(2, dtype=np.float32), np.array([0, 2]), np.arange(2), np.ones(1, bool), 1, 0.5, device)


def link_shard(events: pa.Table, vectors: pa.Table, config: LinkConfig, device: str = "cpu") -> Linked:
    """Links every memory of a shard.

    Args:
        events: sorted by memory_id, position.
        vectors: the same rows in the same order.
        device: where the products of exact searches are made; it changes no edge.
    """
    x = vectors_of(vectors)
    ids = events["event_id"].combine_chunks()
    ptr = _memory_ptr(events["memory_id"])
    memory = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    # Ids are distinct within a memory, so a rank among all tells the order in each.
    rank = np.empty(len(ids), dtype=np.int64)
    rank[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    large = (np.diff(ptr) > config.approximate_from) & (config.index != "exact")
    pairs = link_exactly(x, ptr, rank, ~large, config.num_neighbors, config.threshold, device)
    found = [pairs]
    for m in np.flatnonzero(large).tolist():
        own = slice(int(ptr[m]), int(ptr[m + 1]))
        found.append(
            mutual_neighbors(
                x[own],
                rank[own],
                config.num_neighbors,
                config.threshold,
                index="ivf" if config.index == "ivf" else "hnsw",
                recall_sample=config.recall_sample,
            ).moved(own.start)
        )
    i, j = (np.concatenate([getattr(p, end) for p in found]) for end in ("i", "j"))
    weight = np.clip(np.concatenate([p.weight for p in found]), 0.0, 1.0)
    flip = rank[i] > rank[j]
    src, dst = np.where(flip, j, i), np.where(flip, i, j)
    by = np.lexsort((rank[dst], rank[src], memory[src]))
    counts: dict[str, Any] = {"events_at_cap": sum(p.num_capped for p in found)}
    if large.any():
        counts |= {"memories_approximate": int(large.sum()), "lowest_recall": min(p.recall for p in found)}
    first = np.flatnonzero(memory[1:] == memory[:-1])
    ones = np.ones(len(first), np.float32)
    return Linked(
        _edges(events, first, first + 1, ones, "temporal", "order"),
        _edges(events, src[by], dst[by], weight[by], "semantic", "knn"),
        counts,
    )


def _memory_ptr(memory_ids: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Where the runs of equal ids of a sorted column start, and its length."""
    bounds = [first for _, first, _ in memory_slices(memory_ids)]
    return np.array([*bounds, len(memory_ids)] if bounds else [0], dtype=np.int64)


def _edges(
    events: pa.Table,
    src: npt.NDArray[np.int64],
    dst: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float32],
    type_: str,
    origin: str,
) -> pa.Table:
    """Edges between rows of a table of events."""
    n = len(src)
    ids = events["event_id"]
    return pa.table(
        {
            "memory_id": events["memory_id"].take(pa.array(src)),
            "src": ids.take(pa.array(src)),
            "dst": ids.take(pa.array(dst)),
            "type": pa.repeat(type_, n),
            "weight": weight,
            "origin": pa.repeat(origin, n),
            "evidence": pa.nulls(n, pa.string()),
        },
        schema=TABLES[f"edges/{type_}"],
    )

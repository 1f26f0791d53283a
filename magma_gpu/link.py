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

from magma_gpu.config import LinkConfig
from magma_gpu.knn import mutual_neighbors
from magma_gpu.schema import TABLES

CODE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Linked:
    """Edges of one shard and what was counted on the way."""

    temporal: pa.Table
    semantic: pa.Table
    counts: dict[str, Any]


def memory_slices(memory_ids: pa.ChunkedArray) -> list[tuple[str, int, int]]:
    """Runs of equal ids in a sorted column: (memory id, first row, row after the last)."""
    encoded = memory_ids.combine_chunks().dictionary_encode() if len(memory_ids) else None
    if encoded is None:
        return []
    codes = encoded.indices.to_numpy()
    cuts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    names = encoded.dictionary.to_pylist()
    return [(names[codes[a]], a, b) for a, b in zip(cuts, cuts[1:], strict=False)]


def vectors_of(vectors: pa.Table) -> npt.NDArray[np.float32]:
    """The vectors of a table as rows; zeros where a vector is null."""
    column = vectors["vector"].combine_chunks()
    dim = column.type.list_size if pa.types.is_fixed_size_list(column.type) else 0
    x = np.zeros((len(column), dim), dtype=np.float32)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    x[valid] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, dim) if dim else x[valid]
    return x


def link_shard(events: pa.Table, vectors: pa.Table, config: LinkConfig) -> Linked:
    """Links every memory of a shard.

    Args:
        events: sorted by memory_id, position.
        vectors: the same rows in the same order.
    """
    x = vectors_of(vectors)
    ids = np.array(events["event_id"].to_pylist(), dtype=object)
    chain: list[pa.Table] = []
    similar: list[pa.Table] = []
    cut, approximate, recalls = 0, 0, []
    for memory_id, first, last in memory_slices(events["memory_id"]):
        own = ids[first:last]
        chain.append(_edges(memory_id, own[:-1], own[1:], np.ones(len(own) - 1, np.float32), "temporal", "order"))
        rank = np.empty(len(own), dtype=np.int64)
        rank[np.argsort(own, kind="stable")] = np.arange(len(own))
        large = config.index == "approximate" and len(own) > config.approximate_from
        pairs = mutual_neighbors(
            x[first:last],
            rank,
            config.num_neighbors,
            config.threshold,
            approximate=large,
            recall_sample=config.recall_sample,
        )
        cut += pairs.cut
        if large:
            approximate += 1
            recalls.append(pairs.recall)
        flip = rank[pairs.i] > rank[pairs.j]
        src, dst = np.where(flip, pairs.j, pairs.i), np.where(flip, pairs.i, pairs.j)
        by = np.lexsort((rank[dst], rank[src]))
        weight = np.clip(pairs.weight[by], 0.0, 1.0)
        similar.append(_edges(memory_id, own[src[by]], own[dst[by]], weight, "semantic", "knn"))
    counts: dict[str, Any] = {"pairs_cut_by_cap": cut}
    if approximate:
        counts |= {"memories_approximate": approximate, "lowest_recall": min(recalls)}
    return Linked(_joined("edges/temporal", chain), _joined("edges/semantic", similar), counts)


def _edges(
    memory_id: str,
    src: npt.NDArray[Any],
    dst: npt.NDArray[Any],
    weight: npt.NDArray[np.float32],
    type_: str,
    origin: str,
) -> pa.Table:
    n = len(src)
    return pa.table(
        {
            "memory_id": [memory_id] * n,
            "src": src.tolist(),
            "dst": dst.tolist(),
            "type": [type_] * n,
            "weight": weight,
            "origin": [origin] * n,
            "evidence": [None] * n,
        },
        schema=TABLES[f"edges/{type_}"],
    )


def _joined(table: str, pieces: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(pieces) if pieces else TABLES[table].empty_table()

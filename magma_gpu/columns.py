"""Columns of tables as numpy arrays: where memories begin and end, and vectors as rows.

It imports no model and no torch, so that commands that only look at a store start at once.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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


def split_by_memory(table: pa.Table, members: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of each of some memories in a table sorted by memory."""
    place = {memory_id: (first, end - first) for memory_id, first, end in memory_slices(table["memory_id"])}
    return {m: table.slice(*place.get(m, (0, 0))) for m in members}

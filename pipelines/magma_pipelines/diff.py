"""What differs between two stores, table by table and row by row, whatever their numbers of shards.

Rows that mean the same thing (one event, one edge) and differ in a value count as changed. One part of the shards is in
memory at a time.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import Manifest, Store

# What a row is about; for other tables the whole row is.
_KEYS: dict[str, tuple[str, ...]] = {
    "memories": ("memory_id",),
    "sessions": ("memory_id", "session_id"),
    "events": ("memory_id", "event_id"),
    "vectors": ("memory_id", "event_id"),
    "episodes": ("memory_id", "episode_id"),
    "queries": ("memory_id", "query_id"),
    "extracts": ("memory_id", "window_id"),
    "entities": ("memory_id", "entity_id"),
    **dict.fromkeys(("edges/temporal", "edges/semantic", "edges/entity", "edges/causal"), ("memory_id", "src", "dst")),
}
# At most this many memories are named.
_SHOWN = 20


def diff(first: Path, second: Path) -> dict[str, Any]:
    """Compares two stores.

    Raises:
        StoreError: one of them cannot be read.
    """
    stores = (Store(first), Store(second))
    a, b = stores[0].open(), stores[1].open()
    common = min(a.num_shards, b.num_shards)
    tables: dict[str, Counter[str]] = {}
    memories: Counter[str] = Counter()
    for name in (t for names in STAGE_TABLES.values() for t in names):
        counts: Counter[str] = Counter(same=0, only_in_first=0, only_in_second=0, changed=0)
        for part in range(common):
            if (rows := _same_file(a, b, name, part)) is not None:
                counts["same"] += rows
                continue
            one, two = (dict(_rows(s, m, name, part, common)) for s, m in zip(stores, (a, b), strict=True))
            for key in one.keys() | two.keys():
                what = _what(one.get(key), two.get(key))
                counts[what] += 1
                if what != "same":
                    memories[key[0] or ""] += 1
        tables[name] = counts
    settings = [
        f"{section}.{key}: {a.config.get(section, {}).get(key)!r} and {value!r}"
        for section, values in b.config.items()
        for key, value in values.items()
        if a.config.get(section, {}).get(key) != value
    ]
    return {
        "equal": all(c["same"] == c.total() for c in tables.values()),
        "tables": {name: dict(counts) for name, counts in tables.items()},
        "memories": dict(memories.most_common(_SHOWN)),
        "num_memories": len(memories),
        "settings": settings,
    }


def _same_file(a: Manifest, b: Manifest, name: str, shard: int) -> int | None:
    """The number of rows where both have the same file; nothing needs to be read then."""
    one, two = a.entry(name, shard), b.entry(name, shard)
    same = a.num_shards == b.num_shards and one is not None and two is not None and one.sha256 == two.sha256
    return one.rows if same and one is not None else None


def _what(one: object, two: object) -> str:
    if one is None:
        return "only_in_second"
    if two is None:
        return "only_in_first"
    return "same" if one == two else "changed"


def _rows(
    store: Store, manifest: Manifest, name: str, part: int, common: int
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    for shard in range(part, manifest.num_shards, common):
        table = store.read_table(manifest.entry(name, shard), name)
        columns = {column: _values(table[column]) for column in table.schema.names}
        keys = _KEYS.get(name, tuple(table.schema.names))
        # The memory is named first, so that differences can be counted by it.
        keys = ("memory_id", *(k for k in keys if k != "memory_id"))
        seen: Counter[tuple[Any, ...]] = Counter()
        for key, row in zip(
            zip(*(columns[k] for k in keys), strict=True), zip(*columns.values(), strict=True), strict=True
        ):
            seen[key] += 1
            yield (*key, seen[key]), row


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values that can be compared and hashed."""
    if pa.types.is_fixed_size_list(column.type):
        whole = column.combine_chunks()
        size = whole.type.list_size
        flat = np.asarray(whole.values).reshape(-1, size)[whole.offset : whole.offset + len(whole)]
        return [None if null else row.tobytes() for row, null in zip(flat, whole.is_null().to_pylist(), strict=True)]
    if pa.types.is_list(column.type):
        return [None if v is None else tuple(v) for v in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values

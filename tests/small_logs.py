"""Small logs for tests: turns in few words, and tables made of them by the library's own stages.

It checks nothing. Every source is a list of records, as a reader yields them.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from magma_gpu.config import Config, IngestConfig
from magma_gpu.ingest import IngestCounts, reduce_shard, spill_rows
from magma_gpu.lexical import Analyzer
from magma_gpu.memory_index import MemoryIndex, build_index
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.stages import STAGE_INPUTS, make_stage
from magma_gpu.store import parquet_bytes
from magma_gpu.types import RawTime, Record, Reject, Turn

HOUR = 3_600_000_000
# 1 January 2024 in UTC microseconds.
JANUARY = 1_704_067_200_000_000


def turn(text: str, **fields: Any) -> Turn:
    """A turn of memory m, session s, by Ana; `at` is its time in hours since 1 January 2024."""
    at = fields.pop("at", None)
    time: RawTime = (
        None if at is None else f"2024-01-{1 + int(at) // 24:02d}T{int(at) % 24:02d}:{at % 1 * 60:02.0f}:00Z"
    )
    known: dict[str, Any] = {
        "memory_id": "m",
        "session_id": "s",
        "turn_id": None,
        "speaker": "Ana",
        "role": "user",
        "text": text,
        "time": time,
        "seq": 0,
        "source": "log",
    }
    return Turn(**(known | fields))


def spill(source: Sequence[Record], config: IngestConfig, counts: IngestCounts) -> dict[str, list[pa.Table]]:
    """The rows of one source, which must all lie in shard 0."""
    rows: dict[str, list[pa.Table]] = {}
    for shards in spill_rows(source, config, counts, batch=3):
        for shard, kinds in shards.items():
            assert shard == 0
            for kind, table in kinds.items():
                rows.setdefault(kind, []).append(table)
    return rows


def ingest(
    *sources: Sequence[Record], existing: dict[str, pa.Table] | None = None, config: IngestConfig | None = None
) -> tuple[dict[str, pa.Table], IngestCounts]:
    """Reads sources in one build over what is there."""
    config = config or IngestConfig()
    counts = IngestCounts()
    rows: dict[str, list[pa.Table]] = {}
    for source in sources:
        for kind, tables in spill(source, config, counts).items():
            rows.setdefault(kind, []).extend(tables)
    return reduce_shard(existing or {}, rows, config, counts), counts


def all_tables(*sources: Sequence[Record], config: Config | None = None) -> dict[str, pa.Table]:
    """Every table of a build of sources, by the hash encoder."""
    config = config or hash_config()
    tables, _ = ingest(*sources, config=config.ingest)
    for stage in ("embed", "link", "extract", "resolve"):
        made = make_stage(stage, config, "cpu").run({t: tables[t] for t in STAGE_INPUTS[stage]}, {})
        assert set(made.tables) == set(STAGE_TABLES[stage])
        tables |= made.tables
    return tables


def hash_config(**search: Any) -> Config:
    from magma_gpu.config import config_from

    return config_from({"embed": {"encoder": "hash"}, "search": search})


def index_of(tables: dict[str, pa.Table], memory_id: str = "m") -> MemoryIndex:
    """The search index of one memory."""
    import pyarrow.compute as pc

    own = {
        name: table.filter(pc.equal(table["memory_id"], memory_id))
        for name, table in tables.items()
        if name not in ("rejected", "queries")
    }
    return build_index(memory_id, own, (), Analyzer())


def column(tables: dict[str, pa.Table], name: str, table: str = "events") -> list[Any]:
    values = tables[table][name]
    return (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()


def hours(tables: dict[str, pa.Table]) -> list[float | None]:
    return [None if t is None else (t - JANUARY) / HOUR for t in column(tables, "time")]


def contents(tables: dict[str, pa.Table]) -> dict[str, bytes]:
    return {name: parquet_bytes(name, table) for name, table in tables.items()}


def reject(line: int, reason: str = "no text", memory_id: str | None = "m") -> Reject:
    return Reject(source="log", line=line, memory_id=memory_id, reason=reason, excerpt="...")

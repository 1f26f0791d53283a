"""A store as plain Parquet: a folder a table, one file a shard, and only columns that mean something outside.

Membership in episodes, which a store keeps as positions, is written out: as a column of events and as edges, so that
`edges` holds all five types. Whole memories stay in one file of each table.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from magma_gpu.export.report import ExportCounts
from magma_gpu.export.select import Selection, Tables, episode_of
from magma_gpu.schema import TABLES
from magma_gpu.types import EDGE_TYPES

# Columns of the store's own bookkeeping.
_DROPPED = {
    "sessions": ("seq", "time_source", "time_text"),
    "events": ("seq",),
    "vectors": ("text_hash",),
}
PARQUET_TABLES = (
    "memories",
    "sessions",
    "events",
    "vectors",
    "episodes",
    "times",
    "entities",
    "mentions",
    "edges",
    "queries",
)


def _schema(table: str) -> pa.Schema:
    if table == "edges":
        return TABLES["edges/temporal"]
    dropped = _DROPPED.get(table, ())
    fields = [f for f in TABLES[table] if f.name not in dropped]
    if table == "events":
        after = [f.name for f in fields].index("session_id") + 1
        fields.insert(after, pa.field("episode_id", pa.string(), nullable=False))
    return pa.schema(fields)


def write_parquet(selection: Selection, folder: Path) -> ExportCounts:
    """Writes every table; each has at least one file, also where it has no rows."""
    counts = ExportCounts()
    written = False
    for shard, rows in selection.shards():
        _write_shard(folder, shard, rows, counts)
        written = True
    if not written:
        for table in PARQUET_TABLES:
            _write(folder, table, 0, _schema(table).empty_table())
    return counts


def _write_shard(folder: Path, shard: int, rows: Tables, counts: ExportCounts) -> None:
    events = rows["events"]
    owner = episode_of(events, rows["episodes"])
    at = events.schema.get_field_index("session_id") + 1
    events = events.add_column(at, "episode_id", pa.array(owner, pa.string()))
    for table in PARQUET_TABLES:
        if table == "edges":
            _write_edges(folder, shard, rows, events, counts)
        else:
            _write(folder, table, shard, events if table == "events" else rows[table])
    counts.memories += rows["memories"].num_rows
    for name, table in (("event", "events"), ("episode", "episodes"), ("entity", "entities")):
        counts.nodes[name] += rows[table].num_rows


def _edges(rows: Tables, events: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    schema = _schema("edges")
    for name in EDGE_TYPES:
        if name != "episode":
            yield name, rows[f"edges/{name}"].select(schema.names).cast(schema)
            continue
        size = events.num_rows
        columns = {
            "memory_id": events["memory_id"],
            "src": events["event_id"],
            "dst": events["episode_id"],
            "type": pa.repeat(pa.scalar("episode"), size),
            "weight": pa.repeat(pa.scalar(1.0, pa.float32()), size),
            "origin": pa.repeat(pa.scalar("order"), size),
            "evidence": pa.nulls(size, pa.string()),
        }
        yield name, pa.table([columns[c] for c in schema.names], schema=schema)


def _write_edges(folder: Path, shard: int, rows: Tables, events: pa.Table, counts: ExportCounts) -> None:
    parts = []
    for name, part in _edges(rows, events):
        counts.edges[name] += part.num_rows
        parts.append(part)
    edges = pa.concat_tables(parts)
    by = [("memory_id", "ascending"), ("type", "ascending"), ("src", "ascending"), ("dst", "ascending")]
    _write(folder, "edges", shard, edges.sort_by(by))


def _write(folder: Path, table: str, shard: int, data: pa.Table) -> None:
    schema = _schema(table)
    if table == "vectors" and data.num_columns and pa.types.is_fixed_size_list(data.schema.field("vector").type):
        at = schema.get_field_index("vector")
        schema = schema.set(at, data.schema.field("vector"))
    target = folder / table / f"part-{shard:05d}.parquet"
    target.parent.mkdir(exist_ok=True)
    data = data.select(schema.names).cast(schema)
    pq.write_table(data, target, compression="zstd", row_group_size=65_536)

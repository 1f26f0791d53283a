"""The rows of a store that an export takes: all, one memory, or what was said since a time; shard by shard.

Every count that comes out fits what comes out: `since` keeps events said at or after it, and of sessions, episodes,
entities, edges and the rest what still has its events. Events of unknown time go when a time is asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from magma_gpu.columns import memory_slices, split_by_memory
from magma_gpu.errors import InputError
from magma_gpu.schema import TABLES
from magma_gpu.stamps import parse_stamps
from magma_gpu.store import Manifest, Store, shard_of

# What describes a memory; the rest of a store serves the next build.
READ = (
    "memories",
    "sessions",
    "events",
    "vectors",
    "episodes",
    "times",
    "entities",
    "mentions",
    "edges/temporal",
    "edges/semantic",
    "edges/causal",
    "edges/entity",
    "queries",
)
EVENT_EDGES = ("edges/temporal", "edges/semantic", "edges/causal")
Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a store is wanted."""

    store: Store
    manifest: Manifest
    memory_id: str | None
    # UTC microseconds.
    since: int | None
    # Hears how many memories are done, of how many.
    told: Callable[[int, int], None] = lambda done, total: None

    def shards(self, tables: tuple[str, ...] = READ) -> Iterator[tuple[int, Tables]]:
        """The rows of every shard that holds some, each table sorted by memory."""
        done = 0
        for shard, rows, num_memories in self._shards(tables):
            if rows["memories"].num_rows:
                yield shard, rows
            done += num_memories
            self.told(done, self.num_memories)

    def memories(self, tables: tuple[str, ...] = READ) -> Iterator[tuple[str, Tables]]:
        """The rows of every memory; one without events too."""
        done = 0
        for _, rows, num_memories in self._shards(tables):
            for number, found in enumerate(_by_memory(rows), 1):
                yield found
                self.told(done + number, self.num_memories)
            # Those that nothing was said in since count as done too.
            done += num_memories
            self.told(done, self.num_memories)

    @property
    def num_memories(self) -> int:
        """Memories that are looked at, whatever is left of them."""
        entries = self.manifest.tables.get("memories", {})
        return 1 if self.memory_id is not None else sum(entry.rows for entry in entries.values())

    def _shards(self, tables: tuple[str, ...]) -> Iterator[tuple[int, Tables, int]]:
        """Every shard: its number, its rows, and how many memories it held before `since`."""
        shards = range(self.manifest.num_shards)
        if self.memory_id is not None:
            shards = range(s := shard_of(self.memory_id, self.manifest.num_shards), s + 1)
        for shard in shards:
            rows = {
                name: self.store.read_table(self.manifest.entry(name, shard), name, memory_id=self.memory_id)
                for name in tables
            }
            num_memories = rows["memories"].num_rows
            yield shard, rows if self.since is None else _since(rows, self.since), num_memories


def _by_memory(rows: Tables) -> Iterator[tuple[str, Tables]]:
    names = rows["memories"]["memory_id"].to_pylist()
    parts = {name: split_by_memory(table, names) for name, table in rows.items()}
    for memory_id in names:
        yield memory_id, {name: of[memory_id] for name, of in parts.items()}


def select(
    store: Store,
    memory_id: str | None,
    since: str | None,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Selection:
    """Opens a store for export.

    Args:
        since: a time in any common form; None for everything.
        told: hears, as rows are read, how many memories are done and of how many.

    Raises:
        StoreError: there is no finished store.
        InputError: there is no such memory, or the time cannot be read.
    """
    manifest = store.open()
    if memory_id is not None:
        shard = shard_of(memory_id, manifest.num_shards)
        named = store.read_table(manifest.entry("memories", shard), "memories", memory_id=memory_id)
        if not named.num_rows:
            raise InputError(f"The store holds no memory '{memory_id}'; `magma-gpu memories {store.root}` lists them.")
    start = None
    if since is not None:
        ingest = manifest.config.get("ingest", {})
        zone = str(ingest.get("assumed_zone", "UTC"))
        [stamp] = parse_stamps([since], assumed_zone=zone, date_order=str(ingest.get("date_order", "")))
        start = stamp.time
        if start is None:
            raise InputError(f"--since cannot be read (got '{since}'); give it as 2024-05-31 or 2024-05-31T18:00:00Z.")
    return Selection(store, manifest, memory_id, start, told)


def _among(table: pa.Table, column: str, wanted: pa.ChunkedArray) -> pa.Table:
    return table.filter(pc.is_in(table[column], value_set=wanted.combine_chunks()))


def _since(rows: Tables, since: int) -> Tables:
    limit = pa.scalar(since, pa.timestamp("us", tz="UTC"))
    # A null time compares as null, and a null row of a filter is dropped.
    events = rows["events"].filter(pc.greater_equal(rows["events"]["time"], limit))
    kept = dict(rows)
    kept["events"] = events
    for name in ("vectors", "times", "mentions"):
        if name in rows:
            kept[name] = _among(rows[name], "event_id", events["event_id"])
    for name in EVENT_EDGES:
        if name in rows:
            kept[name] = _among(_among(rows[name], "src", events["event_id"]), "dst", events["event_id"])
    if "edges/entity" in rows:
        kept["edges/entity"] = _among(rows["edges/entity"], "src", events["event_id"])
    if "entities" in rows:
        kept["entities"] = _counted(rows["entities"], kept["edges/entity"])
    if "sessions" in rows:
        keys = ["memory_id", "session_id"]
        said = set(zip(*(events[k].to_pylist() for k in keys), strict=True))
        kept["sessions"] = _rows_where(rows["sessions"], keys, said)
    if "episodes" in rows:
        owners = set(episode_of(events, rows["episodes"]))
        kept["episodes"] = _rows_where(rows["episodes"], ["episode_id"], {(o,) for o in owners})
    kept["memories"] = _recounted(rows["memories"], events)
    if "queries" in rows:
        kept["queries"] = _among(rows["queries"], "memory_id", kept["memories"]["memory_id"])
    return kept


def _rows_where(table: pa.Table, keys: list[str], wanted: set[tuple[str, ...]]) -> pa.Table:
    columns = [table[k].to_pylist() for k in keys]
    return table.filter(pa.array([row in wanted for row in zip(*columns, strict=True)], pa.bool_()))


def _counted(entities: pa.Table, edges: pa.Table) -> pa.Table:
    """Entities that an edge still reaches, with the number of events that do."""
    counts = {c["values"]: c["counts"] for c in edges["dst"].value_counts().to_pylist()}
    entities = _among(entities, "entity_id", pa.chunked_array([pa.array(list(counts), pa.string())]))
    numbers = pa.array([counts[i] for i in entities["entity_id"].to_pylist()], pa.int32())
    at = entities.schema.get_field_index("num_events")
    return entities.set_column(at, entities.schema.field(at), numbers)


def _recounted(memories: pa.Table, events: pa.Table) -> pa.Table:
    """The memories that still have an event, described by the events they have."""
    rows = []
    for memory_id, first, last in memory_slices(events["memory_id"]):
        part = events.slice(first, last - first)
        times = pc.min_max(part["time"]).as_py()
        rows.append(
            {
                "memory_id": memory_id,
                "num_sessions": pc.count_distinct(part["session_id"]).as_py(),
                "num_turns": pc.sum(pc.equal(part["part"], 0)).as_py() or 0,
                "first_time": times["min"],
                "last_time": times["max"],
            }
        )
    return pa.Table.from_pylist(rows, TABLES["memories"]).cast(memories.schema)


def episode_of(events: pa.Table, episodes: pa.Table) -> list[str]:
    """The episode of each event: of its session, and the last that starts at or before its position."""
    starts: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for memory_id, session_id, first, episode_id in zip(
        *(episodes[c].to_pylist() for c in ("memory_id", "session_id", "first", "episode_id")), strict=True
    ):
        starts.setdefault((memory_id, session_id), []).append((first, episode_id))
    for runs in starts.values():
        runs.sort()
    owner = []
    at: dict[tuple[str, str], int] = {}
    # Events come by position, so a session's episodes are passed one after the other.
    for memory_id, session_id, position in zip(
        *(events[c].to_pylist() for c in ("memory_id", "session_id", "position")), strict=True
    ):
        key = (memory_id, session_id)
        runs = starts[key]
        i = at.get(key, 0)
        while i + 1 < len(runs) and runs[i + 1][0] <= position:
            i += 1
        at[key] = i
        owner.append(runs[i][1])
    return owner

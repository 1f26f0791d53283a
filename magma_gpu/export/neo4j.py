"""CSV files for `neo4j-admin database import`: one file a node label, one a relationship type, all memories together.

Strings are always quoted and a missing value is an unquoted nothing, so an empty text stays an empty text. Ids live in
one id space a label, because ids of sessions and memories come from the log and may be equal.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from magma_gpu.export.report import ExportCounts
from magma_gpu.export.select import Selection, Tables, episode_of
from magma_gpu.store import stable_hash

# Between the elements of a list; the command in README.md names it to the importer.
ARRAY_DELIMITER = "\x1f"

# file -> header; the order of columns is that of the tables made below.
NODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Memory": (
        "nodes-memory.csv",
        ("memory_id:ID(Memory)", "num_sessions:int", "num_turns:int", "first_time:datetime", "last_time:datetime"),
    ),
    "Session": (
        "nodes-session.csv",
        (":ID(Session)", "memory_id", "session_id", "ordinal:int", "time:datetime", "title", "source"),
    ),
    "Event": (
        "nodes-event.csv",
        (
            "event_id:ID(Event)",
            "memory_id",
            "turn_id",
            "position:int",
            "part:int",
            "speaker",
            "role",
            "text",
            "caption",
            "time:datetime",
            "time_source",
        ),
    ),
    "Episode": (
        "nodes-episode.csv",
        ("episode_id:ID(Episode)", "memory_id", "first:int", "last:int", "title"),
    ),
    "Entity": (
        "nodes-entity.csv",
        ("entity_id:ID(Entity)", "memory_id", "name", "type", "aliases:string[]", "num_events:int"),
    ),
}
_PROPERTIES = ("weight:float", "origin", "evidence")
RELATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "NEXT": ("edges-temporal.csv", (":START_ID(Event)", ":END_ID(Event)", *_PROPERTIES)),
    "SIMILAR": ("edges-semantic.csv", (":START_ID(Event)", ":END_ID(Event)", *_PROPERTIES)),
    "CAUSES": ("edges-causal.csv", (":START_ID(Event)", ":END_ID(Event)", *_PROPERTIES)),
    "MENTIONS": ("edges-entity.csv", (":START_ID(Event)", ":END_ID(Entity)", *_PROPERTIES)),
    "IN_EPISODE": ("edges-episode.csv", (":START_ID(Event)", ":END_ID(Episode)")),
    "IN_SESSION": ("edges-session.csv", (":START_ID(Event)", ":END_ID(Session)")),
    "OF_MEMORY": ("edges-memory.csv", (":START_ID(Session)", ":END_ID(Memory)")),
}
EDGE_NAMES = {"temporal": "NEXT", "semantic": "SIMILAR", "causal": "CAUSES", "entity": "MENTIONS"}


def write_neo4j(selection: Selection, folder: Path) -> ExportCounts:
    """Writes all files; each has its header, also where there are no rows."""
    counts = ExportCounts()
    tables = ("memories", "sessions", "events", "episodes", "entities", *(f"edges/{t}" for t in EDGE_NAMES))
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(_CsvFile(folder / file, header))
            for name, (file, header) in (NODES | RELATIONS).items()
        }
        for _, rows in selection.shards(tables):
            _write_shard(files, rows, counts)
    return counts


def _write_shard(files: dict[str, "_CsvFile"], rows: Tables, counts: ExportCounts) -> None:
    memories, sessions, events = rows["memories"], rows["sessions"], rows["events"]
    files["Memory"].add(
        [*_columns(memories, "memory_id", "num_sessions", "num_turns"), *_times(memories, "first_time", "last_time")]
    )
    files["Session"].add(
        [
            _session_keys(sessions),
            *_columns(sessions, "memory_id", "session_id", "ordinal"),
            *_times(sessions, "time"),
            *_columns(sessions, "title", "source"),
        ]
    )
    plain = ("event_id", "memory_id", "turn_id", "position", "part", "speaker", "role", "text", "caption")
    files["Event"].add([*_columns(events, *plain), *_times(events, "time"), *_columns(events, "time_source")])
    files["Episode"].add(_columns(rows["episodes"], "episode_id", "memory_id", "first", "last", "title"))
    entities = rows["entities"]
    files["Entity"].add(
        [
            *_columns(entities, "entity_id", "memory_id", "name", "type"),
            _joined(entities["aliases"]),
            *_columns(entities, "num_events"),
        ]
    )
    for name, relation in EDGE_NAMES.items():
        edges = rows[f"edges/{name}"]
        files[relation].add(_columns(edges, "src", "dst", "weight", "origin", "evidence"))
        counts.edges[name] += edges.num_rows
    owners = pa.array(episode_of(events, rows["episodes"]), pa.string())
    files["IN_EPISODE"].add([*_columns(events, "event_id"), owners])
    files["IN_SESSION"].add([*_columns(events, "event_id"), _session_keys(events)])
    files["OF_MEMORY"].add([_session_keys(sessions), *_columns(sessions, "memory_id")])
    counts.edges["episode"] += events.num_rows
    counts.memories += memories.num_rows
    for name, table in (("event", "events"), ("episode", "episodes"), ("entity", "entities")):
        counts.nodes[name] += rows[table].num_rows


def _columns(table: pa.Table, *names: str) -> list[pa.ChunkedArray]:
    return [table[name] for name in names]


def _times(table: pa.Table, *names: str) -> list[pa.ChunkedArray]:
    """Times as the importer's datetime."""
    return [pc.strftime(table[name], format="%Y-%m-%dT%H:%M:%SZ") for name in names]


def _joined(lists: pa.ChunkedArray) -> pa.Array:
    """Lists as the importer splits them; a name that holds the delimiter must not become two."""
    return pa.array(
        [ARRAY_DELIMITER.join(name.replace(ARRAY_DELIMITER, " ") for name in names) for names in lists.to_pylist()],
        pa.string(),
    )


def _session_keys(table: pa.Table) -> pa.Array:
    pairs = zip(table["memory_id"].to_pylist(), table["session_id"].to_pylist(), strict=True)
    made: dict[tuple[str, str], str] = {}
    return pa.array([made.get(p) or made.setdefault(p, stable_hash("session", *p)[:24]) for p in pairs], pa.string())


class _CsvFile:
    """One file that rows are added to, column by column."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        self._header = header
        self._file = path.open("wb")
        self._file.write((",".join(header) + "\n").encode())

    def add(self, columns: Sequence[pa.ChunkedArray | pa.Array]) -> None:
        table = pa.table(list(columns), names=list(self._header))
        options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
        pa_csv.write_csv(table, self._file, options)

    def __enter__(self) -> "_CsvFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

"""The fixed Arrow schema of every table; the same for every shard, also for one without rows.

Null means missing; an empty list stays an empty list. Columns are documented in docs/tables.md.
"""

import pyarrow as pa

FORMAT_VERSION = 1

TIME = pa.timestamp("us", tz="UTC")


def _f(name: str, type_: pa.DataType, *, null: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=null)


S, I16, I32, I64, F32, BOOL = pa.string(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.bool_()

_EDGES = pa.schema(
    [
        _f("memory_id", S),
        _f("src", S),
        _f("dst", S),
        _f("type", S),
        _f("weight", F32),
        _f("origin", S),
        _f("evidence", S, null=True),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "memories": pa.schema(
        [
            _f("memory_id", S),
            _f("num_sessions", I32),
            _f("num_turns", I32),
            _f("first_time", TIME, null=True),
            _f("last_time", TIME, null=True),
        ]
    ),
    "sessions": pa.schema(
        [
            _f("memory_id", S),
            _f("session_id", S),
            _f("ordinal", I32),
            _f("time", TIME, null=True),
            _f("title", S, null=True),
            _f("source", S),
            # Ours: what ingest needs to merge later logs with this one.
            _f("seq", I64),
            _f("time_source", S),
            _f("time_text", S, null=True),
        ]
    ),
    "events": pa.schema(
        [
            _f("memory_id", S),
            _f("event_id", S),
            _f("session_id", S),
            _f("turn_id", S),
            _f("position", I32),
            _f("part", I16),
            _f("speaker", S),
            _f("role", S),
            _f("text", S),
            _f("caption", S, null=True),
            _f("reply_to", S, null=True),
            _f("time", TIME, null=True),
            _f("time_text", S, null=True),
            _f("time_source", S),
            _f("zone_source", S),
            _f("source", S),
            # Ours: place in the session as the source orders it.
            _f("seq", I64),
        ]
    ),
    "vectors": pa.schema(
        [
            _f("memory_id", S),
            _f("event_id", S),
            # Replaced by a fixed size once the encoder's dimension is known: see vectors_schema.
            _f("vector", pa.list_(F32), null=True),
            _f("num_tokens", I32),
            _f("status", S),
            # Ours: hash of what was embedded, the key under which a vector is used again.
            _f("text_hash", S),
        ]
    ),
    "episodes": pa.schema(
        [
            _f("memory_id", S),
            _f("episode_id", S),
            _f("session_id", S),
            _f("first", I32),
            _f("last", I32),
            _f("title", S),
        ]
    ),
    "times": pa.schema(
        [
            _f("memory_id", S),
            _f("event_id", S),
            _f("text", S),
            _f("start", TIME),
            _f("end", TIME),
            _f("grain", S),
            _f("kind", S),
        ]
    ),
    "rejected": pa.schema(
        [
            _f("source", S),
            _f("line", I64, null=True),
            _f("memory_id", S, null=True),
            _f("reason", S),
            _f("excerpt", S),
        ]
    ),
    "edges/temporal": _EDGES,
    "edges/semantic": _EDGES,
    "edges/entity": _EDGES,
    "edges/causal": _EDGES,
    "extracts": pa.schema(
        [
            _f("memory_id", S),
            _f("window_id", S),
            _f("first", I32),
            _f("last", I32),
            _f("prompt_hash", S),
            _f("status", S),
            _f("error", S, null=True),
            _f("output", S, null=True),
            _f("prompt_tokens", I32),
            _f("output_tokens", I32),
        ]
    ),
    "entities": pa.schema(
        [
            _f("memory_id", S),
            _f("entity_id", S),
            _f("name", S),
            _f("type", S),
            _f("aliases", pa.list_(S)),
            _f("num_events", I32),
        ]
    ),
    "mentions": pa.schema(
        [
            _f("memory_id", S),
            _f("event_id", S),
            _f("surface", S),
            _f("entity_id", S),
            _f("origin", S),
            _f("rule", S),
        ]
    ),
    "queries": pa.schema(
        [
            _f("memory_id", S),
            _f("query_id", S),
            _f("question", S),
            _f("time", TIME, null=True),
            _f("gold", S, null=True),
            _f("evidence", pa.list_(S)),
            _f("category", S, null=True),
        ]
    ),
    "results": pa.schema(
        [
            _f("memory_id", S),
            _f("query_id", S),
            _f("rank", I32),
            _f("event_id", S),
            _f("score", F32),
            _f("hop", I16),
            _f("path", pa.list_(pa.struct([_f("node", S), _f("edge_type", S)]))),
            _f("signals", pa.map_(S, F32)),
            _f("intent", S),
            _f("truncated", BOOL),
        ]
    ),
}

# What a build writes, by the stage that writes it.
STAGE_TABLES: dict[str, tuple[str, ...]] = {
    "ingest": ("memories", "sessions", "events", "episodes", "times", "rejected", "queries"),
    "embed": ("vectors",),
    "link": ("edges/temporal", "edges/semantic"),
    "extract": ("extracts",),
    "resolve": ("entities", "mentions", "edges/entity", "edges/causal"),
}
STAGES = tuple(STAGE_TABLES)


def vectors_schema(dim: int) -> pa.Schema:
    """The schema of `vectors` for an encoder of `dim` dimensions."""
    schema = TABLES["vectors"]
    at = schema.get_field_index("vector")
    return schema.set(at, pa.field("vector", pa.list_(F32, dim), nullable=True))

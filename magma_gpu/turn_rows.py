"""Turns as rows between map and reduce: their schema, what makes two of them the same, and those a store holds.

It reads no source and numbers nothing. An event's id is a hash of its turn's key, and no position is in the key.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from magma_gpu.config import IngestConfig
from magma_gpu.schema import TABLES, TIME
from magma_gpu.stamps import parse_stamps
from magma_gpu.store import stable_hash

S, I64 = pa.string(), pa.int64()

# Rows as they lie between map and reduce. `ordinal` counts equals within a source. `placed` says that `seq` was counted
# by the reader from the start of a piece of a source (see pieces.py), and was not stated by the source.
TURN_ROWS = pa.schema(
    [
        ("memory_id", S),
        ("session_id", S),
        ("turn_id", S),
        ("speaker", S),
        ("role", S),
        ("text", S),
        ("caption", S),
        ("reply_to", S),
        ("time", I64),
        ("time_text", S),
        ("time_source", S),
        ("zone_source", S),
        ("seq", I64),
        ("ordinal", I64),
        ("source", S),
        ("session_time", I64),
        ("session_time_text", S),
        ("session_seq", I64),
        ("session_title", S),
        ("placed", pa.bool_()),
    ]
)


class Place(int):
    """A `Turn.seq` that counts from the start of a piece of a source, not from the start of the source."""


def turns_of(existing: dict[str, pa.Table], config: IngestConfig) -> Iterator[dict[str, Any]]:
    """The turns that stored events stand for: parts joined, inferred times forgotten."""
    if "events" not in existing:
        return
    whole: dict[str, Any] | None = None
    event_id = ""
    # Parts of a turn lie side by side: they differ in `part` alone.
    for row in existing["events"].cast(_MICROS).to_pylist():
        if row["part"] > 0:
            assert whole is not None
            whole["text"] += row["text"]
            continue
        if whole is not None:
            yield _source_id(whole, event_id)
        whole = {name: row.get(name) for name in TURN_ROWS.names}
        whole["ordinal"] = 0
        event_id = row["event_id"]
        if row["time_source"] == "inferred":
            # A zone is known of what stood in for a time before a better one was inferred: the session's date.
            of_session = row["zone_source"] != "missing"
            whole["time"] = _read_again(row["time_text"], config) if of_session else None
            whole["time_source"] = "assumed" if of_session else "missing"
    if whole is not None:
        yield _source_id(whole, event_id)


def _read_again(text: str, config: IngestConfig) -> int:
    stamp = parse_stamps([text], assumed_zone=config.assumed_zone, date_order=config.date_order)[0]
    assert stamp.time is not None, f"the stored stamp {text!r} was read before"
    return stamp.time


# Turn ids of our own, for turns whose source has none; the number after the dash counts equals.
_NO_ID = re.compile(r"~[0-9a-f]{12}-([0-9]{1,18})")


def _source_id(whole: dict[str, Any], event_id: str) -> dict[str, Any]:
    """Takes an id of our own off a turn; a source may have ids that look the same, so the event's id decides."""
    if own := _NO_ID.fullmatch(whole["turn_id"]):
        bare = whole | {"turn_id": None, "ordinal": int(own[1])}
        if id_of_event(turn_key(bare), 0) == event_id:
            return bare
    return whole


_MICROS = pa.schema([f if f.type != TIME else pa.field(f.name, I64, f.nullable) for f in TABLES["events"]])


def _base(row: dict[str, Any]) -> tuple[str, ...]:
    stamp = row["time_text"] if row["time"] is None else str(row["time"])
    return (
        row["memory_id"],
        row["session_id"],
        row["turn_id"] or "",
        row["speaker"],
        row["role"],
        row["text"],
        row["caption"] or "",
        stamp or "",
    )


def equal_key(row: dict[str, Any]) -> str:
    """The same for turns that only their count tells apart."""
    return stable_hash(*_base(row))


def turn_key(row: dict[str, Any]) -> str:
    """What makes a turn this turn, its count among equals included."""
    return stable_hash(*_base(row), str(row["ordinal"]))


def merge_equal(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """One row for two readings of the same turn; the same whichever came first."""
    merged = dict(a)
    for name in (
        "seq",
        "session_seq",
        "session_time",
        "session_time_text",
        "session_title",
        "source",
        "reply_to",
        "time_text",
    ):
        values = [v for v in (a[name], b[name]) if v is not None]
        merged[name] = min(values) if values else None
    # "given" before "assumed".
    for name in ("time_source", "zone_source"):
        merged[name] = max(a[name], b[name])
    return merged


def id_of_event(key: str, part: int) -> str:
    """The id of a part of the turn of a key."""
    return stable_hash(key, str(part))[:24]

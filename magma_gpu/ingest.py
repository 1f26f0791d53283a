"""Turns into events: a map that reads sources and spills rows by shard, and a reduce that sorts, dedupes and numbers.

It reads no model. The rows of a shard are a function of the set of turns alone: not of the order of files, of builds
or of workers. An event's id holds no position, so a late session renumbers nothing; a log read twice adds nothing.

Equal turns without an id of their own (two times "ok" in one log) are told apart by their count within one source;
across sources the larger count holds.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from magma_gpu.config import IngestConfig
from magma_gpu.manifest import Tombstone
from magma_gpu.schema import TABLES, TIME
from magma_gpu.segment import episode_title, find_episodes, split_text
from magma_gpu.stamps import parse_stamps
from magma_gpu.store import shard_of, stable_hash
from magma_gpu.types import MemoryNote, Question, Record, Reject, Turn

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
NOTE_ROWS = pa.schema([("memory_id", S)])
SPILL_SCHEMAS = {
    "turns": TURN_ROWS,
    "notes": NOTE_ROWS,
    "rejected": TABLES["rejected"],
    "queries": TABLES["queries"],
}


class Place(int):
    """A `Turn.seq` that counts from the start of a piece of a source, not from the start of the source."""


@dataclass(slots=True)
class IngestCounts:
    """What came in and what became of it; `turns_in = new + unchanged + duplicates + rejected`."""

    turns_in: int = 0
    new: int = 0
    unchanged: int = 0
    duplicates: int = 0
    rejected: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    unreadable_times: int = 0

    def add(self, other: "IngestCounts") -> None:
        for name in ("turns_in", "new", "unchanged", "duplicates", "rejected", "unreadable_times"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for reason, count in other.by_reason.items():
            self.by_reason[reason] = self.by_reason.get(reason, 0) + count

    def reject(self, reason: str) -> None:
        self.rejected += 1
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1

    def balanced(self) -> bool:
        return self.turns_in == self.new + self.unchanged + self.duplicates + self.rejected


# ------------------------------------------------------------------------------------------------------------- map


def spill_rows(
    records: Iterable[Record], config: IngestConfig, counts: IngestCounts, *, batch: int = 20_000
) -> Iterator[dict[int, dict[str, pa.Table]]]:
    """Turns the records of one source into rows by shard, in batches of about `batch` records.

    Yields:
        shard -> {"turns" | "notes" | "rejected" | "queries": rows}.
    """
    seen: dict[str, int] = {}
    pending: list[Record] = []
    for record in records:
        pending.append(record)
        if len(pending) >= batch:
            yield _spill(pending, seen, config, counts)
            pending = []
    if pending:
        yield _spill(pending, seen, config, counts)


def _spill(
    records: list[Record],
    seen: dict[str, int],
    config: IngestConfig,
    counts: IngestCounts,
) -> dict[int, dict[str, pa.Table]]:
    shards: dict[int, dict[str, list[dict[str, Any]]]] = {}

    def put(kind: str, key: str, row: dict[str, Any]) -> None:
        shards.setdefault(shard_of(key, config.num_shards), {}).setdefault(kind, []).append(row)

    turns = [r for r in records if isinstance(r, Turn)]
    zone, order = config.assumed_zone, config.date_order
    own = parse_stamps([t.time for t in turns], assumed_zone=zone, date_order=order)
    dates = parse_stamps([t.session_time for t in turns], assumed_zone=zone, date_order=order)
    for turn, stamp, date in zip(turns, own, dates, strict=True):
        if turn.time is not None and stamp.time is None:
            counts.unreadable_times += 1
        given = stamp if stamp.time is not None else date
        # Where there is a time, this is the text that it was read from: `_turns_of` reads it again.
        text = given.text if given.time is not None or stamp.text is None else stamp.text
        row: dict[str, Any] = {
            "memory_id": turn.memory_id,
            "session_id": turn.session_id,
            "turn_id": turn.turn_id,
            "speaker": turn.speaker or turn.role,
            "role": turn.role,
            "text": turn.text,
            "caption": turn.caption,
            "reply_to": turn.reply_to,
            "time": given.time,
            "time_text": text,
            "time_source": "given" if stamp.time is not None else "assumed" if date.time is not None else "missing",
            "zone_source": given.zone_source,
            "seq": turn.seq,
            "ordinal": 0,
            "source": turn.source,
            "session_time": date.time,
            "session_time_text": date.text,
            "session_seq": turn.session_seq,
            "session_title": turn.session_title,
            "placed": isinstance(turn.seq, Place) or None,
        }
        if turn.turn_id is None:
            key = equal_key(row)
            row["ordinal"] = seen.get(key, 0)
            seen[key] = row["ordinal"] + 1
        put("turns", turn.memory_id, row)
    questions = [r for r in records if isinstance(r, Question)]
    asked = parse_stamps([q.time for q in questions], assumed_zone=zone, date_order=order)
    for question, stamp in zip(questions, asked, strict=True):
        put(
            "queries",
            question.memory_id,
            {
                "memory_id": question.memory_id,
                "query_id": question.query_id,
                "question": question.question,
                "time": stamp.time,
                "gold": question.gold,
                "evidence": list(question.evidence),
                "category": question.category,
            },
        )
    for record in records:
        if isinstance(record, Reject):
            counts.reject(record.reason)
            put(
                "rejected",
                record.memory_id or record.source,
                {
                    "source": record.source,
                    "line": record.line,
                    "memory_id": record.memory_id,
                    "reason": record.reason,
                    "excerpt": record.excerpt,
                },
            )
        elif isinstance(record, MemoryNote):
            put("notes", record.memory_id, {"memory_id": record.memory_id})
    counts.turns_in += len(turns) + sum(isinstance(r, Reject) for r in records)
    return {
        shard: {kind: pa.Table.from_pylist(rows, schema=SPILL_SCHEMAS[kind]) for kind, rows in kinds.items()}
        for shard, kinds in shards.items()
    }


# ---------------------------------------------------------------------------------------------------------- reduce


def reduce_shard(
    existing: dict[str, pa.Table],
    spilled: dict[str, list[pa.Table]],
    config: IngestConfig,
    counts: IngestCounts,
    *,
    others: Sequence[dict[str, pa.Table]] = (),
    tombstones: Sequence[Tombstone] = (),
) -> dict[str, pa.Table]:
    """Merges what a shard holds with what was read for it.

    Args:
        existing: the shard's tables of the ingest stage; missing ones count as empty.
        spilled: rows from the map, by kind; their order does not matter.
        others: the same shard's tables of other stores, to be joined with it.
        tombstones: what was forgotten; it is left out wherever it comes from.

    Returns:
        every table of the ingest stage, sorted as docs/tables.md says.
    """
    stored = [existing, *others]
    gone = _Forgotten(tombstones)
    turns: dict[str, dict[str, Any]] = {}
    for tables in stored:
        for row in _turns_of(tables, config):
            key = _turn_key(row)
            if not gone.holds(key, row):
                turns[key] = _merge_equal(turns[key], row) if key in turns else row
    old = set(turns)
    met: set[str] = set()
    for table in spilled.get("turns", []):
        for row in table.to_pylist():
            key = _turn_key(row)
            if gone.holds(key, row):
                counts.reject("forgotten")
                continue
            if key in met:
                counts.duplicates += 1
            elif key in old:
                counts.unchanged += 1
            else:
                counts.new += 1
            met.add(key)
            turns[key] = _merge_equal(turns[key], row) if key in turns else row

    by_memory: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, row in turns.items():
        by_memory.setdefault(row["memory_id"], []).append((key, row))
    noted = {m for table in spilled.get("notes", []) for m in table["memory_id"].to_pylist()}
    noted |= _without_turns(stored)
    noted -= gone.memories
    kept_sessions = _sessions_of(stored)

    out: dict[str, list[dict[str, Any]]] = {t: [] for t in ("memories", "sessions", "events", "episodes")}
    for memory_id in sorted(noted | set(by_memory)):
        _number_memory(memory_id, by_memory.get(memory_id, []), kept_sessions, config, out)
    made = {name: pa.Table.from_pylist(rows, schema=TABLES[name]) for name, rows in out.items()}
    made["times"] = _times(made["events"], stored)
    made["rejected"] = distinct_rejected([*_tables_of("rejected", stored), *spilled.get("rejected", [])], gone.memories)
    made["queries"] = _queries([*_tables_of("queries", stored), *spilled.get("queries", [])], gone)
    return made


class _Forgotten:
    """What tombstones keep out."""

    def __init__(self, tombstones: Sequence[Tombstone]) -> None:
        self.memories = {t.memory_id for t in tombstones if not t.session_id and not t.event_id}
        self._sessions = {(t.memory_id, t.session_id) for t in tombstones if t.session_id and not t.event_id}
        self._events = {t.event_id for t in tombstones if t.event_id}

    def holds(self, key: str, row: dict[str, Any]) -> bool:
        return (
            row["memory_id"] in self.memories
            or (row["memory_id"], row["session_id"]) in self._sessions
            or (bool(self._events) and _event_id(key, 0) in self._events)
        )


def _tables_of(name: str, stored: Sequence[dict[str, pa.Table]]) -> list[pa.Table]:
    return [tables[name] for tables in stored if name in tables]


def _without_turns(stored: Sequence[dict[str, pa.Table]]) -> set[str]:
    """Memories that stand for themselves; the others have a row because they have turns."""
    return {
        memory
        for table in _tables_of("memories", stored)
        for memory, turns in zip(table["memory_id"].to_pylist(), table["num_turns"].to_pylist(), strict=True)
        if turns == 0
    }


def _turns_of(existing: dict[str, pa.Table], config: IngestConfig) -> Iterator[dict[str, Any]]:
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
        if _event_id(_turn_key(bare), 0) == event_id:
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


def _turn_key(row: dict[str, Any]) -> str:
    return stable_hash(*_base(row), str(row["ordinal"]))


def _merge_equal(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
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


def _sessions_of(stored: Sequence[dict[str, pa.Table]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    schema = pa.schema([f if f.type != TIME else pa.field(f.name, I64, f.nullable) for f in TABLES["sessions"]])
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for table in _tables_of("sessions", stored):
        for row in table.cast(schema).to_pylist():
            found.setdefault((row["memory_id"], row["session_id"]), []).append(row)
    return found


def _number_memory(
    memory_id: str,
    keyed: list[tuple[str, dict[str, Any]]],
    kept: dict[tuple[str, str], list[dict[str, Any]]],
    config: IngestConfig,
    out: dict[str, list[dict[str, Any]]],
) -> None:
    by_session: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, row in keyed:
        by_session.setdefault(row["session_id"], []).append((key, row))
    sessions = []
    for session_id, members in by_session.items():
        _infer_times(members)
        of_session = [row for _, row in members]
        sessions.append(_session_row(memory_id, session_id, of_session, kept.get((memory_id, session_id), ())))
    sessions.sort(key=lambda s: (s["time"] is None, s["time"] or 0, s["seq"], s["session_id"]))
    for ordinal, session in enumerate(sessions):
        session["ordinal"] = ordinal
    ordinals = {s["session_id"]: s["ordinal"] for s in sessions}
    # The total order: time, then session, then place in the source, then id (untimed sessions last).
    keyed.sort(
        key=lambda kr: (
            kr[1]["time"] is None,
            kr[1]["time"] or 0,
            ordinals[kr[1]["session_id"]],
            kr[1]["seq"],
            kr[0],
        )
    )
    events = [event for key, row in keyed for event in _events_of(key, row, config.max_tokens)]
    for position, event in enumerate(events):
        event["position"] = position
    out["events"].extend(events)
    out["sessions"].extend(sorted(sessions, key=lambda s: s["session_id"]))
    out["episodes"].extend(_episodes(memory_id, events, {s["session_id"]: s["title"] for s in sessions}, config))
    known = [row["time"] for _, row in keyed if row["time"] is not None]
    out["memories"].append(
        {
            "memory_id": memory_id,
            "num_sessions": len(sessions),
            "num_turns": len(keyed),
            "first_time": min(known, default=None),
            "last_time": max(known, default=None),
        }
    )


def _infer_times(members: list[tuple[str, dict[str, Any]]]) -> None:
    """Places turns without a time between their neighbours in the source's order; never "now".

    A session's date counts as a time only in a session none of whose turns has one of its own.
    """
    rows = [row for _, row in sorted(members, key=lambda kr: (kr[1]["seq"], kr[0]))]
    sources = {row["time_source"] for row in rows}
    known = "given" if "given" in sources else "assumed"
    timed = [i for i, row in enumerate(rows) if row["time_source"] == known]
    if not timed or len(sources) == 1:
        return
    after = 0
    for i, row in enumerate(rows):
        if row["time_source"] == known:
            continue
        while after < len(timed) and timed[after] < i:
            after += 1
        left = timed[after - 1] if after > 0 else None
        right = timed[after] if after < len(timed) else None
        if left is None or right is None:
            near = right if left is None else left
            assert near is not None
            row["time"] = rows[near]["time"]
        else:
            a, b = rows[left]["time"], rows[right]["time"]
            row["time"] = a + (b - a) * (i - left) // (right - left)
        row["time_source"] = "inferred"


def _session_row(
    memory_id: str, session_id: str, rows: list[dict[str, Any]], kept: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    stamps = [(r["session_time"], r["session_time_text"] or "") for r in rows if r["session_time"] is not None]
    titles = [r["session_title"] for r in rows if r["session_title"] is not None]
    seqs = [r["session_seq"] for r in rows if r["session_seq"] is not None]
    sources = [r["source"] for r in rows]
    for session in kept:
        if session["time_source"] == "given":
            stamps.append((session["time"], session["time_text"] or ""))
        titles += [session["title"]] if session["title"] is not None else []
        seqs.append(session["seq"])
        sources.append(session["source"])
    known = [r["time"] for r in rows if r["time"] is not None]
    time, text = min(stamps) if stamps else (min(known, default=None), None)
    return {
        "memory_id": memory_id,
        "session_id": session_id,
        "ordinal": 0,
        "time": time,
        "title": min(titles, default=None),
        "source": min(sources),
        "seq": min(seqs),
        "time_source": "given" if stamps else "inferred" if known else "missing",
        "time_text": text or None,
    }


def _events_of(key: str, row: dict[str, Any], max_tokens: int) -> list[dict[str, Any]]:
    turn_id = row["turn_id"] if row["turn_id"] is not None else f"~{key[:12]}-{row['ordinal']}"
    return [
        {
            "memory_id": row["memory_id"],
            "event_id": _event_id(key, part),
            "session_id": row["session_id"],
            "turn_id": turn_id,
            "position": 0,
            "part": part,
            "speaker": row["speaker"],
            "role": row["role"],
            "text": text,
            "caption": row["caption"],
            "reply_to": row["reply_to"],
            "time": row["time"],
            "time_text": row["time_text"],
            "time_source": row["time_source"],
            "zone_source": row["zone_source"],
            "source": row["source"],
            "seq": row["seq"],
        }
        for part, text in enumerate(split_text(row["text"], max_tokens))
    ]


def _event_id(key: str, part: int) -> str:
    return stable_hash(key, str(part))[:24]


def _episodes(
    memory_id: str, events: list[dict[str, Any]], titles: dict[str, str | None], config: IngestConfig
) -> list[dict[str, Any]]:
    by_session: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_session.setdefault(event["session_id"], []).append(event)
    rows = []
    for session_id, members in by_session.items():
        runs = find_episodes(
            [e["time"] for e in members],
            [e["part"] for e in members],
            gap_min=config.episode_gap_min,
            max_turns=config.episode_max_turns,
        )
        for run in runs:
            first, last = members[run.first], members[run.last]
            rows.append(
                {
                    "memory_id": memory_id,
                    "episode_id": stable_hash("episode", first["event_id"])[:24],
                    "session_id": session_id,
                    "first": first["position"],
                    "last": last["position"],
                    "title": episode_title(titles[session_id], first["text"] or first["caption"] or ""),
                }
            )
    return sorted(rows, key=lambda r: (r["first"], r["episode_id"]))


def _times(events: pa.Table, stored: Sequence[dict[str, pa.Table]]) -> pa.Table:
    """Time expressions of every event; those of events that did not change are taken over."""
    from magma_gpu.timex import tag

    known: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
    for tables in stored:
        if "events" not in tables or "times" not in tables:
            continue
        rows_of: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in tables["times"].cast(_TIMES_MICROS).to_pylist():
            rows_of.setdefault((row["memory_id"], row["event_id"]), []).append(row)
        for event in _timed_ids(tables["events"]):
            known[event] = rows_of.get(event[:2], [])
    ids = _timed_ids(events)
    texts = events["text"].to_pylist()
    fresh = [i for i, event in enumerate(ids) if event not in known]
    spans = dict(zip(fresh, tag([texts[i] for i in fresh], [ids[i][2] for i in fresh]), strict=True))
    rows: list[dict[str, Any]] = []
    for i, key in enumerate(ids):
        if i not in spans:
            rows.extend(known[key])
            continue
        rows.extend(
            {
                "memory_id": key[0],
                "event_id": key[1],
                "text": span.text,
                "start": span.start,
                "end": span.end,
                "grain": span.grain,
                "kind": span.kind,
            }
            for span in spans[i]
        )
    return pa.Table.from_pylist(rows, schema=TABLES["times"])


def _timed_ids(events: pa.Table) -> list[tuple[str, str, int | None]]:
    columns = (events["memory_id"], events["event_id"], events["time"].cast(I64))
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


_TIMES_MICROS = pa.schema([f if f.type != TIME else pa.field(f.name, I64, f.nullable) for f in TABLES["times"]])


def distinct_rejected(tables: Sequence[pa.Table], without: Collection[str] = ()) -> pa.Table:
    """Rows of `rejected`, each once, sorted, nulls first, and without those of some memories."""
    rows = {tuple(row.values()) for table in tables for row in table.cast(TABLES["rejected"]).to_pylist()}
    names = TABLES["rejected"].names
    at = names.index("memory_id")
    ordered = sorted((r for r in rows if r[at] not in without), key=lambda r: tuple((v is not None, v) for v in r))
    return pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in ordered], schema=TABLES["rejected"])


def _queries(tables: Sequence[pa.Table], gone: _Forgotten) -> pa.Table:
    """One row a question; of two questions with one id the smaller row stays, so that order does not matter."""
    best: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for table in tables:
        for row in table.cast(TABLES["queries"]).to_pylist():
            key = (row["memory_id"], row["query_id"])
            rank = repr(list(row.values()))
            if row["memory_id"] not in gone.memories and (key not in best or rank < best[key][0]):
                best[key] = (rank, row)
    return pa.Table.from_pylist([best[k][1] for k in sorted(best)], schema=TABLES["queries"])

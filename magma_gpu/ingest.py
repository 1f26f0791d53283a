"""Turns into events: a map that reads sources and spills rows by shard, and a reduce that puts a shard together.

It reads no model. The rows of a shard are a function of the set of turns alone: not of the order of files, of builds
or of workers. An event's id holds no position, so a late session renumbers nothing; a log read twice adds nothing.

Equal turns without an id of their own (two times "ok" in one log) are told apart by their count within one source;
across sources the larger count holds.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from magma_gpu.config import IngestConfig
from magma_gpu.manifest import Tombstone
from magma_gpu.numbering import number_memory
from magma_gpu.schema import TABLES, TIME
from magma_gpu.stamps import parse_stamps
from magma_gpu.store import shard_of
from magma_gpu.turn_rows import TURN_ROWS, Place, equal_key, id_of_event, merge_equal, turn_key, turns_of
from magma_gpu.types import MemoryNote, Question, Record, Reject, Turn

S, I64 = pa.string(), pa.int64()

NOTE_ROWS = pa.schema([("memory_id", S)])
SPILL_SCHEMAS = {
    "turns": TURN_ROWS,
    "notes": NOTE_ROWS,
    "rejected": TABLES["rejected"],
    "queries": TABLES["queries"],
}


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

    shard_by_key: dict[str, int] = {}

    def put(kind: str, key: str, row: dict[str, Any]) -> None:
        if (shard := shard_by_key.get(key)) is None:
            shard = shard_by_key[key] = shard_of(key, config.num_shards)
        shards.setdefault(shard, {}).setdefault(kind, []).append(row)

    turns = [r for r in records if isinstance(r, Turn)]
    zone, order = config.assumed_zone, config.date_order
    own = parse_stamps([t.time for t in turns], assumed_zone=zone, date_order=order)
    dates = parse_stamps([t.session_time for t in turns], assumed_zone=zone, date_order=order)
    for turn, stamp, date in zip(turns, own, dates, strict=True):
        if turn.time is not None and stamp.time is None:
            counts.unreadable_times += 1
        given = stamp if stamp.time is not None else date
        # Where there is a time, this is the text that it was read from: `turns_of` reads it again.
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
        for row in turns_of(tables, config):
            key = turn_key(row)
            if not gone.holds(key, row):
                turns[key] = merge_equal(turns[key], row) if key in turns else row
    old = set(turns)
    met: set[str] = set()
    for table in spilled.get("turns", []):
        for row in table.to_pylist():
            key = turn_key(row)
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
            turns[key] = merge_equal(turns[key], row) if key in turns else row

    by_memory: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, row in turns.items():
        by_memory.setdefault(row["memory_id"], []).append((key, row))
    noted = {m for table in spilled.get("notes", []) for m in table["memory_id"].to_pylist()}
    noted |= _without_turns(stored)
    noted -= gone.touched
    kept_sessions = _sessions_of(stored)

    out: dict[str, list[dict[str, Any]]] = {t: [] for t in ("memories", "sessions", "events", "episodes")}
    for memory_id in sorted(noted | set(by_memory)):
        number_memory(memory_id, by_memory.get(memory_id, []), kept_sessions, config, out)
    made = {name: pa.Table.from_pylist(rows, schema=TABLES[name]) for name, rows in out.items()}
    made["times"] = _times(made["events"], stored)
    made["rejected"] = distinct_rejected([*_tables_of("rejected", stored), *spilled.get("rejected", [])], gone.memories)
    made["queries"] = _queries([*_tables_of("queries", stored), *spilled.get("queries", [])], gone)
    return made


class _Forgotten:
    """What tombstones keep out."""

    def __init__(self, tombstones: Sequence[Tombstone]) -> None:
        self.memories = {t.memory_id for t in tombstones if not t.session_id and not t.event_id}
        # A store does not tell whether a log names a memory beside its turns; once something of it is forgotten, turns
        # alone keep its row, so that a log that is read again does not bring it back.
        self.touched = {t.memory_id for t in tombstones}
        self._sessions = {(t.memory_id, t.session_id) for t in tombstones if t.session_id and not t.event_id}
        self._events = {t.event_id for t in tombstones if t.event_id}

    def holds(self, key: str, row: dict[str, Any]) -> bool:
        return (
            row["memory_id"] in self.memories
            or (row["memory_id"], row["session_id"]) in self._sessions
            or (bool(self._events) and id_of_event(key, 0) in self._events)
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


def _sessions_of(stored: Sequence[dict[str, pa.Table]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    schema = pa.schema([f if f.type != TIME else pa.field(f.name, I64, f.nullable) for f in TABLES["sessions"]])
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for table in _tables_of("sessions", stored):
        for row in table.cast(schema).to_pylist():
            found.setdefault((row["memory_id"], row["session_id"]), []).append(row)
    return found


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

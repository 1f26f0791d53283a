"""Turns into events: a map that reads sources and spills rows by shard, and a reduce that sorts, dedupes and numbers.

It reads no model. The rows of a shard are a function of the set of turns alone: not of the order of files, of builds
or of workers. An event's id holds no position, so a late session renumbers nothing; a log read twice adds nothing.

Equal turns without an id of their own (two times "ok" in one log) are told apart by their count within one source;
across sources the larger count holds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from magma_gpu.config import IngestConfig
from magma_gpu.schema import TABLES, TIME
from magma_gpu.segment import episode_title, find_episodes, split_text
from magma_gpu.stamps import parse_stamps
from magma_gpu.store import shard_of, stable_hash
from magma_gpu.types import MemoryNote, Question, Record, Reject, Turn

S, I64 = pa.string(), pa.int64()

# Rows as they lie between map and reduce. `ordinal` counts equals within a source.
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
    ]
)
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
    seen: dict[tuple[str, str, str, str, str, str], int] = {}
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
    seen: dict[tuple[str, str, str, str, str, str], int],
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
        ordinal = 0
        if turn.turn_id is None:
            key = (turn.memory_id, turn.session_id, turn.speaker or turn.role, turn.text, turn.caption or "", str(given.time))
            ordinal = seen.get(key, 0)
            seen[key] = ordinal + 1
        put(
            "turns",
            turn.memory_id,
            {
                "memory_id": turn.memory_id,
                "session_id": turn.session_id,
                "turn_id": turn.turn_id,
                "speaker": turn.speaker or turn.role,
                "role": turn.role,
                "text": turn.text,
                "caption": turn.caption,
                "reply_to": turn.reply_to,
                "time": given.time,
                "time_text": stamp.text if turn.time is not None else date.text,
                "time_source": "given" if stamp.time is not None else "assumed" if date.time is not None else "missing",
                "zone_source": given.zone_source,
                "seq": turn.seq,
                "ordinal": ordinal,
                "source": turn.source,
                "session_time": date.time,
                "session_time_text": date.text,
                "session_seq": turn.session_seq,
                "session_title": turn.session_title,
            },
        )
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
            counts.rejected += 1
            counts.by_reason[record.reason] = counts.by_reason.get(record.reason, 0) + 1
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
    existing: dict[str, pa.Table], spilled: dict[str, list[pa.Table]], config: IngestConfig, counts: IngestCounts
) -> dict[str, pa.Table]:
    """Merges what a shard holds with what was read for it.

    Args:
        existing: the shard's tables of the ingest stage; missing ones count as empty.
        spilled: rows from the map, by kind; their order does not matter.

    Returns:
        every table of the ingest stage, sorted as docs/tables.md says.
    """
    turns: dict[str, dict[str, Any]] = {}
    for row in _turns_of(existing):
        turns[_turn_key(row)] = row
    old = set(turns)
    met: set[str] = set()
    for table in spilled.get("turns", []):
        for row in table.to_pylist():
            key = _turn_key(row)
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
    noted |= set(existing["memories"]["memory_id"].to_pylist()) if "memories" in existing else set()
    kept_sessions = _sessions_of(existing)

    out: dict[str, list[dict[str, Any]]] = {t: [] for t in ("memories", "sessions", "events", "episodes")}
    for memory_id in sorted(noted | set(by_memory)):
        _number_memory(memory_id, by_memory.get(memory_id, []), kept_sessions, config, out)
    tables = {name: pa.Table.from_pylist(rows, schema=TABLES[name]) for name, rows in out.items()}
    tables["times"] = _times(tables["events"], existing)
    tables["rejected"] = _distinct("rejected", existing, spilled)
    tables["queries"] = _queries(existing, spilled)
    return tables


def _turns_of(existing: dict[str, pa.Table]) -> Iterator[dict[str, Any]]:
    """The turns that stored events stand for: parts joined, inferred times forgotten."""
    if "events" not in existing:
        return
    whole: dict[str, Any] | None = None
    # Parts of a turn lie side by side: they differ in `part` alone.
    for row in existing["events"].cast(_MICROS).to_pylist():
        if row["part"] > 0:
            assert whole is not None
            whole["text"] += row["text"]
            continue
        if whole is not None:
            yield whole
        timed = row["time_source"] in ("given", "assumed")
        whole = {name: row.get(name) for name in TURN_ROWS.names}
        whole["time"] = row["time"] if timed else None
        whole["time_source"] = row["time_source"] if timed else "missing"
        whole["turn_id"] = None if row["turn_id"].startswith(_NO_ID) else row["turn_id"]
        whole["ordinal"] = int(row["turn_id"][len(_NO_ID) :].split("-")[-1]) if whole["turn_id"] is None else 0
    if whole is not None:
        yield whole


# Turn ids of our own, for turns whose source has none; the number after the dash counts equals.
_NO_ID = "~"
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


def _turn_key(row: dict[str, Any]) -> str:
    return stable_hash(*_base(row), str(row["ordinal"]))


def _merge_equal(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """One row for two readings of the same turn; the same whichever came first."""
    merged = dict(a)
    for name in ("seq", "session_seq", "session_time", "session_time_text", "session_title", "source", "reply_to", "time_text"):
        values = [v for v in (a[name], b[name]) if v is not None]
        merged[name] = min(values) if values else None
    return merged


def _sessions_of(existing: dict[str, pa.Table]) -> dict[tuple[str, str], dict[str, Any]]:
    if "sessions" not in existing:
        return {}
    schema = pa.schema([f if f.type != TIME else pa.field(f.name, I64, f.nullable) for f in TABLES["sessions"]])
    return {(r["memory_id"], r["session_id"]): r for r in existing["sessions"].cast(schema).to_pylist()}


def _number_memory(
    memory_id: str,
    keyed: list[tuple[str, dict[str, Any]]],
    kept: dict[tuple[str, str], dict[str, Any]],
    config: IngestConfig,
    out: dict[str, list[dict[str, Any]]],
) -> None:
    by_session: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, row in keyed:
        by_session.setdefault(row["session_id"], []).append((key, row))
    sessions = []
    for session_id, members in by_session.items():
        _infer_times(members)
        sessions.append(_session_row(memory_id, session_id, [row for _, row in members], kept.get((memory_id, session_id))))
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
    """Places turns without a time between their neighbours in the source's order; never "now"."""
    if all(row["time"] is not None for _, row in members):
        return
    rows = [row for _, row in sorted(members, key=lambda kr: (kr[1]["seq"], kr[0]))]
    timed = [i for i, row in enumerate(rows) if row["time"] is not None]
    if not timed:
        return
    after = 0
    for i, row in enumerate(rows):
        if row["time"] is not None and row["time_source"] != "inferred":
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
    memory_id: str, session_id: str, rows: list[dict[str, Any]], kept: dict[str, Any] | None
) -> dict[str, Any]:
    stamps = [(r["session_time"], r["session_time_text"] or "") for r in rows if r["session_time"] is not None]
    titles = [r["session_title"] for r in rows if r["session_title"] is not None]
    seqs = [r["session_seq"] for r in rows if r["session_seq"] is not None]
    sources = [r["source"] for r in rows]
    if kept is not None:
        if kept["time_source"] == "given":
            stamps.append((kept["time"], kept["time_text"] or ""))
        titles += [kept["title"]] if kept["title"] is not None else []
        seqs.append(kept["seq"])
        sources.append(kept["source"])
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
    turn_id = row["turn_id"] if row["turn_id"] is not None else f"{_NO_ID}{key[:12]}-{row['ordinal']}"
    return [
        {
            "memory_id": row["memory_id"],
            "event_id": stable_hash(key, str(part))[:24],
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


def _times(events: pa.Table, existing: dict[str, pa.Table]) -> pa.Table:
    """Time expressions of every event; those of events that did not change are taken over."""
    from magma_gpu.timex import tag

    known: dict[tuple[str, str], list[dict[str, Any]]] = {}
    unchanged: dict[tuple[str, str], Any] = {}
    if "events" in existing and "times" in existing:
        old = existing["events"]
        unchanged = dict(
            zip(
                zip(old["memory_id"].to_pylist(), old["event_id"].to_pylist(), strict=True),
                old["time"].cast(I64).to_pylist(),
                strict=True,
            )
        )
        for row in existing["times"].cast(_TIMES_MICROS).to_pylist():
            known.setdefault((row["memory_id"], row["event_id"]), []).append(row)
    ids = list(zip(events["memory_id"].to_pylist(), events["event_id"].to_pylist(), strict=True))
    references = events["time"].cast(I64).to_pylist()
    texts = events["text"].to_pylist()
    fresh = [i for i, key in enumerate(ids) if key not in unchanged or unchanged[key] != references[i]]
    spans = dict(zip(fresh, tag([texts[i] for i in fresh], [references[i] for i in fresh]), strict=True))
    rows: list[dict[str, Any]] = []
    for i, key in enumerate(ids):
        if i not in spans:
            rows.extend(known.get(key, []))
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


_TIMES_MICROS = pa.schema([f if f.type != TIME else pa.field(f.name, I64, f.nullable) for f in TABLES["times"]])


def _distinct(name: str, existing: dict[str, pa.Table], spilled: dict[str, list[pa.Table]]) -> pa.Table:
    tables = [t.cast(TABLES[name]) for t in (*([existing[name]] if name in existing else []), *spilled.get(name, []))]
    if not tables:
        return TABLES[name].empty_table()
    rows = {tuple(row.values()) for row in pa.concat_tables(tables).to_pylist()}
    ordered = sorted(rows, key=lambda r: tuple((v is not None, v) for v in r))
    return pa.Table.from_pylist([dict(zip(TABLES[name].names, r, strict=True)) for r in ordered], schema=TABLES[name])


def _queries(existing: dict[str, pa.Table], spilled: dict[str, list[pa.Table]]) -> pa.Table:
    """One row a question; of two questions with one id the smaller row stays, so that order does not matter."""
    best: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for table in (*([existing["queries"]] if "queries" in existing else []), *spilled.get("queries", [])):
        for row in table.cast(TABLES["queries"]).to_pylist():
            key = (row["memory_id"], row["query_id"])
            rank = repr(list(row.values()))
            if key not in best or rank < best[key][0]:
                best[key] = (rank, row)
    return pa.Table.from_pylist([best[k][1] for k in sorted(best)], schema=TABLES["queries"])

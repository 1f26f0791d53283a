"""Questions with what is known of their answers, from a store and, beside it, from an audit of the benchmark's gold.

The benchmark's own gold and the audited one stand side by side; nothing here replaces one by the other. Evidence that
names no turn of the store stays out of a question and is counted.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magma_gpu.errors import InputError
from magma_gpu.store import Manifest, Store, shard_of
from magma_gpu.types import Question

CATEGORIES = {
    "locomo": {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"},
    "longmemeval": {},
}
_EVENT_COLUMNS = "memory_id event_id session_id turn_id part speaker role text caption time".split()
_DIALOGUE_ID = re.compile(r"D:?(\d{1,9}):(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """One turn of a memory as a system under test gets it."""

    turn_id: str
    session_id: str
    speaker: str
    role: str
    text: str
    caption: str | None
    # UTC microseconds; None where unknown.
    time: int | None
    # By the tokenizer of the store's encoder, with speaker and date.
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTurns:
    """Everything that was said in one memory, in order."""

    memory_id: str
    turns: tuple[TurnText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A question of a benchmark.

    Attributes:
        evidence: turn ids; sessions: those they lie in.
        audited_answer, audited_evidence, audited_sessions: the same after an audit; equal to the benchmark's own where
            it found nothing.
        answerable: false where the right reaction is to say that there is no answer.
    """

    memory_id: str
    query_id: str
    question: str
    time: str | None
    category: str
    answerable: bool
    answer: str | None
    evidence: tuple[str, ...]
    sessions: tuple[str, ...]
    audit: str | None = None
    audited_answer: str | None = None
    audited_evidence: tuple[str, ...] = ()
    audited_sessions: tuple[str, ...] = ()
    # Evidence said after the question's own time, which a search as of that time may not see.
    num_evidence_later: int = 0
    # Whether anything was said after the question's own time.
    is_asked_early: bool = False

    def asked(self, *, ignore_time: bool = False) -> Question:
        """The question without anything that is known of its answer.

        Args:
            ignore_time: ask after everything was said, even where the question's own time is earlier.
        """
        return Question(
            memory_id=self.memory_id,
            query_id=self.query_id,
            question=self.question,
            time=None if ignore_time and self.is_asked_early else self.time,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> "Gold":
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        return Gold(**values)


def read_memories(store: Store, manifest: Manifest, memory_ids: Sequence[str] | None = None) -> Iterator[MemoryTurns]:
    """Yields memories shard by shard; parts of a long turn are joined again.

    A shard's tables are in memory at once, as Python objects one memory alone.
    """
    wanted = None if memory_ids is None else set(memory_ids)
    shards = None if wanted is None else {shard_of(m, manifest.num_shards) for m in wanted}
    for shard, entry in sorted(manifest.tables.get("events", {}).items()):
        if shards is not None and shard not in shards:
            continue
        events = _by_memory(store.read_table(entry, "events", columns=_EVENT_COLUMNS))
        vectors = manifest.entry("vectors", shard)
        sizes = _by_memory(store.read_table(vectors, "vectors", columns=["memory_id", "event_id", "num_tokens"]))
        for memory_id, rows in events.items():
            if wanted is None or memory_id in wanted:
                tokens = sizes.get(memory_id, rows.slice(0, 0))
                yield MemoryTurns(memory_id=memory_id, turns=_turns(rows.to_pylist(), tokens.to_pylist()))


def _by_memory(table: pa.Table) -> dict[str, pa.Table]:
    """Slices of a table that is sorted by memory."""
    ids = table["memory_id"].combine_chunks()
    starts = [0, *(np.flatnonzero(pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)) + 1).tolist()]
    ends = [*starts[1:], len(ids)]
    return {ids[a].as_py(): table.slice(a, b - a) for a, b in zip(starts, ends, strict=True) if b > a}


def _turns(rows: Sequence[Mapping[str, Any]], sizes: Sequence[Mapping[str, Any]]) -> tuple[TurnText, ...]:
    tokens = {r["event_id"]: r["num_tokens"] for r in sizes}
    turns: dict[tuple[str, str], TurnText] = {}
    for row in rows:
        key = (row["session_id"], row["turn_id"])
        size = tokens.get(row["event_id"], 0)
        if key in turns:
            before = turns[key]
            turns[key] = replace(before, text=f"{before.text} {row['text']}", num_tokens=before.num_tokens + size)
            continue
        turns[key] = TurnText(
            turn_id=row["turn_id"],
            session_id=row["session_id"],
            speaker=row["speaker"],
            role=row["role"],
            text=row["text"],
            caption=row["caption"],
            time=None if row["time"] is None else int(row["time"].timestamp() * 1_000_000),
            num_tokens=size,
        )
    return tuple(turns.values())


def read_gold(store: Store, manifest: Manifest, benchmark: str, audit: Mapping[str, "Audited"]) -> list[Gold]:
    """The questions that a store was built with, sorted by memory and number.

    Args:
        audit: by query id.
    """
    asked = [
        row
        for _, entry in sorted(manifest.tables.get("queries", {}).items())
        for row in store.read_table(entry, "queries").to_pylist()
    ]
    by_memory: dict[str, list[dict[str, Any]]] = {}
    for row in asked:
        by_memory.setdefault(row["memory_id"], []).append(row)
    made = []
    for memory in read_memories(store, manifest, list(by_memory)):
        session_of = {t.turn_id: t.session_id for t in memory.turns}
        time_of = {t.turn_id: t.time for t in memory.turns}
        made += [_gold(row, benchmark, session_of, time_of, audit) for row in by_memory.pop(memory.memory_id)]
    # Memories that hold no turn still have their questions.
    made += [_gold(row, benchmark, {}, {}, audit) for rows in by_memory.values() for row in rows]
    return sorted(made, key=lambda g: (g.memory_id, _natural(g.query_id)))


def _gold(
    row: Mapping[str, Any],
    benchmark: str,
    session_of: Mapping[str, str],
    time_of: Mapping[str, int | None],
    audit: Mapping[str, "Audited"],
) -> Gold:
    evidence = tuple(e for e in row["evidence"] if e in session_of)
    found = audit.get(row["query_id"])
    audited = evidence if found is None else tuple(e for e in found.evidence if e in session_of)
    category = row["category"] or "none"
    time = row["time"]
    asked_at = None if time is None else int(time.timestamp() * 1_000_000)
    later = [e for e in evidence if asked_at is not None and (said := time_of[e]) is not None and said > asked_at]
    return Gold(
        memory_id=row["memory_id"],
        query_id=row["query_id"],
        question=row["question"],
        time=None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        category=CATEGORIES[benchmark].get(category, category),
        answerable=category != "5" if benchmark == "locomo" else not row["query_id"].endswith("_abs"),
        answer=row["gold"],
        evidence=evidence,
        sessions=tuple(dict.fromkeys(session_of[e] for e in evidence)),
        audit=None if found is None else found.error,
        audited_answer=row["gold"] if found is None else found.answer,
        audited_evidence=audited,
        audited_sessions=tuple(dict.fromkeys(session_of[e] for e in audited)),
        num_evidence_later=len(later),
        is_asked_early=asked_at is not None and any(t is not None and t > asked_at for t in time_of.values()),
    )


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit says of one question."""

    error: str
    answer: str | None
    evidence: tuple[str, ...]


def read_audit(path: Path, sample_ids: Sequence[str]) -> dict[str, Audited]:
    """Reads an audit of LoCoMo: a JSON list with question_id `locomo_<conversation>_qa<number>`, error and corrections.

    Args:
        sample_ids: the conversations in the order of the benchmark's file, which the audit counts from 0.

    Returns:
        corrections by our query ids.

    Raises:
        InputError: it cannot be read, or names a conversation that is not there.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        made = {}
        for row in rows:
            match = re.fullmatch(r"locomo_(\d+)_qa(\d+)", row["question_id"])
            if match is None:
                raise ValueError(f"question_id {row['question_id']!r} is not locomo_<conversation>_qa<number>")
            if int(match[1]) >= len(sample_ids):
                # A run over the first conversations alone.
                continue
            ids = _DIALOGUE_ID.findall(" ".join(str(e) for e in row["correct_evidence"]))
            made[f"{sample_ids[int(match[1])]}_qa{match[2]}"] = Audited(
                error=str(row["error_type"]),
                answer=None if row["correct_answer"] is None else str(row["correct_answer"]),
                evidence=tuple(dict.fromkeys(f"D{int(a)}:{int(b)}" for a, b in ids)),
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The audit '{path}' cannot be read ({error}); it must be the JSON list of the LoCoMo audit."
        ) from None
    return made

"""Checks what `examples/` and `magma_gpu/training/` promise: counts, ids, evidence, and features.

It reads the files as plain JSON, without the package's readers, so that a mistake of a reader cannot hide one
of the data.
"""

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
TRAINING = ROOT / "magma_gpu" / "training"
INTENTS = {"why", "when", "entity", "open"}
Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


SETS = [
    (EXAMPLES, "conversations.jsonl", "queries.jsonl"),
    (TRAINING, "conversations.jsonl", "conversation_queries.jsonl"),
]


@pytest.fixture(scope="module")
def turns() -> list[Row]:
    return rows(EXAMPLES / "conversations.jsonl")


@pytest.fixture(scope="module")
def queries() -> list[Row]:
    return rows(EXAMPLES / "queries.jsonl")


@pytest.mark.parametrize(("folder", "turns_name", "queries_name"), SETS, ids=lambda v: getattr(v, "name", v))
def test_ids_are_unique_and_evidence_resolves(folder: Path, turns_name: str, queries_name: str) -> None:
    turns, queries = rows(folder / turns_name), rows(folder / queries_name)
    memory_of = {turn["turn_id"]: turn["memory_id"] for turn in turns}
    assert len(memory_of) == len(turns)
    assert len({query["query_id"] for query in queries}) == len(queries)
    assert len({(query["memory_id"], query["question"]) for query in queries}) == len(queries)
    for query in queries:
        assert query["evidence"], query["query_id"]
        assert len(set(query["evidence"])) == len(query["evidence"]), query["query_id"]
        assert {memory_of.get(turn_id) for turn_id in query["evidence"]} == {query["memory_id"]}, query["query_id"]
        assert query["question"].strip()
        assert query["gold"].strip()
        assert query["category"] in INTENTS


@pytest.mark.parametrize(("folder", "turns_name", "queries_name"), SETS, ids=lambda v: getattr(v, "name", v))
def test_turns_are_in_order_and_replies_point_back(folder: Path, turns_name: str, queries_name: str) -> None:
    turns = rows(folder / turns_name)
    seen: set[str] = set()
    last: dict[str, datetime] = {}
    session_order: dict[str, list[str]] = {}
    for turn in turns:
        time = datetime.fromisoformat(turn["time"])
        assert time.tzinfo is not None, turn["turn_id"]
        assert turn["text"].strip(), turn["turn_id"]
        memory = turn["memory_id"]
        assert time >= last.get(memory, time), turn["turn_id"]
        last[memory] = time
        sessions = session_order.setdefault(memory, [])
        if turn["session_id"] not in sessions:
            sessions.append(turn["session_id"])
        assert sessions[-1] == turn["session_id"], "sessions are not interleaved"
        assert turn.get("reply_to") is None or turn["reply_to"] in seen, turn["turn_id"]
        seen.add(turn["turn_id"])
    assert all(len(sessions) >= 4 for sessions in session_order.values())


def test_as_of_never_hides_the_evidence(turns: list[Row], queries: list[Row]) -> None:
    said = {turn["turn_id"]: datetime.fromisoformat(turn["time"]) for turn in turns}
    limited = [query for query in queries if "time" in query]
    assert limited
    for query in limited:
        assert all(said[turn_id] <= datetime.fromisoformat(query["time"]) for turn_id in query["evidence"])


def test_memories_and_roles(turns: list[Row]) -> None:
    assert Counter(turn["memory_id"] for turn in turns).keys() == {"ana", "wes", "samira"}
    assert {turn.get("role") for turn in turns if turn["memory_id"] == "samira"} == {"user", "assistant"}
    assert len({turn["speaker"] for turn in turns if turn["memory_id"] == "ana"}) == 2


def test_every_feature_is_there(turns: list[Row]) -> None:
    texts = [turn["text"] for turn in turns]
    assert sum(len(text.split()) > 250 for text in texts) >= 2
    assert sum(len(text.split()) <= 4 for text in texts) >= 10
    assert any("caption" in turn for turn in turns)
    assert any("reply_to" in turn for turn in turns)
    assert max(Counter(texts).values()) >= 2, "no repeated small talk"
    for pattern in (r"\bbecause\b", r"\bso\b", r"[Tt]hat's why", r"\bsince\b", r"\btherefore\b"):
        assert any(re.search(pattern, text) for text in texts), pattern
    for pattern in (
        r"[Yy]esterday",
        r"last (Friday|Sunday)",
        r"weeks ago",
        r"days? ago",
        r"day before yesterday",
    ):
        assert any(re.search(pattern, text) for text in texts), pattern
    # Full names as speakers, short forms in the texts.
    assert {"Wesley Okafor", "Jonas Lindqvist"} <= {turn["speaker"] for turn in turns}
    assert any(re.search(r"\bWes\b", text) for text in texts)
    assert any(re.search(r"\bJo\b", text) for text in texts)


def test_queries_are_balanced(queries: list[Row]) -> None:
    counts = Counter(query["category"] for query in queries)
    assert counts.keys() == INTENTS
    assert 35 <= sum(counts.values()) <= 60
    assert max(counts.values()) <= 1.5 * min(counts.values())


def test_show_questions(turns: list[Row], queries: list[Row]) -> None:
    by_id = {query["query_id"]: query for query in queries}
    shown = [by_id[name] for name in ("why-1", "when-1", "entity-1")]
    assert {query["memory_id"] for query in shown} == {"ana"}
    assert [query["category"] for query in shown] == ["why", "when", "entity"]
    session_of = {turn["turn_id"]: turn["session_id"] for turn in turns}
    # Two of them need several sessions, so that a path through the graph has something to do.
    assert len({session_of[turn_id] for turn_id in by_id["why-1"]["evidence"]}) >= 2
    assert len({session_of[turn_id] for turn_id in by_id["entity-1"]["evidence"]}) >= 3


def test_the_concert_date_follows_from_the_session(turns: list[Row], queries: list[Row]) -> None:
    when = next(query for query in queries if query["query_id"] == "when-1")
    (turn,) = (turn for turn in turns if turn["turn_id"] == when["evidence"][0])
    assert "yesterday" in turn["text"]
    assert datetime.fromisoformat(turn["time"]).date().isoformat() == "2024-07-21"
    assert when["gold"] == "20 July 2024"


def test_the_dog_count_needs_a_photo_and_a_text(turns: list[Row], queries: list[Row]) -> None:
    count = next(query for query in queries if query["query_id"] == "wes-01")
    evidence = [turn for turn in turns if turn["turn_id"] in count["evidence"]]
    assert any("Two dogs" in turn.get("caption", "") for turn in evidence)
    assert any("Pickle" in turn["text"] and "caption" not in turn for turn in evidence)
    assert count["gold"].startswith("Three")


def test_intent_questions() -> None:
    path = TRAINING / "intent_questions.jsonl"
    questions = rows(path)
    assert len(questions) >= 600
    assert len({row["question"].casefold() for row in questions}) == len(questions)
    counts = Counter(row["intent"] for row in questions)
    assert counts.keys() == INTENTS
    assert min(counts.values()) >= 100
    origins = Counter(row["origin"].partition(":")[0] for row in questions)
    assert origins.keys() <= {"written", "template"}
    assert origins["template"] <= 0.4 * len(questions)
    # Questions that all begin alike would teach the first word, not the intent.
    assert len({row["question"].split()[0].casefold() for row in questions}) >= 60


def test_training_questions_need_one_turn_or_several() -> None:
    queries = rows(TRAINING / "conversation_queries.jsonl")
    per_memory = Counter(query["memory_id"] for query in queries)
    assert len(per_memory) >= 5
    assert min(per_memory.values()) >= 20
    sizes = Counter(min(len(query["evidence"]), 2) for query in queries)
    assert min(sizes[1], sizes[2]) >= 40
    assert {query["category"] for query in queries} == INTENTS


def test_examples_are_not_training_data(turns: list[Row], queries: list[Row]) -> None:
    trained_on = rows(TRAINING / "conversations.jsonl")
    assert {turn["memory_id"] for turn in turns}.isdisjoint(turn["memory_id"] for turn in trained_on)
    asked = {row["question"].casefold() for row in rows(TRAINING / "intent_questions.jsonl")}
    assert asked.isdisjoint(query["question"].casefold() for query in queries)

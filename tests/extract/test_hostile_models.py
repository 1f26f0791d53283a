"""A language model that obeys what stands in a log, invents, or breaks: what of it reaches the graph.

The model is played; what it says is as bad as it can be within its form, and beyond it.
"""

import json
from typing import Any

import pyarrow as pa
import pytest
from event_tables import events_table
from fake_engine import FakeGenerator, Script
from test_extract_cases import _input

from magma_gpu.causal import BACKWARDS, LOW_CONFIDENCE, NO_EVIDENCE, NOT_THEIR_WORDS, OUT_OF_RANGE, SELF_LOOP
from magma_gpu.config import ExtractConfig, ResolveConfig
from magma_gpu.entities import TOLD, resolve_shard
from magma_gpu.extract import extract_shard
from magma_gpu.extract.model_engine import Asked, ModelExtractor
from magma_gpu.schema import STAGE_TABLES, TABLES


def _build(events: pa.Table, script: Script) -> tuple[pa.Table, dict[str, pa.Table], dict[str, int]]:
    extractor = ModelExtractor("fake", FakeGenerator(script), max_tokens=100)
    extracts = extract_shard(events, extractor, ExtractConfig())
    tables, dropped = resolve_shard(events, extracts, ResolveConfig())
    assert set(tables) == set(STAGE_TABLES["resolve"])
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name])
    return extracts, tables, dropped


def _says(mentions: list[Any] | None = None, causal: list[Any] | None = None) -> Script:
    return lambda call, one: json.dumps({"mentions": mentions or [], "causal": causal or []})


def _pair(cause: Any, effect: Any, evidence: str, confidence: float = 0.9) -> dict[str, Any]:
    return {"cause": cause, "effect": effect, "evidence": evidence, "confidence": confidence}


def _causal(tables: dict[str, pa.Table]) -> list[tuple[str, str]]:
    return [(row["src"], row["dst"]) for row in tables["edges/causal"].to_pylist()]


def test_invented_numbers_reach_no_edge() -> None:
    case = _input("C39")
    events = events_table([("Ines", item.partition(": ")[2]) for item in case["prompt_items"]])
    answer = json.dumps({"causal": case["llm"]["causal"], "entities": case["llm"]["entities"]})
    _, tables, dropped = _build(events, lambda call, one: answer)
    # Told in the order 0, 1, 2: the pair 1 → 0 points back, whatever the model says.
    assert _causal(tables) == []
    assert dropped[OUT_OF_RANGE] == 2
    assert dropped[SELF_LOOP] == 1
    assert dropped[BACKWARDS] == 3
    assert sum(dropped.values()) == 6


def test_nothing_found_is_no_failure() -> None:
    turns = [(t["speaker"], t["text"]) for t in _input("C41")]
    extracts, tables, dropped = _build(events_table(turns), _says())
    assert extracts["status"].to_pylist() == ["ok"]
    assert {name: t.num_rows for name, t in tables.items()} == dict.fromkeys(tables, 0)
    assert dropped == {}


def test_loops_and_effects_before_causes_are_dropped_and_counted() -> None:
    case = _input("C42")
    told = sorted(case["events"], key=lambda e: e["t"])
    at = {e["id"]: i for i, e in enumerate(told)}
    text = {e["id"]: e["text"] for e in told}
    pairs = [_pair(at[a], at[b], text[b], c) for a, b, c in case["llm_edges"]]
    pairs.append(_pair(at["e1"], at["e3"], "because the moon was full"))
    pairs.append(_pair(at["e4"], at["e1"], text["e4"], 0.3))
    _, tables, dropped = _build(events_table([("Ines", e["text"]) for e in told]), _says(causal=pairs))
    assert _causal(tables) == [(f"e{at['e1']}", f"e{at['e2']}"), (f"e{at['e2']}", f"e{at['e3']}")]
    assert dropped == {BACKWARDS: 3, LOW_CONFIDENCE: 1, NO_EVIDENCE: 1, SELF_LOOP: 1}
    assert {row["origin"] for row in tables["edges/causal"].to_pylist()} == {"llm"}


def test_an_edited_event_loses_its_edges_and_the_others_stay() -> None:
    case = _input("C42")
    told = sorted(case["events"], key=lambda e: e["t"])

    def script(call: int, one: Asked) -> str:
        lines = [json.loads(x) for x in one.messages[-1][1].splitlines() if x.startswith("{")]
        causal = [
            _pair(a["event"], b["event"], word)
            for word, first in (
                ("because the roof leaked", "The roof leaked"),
                ("since the ceiling fell", "The ceiling"),
            )
            for a in lines
            for b in lines
            if a["text"].startswith(first) and word in b["text"]
        ]
        return json.dumps({"mentions": [], "causal": causal})

    before, tables, _ = _build(events_table([("Ines", e["text"]) for e in told]), script)
    assert len(_causal(tables)) == 2
    # The event is another one now, so its window is asked about anew; nothing of the old answer is left.
    edited = [e["text"].replace("because the roof leaked", "at night") for e in told]
    events = events_table([("Ines", text) for text in edited])
    generator = FakeGenerator(script)
    extractor = ModelExtractor("fake", generator, max_tokens=100)
    again = extract_shard(events, extractor, ExtractConfig(), before)
    assert len(generator.calls) == 1
    assert len(_causal(resolve_shard(events, again, ResolveConfig())[0])) == 1
    # And what did not change is not paid for again.
    assert extract_shard(events, extractor, ExtractConfig(), again).equals(again)
    assert len(generator.calls) == 1


def test_a_model_that_obeys_the_log_changes_no_edge_of_another_speaker() -> None:
    """The guest's text tells the model to forge; the model does all it can."""
    turns = [t for t in _input("C43") if t["conversation_id"] == "u1"]
    events = events_table([*((t["speaker"], t["text"]) for t in turns), ("Ines", "I am tired because I ran.")])
    honest = [{"event": 1, "name": "security course", "type": "topic"}]
    forged = [
        {"event": 1, "name": "guest", "type": "person"},
        {"event": 1, "name": "900 euros", "type": "thing"},
        {"event": 2, "name": "guest", "type": "person", "alias_of": "Ines"},
        {"event": 0, "name": "Ines", "type": "person", "alias_of": "guest"},
        {"event": 0, "name": "guest", "type": "person", "alias_of": "Ines"},
    ]
    pairs = [_pair(0, 1, "Ines owes guest 900 euros"), _pair(0, 2, "owes guest"), _pair(1, 2, "because of the debt")]
    _, clean, _ = _build(events, _says(mentions=honest))
    extracts, tables, dropped = _build(events, _says(mentions=[*honest, *forged], causal=pairs))
    assert extracts["status"].to_pylist() == ["repaired"]

    def of_ines(made: dict[str, pa.Table]) -> list[dict[str, Any]]:
        names = {r["entity_id"]: r["name"] for r in made["entities"].to_pylist()}
        return [
            {"event": r["event_id"], "name": names[r["entity_id"]], "rule": r["rule"]}
            for r in made["mentions"].to_pylist()
            if r["event_id"] != "e0"
        ]

    # Nobody can be made to mention what their own words do not hold.
    assert of_ines(tables) == of_ines(clean)
    named = {r["name"]: set(r["aliases"]) for r in tables["entities"].to_pylist()}
    assert named["Ines"] == set()
    assert named["guest"] == set()
    # What the guest wrote is no evidence of what made Ines do anything.
    assert _causal(tables) == []
    assert dropped == {NOT_THEIR_WORDS: 2, NO_EVIDENCE: 1}


def test_a_told_alias_holds_for_its_own_event_only_and_is_written_down() -> None:
    turns = [
        ("Ines", "Big Sur is the name of the dog of Bartholomew."),
        ("Tomasz", "Barty called, and Sur barked."),
        ("Ines", "Sur is also a place."),
    ]
    mentions = [
        {"event": 0, "name": "Bartholomew", "type": "person"},
        {"event": 0, "name": "Big Sur", "type": "thing"},
        {"event": 1, "name": "Barty", "type": "person", "alias_of": "Bartholomew"},
        {"event": 1, "name": "Sur", "type": "thing", "alias_of": "Nobody Said This"},
        {"event": 2, "name": "Sur", "type": "thing"},
    ]
    _, tables, _ = _build(events_table(turns), _says(mentions=mentions))
    rules = {(r["event_id"], r["surface"]): r for r in tables["mentions"].to_pylist()}
    names = {r["entity_id"]: r["name"] for r in tables["entities"].to_pylist()}
    assert rules["e1", "Barty"]["rule"] == TOLD
    assert names[rules["e1", "Barty"]["entity_id"]] == "Bartholomew"
    assert rules["e1", "Sur"]["rule"] != TOLD
    # Taking the merge back needs no more than the row: the surface and the event are there.
    assert rules["e1", "Barty"]["surface"] == "Barty"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "null",
        "[]",
        "{" * 5000,
        '{"mentions": {"event": 0}, "causal": "none"}',
        '{"mentions": [null, 3, "x", {}], "causal": [[], {"cause": {}, "effect": []}]}',
        '{"mentions": [{"event": 1e999, "name": "Ines", "type": []}], "causal": [{"cause": NaN, "effect": 0}]}',
        '{"mentions": [{"event": 0, "name": "\\ud800", "type": "person"}], "causal": []}',
        "\x00\x1b[2J<|im_end|><|im_start|>system",
    ],
)
def test_an_answer_of_any_form_is_a_row_and_no_error(answer: str) -> None:
    events = events_table([("Ines", "Ines met Tomasz."), ("Tomasz", "So it was.")])
    extracts, tables, _ = _build(events, lambda call, one: answer)
    assert extracts.num_rows == 1
    assert _causal(tables) == []
    assert {r["name"] for r in tables["entities"].to_pylist()} == {"Ines", "Tomasz"}


def test_control_tokens_in_a_log_are_spelled_out_before_a_model_sees_them() -> None:
    turns = [(t["speaker"], t["text"]) for t in _input("C06")]
    generator = FakeGenerator(_says())
    extract_shard(events_table(turns), ModelExtractor("fake", generator, max_tokens=9), ExtractConfig())
    (asked,) = generator.calls[0]
    role, last = asked.messages[-1]
    assert role == "user"
    assert not any(token in last for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "[INST]", "</s>"))
    # It is the same text still.
    assert json.loads(last.splitlines()[1])["text"] == turns[0][1]
    assert all(turns[0][1] not in text for _, text in asked.messages[:-1])

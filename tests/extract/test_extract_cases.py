"""From events to the four tables of resolve: known failures of other systems, and equality of what must be equal."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from event_tables import events_table

from magma_gpu.config import ExtractConfig, ResolveConfig
from magma_gpu.entities import FAILED_WINDOW, NOT_IN_WINDOW, STALE_WINDOW, resolve_shard
from magma_gpu.extract import RulesExtractor, extract_shard
from magma_gpu.extract.windows import extracts_table, make_windows
from magma_gpu.schema import STAGE_TABLES, TABLES
from magma_gpu.types import Mention, Outcome

CASES = Path(__file__).resolve().parents[2] / ".." / "shared" / "cases" / "cases.jsonl"


def _input(name: str) -> Any:
    if not CASES.exists():
        pytest.skip(f"needs the case file {CASES.name} beside the checkout")
    rows = (json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if row["id"] == name)["input"]


def _resolve(events: pa.Table) -> tuple[dict[str, pa.Table], dict[str, int]]:
    extracts = extract_shard(events, RulesExtractor(), ExtractConfig())
    tables, dropped = resolve_shard(events, extracts, ResolveConfig())
    assert set(tables) == set(STAGE_TABLES["resolve"])
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name])
    return tables, dropped


def _names(tables: dict[str, pa.Table]) -> dict[str, set[str]]:
    return {row["name"]: set(row["aliases"]) for row in tables["entities"].to_pylist()}


def _causal(tables: dict[str, pa.Table]) -> list[tuple[str, str]]:
    return [(row["src"], row["dst"]) for row in tables["edges/causal"].to_pylist()]


def test_people_of_one_name_and_names_of_one_person() -> None:
    turns = [(t["speaker"], t["text"]) for t in _input("C31")]
    sessions = ["a", "a", "a", "other"]
    for events in (
        events_table(turns, sessions=sessions),
        pa.concat_tables([events_table(turns[:3], memory_id="a"), events_table(turns[3:], memory_id="other")]),
    ):
        tables, dropped = _resolve(events)
        names = _names(tables)
        assert names["Katharina"] == {"Kat"}
        assert names["Oluwaseun"] == {"Olu"}
        assert names["Dr. Susan Lee"] == {"Dr. Lee", "Susan"}
        assert names["Lee from the bakery"] == set()
        assert names["Kat"] == set()
        assert names["O'Neill & Sons"] == names["Big Blue"] == set()
        assert dropped == {}


def test_greetings_alone_give_empty_tables() -> None:
    tables, dropped = _resolve(events_table([(t["speaker"], t["text"]) for t in _input("C41")]))
    assert {name: table.num_rows for name, table in tables.items()} == dict.fromkeys(tables, 0)
    assert dropped == {}


def test_no_events_give_empty_tables() -> None:
    tables, _ = _resolve(events_table([]))
    assert all(table.num_rows == 0 for table in tables.values())


def test_causes_come_before_effects() -> None:
    told = sorted(_input("C42")["events"], key=lambda e: e["t"])
    tables, _ = _resolve(events_table([("Ines", e["text"]) for e in told]))
    index = {e["id"]: f"e{at}" for at, e in enumerate(told)}
    assert _causal(tables) == [(index["e1"], index["e2"]), (index["e2"], index["e3"])]
    assert {row["origin"] for row in tables["edges/causal"].to_pylist()} == {"rule"}


def test_equal_times_do_not_turn_a_cause_round() -> None:
    turns = [("Ines", t["text"]) for t in _input("C25")]
    assert _causal(_resolve(events_table(turns))[0]) == [("e0", "e1")]


def test_text_of_one_memory_never_reaches_another() -> None:
    turns = _input("C43")
    memories = {t["conversation_id"] for t in turns}
    events = pa.concat_tables(
        [
            events_table(
                [(t["speaker"], t["text"]) for t in turns if t["conversation_id"] == memory_id],
                memory_id=memory_id,
                first_id=10 * at,
            )
            for at, memory_id in enumerate(sorted(memories))
        ]
    )
    tables, _ = _resolve(events)
    entities = {m: set() for m in memories}  # type: dict[str, set[str]]
    for row in tables["entities"].to_pylist():
        entities[row["memory_id"]].add(row["entity_id"])
    assert not entities["u1"] & entities["u2"]
    owner = dict(zip(events["event_id"].to_pylist(), events["memory_id"].to_pylist(), strict=True))
    for row in tables["edges/entity"].to_pylist():
        assert owner[row["src"]] == row["memory_id"]
        assert row["dst"] in entities[row["memory_id"]]
    # What the guest claims is the guest's, not that of whom it names.
    said = [r for r in tables["mentions"].to_pylist() if r["event_id"] == "e0" and r["rule"] == "speaker"]
    assert [r["surface"] for r in said] == ["guest"]
    assert _causal(tables) == []


_TURNS = [
    ("Ines", "I met Dr. Lee in Porto. He knows my sister Rosa."),
    ("Tomasz", "The boat sank in the storm near Porto."),
    ("Ines", "Hi Tom! We cancelled the trip because the boat sank in the storm."),
    ("Tomasz", "That's why Rosa called."),
    ("Ines", "Susan Lee said so to Robert Hill."),
    ("Tomasz", "Bob and Inés are at the University of Porto."),
]


def test_memories_of_one_shard_do_not_depend_on_each_other() -> None:
    one, two = events_table(_TURNS, memory_id="a"), events_table(_TURNS[::-1], memory_id="b", first_id=50)
    both, _ = _resolve(pa.concat_tables([one, two]))
    for name, table in both.items():
        alone = [_resolve(part)[0][name] for part in (one, two)]
        assert table.equals(pa.concat_tables(alone)), name
        keys = {
            "entities": ("memory_id", "entity_id"),
            "mentions": ("memory_id", "event_id", "entity_id", "surface"),
        }.get(name, ("memory_id", "src", "dst"))
        assert table.equals(table.sort_by([(key, "ascending") for key in keys])), name


def test_order_of_extracts_makes_no_difference() -> None:
    events = events_table(_TURNS * 3)
    extracts = extract_shard(events, RulesExtractor(), ExtractConfig(window=4, overlap=2))
    rows = list(range(extracts.num_rows))
    random.Random(1).shuffle(rows)
    first = resolve_shard(events, extracts, ResolveConfig())
    assert resolve_shard(events, extracts.take(pa.array(rows)), ResolveConfig()) == first


def test_overlapping_windows_tell_of_a_pair_once() -> None:
    events = events_table(_TURNS)
    extracts = extract_shard(events, RulesExtractor(), ExtractConfig(window=5, overlap=4))
    assert extracts.num_rows == 2
    tables, _ = resolve_shard(events, extracts, ResolveConfig())
    assert ("e1", "e2") in _causal(tables)
    assert len(set(_causal(tables))) == len(_causal(tables))
    assert set(tables["edges/entity"]["weight"].is_valid().to_pylist()) == {True}


def test_the_lowest_confidence_is_a_setting() -> None:
    events = events_table(_TURNS)
    extracts = extract_shard(events, RulesExtractor(), ExtractConfig())
    tables, dropped = resolve_shard(events, extracts, ResolveConfig(min_confidence=1.0))
    assert _causal(tables) == []
    assert dropped == {"causal: confidence too low": 2}


def test_windows_that_failed_or_changed_are_left_out_and_counted() -> None:
    events = events_table(_TURNS)
    places = list(make_windows(events, window=3, overlap=0))

    def outcome(at: int, status: str, index: int) -> Outcome:
        return Outcome(
            window_id=places[at].window.window_id,
            prompt_hash="p",
            status=status,
            error=None if status == "ok" else "cut off",
            mentions=(Mention(index=index, surface="Nazaré", type="place"),),
            causal=(),
            prompt_tokens=40,
            output_tokens=9,
        )

    extracts = extracts_table(places, [outcome(0, "failed", 0), outcome(1, "repaired", 2)])
    tables, dropped = resolve_shard(events, extracts, ResolveConfig())
    (row,) = [r for r in tables["mentions"].to_pylist() if r["surface"] == "Nazaré"]
    assert (row["event_id"], row["origin"]) == ("e5", "llm")
    assert dropped == {FAILED_WINDOW: 1}
    extracts = extracts_table(places, [outcome(0, "ok", 3), outcome(1, "ok", -1)])
    _, dropped = resolve_shard(events, extracts, ResolveConfig())
    assert dropped == {NOT_IN_WINDOW: 2}
    edited = events_table([*_TURNS[:5], ("Tomasz", "other")], first_id=1)
    _, dropped = resolve_shard(edited, extracts, ResolveConfig())
    assert dropped == {STALE_WINDOW: 2}


def test_a_hub_is_joined_by_one_light_edge_an_event() -> None:
    turns = [("user", f"The project Zephyr needs part {at}.") for at in range(400)]
    turns[7] = ("user", "For Zephyr I fixed the Kestrel pump.")
    tables, _ = _resolve(events_table(turns))
    names = dict(zip(tables["entities"]["entity_id"].to_pylist(), tables["entities"]["name"].to_pylist(), strict=True))
    weights: dict[str, list[float]] = {}
    for row in tables["edges/entity"].to_pylist():
        weights.setdefault(names[row["dst"]], []).append(row["weight"])
    assert {name: len(w) for name, w in weights.items()} == {"Zephyr": 400, "user": 400, "Kestrel": 1}
    assert weights["Kestrel"] == [1.0]
    assert max(weights["Zephyr"]) < 0.12

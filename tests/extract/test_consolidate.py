"""Causes that lie far back: which earlier events the graph suggests, what it costs, and what becomes of the answers."""

import json

import pyarrow as pa
import pytest
from event_tables import events_table
from fake_engine import FakeGenerator

from magma_gpu.config import Config, ExtractConfig, ResolveConfig, config_from
from magma_gpu.entities import STALE_WINDOW, resolve_shard
from magma_gpu.extract import RulesExtractor, extract_shard
from magma_gpu.extract.consolidate import suggest_windows
from magma_gpu.extract.model_engine import Asked, ModelExtractor
from magma_gpu.schema import TABLES
from magma_gpu.stages import ExtractStage, stage_fingerprints, stage_inputs

SETTINGS = ExtractConfig(consolidate=True, window=4, overlap=1, consolidate_targets=2, consolidate_candidates=3)


def _semantic(*edges: tuple[str, str, float], memory_id: str = "m") -> pa.Table:
    rows = [
        {"memory_id": memory_id, "src": a, "dst": b, "type": "semantic", "weight": w, "origin": "knn", "evidence": None}
        for a, b, w in edges
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["edges/semantic"])


def _far_turns(num_between: int = 12) -> list[tuple[str, str]]:
    return [
        ("Ines", "The oak fell on our garage roof in the storm."),
        *(("Tomasz", f"Nothing much happened on day {at}, really.") for at in range(num_between)),
        ("Tomasz", "We park on the street because the oak fell on the garage roof."),
    ]


def _suggest(events: pa.Table, semantic: pa.Table, settings: ExtractConfig = SETTINGS) -> list[tuple[list[str], int]]:
    extracts = extract_shard(events, RulesExtractor(), settings)
    made = suggest_windows(events, extracts, semantic, settings)
    return [([e.event_id for e in p.window.events], p.window.history) for p in made.places]


def test_an_event_that_is_alike_is_suggested_and_what_a_window_holds_is_not() -> None:
    events = events_table(_far_turns())
    near = _suggest(events, _semantic(("e12", "e13", 0.9)))
    assert all("e13" not in ids[history:] or "e12" not in ids[:history] for ids, history in near)
    far = _suggest(events, _semantic(("e0", "e13", 0.9)))
    of_last = [(ids[:history], ids[history:]) for ids, history in far if "e13" in ids[history:]]
    assert of_last == [(["e0", *of_last[0][0][1:]], ["e12", "e13"])]
    assert len(of_last[0][0]) <= SETTINGS.consolidate_candidates


def test_two_steps_reach_and_three_do_not() -> None:
    turns = [("A", f"Alone number {at}.") for at in range(20)]
    events = events_table(turns, sessions=[f"s{at}" for at in range(20)])
    chain = _semantic(("e0", "e5", 0.9), ("e5", "e10", 0.9), ("e10", "e15", 0.9))
    # One speaker says all of it, and that alone joins the last few; the chain is what is looked at here.
    seen = {ids[-1]: set(ids[:history]) for ids, history in _suggest(events, chain, SETTINGS)}
    assert {"e5", "e10"} <= seen["e15"]
    assert "e0" not in seen["e15"]
    assert "e0" in seen["e10"]


def test_shared_entities_join_sessions_and_memories_stay_apart() -> None:
    turns = [("Ines", "I met Rosa Hill in Porto."), ("Tomasz", "It rained."), ("Olu", "Rosa Hill moved away.")]
    one = events_table(turns, sessions=["a", "b", "c"], memory_id="m1")
    two = events_table(turns, sessions=["a", "b", "c"], memory_id="m2", first_id=10)
    both = _suggest(pa.concat_tables([one, two]), _semantic())
    assert sorted(both) == sorted([(["e0", "e2"], 1), (["e10", "e12"], 1)])


def test_a_cause_comes_from_before_and_order_of_rows_makes_no_difference() -> None:
    events = events_table(_far_turns())
    edges = [("e0", "e13", 0.9), ("e3", "e13", 0.8), ("e3", "e9", 0.7), ("e1", "e12", 0.6)]
    made = _suggest(events, _semantic(*edges))
    place = {f"e{at}": at for at in range(14)}
    for ids, history in made:
        assert [place[i] for i in ids] == sorted(place[i] for i in ids)
        assert place[ids[history - 1]] < place[ids[history]]
    assert _suggest(events, _semantic(*edges[::-1])) == made
    assert _suggest(events, _semantic(*((b, a, w) for a, b, w in edges))) == made


def test_the_work_grows_with_the_events_and_not_with_their_square() -> None:
    """Everything is as connected as it can be: one speaker, one place in every turn, many alike."""

    def cost(num: int) -> tuple[int, int, int]:
        turns = [("Ines", f"We talked about Porto and about day {at} there.") for at in range(num)]
        events = events_table(turns, sessions=[f"s{at // 50:04d}" for at in range(num)])
        alike = _semantic(*((f"e{at}", f"e{(at * 7 + 13 * k) % num}", 0.6) for at in range(num) for k in range(3)))
        settings = ExtractConfig(consolidate=True)
        extracts = extract_shard(events, RulesExtractor(), settings)
        made = suggest_windows(events, extracts, alike, settings)
        shown = sum(len(p.window.events) for p in made.places)
        return made.num_steps, len(made.places), shown

    small, large = cost(400), cost(1600)
    for before, after in zip(small, large, strict=True):
        assert 3 < after / before < 5
    # A prompt for each group of four in a session of fifty, of a fixed size at most.
    assert large[1] <= 32 * 13
    assert large[2] <= large[1] * 12


def _stage(settings: dict[str, object]) -> ExtractStage:
    return ExtractStage(config_from({"extract": settings}), "cpu")


def test_the_rules_find_a_cause_of_another_session() -> None:
    turns = _far_turns(3)
    events = events_table(turns, sessions=["a", "b", "b", "b", "c"])
    tables = {"events": events, "edges/semantic": _semantic(("e0", "e4", 0.8))}

    def causal(consolidate: bool) -> list[tuple[str, str]]:
        result = _stage({"consolidate": consolidate}).run(tables, {})
        resolved, dropped = resolve_shard(events, result.tables["extracts"], ResolveConfig())
        assert dropped == {}
        return [(r["src"], r["dst"]) for r in resolved["edges/causal"].to_pylist()]

    assert causal(False) == []
    assert causal(True) == [("e0", "e4")]


def test_a_cue_that_points_back_says_nothing_of_what_the_graph_suggests() -> None:
    turns = [("Ines", "The oak fell on the garage roof."), ("Tomasz", "That's why we moved to the garage in Porto.")]
    events = events_table(turns, sessions=["a", "b"])
    result = _stage({"consolidate": True}).run({"events": events, "edges/semantic": _semantic(("e0", "e1", 0.9))}, {})
    assert result.tables["extracts"].num_rows == 3
    resolved, _ = resolve_shard(events, result.tables["extracts"], ResolveConfig())
    assert resolved["edges/causal"].num_rows == 0


def _far_model(call: int, one: Asked) -> str:
    user = one.messages[-1][1]
    if not user.startswith("EARLIER"):
        return '{"mentions":[],"causal":[]}'
    lines = user.splitlines()
    history = lines.index("LATER") - 1
    said = [json.loads(x) for x in lines if x.startswith("{")]
    hits = [e["event"] for e in said[history:] if "because the oak" in e["text"]]
    pairs = [{"cause": 0, "effect": e, "evidence": "because the oak fell", "confidence": 0.9} for e in hits]
    # And what it was not asked: a pair among the newer events alone.
    pairs += [{"cause": history, "effect": history + 1, "evidence": "x", "confidence": 0.9}]
    return json.dumps({"causal": pairs})


def test_a_model_is_asked_about_the_suggestions_and_its_answers_are_kept() -> None:
    events = events_table(_far_turns())
    semantic = _semantic(("e0", "e13", 0.9))
    generator = FakeGenerator(_far_model)
    extractor = ModelExtractor("fake", generator, max_tokens=50)
    stage = _stage({"consolidate": True, "window": 4, "overlap": 1})
    stage.extractor = extractor
    result = stage.run({"events": events, "edges/semantic": semantic}, {})
    extracts = result.tables["extracts"]
    assert extracts.schema.equals(TABLES["extracts"])
    resolved, dropped = resolve_shard(events, extracts, ResolveConfig())
    (edge,) = resolved["edges/causal"].to_pylist()
    assert (edge["src"], edge["dst"], edge["origin"]) == ("e0", "e13", "llm")
    assert result.counts["windows_ok"] == extracts.num_rows
    # Again with all that is known: nothing is asked, and the bytes are the same.
    num_calls = len(generator.calls)
    again = stage.run({"events": events, "edges/semantic": semantic}, {"extracts": extracts})
    assert len(generator.calls) == num_calls
    assert again.tables["extracts"].equals(extracts)
    assert again.counts["windows_reused"] == extracts.num_rows
    # An event that goes takes its windows with it.
    fewer = events.slice(1)
    _, dropped = resolve_shard(fewer, extracts, ResolveConfig())
    assert dropped[STALE_WINDOW] >= 2


def test_what_it_reads_and_its_fingerprint_follow_the_setting() -> None:
    off, on = Config(), config_from({"extract": {"consolidate": True}})
    assert stage_inputs("extract", off.as_dict()) == ("events",)
    assert stage_inputs("extract", on.as_dict()) == ("events", "edges/semantic")
    one, two = stage_fingerprints(off), stage_fingerprints(on)
    assert [s for s in one if one[s] != two[s]] == ["extract", "resolve"]
    # Settings of what is off decide nothing.
    idle = config_from({"extract": {"consolidate_targets": 9, "max_tokens": 99, "dtype": "float32"}})
    assert stage_fingerprints(idle) == one
    linked = config_from({"extract": {"consolidate": True}, "link": {"threshold": 0.6}})
    assert stage_fingerprints(linked)["extract"] != two["extract"]


@pytest.mark.parametrize("key", ["consolidate_targets", "consolidate_candidates"])
def test_a_group_of_none_is_refused(key: str) -> None:
    with pytest.raises(Exception, match=f"extract.{key}"):
        config_from({"extract": {key: 0}})

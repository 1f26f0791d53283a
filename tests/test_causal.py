"""Which causal pairs become edges, and that every other one is counted by its reason."""

import json
import math
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magma_gpu.causal import (
    BACKWARDS,
    LOW_CONFIDENCE,
    NO_EVIDENCE,
    OUT_OF_RANGE,
    SELF_LOOP,
    CausalEdge,
    PlacedEvent,
    causal_table,
    check_pairs,
    merge_edges,
)
from magma_gpu.schema import TABLES
from magma_gpu.types import CausalPair

CASES = Path(__file__).resolve().parents[1] / ".." / "shared" / "cases" / "cases.jsonl"
TEXTS = ("The roof leaked.", "The ceiling fell because  the roof\nleaked.", "I postponed the party.")


def _events(texts: tuple[str, ...] = TEXTS, positions: tuple[int, ...] | None = None) -> list[PlacedEvent]:
    return [
        PlacedEvent(
            event_id=f"e{at}",
            session_id="s",
            position=positions[at] if positions else at,
            speaker="A",
            text=text,
        )
        for at, text in enumerate(texts)
    ]


def _pair(cause: int, effect: int, evidence: str = "the roof leaked", confidence: float = 0.9) -> CausalPair:
    return CausalPair(cause=cause, effect=effect, evidence=evidence, confidence=confidence)


def _check(*pairs: CausalPair, events: list[PlacedEvent] | None = None) -> tuple[list[CausalEdge], dict[str, int]]:
    dropped: Counter[str] = Counter()
    kept = check_pairs(pairs, events or _events(), min_confidence=0.5, origin="llm", dropped=dropped)
    return kept, dict(dropped)


def test_a_good_pair_is_kept() -> None:
    kept, dropped = _check(_pair(0, 1))
    assert kept == [CausalEdge(src="e0", dst="e1", weight=0.9, origin="llm", evidence="the roof leaked")]
    assert dropped == {}


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (_pair(7, 1), OUT_OF_RANGE),
        (_pair(0, 3), OUT_OF_RANGE),
        (_pair(-1, 1), OUT_OF_RANGE),
        (_pair(0, -1), OUT_OF_RANGE),
        (_pair(1, 1), SELF_LOOP),
        (_pair(2, 1), BACKWARDS),
        (_pair(0, 1, evidence="because of the storm"), NO_EVIDENCE),
        (_pair(0, 1, evidence=" \n"), NO_EVIDENCE),
        (_pair(0, 1, confidence=0.49), LOW_CONFIDENCE),
        (_pair(0, 1, confidence=math.nan), LOW_CONFIDENCE),
    ],
)
def test_a_bad_pair_is_dropped_and_counted(pair: CausalPair, reason: str) -> None:
    assert _check(pair) == ([], {reason: 1})


def test_evidence_is_compared_without_case_and_white_space() -> None:
    kept, _ = _check(_pair(0, 1, evidence="BECAUSE the roof  leaked"))
    assert len(kept) == 1


def test_confidence_above_one_does_not_leave_the_range() -> None:
    kept, _ = _check(_pair(0, 1, confidence=1.7))
    assert kept[0].weight == 1.0


def test_merging_keeps_the_surest_and_then_the_smaller_evidence() -> None:
    def edge(weight: float, evidence: str, dst: str = "e1") -> CausalEdge:
        return CausalEdge(src="e0", dst=dst, weight=weight, origin="rule", evidence=evidence)

    edges = [edge(0.6, "a"), edge(0.9, "z"), edge(0.9, "b"), edge(0.5, "c", dst="e0x")]
    for order in (edges, edges[::-1]):
        assert merge_edges(order) == [edge(0.5, "c", dst="e0x"), edge(0.9, "b")]


def test_table_without_edges_has_the_schema() -> None:
    table = causal_table([("m", [])])
    assert table.schema.equals(TABLES["edges/causal"])
    assert table.num_rows == 0


@given(
    st.permutations(range(6)),
    st.lists(st.tuples(st.integers(-2, 7), st.integers(-2, 7), st.floats(0, 1)), max_size=30),
)
def test_no_cycle_whatever_is_claimed(positions: list[int], claims: list[tuple[int, int, float]]) -> None:
    events = _events(tuple("the roof leaked" for _ in range(6)), tuple(positions))
    kept, dropped = _check(*(_pair(c, e, confidence=p) for c, e, p in claims), events=events)
    place = {event.event_id: event.position for event in events}
    assert all(place[edge.src] < place[edge.dst] for edge in kept)
    assert len(kept) + sum(dropped.values()) == len(claims)


def _case(name: str) -> dict[str, object]:
    if not CASES.exists():
        pytest.skip(f"needs the case file {CASES.name} beside the checkout")
    rows = (json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if row["id"] == name)


def test_case_of_edges_that_point_back_in_time() -> None:
    case = _case("C42")["input"]
    assert isinstance(case, dict)
    told = sorted(case["events"], key=lambda e: e["t"])
    index = {event["id"]: at for at, event in enumerate(told)}
    events = [
        PlacedEvent(event_id=e["id"], session_id="s", position=at, speaker="A", text=e["text"])
        for at, e in enumerate(told)
    ]
    pairs = [
        CausalPair(cause=index[c], effect=index[e], evidence=events[index[e]].text, confidence=p)
        for c, e, p in case["llm_edges"]
    ]
    dropped: Counter[str] = Counter()
    kept = check_pairs(pairs, events, min_confidence=0.5, origin="llm", dropped=dropped)
    assert [(e.src, e.dst) for e in kept] == [("e1", "e2"), ("e2", "e3")]
    assert dropped == {BACKWARDS: 3, SELF_LOOP: 1}
    table = causal_table([("m", merge_edges(kept))])
    assert isinstance(table, pa.Table)
    assert table["weight"].to_pylist() == pytest.approx([0.9, 0.8])

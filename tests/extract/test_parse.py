"""Answers of a model: whole, mended, cut off, absurd; none of them may raise."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magma_gpu.causal import NO_EVIDENCE, OUT_OF_RANGE, SELF_LOOP, PlacedEvent, check_pairs, merge_edges
from magma_gpu.extract.parse import NO_OBJECT, NOT_JSON, outcome_of, parse_answer
from magma_gpu.extract.windows import decode_output, encode_output
from magma_gpu.types import CausalPair, Mention, Window, WindowEvent

CASES = Path(__file__).resolve().parents[2] / ".." / "shared" / "cases" / "cases.jsonl"
TEXTS = ("Ines sold the kayak.", "The garage was full.", "Tomasz bought a tent.")


def _window(texts: tuple[str, ...] = TEXTS) -> Window:
    events = tuple(
        WindowEvent(event_id=f"e{at}", speaker="A", role="user", text=text, time=None) for at, text in enumerate(texts)
    )
    return Window(memory_id="m", window_id="w", events=events)


GOOD = {
    "mentions": [{"event": 0, "name": "Ines", "type": "person"}, {"event": 2, "name": "Tomasz", "type": "person"}],
    "causal": [{"cause": 1, "effect": 2, "evidence": "garage was full", "confidence": 0.8}],
}
MENTIONS = (Mention(index=0, surface="Ines", type="person"), Mention(index=2, surface="Tomasz", type="person"))
CAUSAL = (CausalPair(cause=1, effect=2, evidence="garage was full", confidence=0.8),)


def test_a_good_answer() -> None:
    parsed = parse_answer(json.dumps(GOOD), _window())
    assert (parsed.status, parsed.error) == ("ok", None)
    assert parsed.mentions == MENTIONS
    assert parsed.causal == CAUSAL


@pytest.mark.parametrize(
    "answer",
    [
        f"```json\n{json.dumps(GOOD)}\n```",
        f"<think>Is it {{so}}?</think>\nHere it is: {json.dumps(GOOD)} I hope it helps.",
        json.dumps(GOOD).replace("}]", "},]"),
        json.dumps(GOOD)[:-1],
        json.dumps(GOOD)[:-2] + ', {"cause": 0, "effe',
    ],
)
def test_a_mended_answer(answer: str) -> None:
    parsed = parse_answer(answer, _window())
    assert parsed.status == "repaired"
    assert parsed.error
    assert (parsed.mentions, parsed.causal) == (MENTIONS, CAUSAL)


def test_an_answer_cut_off_keeps_what_is_whole() -> None:
    text = json.dumps(GOOD)
    parsed = parse_answer(text[: text.index("Tomasz") + 3], _window())
    assert parsed.status == "repaired"
    assert parsed.mentions == MENTIONS[:1]
    assert parsed.causal == ()
    assert "cut off" in str(parsed.error)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", NO_OBJECT),
        ("I cannot do that.", NO_OBJECT),
        ("[1, 2]", NO_OBJECT),
        ("null", NO_OBJECT),
        ("{", NOT_JSON),
        ("{]", NOT_JSON),
        ("{" * 5000, NOT_JSON),
        ('{"mentions": ' + "[" * 100_000, NOT_JSON),
    ],
)
def test_a_failed_answer(answer: str, reason: str) -> None:
    parsed = parse_answer(answer, _window())
    assert (parsed.status, parsed.error) == ("failed", reason)
    assert parsed.mentions == parsed.causal == ()


def test_empty_lists_are_a_good_answer() -> None:
    assert parse_answer('{"mentions": [], "causal": []}', _window()).status == "ok"
    parsed = parse_answer("{}", _window())
    assert parsed.status == "repaired"
    assert "no list of mentions" in str(parsed.error)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"event": 3, "name": "Ines"}, "no such event"),
        ({"event": -1, "name": "Tomasz"}, "no such event"),
        ({"event": None, "name": "Ines"}, "no such event"),
        ({"event": True, "name": "garage"}, "no such event"),
        ({"event": 1, "name": "Nobody"}, "name not in the event"),
        ({"event": 0, "name": "  "}, "no name"),
        ({"event": 0, "name": ["Ines"]}, "no name"),
        ({"event": 0, "name": "Ines" * 50}, "no name"),
    ],
)
def test_a_mention_that_does_not_fit_is_left_out(item: dict[str, object], reason: str) -> None:
    parsed = parse_answer(json.dumps({"mentions": [item], "causal": []}), _window())
    assert parsed.mentions == ()
    assert parsed.status == "repaired"
    assert reason in str(parsed.error)


def test_unknown_types_become_things() -> None:
    items = [{"event": 0, "name": "kayak", "type": "boat"}, {"event": 1, "name": "garage", "type": "LOCATION"}]
    parsed = parse_answer(json.dumps({"mentions": items, "causal": []}), _window())
    assert [m.type for m in parsed.mentions] == ["thing", "place"]


@pytest.mark.parametrize("confidence", [None, True, "high", -0.1, 1.5, float("nan"), float("inf"), [1], "nan"])
def test_a_confidence_out_of_range_is_left_out(confidence: object) -> None:
    pair = {"cause": 0, "effect": 1, "evidence": "x", "confidence": confidence}
    parsed = parse_answer(json.dumps({"mentions": [], "causal": [pair]}), _window())
    assert parsed.causal == ()
    assert parsed.status == "repaired"


def test_indexes_that_a_model_invented() -> None:
    if not CASES.exists():
        pytest.skip(f"needs the case file {CASES.name} beside the checkout")
    rows = (json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines())
    case = next(row for row in rows if row["id"] == "C39")["input"]
    texts = tuple(item.split(": ", 1)[1] for item in case["prompt_items"])
    parsed = parse_answer(json.dumps(case["llm"]), _window(texts))
    assert parsed.status == "repaired"
    assert "pair: no event number (1)" in str(parsed.error)
    assert "mention: number used again (1)" in str(parsed.error)
    assert [m.surface for m in parsed.mentions] == ["Ines"]
    # The items of the case are numbered, not ordered: the garage was full before the kayak was sold.
    events = [
        PlacedEvent(event_id=f"e{at}", session_id="s", position=position, speaker="A", text=text)
        for at, (position, text) in enumerate(zip((1, 0, -1), texts, strict=True))
    ]
    dropped: Counter[str] = Counter()
    edges = merge_edges(check_pairs(parsed.causal, events, min_confidence=0.5, origin="llm", dropped=dropped))
    assert [(edge.src, edge.dst) for edge in edges] == [("e1", "e0")]
    assert dropped == {OUT_OF_RANGE: 2, SELF_LOOP: 1, NO_EVIDENCE: 2}


def test_half_a_surrogate_pair_can_be_stored() -> None:
    answer = '{"mentions": [], "causal": [{"cause": 0, "effect": 1, "evidence": "full \\ud83d", "confidence": 1}]}'
    (pair,) = parse_answer(answer, _window()).causal
    assert pair.evidence.encode("utf-8") == b"full ?"


def test_an_outcome_survives_the_table() -> None:
    made = outcome_of(json.dumps(GOOD), _window(), prompt_hash="p", prompt_tokens=7, output_tokens=5)
    assert (made.window_id, made.prompt_hash, made.prompt_tokens, made.output_tokens) == ("w", "p", 7, 5)
    assert decode_output(encode_output(made)) == (MENTIONS, CAUSAL)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["mentions", "causal", "event", "cause", "effect", "name", "type", "confidence", "id"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_JSON, st.integers(0, 60))
def test_nothing_raises(value: object, cut: int) -> None:
    text = json.dumps(value)
    for answer in (text, text[:cut], f"x{text}"):
        parsed = parse_answer(answer, _window())
        assert (parsed.error is None) == (parsed.status == "ok")
        assert all(0 <= m.index < 3 for m in parsed.mentions)
        assert all(0 <= p.confidence <= 1 for p in parsed.causal)


@given(st.text(alphabet='{}[]",: \\an1', max_size=60))
def test_no_text_raises(answer: str) -> None:
    assert parse_answer(answer, _window()).status in ("ok", "repaired", "failed")


def test_a_name_goes_to_the_events_in_which_it_stands() -> None:
    events = ["Rosa called.", "Who?", "Rosa, from Porto. Not Rosalind.", "Rosalind?"]
    window = Window(
        memory_id="m",
        window_id="w",
        events=tuple(
            WindowEvent(event_id=f"e{at}", speaker="Ines", role="user", text=text, time=None)
            for at, text in enumerate(events)
        ),
    )
    items = [
        {"event": 1, "name": "Rosa", "type": "person", "alias_of": "Porto"},
        {"event": 3, "name": "Rosa", "type": "person"},
        {"event": 1, "name": "...", "type": "thing"},
    ]
    parsed = parse_answer(json.dumps({"mentions": items, "causal": []}), window)
    # Part of a word counts only where the model said so itself; an alias does not travel.
    assert [(m.index, m.surface, m.alias_of) for m in parsed.mentions] == [
        (0, "Rosa", ""),
        (2, "Rosa", ""),
        (3, "Rosa", ""),
    ]
    assert parsed.error == "mention: name not in the event (1); mention: name of another event (1)"

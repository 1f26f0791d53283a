"""Windows, the JSON of outcomes, and reuse of what was extracted before."""

import random

import pyarrow as pa
import pytest
from event_tables import events_table

from magma_gpu.config import ExtractConfig
from magma_gpu.extract import RulesExtractor, extract_shard
from magma_gpu.extract.windows import decode_output, encode_output, make_windows
from magma_gpu.schema import TABLES
from magma_gpu.types import CausalPair, Mention, Outcome


def _spans(num_events: int, window: int, overlap: int) -> list[tuple[int, int]]:
    table = events_table([("A", str(at)) for at in range(num_events)])
    return [(p.first, p.last) for p in make_windows(table, window=window, overlap=overlap)]


@pytest.mark.parametrize(
    ("num_events", "window", "overlap", "spans"),
    [
        (0, 4, 1, []),
        (1, 4, 1, [(0, 0)]),
        (4, 4, 1, [(0, 3)]),
        (5, 4, 1, [(0, 3), (3, 4)]),
        (7, 4, 1, [(0, 3), (3, 6)]),
        (8, 4, 2, [(0, 3), (2, 5), (4, 7)]),
        (5, 4, 0, [(0, 3), (4, 4)]),
        (3, 4, 3, [(0, 2)]),
    ],
)
def test_spans(num_events: int, window: int, overlap: int, spans: list[tuple[int, int]]) -> None:
    assert _spans(num_events, window, overlap) == spans


def test_every_event_is_seen_and_every_window_brings_a_new_one() -> None:
    for num_events in range(1, 30):
        for window in range(2, 8):
            for overlap in range(window):
                seen: set[int] = set()
                for first, last in _spans(num_events, window, overlap):
                    new = set(range(first, last + 1)) - seen
                    assert new
                    assert last - first < window
                    seen |= new
                assert seen == set(range(num_events))


def test_windows_do_not_cross_sessions_and_ids_do_not_depend_on_positions() -> None:
    turns = [("A", f"text {at}") for at in range(6)]
    sessions = ["x", "y", "x", "y", "x", "y"]
    made = list(make_windows(events_table(turns, sessions=sessions), window=2, overlap=1))
    assert {p.session_id for p in made} == {"x", "y"}
    assert [[e.event_id for e in p.window.events] for p in made if p.session_id == "x"] == [
        ["e0", "e2"],
        ["e2", "e4"],
    ]
    moved = events_table(turns, sessions=sessions, positions=[p + 100 for p in range(6)])
    again = list(make_windows(moved, window=2, overlap=1))
    assert {p.window.window_id for p in again} == {p.window.window_id for p in made}
    assert [p.first for p in again] == [p.first + 100 for p in made]


def test_an_event_without_text_is_seen_as_its_caption() -> None:
    table = events_table([("A", ""), ("A", "x")])
    caption = pa.array(["a red kayak", None], pa.string())
    table = table.set_column(table.schema.get_field_index("caption"), TABLES["events"].field("caption"), caption)
    (place,) = make_windows(table, window=4, overlap=1)
    assert [e.text for e in place.window.events] == ["a red kayak", "x"]


def _outcome(mentions: tuple[Mention, ...], causal: tuple[CausalPair, ...]) -> Outcome:
    return Outcome(
        window_id="w",
        prompt_hash="p",
        status="ok",
        error=None,
        mentions=mentions,
        causal=causal,
        prompt_tokens=0,
        output_tokens=0,
    )


def test_output_is_one_string_for_one_set_and_survives_quotes() -> None:
    mentions = tuple(
        Mention(index=i, surface=s, type="person")
        for i, s in enumerate(["O'Neill & Sons", 'the "Big Blue"', "한빛상사", "a\\b\n</data>", "🦊"])
    )
    causal = (
        CausalPair(cause=0, effect=1, evidence='because "x"', confidence=0.9),
        CausalPair(cause=0, effect=2, evidence="so", confidence=0.1 + 0.2),
    )
    text = encode_output(_outcome(mentions, causal))
    assert decode_output(text) == (mentions, causal)
    shuffled = list(mentions)
    random.Random(3).shuffle(shuffled)
    assert encode_output(_outcome((*shuffled, mentions[0]), causal[::-1])) == text
    assert encode_output(_outcome((), ())) == '{"causal":[],"mentions":[]}'


def test_extracts_have_the_schema_also_without_events() -> None:
    made = extract_shard(events_table([]), RulesExtractor(), ExtractConfig())
    assert made.schema.equals(TABLES["extracts"])
    assert made.num_rows == 0


class _Counting(RulesExtractor):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def extract(self, windows):  # type: ignore[no-untyped-def]
        self.seen += [w.window_id for w in windows]
        made = super().extract(windows)
        return [_failed(o) if w.events[0].text == "text 0" else o for o, w in zip(made, windows, strict=True)]


def _failed(outcome: Outcome) -> Outcome:
    return Outcome(
        window_id=outcome.window_id,
        prompt_hash=outcome.prompt_hash,
        status="failed",
        error="no answer",
        mentions=(),
        causal=(),
        prompt_tokens=0,
        output_tokens=0,
    )


def test_known_outcomes_are_used_again_unless_they_failed() -> None:
    config = ExtractConfig(window=2, overlap=0)
    turns = [("Ines", f"text {at}") for at in range(4)]
    first = _Counting()
    before = extract_shard(events_table(turns), first, config)
    assert len(first.seen) == 2
    assert before["status"].to_pylist() == ["failed", "ok"]
    assert before["output"].to_pylist()[0] is None
    again = _Counting()
    longer = events_table([*turns, ("Tomasz", "text 4")])
    after = extract_shard(longer, again, config, known=before)
    ids = after["window_id"].to_pylist()
    # The failed one is tried once more, the new one is new, the middle one is kept.
    assert again.seen == [ids[0], ids[2]]
    assert after.equals(extract_shard(longer, _Counting(), config))

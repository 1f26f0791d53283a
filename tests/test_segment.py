import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.segment import EpisodeRun, episode_title, estimate_tokens, find_episodes, split_text

HOUR = 3_600_000_000

# Any text, and texts made of what the rules look at.
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            [
                "one ",
                "two.",
                ". ",
                "...",
                "!?) ",
                "\n",
                "  ",
                "\u3000",
                "\u6f22\u5b57",
                "\u3002",
                "a" * 40,
                "a" * 12 + "_",
                "\U0001f44d",
            ]
        ),
        max_size=60,
    ).map("".join),
)


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, max_tokens=st.integers(16, 40))
def test_parts_give_the_text_and_keep_the_limit(text: str, max_tokens: int) -> None:
    parts = split_text(text, max_tokens)
    assert "".join(parts) == text
    assert all(estimate_tokens(part) <= max_tokens for part in parts)
    if len(parts) > 1:
        assert all(part.strip() for part in parts)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("   \n", 0),
        ("hello", 1),
        ("hello, world!", 4),
        ("a_b", 3),
        ("\u6f22\u5b57", 2),
        ("\ud55c\uad6d\uc5b4 \uc785\ub2c8\ub2e4", 6),
        ("don't", 3),
        ("abcdefghi", 1),
        ("abcdefghij", 4),
        ("\U0001f44d\U0001f44d", 2),
    ],
)
def test_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_a_short_text_is_one_part() -> None:
    assert split_text("", 16) == [""]
    assert split_text("Hello.", 16) == ["Hello."]
    assert split_text(" \n" * 40, 16) == [" \n" * 40]


def test_cuts_fall_after_sentences() -> None:
    first, second = "One two three four five six seven. ", "Eight nine ten eleven twelve thirteen fourteen fifteen?"
    assert split_text(first + second, 16) == [first, second]
    assert split_text(first + second + " Yes.", 16) == [first, second + " Yes."]


def test_a_long_sentence_is_cut_at_white_space() -> None:
    parts = split_text("word " * 40, 16)
    assert parts == ["word " * 16, "word " * 16, "word " * 8]


def test_cjk_is_cut_after_its_full_stops() -> None:
    sentence = "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002"
    assert split_text(sentence * 5, 16) == [sentence * 2, sentence * 2, sentence]
    unbroken = "\u6f22" * 100
    assert [len(p) for p in split_text(unbroken, 16)] == [16, 16, 16, 16, 16, 16, 4]


def test_a_word_of_5000_letters() -> None:
    parts = split_text("x" * 5000, 200)
    assert "".join(parts) == "x" * 5000
    assert max(map(estimate_tokens, parts)) <= 200
    assert len(parts) <= 13


def test_slices_of_one_word_count_as_one_word() -> None:
    # A run of twelve letters is four tokens; cut into three and nine it would pass for two.
    parts = split_text("aaaaaaaaaaaa_" * 10, 16)
    assert "".join(parts) == "aaaaaaaaaaaa_" * 10
    assert max(map(estimate_tokens, parts)) <= 16


def test_blank_tails_stay_with_their_part() -> None:
    assert split_text("word " * 16 + " " * 200, 16) == ["word " * 16 + " " * 200]


@pytest.mark.parametrize(
    "text", ["." * 200_000, "?!" * 100_000, ".)" * 100_000, "\n" * 200_000, "a. " * 60_000, "\u3002" * 200_000]
)
def test_time_is_linear(text: str) -> None:
    start = time.perf_counter()
    parts = split_text(text, 200)
    assert time.perf_counter() - start < 5
    assert "".join(parts) == text


def runs(
    times: list[int | None], parts: list[int] | None = None, gap_min: float = 60, max_turns: int = 12
) -> list[tuple[int, int]]:
    found = find_episodes(times, parts or [0] * len(times), gap_min=gap_min, max_turns=max_turns)
    return [(r.first, r.last) for r in found]


def test_episodes_by_hand() -> None:
    assert runs([]) == []
    assert runs([None]) == [(0, 0)]
    # Exactly the gap is no pause.
    assert runs([0, HOUR, 2 * HOUR + 1]) == [(0, 1), (2, 2)]
    # Where a time is unknown there is no pause.
    assert runs([0, None, 5 * HOUR]) == [(0, 2)]
    assert runs([None] * 5, max_turns=2) == [(0, 1), (2, 3), (4, 4)]
    # A pause starts the count of turns again.
    assert runs([0, 0, 9 * HOUR, 9 * HOUR, 9 * HOUR], max_turns=2) == [(0, 1), (2, 3), (4, 4)]
    assert find_episodes([1], [0], gap_min=1, max_turns=1) == [EpisodeRun(0, 0)]


def test_parts_of_a_turn_stay_together() -> None:
    assert runs([0] * 6, [0, 1, 2, 0, 1, 0], max_turns=1) == [(0, 2), (3, 4), (5, 5)]
    assert runs([0, 9 * HOUR], [0, 1]) == [(0, 1)]


@given(
    times=st.lists(st.one_of(st.none(), st.integers(0, 10 * HOUR)), max_size=30),
    max_turns=st.integers(1, 5),
)
def test_episodes_cover_every_event_once(times: list[int | None], max_turns: int) -> None:
    found = runs(times, max_turns=max_turns)
    assert [i for first, last in found for i in range(first, last + 1)] == list(range(len(times)))
    assert all(last - first < max_turns for first, last in found)


def test_titles() -> None:
    assert episode_title(None, " Hello \n there ") == "Hello there"
    assert episode_title("Trip", "Hello") == "Trip: Hello"
    long = episode_title(None, "word " * 30)
    assert long == "word " * 11 + "word\u2026"
    assert episode_title(None, "") == ""

"""Explicit causal cues in one text, and causal pairs between the events of a window."""

import pytest

from magma_gpu.extract.causes import find_causal
from magma_gpu.extract.rules import link_causes
from magma_gpu.types import WindowEvent


def _cues(text: str) -> list[tuple[str | None, str | None]]:
    (cues,) = find_causal([text])
    return [
        (
            text[c.cause[0] : c.cause[1]] if c.cause else None,
            text[c.effect[0] : c.effect[1]] if c.effect else None,
        )
        for c in cues
    ]


@pytest.mark.parametrize(
    ("text", "cause", "effect"),
    [
        ("The ceiling fell because the roof leaked.", "the roof leaked", "The ceiling fell"),
        ("Because the roof leaked, the ceiling fell.", "the roof leaked", "the ceiling fell"),
        ("We stayed in due to the storm.", "the storm", "We stayed in"),
        ("I postponed the party since the ceiling fell.", "the ceiling fell", "I postponed the party"),
        ("Since the oven broke, we ate cold soup.", "the oven broke", "we ate cold soup"),
        ("The damage was caused by a storm.", "a storm", "The damage"),
        ("The storm caused a lot of damage.", "The storm", "a lot of damage"),
        ("The drought led to higher prices.", "The drought", "higher prices"),
        ("The oven broke, so we ate cold soup.", "The oven broke", "we ate cold soup"),
        ("The oven broke. That's why we ate cold soup.", "The oven broke", "we ate cold soup"),
        ("The oven broke. As a result, we ate soup.", "The oven broke", "we ate soup"),
        ("Thanks to the new pump, the cellar is dry.", "the new pump", "the cellar is dry"),
        ("That's why we moved.", None, "we moved"),
        ("Oh no! So we called a plumber.", None, "we called a plumber"),
        ("Because I was tired.", "I was tired", None),
        ("The concert made me cry.", "The concert", "cry"),
    ],
)
def test_cue(text: str, cause: str | None, effect: str | None) -> None:
    assert _cues(text) == [(cause, effect)]


@pytest.mark.parametrize(
    "text",
    [
        "I have lived here since 2019.",
        "It's been ages since we talked!",
        "Since our last chat, I've been busy.",
        "We have not met since the wedding.",
        "I'm so happy, and it is so good to see you.",
        "So, how are you?",
        "So I guess you are right.",
        "I think so I said yes.",
        "Thanks to everyone who came!",
        "Many thanks to Ines.",
        "The train is due to arrive at five.",
        "It is for a good cause and the causes are many.",
        "She made me a cake.",
        "We walked along the road leading to the harbour.",
        "What caused the fire?",
        "",
    ],
)
def test_no_cue(text: str) -> None:
    assert _cues(text) == []


def test_spans_lie_in_the_text_and_are_not_empty() -> None:
    text = 'He said: "The roof leaked!" So we left, because of that, and since the car broke, we walked.'
    for cues in find_causal([text, "", text]):
        for cue in cues:
            for span in (cue.cue, cue.cause, cue.effect):
                assert span is None or 0 <= span[0] < span[1] <= len(text)


def _pairs(*texts: str) -> list[tuple[int, int]]:
    return [(p.cause, p.effect) for p in link_causes(texts)]


def test_pairs_between_events() -> None:
    told = ("We bought balloons.", "The roof leaked.", "The ceiling fell because the roof leaked.")
    assert _pairs(*told, "I postponed the party since the ceiling fell.") == [(1, 2), (2, 3)]
    assert _pairs("The pipe burst.", "So we called a plumber.", "The floor is wet.") == [(0, 1)]
    assert _pairs("I broke my leg skiing.", "Oh no!", "That's why I sold the skis.") == [(0, 2)]


def test_no_pairs_without_a_cause_told_before() -> None:
    # The effect was told first: its cause is later, and an effect never comes before its cause.
    assert _pairs("The ceiling fell.", "It fell because the roof leaked.") == []
    # The cause is told in the same event.
    assert _pairs("I met Ann.", "The oven broke. That's why we ate soup.") == []
    assert _pairs("The ceiling fell because the roof leaked.") == []
    # A question tells nothing.
    assert _pairs("Did the roof leak?", "That's why I called.") == []
    assert _pairs("Hello!", "Hi :)", "...") == []
    assert _pairs() == []


def _said(*lines: str) -> list[tuple[int, int]]:
    """The pairs of lines "speaker> text"; the speaker `*` is a system."""
    told = [line.split("> ", 1) for line in lines]
    events = [
        WindowEvent(event_id=str(at), speaker=who, role="system" if who == "*" else "other", text=text, time=None)
        for at, (who, text) in enumerate(told)
    ]
    return [(p.cause, p.effect) for p in link_causes([e.text for e in events], 0, events)]


def test_so_goes_on_from_the_same_talk() -> None:
    burst, plumber = "The old pipe burst.", "So we called a plumber."
    # Two who talk answer each other; what a system says is none of theirs.
    assert _said(f"ana> {burst}", f"ben> {plumber}") == [(0, 1)]
    assert _said(f"ana> {burst}", "*> cleo joined the channel", f"ben> {plumber}") == [(0, 2)]
    assert _said("*> cleo joined the channel", f"ben> {plumber}") == []
    # Among more than two it is the speaker's own talk, however much the others say between,
    others = [f"cleo> My kernel module number {n} crashes." for n in range(4)]
    assert _said(f"ana> {burst}", "ben> My screen stays black.", *others, f"ana> {plumber}") == [(0, 6)]
    assert _said("ben> My screen stays black.", *others, f"ana> {plumber}") == []
    # or what somebody told them by name, and not by the beginning of one.
    assert _said("cleo> ana: the old pipe burst", f"ben> {burst}", f"ana> {plumber}") == [(0, 2)]
    assert _said("cleo> anabel: the old pipe burst", f"ben> {burst}", f"ana> {plumber}") == []


def test_evidence_stands_in_the_effect() -> None:
    long = "The ceiling fell " + "and fell " * 40 + "because the old roof leaked " + "so very much " * 40
    texts = ["The old roof leaked.", long]
    (pair,) = link_causes(texts)
    assert pair.evidence in long
    assert "because the old roof" in pair.evidence
    assert len(pair.evidence) <= 170
    assert 0.5 <= pair.confidence <= 1.0

"""The interval that a question asks about.

It takes what the tagger finds in the question and decides what of it limits the answer. What a reader would not
guess: durations, repetitions and words such as "now" limit nothing; a month or weekday without a year is the nearest
one before the reference even where the sentence speaks of the future; and what is said vaguely ("a few days before",
"two weeks ago", "around 3 May") is widened, because a window that is too narrow hides the answer.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from magma_gpu.timex.intervals import DAY, EPOCH, OPEN_END, OPEN_START, micros
from magma_gpu.timex.tagger import tag
from magma_gpu.types import TimeSpan

_LIMITING = ("date", "time", "range")
# Of a state "as of" a day all that was said up to then counts.
_AS_OF = re.compile(r"\bas of\s+(?:the\s+)?$", re.IGNORECASE)
_ROUND = re.compile(r"\b(?:around|about|circa|near|roughly|approximately)\s+(?:the\s+)?$", re.IGNORECASE)
# An amount that is rarely meant to the day, and one that never is.
_WEEKS = re.compile(
    r"(?:\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten)\s+(?:weeks?|fortnights?)\s+"
    r"(?:ago|earlier|later|before|after|back)\b|in\s+(?:\d+|a|one|two|three|four)\s+weeks?$",
    re.IGNORECASE,
)
_VAGUE = re.compile(r"\b(?:few|several|couple|some)\s+(?:of\s+)?(?P<unit>day|week|month|year)s?\b", re.IGNORECASE)
_EXACT = re.compile(r"\b(?:today|yesterday|tomorrow|\w+day)$", re.IGNORECASE)
_LEEWAY = {"day": 2 * DAY, "week": 7 * DAY, "month": 31 * DAY, "year": 366 * DAY}


def windows(questions: Sequence[str], references: Sequence[int | None]) -> list[tuple[int, int] | None]:
    """Finds the window of each question.

    Args:
        questions: questions in any language.
        references: for each the time it is asked at, in microseconds since 1970 in UTC, or None: then only windows
            that need no reference are found.

    Returns:
        For each question [start, end) in microseconds, where an open side is `OPEN_START` or `OPEN_END` of
        `magma_gpu.timex.intervals`; None where the question names no time. Of several expressions what they share,
        and where they share nothing the stretch that covers all.
    """
    found = tag(questions, references, past=True)
    return [
        _window([_limits(question, s) for s in spans if s.kind in _LIMITING and not _is_now(s, reference)])
        for question, reference, spans in zip(questions, references, found, strict=True)
    ]


def _is_now(span: TimeSpan, reference: int | None) -> bool:
    return span.grain == "second" and span.start == reference


def _limits(question: str, span: TimeSpan) -> tuple[int, int]:
    """Returns the interval of an expression, wider where its words are vague."""
    first, last = micros(OPEN_START), micros(OPEN_END)
    if first in (span.start, span.end) or last in (span.start, span.end):
        return span.start, span.end
    before = question[max(0, span.first - 24) : span.first]
    if _AS_OF.search(before):
        return first, span.end
    leeway = _leeway(before, span.text) if span.kind == "date" else timedelta(0)
    if not leeway:
        return span.start, span.end
    start, end = (EPOCH + timedelta(microseconds=t) for t in (span.start, span.end))
    start = start - leeway if start - OPEN_START > leeway else OPEN_START
    end = end + leeway if OPEN_END - end > leeway else OPEN_END
    return micros(start), micros(end)


def _leeway(before: str, text: str) -> timedelta:
    """Returns by how much a day that these words name may be missed."""
    vague = _VAGUE.search(text)
    if vague is not None:
        return _LEEWAY[vague["unit"].lower()]
    weeks = _WEEKS.search(text) is not None and _EXACT.search(text) is None
    return 3 * DAY if weeks or _ROUND.search(before) else timedelta(0)


def _window(limits: list[tuple[int, int]]) -> tuple[int, int] | None:
    if not limits:
        return None
    start, end = max(s for s, _ in limits), min(e for _, e in limits)
    if start < end:
        return start, end
    return min(s for s, _ in limits), max(e for _, e in limits)

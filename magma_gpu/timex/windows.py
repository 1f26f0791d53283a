"""The interval that a question asks about.

It takes what the tagger finds in the question and decides what of it limits the answer. What a reader would not
guess: durations, repetitions and words such as "now" limit nothing, and a month or weekday without a year is the
nearest one before the reference even where the sentence speaks of the future.
"""

from collections.abc import Sequence

from magma_gpu.timex.tagger import tag
from magma_gpu.types import TimeSpan

_LIMITING = ("date", "time", "range")


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
    return [_window([s for s in spans if s.kind in _LIMITING and s.grain != "second"]) for spans in found]


def _window(spans: list[TimeSpan]) -> tuple[int, int] | None:
    if not spans:
        return None
    start, end = max(s.start for s in spans), min(s.end for s in spans)
    if start < end:
        return start, end
    return min(s.start for s in spans), max(s.end for s in spans)

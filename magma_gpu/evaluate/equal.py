"""Whether two short answers say the same, when dates, durations, numbers and lists are read as what they are.

Strict on purpose: what it cannot show to be the same is different, so a synonym fails here and is the judge's matter.
Relative dates ("last Sunday") are words, because what they mean depends on when they were said.
"""

import re
from collections.abc import Sequence

from magma_gpu.evaluate.metrics import normalized_tokens
from magma_gpu.timex import tag

_UNITS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
    "fortnight": 14 * 86400,
    # Calendar units only equal themselves and each other.
    "month": -1,
    "year": -12,
    "decade": -120,
}
_WORDS: dict[str, float] = {
    w: float(n)
    for n, w in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()
    )
} | {"once": 1, "twice": 2, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80}
_WORDS |= {"ninety": 90, "half": 0.5}
_NUMBER = re.compile(r"[$€£¥]?\s?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\w-])")
_LIST = re.compile(r"\s*(?:,|;|\n|&|\band\b|\bplus\b)\s*", re.IGNORECASE)
# Words that stand around a value without changing it.
_AROUND = frozenset(
    "on in at for of about around approximately roughly it was is they were times time usd dollars".split()
)
# Times of saying that lie in no common year, month or weekday: an expression that means the same at both is absolute.
_REFERENCES = (1_000_000_000_000_000, 1_529_000_000_000_000)


def equal_answers(answers: Sequence[str], golds: Sequence[str]) -> list[bool]:
    """Compares each answer with its gold.

    They are the same if their normalised words are; if both are one absolute date or interval and it is the same; one
    duration; one number (a currency sign and thousands' commas apart); or lists of the same things in any order.
    """
    dates = _dates([*answers, *golds])
    half = len(answers)
    return [
        _equal(answer, gold, dates[i], dates[half + i])
        for i, (answer, gold) in enumerate(zip(answers, golds, strict=True))
    ]


Interval = tuple[int, int]


def _equal(answer: str, gold: str, said: Interval | None, wanted: Interval | None) -> bool:
    words, gold_words = normalized_tokens(answer), normalized_tokens(gold)
    if words == gold_words:
        return bool(words)
    if said is not None and wanted is not None:
        return said == wanted
    if (duration := _duration(answer)) is not None and duration == _duration(gold):
        return True
    number, gold_number = _single_number(answer), _single_number(gold)
    if number is not None and gold_number is not None:
        return number == gold_number and _beside(answer) == _beside(gold)
    items, gold_items = _items(answer), _items(gold)
    return len(gold_items) > 1 and items == gold_items


def _dates(texts: Sequence[str]) -> list[Interval | None]:
    """The one absolute date or interval that a text consists of."""
    found = [tag(texts, [reference] * len(texts)) for reference in _REFERENCES]
    made: list[Interval | None] = []
    for text, first, second in zip(texts, *found, strict=True):
        value = None
        if len(first) == 1 and first[0].kind in ("date", "range") and len(second) == 1:
            span = first[0]
            rest = normalized_tokens(f"{text[: span.first]} {text[span.last :]}")
            same = (span.start, span.end) == (second[0].start, second[0].end)
            if same and _AROUND.issuperset(rest):
                value = (span.start, span.end)
        made.append(value)
    return made


def _numbers(text: str) -> list[float]:
    digits = [float(n.replace(",", "")) for n in _NUMBER.findall(text)]
    return digits + [float(_WORDS[w]) for w in normalized_tokens(text) if w in _WORDS]


def _single_number(text: str) -> float | None:
    numbers = _numbers(text)
    return numbers[0] if len(numbers) == 1 else None


def _beside(text: str) -> set[str]:
    """Words beside a number that may change what it counts."""
    rest = normalized_tokens(_NUMBER.sub(" ", text))
    return {w for w in rest if w not in _WORDS and w not in _AROUND}


def _duration(text: str) -> tuple[bool, float] | None:
    """(is of calendar units, length) of a text that is one duration."""
    words = normalized_tokens(text)
    numbers = _numbers(text) or ([1.0] if re.match(r"\s*an?\b", text, re.IGNORECASE) else [])
    units = [u for w in words if (u := w.removesuffix("s")) in _UNITS]
    others = [w for w in _beside(text) if w.removesuffix("s") not in _UNITS]
    if len(numbers) != 1 or len(units) != 1 or others:
        return None
    unit = _UNITS[units[0]]
    return unit < 0, numbers[0] * abs(unit)


def _items(text: str) -> set[tuple[str, ...]]:
    return {item for part in _LIST.split(text) if (item := tuple(normalized_tokens(part)))}

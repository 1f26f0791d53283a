"""Reads English texts: cuts them, applies the grammar, and decides what of its results is shown.

What a reader would not guess: a bare duration has no place in time and is shown as ending at the text's own time; and
most texts are never cut, because one look at their words tells that no rule could match (`silent`).
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from magma_gpu.timex import (
    english_amounts,
    english_beside,
    english_clock,
    english_counted,
    english_dates,
    english_ranges,
    english_relative,
    english_words,
)
from magma_gpu.timex.grammar import Context, Grammar, Token
from magma_gpu.timex.intervals import Clock, Qty, Span, day_span, micros, with_clock
from magma_gpu.timex.scan import Scanner
from magma_gpu.types import TimeSpan

# "May I", "may be": no month.
_ASKING = re.compile(r"\s+(?:i|we|you|he|she|it|they|be|not|have)\b", re.IGNORECASE)


_NUMERIC = re.compile("[\\d½¼¾]")
_SHORT = re.compile(r"\d+[dmswy]")
_RATE = re.compile(r"(?:s|e|\d|what|such|quite|half|per|of|\$)\s+$")
_LASTS = re.compile(
    r"\b(?:takes?|took|taking|lasts?|lasted|lasting|spen[dt]|spending|wait|waited|waiting|stay|stayed|than|least|nearly|"
    r"almost|exactly)\s+$"
)
_SHORT_AFTER = ("for", "in", "within", "over", "about", "after", "last")


class English:
    """The English grammar and what it shows."""

    def __init__(self) -> None:
        g = self._grammar = Grammar()
        english_amounts.add_numbers(g)
        english_dates.add_dates(g)
        english_clock.add_clock(g)
        english_relative.add_relative(g)
        english_counted.add_counted(g)
        english_relative.add_amounts(g)
        english_beside.add_beside(g)
        english_clock.add_bare(g)
        english_clock.add_clock_dates(g)
        english_ranges.add_repetition(g)
        english_ranges.add_ranges(g)
        self._scanner = Scanner(
            g.classes,
            english_words.lexicon(),
            capitals=english_words.CAPITALS,
            future=english_words.FUTURE,
            past=english_words.PAST,
        )
        code = g.classes.code
        self._may, self._month = code("may"), code("month")
        self._shown = {code(n): n for n in ("A", "R", "Q", "E", "C", "CR", "CO", "CP", "part", "meal")}
        lexicon = english_words.lexicon()
        self._words = lexicon.keys()
        self._triggers = frozenset(w for w, (name, _) in lexicon.items() if name in english_words.TRIGGERS)
        self._numbers = frozenset(w for w, (name, _) in lexicon.items() if name in english_words.NUMBERS)
        self._before = {
            code(n): n
            for n in (
                "during",
                "for",
                "in",
                "the",
                "at",
                "good",
                "a",
                "after",
                "last",
                "within",
                "over",
                "about",
                "late",
            )
        }

    def words(self) -> Iterable[str]:
        """Returns the words that tell the language."""
        return self._words

    def silent(self, text: str, words: Sequence[str]) -> bool:
        """Says whether a lower-case text of these words has no expression for sure."""
        if not self._triggers.isdisjoint(words) or _NUMERIC.search(text):
            return False
        if self._numbers.isdisjoint(words):
            return True
        return english_words.BESIDE_NUMBER.isdisjoint(words) and sum(map(self._numbers.__contains__, words)) < 2

    def spans(self, text: str, context: Context) -> list[TimeSpan]:
        """Returns the expressions of a text."""
        tokens, useful = self._scanner.scan(text, context)
        if not useful:
            return []
        if "ma" in context.text:
            tokens = [self._named(t, text) for t in tokens]
        tokens = english_words.read_numbers(tokens, self._grammar.classes)
        tokens = self._grammar.reduce(tokens, context)
        found = []
        for k, token in enumerate(tokens):
            name = self._shown.get(token.code)
            if name is not None:
                try:
                    span = self._show(name, token, tokens, k, context)
                except (ValueError, OverflowError):
                    # Outside the years that the calendar has.
                    span = None
                if span is not None:
                    found.append(span)
        return found

    def _named(self, token: Token, text: str) -> Token:
        """May and March inside a sentence are months when they have a capital."""
        if token.code != self._may or not text[token.first].isupper():
            return token
        before = text[max(0, token.first - 8) : token.first].rstrip()
        inside = bool(before) and before[-1] not in ".!?\n" and not _ASKING.match(text, token.last)
        return Token(self._month, token.first, token.last, token.value) if inside else token

    def _is_in(self, tokens: list[Token], k: int) -> bool:
        return k >= 0 and self._before.get(tokens[k].code) in ("in", "during", "at", "over")

    def _show(self, name: str, token: Token, tokens: list[Token], k: int, c: Context) -> TimeSpan | None:
        before = self._before.get(tokens[k - 1].code, "") if k else ""
        c.at = token.first
        first, value = token.first, token.value
        if name == "Q":
            if _SHORT.fullmatch(c.text, token.first, token.last) and before not in _SHORT_AFTER:
                # 3D and 5s are names more often than amounts.
                return None
            if value.article and before not in ("for", "in", "within", "about") and not _is_length(value, token, c):
                return None
            return _duration(c, token) if c.ref else None
        if name in ("C", "CR", "CO", "CP", "part", "meal"):
            if c.ref is None:
                return None
            if name in ("part", "meal"):
                if name == "part" and not (before == "the" and self._is_in(tokens, k - 2)):
                    return None
                value = Clock(value[0] * 3600, value[1] * 3600, "part_of_day")
                while k and self._before.get(tokens[k - 1].code) in ("in", "the", "at"):
                    k -= 1
                    first = tokens[k].first
            value = with_clock(day_span(c.ref), english_clock.afternoon(value))
        span = c.fix(value)
        if span is not None and span.start == span.end:
            # "now" is a moment; an interval needs a length.
            span = replace(span, end=span.start + timedelta(seconds=1))
        if span is None or span.start >= span.end:
            return None
        return made(c, first, token.last, span)


def _is_length(qty: Qty, token: Token, c: Context) -> bool:
    """Says whether "a week" is a length rather than a rate ("two lessons a week") or a figure of speech ("a day").

    Short units are one only behind a word such as "took".
    """
    if qty.parts[0][0] in ("second", "minute", "day", "weekday", "weekend", "season"):
        return _LASTS.search(c.text, max(0, token.first - 24), token.first) is not None
    return not _RATE.search(c.text, max(0, token.first - 24), token.first)


def _duration(c: Context, token: Token) -> TimeSpan | None:
    """A bare duration has no place; it is shown as ending at the text's own time."""
    qty: Qty = token.value
    assert c.ref is not None
    if qty.seconds() <= 0:
        return None
    span = Span(c.ref - timedelta(seconds=qty.seconds()), c.ref, qty.parts[-1][0], "duration")
    return made(c, token.first, token.last, span)


# Units that are counted but name no grain of the calendar.
_GRAINS = {"fortnight": "week", "weekday": "day"}


def made(c: Context, first: int, last: int, span: Span) -> TimeSpan:
    """Makes the record of an expression."""
    return TimeSpan(
        first=first,
        last=last,
        text=c.text[first:last],
        start=micros(span.start),
        end=micros(span.end),
        grain=_GRAINS.get(span.grain, span.grain),
        kind=span.kind,
    )


@functools.cache
def english() -> English:
    """Returns the English reader, made on first use."""
    return English()

"""Tags texts: which language, which time expressions, which intervals.

The rules are elsewhere; this decides what of their results is shown. What a reader would not guess: a text whose
language is not one of ours has no expressions at all, and one without a time of its own only those that need none.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from magma_gpu.timex import english, english_ranges, english_words
from magma_gpu.timex.grammar import UNKNOWN, Context, Grammar, Token
from magma_gpu.timex.intervals import EPOCH, Clock, Qty, Span, day_span, micros, with_clock
from magma_gpu.timex.scan import Scanner
from magma_gpu.types import TimeSpan


class English:
    """The English grammar and what it shows."""

    def __init__(self) -> None:
        g = self._grammar = Grammar()
        english.add_numbers(g)
        english.add_dates(g)
        english_ranges.add_clock(g)
        english.add_relative(g)
        english_ranges.add_bare(g)
        english_ranges.add_clock_dates(g)
        english_ranges.add_repetition(g)
        english_ranges.add_ranges(g)
        self._scanner = Scanner(
            g.classes,
            english_words.lexicon(),
            capitals=english_words.CAPITALS,
            future=english_words.FUTURE,
        )
        code = g.classes.code
        self._may, self._month = code("may"), code("month")
        self._shown = {code(n): n for n in ("A", "R", "Q", "E", "C", "CR", "CO", "CP", "part", "meal")}
        self._before = {code(n): n for n in ("for", "in", "the", "at", "good", "a", "within", "over", "about", "late")}

    def spans(self, text: str, context: Context) -> list[TimeSpan]:
        tokens, useful = self._scanner.scan(text, context)
        if not useful:
            return []
        tokens = english_words.read_numbers([self._named(t, text) for t in tokens], self._grammar.classes)
        tokens = self._grammar.reduce(tokens, context)
        found = []
        for k, token in enumerate(tokens):
            name = self._shown.get(token.code)
            if name is not None:
                span = self._show(name, token, tokens, k, context)
                if span is not None:
                    found.append(span)
        return found

    def _named(self, token: Token, text: str) -> Token:
        """May and March inside a sentence are months when they have a capital."""
        if token.code != self._may or not text[token.first].isupper():
            return token
        before = text[: token.first].rstrip()
        inside = bool(before) and before[-1] not in ".!?\n"
        return Token(self._month, token.first, token.last, token.value) if inside else token

    def _show(self, name: str, token: Token, tokens: list[Token], k: int, c: Context) -> TimeSpan | None:
        before = self._before.get(tokens[k - 1].code, "") if k else ""
        c.at = token.first
        first, value = token.first, token.value
        if name == "Q":
            if value.article and before not in ("for", "in", "within", "about"):
                return None
            return _duration(c, token) if c.ref else None
        if name in ("C", "CR", "CO", "CP", "part", "meal"):
            if c.ref is None:
                return None
            if name in ("part", "meal"):
                if name == "part" and before not in ("the",):
                    return None
                value = Clock(value[0] * 3600, value[1] * 3600, "part_of_day")
                while k and self._before.get(tokens[k - 1].code) in ("in", "the", "at"):
                    k -= 1
                    first = tokens[k].first
            value = with_clock(day_span(c.ref), english_ranges._afternoon(value))
        span = c.fix(value)
        if span is not None and span.start == span.end:
            # "now" is a moment; an interval needs a length.
            span = replace(span, end=span.start + timedelta(seconds=1))
        if span is None or span.start >= span.end:
            return None
        return _made(c, first, token.last, span)


def _duration(c: Context, token: Token) -> TimeSpan | None:
    """A bare duration has no place; it is shown as ending at the text's own time."""
    qty: Qty = token.value
    assert c.ref is not None
    span = Span(c.ref - timedelta(seconds=qty.seconds()), c.ref, qty.parts[-1][0], "duration")
    return _made(c, token.first, token.last, span)


def _made(c: Context, first: int, last: int, span: Span) -> TimeSpan:
    return TimeSpan(
        first=first,
        last=last,
        text=c.text[first:last],
        start=micros(span.start),
        end=micros(span.end),
        grain=span.grain,
        kind=span.kind,
    )


@functools.cache
def _english() -> English:
    return English()


def lowered(text: str) -> str:
    """Returns the text in lower case with every character in its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def tag(texts: Sequence[str], references: Sequence[int | None]) -> list[list[TimeSpan]]:
    """Finds the time expressions of texts and resolves them against each text's own time.

    Args:
        texts: any texts, in any language; those of a language that is not supported have no expressions.
        references: for each text its own time in microseconds since 1970 in UTC, or None: then only expressions that
            need no reference are found.

    Returns:
        For each text its expressions, in order, without overlaps.
    """
    out = []
    for text, reference in zip(texts, references, strict=True):
        ref = None if reference is None else EPOCH + timedelta(microseconds=reference)
        spans = _english().spans(text, Context(lowered(text), ref))
        out.append([replace(s, text=text[s.first : s.last]) for s in spans])
    return out


__all__ = ["UNKNOWN", "Any", "tag"]

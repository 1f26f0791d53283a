"""Tags texts: which language, which time expressions, which intervals.

The rules are elsewhere; this decides what of their results is shown. What a reader would not guess: a text whose
language is not one of ours has no expressions at all, and one without a time of its own only those that need none.
"""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from magma_gpu.timex import (
    chinese,
    english_beside,
    english_clock,
    english_dates,
    english_ranges,
    english_relative,
    english_words,
    french,
    german,
    japanese,
    spanish,
)
from magma_gpu.timex.grammar import Context, Grammar, Token
from magma_gpu.timex.intervals import EPOCH, Cal, Clock, Qty, Span, day_span, micros, with_clock
from magma_gpu.timex.language import Detector
from magma_gpu.timex.rewrite import FILLER, Order, Piece, cut, original, reorder
from magma_gpu.timex.scan import Scanner
from magma_gpu.types import TimeSpan

_ISO_DATE = re.compile(r"(?<!\d)([12]\d{3})-(\d\d)-(\d\d)(?!\d)", re.ASCII)


# "May I", "may be": no month.
_ASKING = re.compile(r"\s+(?:i|we|you|he|she|it|they|be|not|have)\b", re.IGNORECASE)


_SHORT = re.compile(r"\d+[dhswy]")
_RATE = re.compile(r"(?:s|e|\d|what|such|quite|half|per|of|\$)\s+$")
_SHORT_AFTER = ("for", "in", "within", "over", "about", "after", "last")


class English:
    """The English grammar and what it shows."""

    def __init__(self) -> None:
        g = self._grammar = Grammar()
        english_dates.add_numbers(g)
        english_dates.add_dates(g)
        english_clock.add_clock(g)
        english_relative.add_relative(g)
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
        self._words = english_words.lexicon().keys()
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

    def spans(self, text: str, context: Context) -> list[TimeSpan]:
        """Returns the expressions of a text."""
        tokens, useful = self._scanner.scan(text, context)
        if not useful:
            return []
        tokens = english_words.read_numbers([self._named(t, text) for t in tokens], self._grammar.classes)
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
        before = text[: token.first].rstrip()
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
        return _made(c, first, token.last, span)


def _is_length(qty: Qty, token: Token, c: Context) -> bool:
    """Says whether "a week" is a length rather than a rate ("two lessons a week") or a figure of speech ("a day")."""
    if qty.parts[0][0] in ("second", "minute", "day", "weekday", "weekend", "season"):
        return False
    return not _RATE.search(c.text, max(0, token.first - 24), token.first)


def _duration(c: Context, token: Token) -> TimeSpan | None:
    """A bare duration has no place; it is shown as ending at the text's own time."""
    qty: Qty = token.value
    assert c.ref is not None
    if qty.seconds() <= 0:
        return None
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


class Rewritten:
    """A language that is read through the English grammar."""

    def __init__(self, cut: Callable[[str], list[Piece]], orders: Sequence[Order]) -> None:
        self._cut = cut
        self._orders = orders

    def spans(self, context: Context) -> list[TimeSpan]:
        """Returns the expressions of a text."""
        pieces = reorder(self._cut(context.text), self._orders)
        if all(p.word == FILLER for p in pieces):
            return []
        text = " ".join(p.word for p in pieces)
        inner = Context(text, context.ref, past=context.past)
        spans = []
        last = 0
        for span in _english().spans(text, inner):
            start, end = original(pieces, span.first, span.last)
            if start >= last:
                spans.append(replace(span, first=start, last=end))
                last = end
        return spans


@functools.cache
def _rewritten() -> dict[str, Rewritten]:
    return {
        "de": Rewritten(lambda text: cut(text, german.BOOK, suffixes=german.SUFFIXES), german.ORDERS),
        "es": Rewritten(lambda text: cut(text, spanish.BOOK, suffixes=spanish.SUFFIXES), spanish.ORDERS),
        "ja": Rewritten(japanese.CUTTER.cut, japanese.ORDERS),
        "zh": Rewritten(chinese.CUTTER.cut, chinese.ORDERS),
        "fr": Rewritten(lambda text: cut(text, french.BOOK, suffixes=french.SUFFIXES), french.ORDERS),
    }


@functools.cache
def _english() -> English:
    return English()


@functools.cache
def _detector() -> Detector:
    books = {"de": german.BOOK, "es": spanish.BOOK, "fr": french.BOOK}
    return Detector({"en": _english().words()} | {lang: " ".join(book).split() for lang, book in books.items()})


def _iso_dates(c: Context) -> list[TimeSpan]:
    """Dates such as 2023-05-20 mean the same in every language."""
    spans = []
    for match in _ISO_DATE.finditer(c.text):
        span = c.fix(Cal(int(match[1]), int(match[2]), int(match[3])))
        if span is not None:
            spans.append(_made(c, match.start(), match.end(), span))
    return spans


def lowered(text: str) -> str:
    """Returns the text in lower case with every character in its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def tag(texts: Sequence[str], references: Sequence[int | None], *, past: bool = False) -> list[list[TimeSpan]]:
    """Finds the time expressions of texts and resolves them against each text's own time.

    Args:
        texts: any texts, in any language; those of a language that is not supported have no expressions.
        references: for each text its own time in microseconds since 1970 in UTC, or None: then only expressions that
            need no reference are found.
        past: whether what has no year or week is always looked for before the reference.

    Returns:
        For each text its expressions, in order, without overlaps.
    """
    out = []
    for text, reference in zip(texts, references, strict=True):
        ref = None if reference is None else EPOCH + timedelta(microseconds=reference)
        context = Context(lowered(text), ref, past=past)
        language = _detector().detect(context.text)
        if language == "en":
            spans = _english().spans(text, context)
        elif language in _rewritten():
            spans = _rewritten()[language].spans(context)
        else:
            spans = _iso_dates(context)
        out.append([replace(s, text=text[s.first : s.last]) for s in spans])
    return out

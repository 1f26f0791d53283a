"""Tags texts of several languages with time expressions and the intervals they mean.

English has a grammar of its own; the other languages are rewritten into it. What a reader would not guess: a text
whose language is not one of ours has no expressions but ISO dates, and one without a time of its own only those that
need none.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from types import ModuleType

from magma_gpu.timex import chinese, french, german, japanese, spanish
from magma_gpu.timex.english import english, made
from magma_gpu.timex.grammar import Context
from magma_gpu.timex.intervals import EPOCH, Cal
from magma_gpu.timex.language import Detector, words_of
from magma_gpu.timex.rewrite import Order, Piece, cut, longest_phrases, original, reorder
from magma_gpu.timex.scan import moment
from magma_gpu.types import TimeSpan

# A long text is read in stretches that end with a sentence, so that the time it takes grows with its length only.
_STRETCH = re.compile(r".{1,800}(?:(?<=[!?。！？\n.])|$)|.{1,800}", re.DOTALL)
_ISO_DATE = re.compile(
    r"(?<!\d)([12]\d{3})-(\d\d)-(\d\d)(?!\d)"
    r"(?P<time>t\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z\b|[+-]\d\d:?\d\d(?!\d))?(?![\d:]))?",
    re.ASCII,
)


def _article(text: str) -> int:
    """Returns the length of an article before a number, which the other languages do not count to the date."""
    return 4 if re.match(r"the \d", text) else 0


class Rewritten:
    """A language that is read through the English grammar."""

    def __init__(self, cut: Callable[[str], list[Piece]], orders: Sequence[Order]) -> None:
        self._cut = cut
        self._orders = orders

    def spans(self, context: Context) -> list[TimeSpan]:
        """Returns the expressions of a text, read a few sentences at a time."""
        spans: list[TimeSpan] = []
        for match in _STRETCH.finditer(context.text):
            at = match.start()
            spans.extend(replace(s, first=s.first + at, last=s.last + at) for s in self._read(match[0], context))
        return spans

    def _read(self, part: str, context: Context) -> list[TimeSpan]:
        pieces = reorder(self._cut(part), self._orders)
        text = " ".join([p.word for p in pieces])
        if english().silent(text, words_of(text)):
            return []
        inner = Context(text, context.ref, past=context.past, rewritten=True)
        spans = []
        last = 0
        for span in english().spans(text, inner):
            start, end = original(pieces, span.first + _article(span.text), span.last)
            if start >= last:
                spans.append(replace(span, first=start, last=end))
                last = end
        return spans


def _with_blanks(language: ModuleType) -> Rewritten:
    """Returns a language with blanks between words, by its phrase book, ordinals and rules about order."""
    book, longest, suffixes = language.BOOK, longest_phrases(language.BOOK), language.SUFFIXES
    return Rewritten(lambda text: cut(text, book, longest, suffixes=suffixes), language.ORDERS)


@functools.cache
def _rewritten() -> dict[str, Rewritten]:
    return {
        "de": _with_blanks(german),
        "es": _with_blanks(spanish),
        "ja": Rewritten(japanese.CUTTER.cut, japanese.ORDERS),
        "zh": Rewritten(chinese.CUTTER.cut, chinese.ORDERS),
        "fr": _with_blanks(french),
    }


@functools.cache
def _detector() -> Detector:
    books = {"de": german.BOOK, "es": spanish.BOOK, "fr": french.BOOK}
    return Detector({"en": english().words()} | {lang: " ".join(book).split() for lang, book in books.items()})


def _iso_dates(c: Context) -> list[TimeSpan]:
    """Dates such as 2023-05-20 and 2023-05-20T02:21 mean the same in every language."""
    spans = []
    for match in _ISO_DATE.finditer(c.text):
        span = c.fix(Cal(int(match[1]), int(match[2]), int(match[3])) if match["time"] is None else moment(match[0])[1])
        if span is not None:
            spans.append(made(c, match.start(), match.end(), span))
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
    out: list[list[TimeSpan]] = []
    grammar, detector, others = english(), _detector(), _rewritten()
    for text, reference in zip(texts, references, strict=True):
        low = lowered(text)
        words = words_of(low)
        language = detector.detect(low, words)
        if language == "en" and grammar.silent(low, words):
            out.append([])
            continue
        ref = None if reference is None else EPOCH + timedelta(microseconds=reference)
        context = Context(low, ref, past=past)
        if language == "en":
            spans = grammar.spans(text, context)
        elif language in others:
            spans = others[language].spans(context)
        else:
            spans = _iso_dates(context)
        out.append([replace(s, text=text[s.first : s.last]) for s in spans])
    return out

"""Cuts a text of a language with blanks between words into classed tokens.

It looks words up and reads numeric literals; it resolves nothing. What a reader would not guess: digits glued to an
unknown word (`A1B2`) are unknown too, so codes and names do not turn into dates.
"""

import re
from collections.abc import Mapping, Set
from datetime import UTC, datetime, timedelta
from typing import Any

from magma_gpu.timex.grammar import UNKNOWN, Classes, Context, Token
from magma_gpu.timex.intervals import Cal, Clock, Span

Lexicon = Mapping[str, tuple[str, Any]]

# Most tokens are plain words, and most others begin with no digit: both are told first.
_MASTER = re.compile(
    r"(?P<plain>[b-oq-vx-z][^\W\d_]*)"
    r"|(?=\d)(?:"
    r"(?P<iso>(?<!\d)\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z\b|[+-]\d\d:?\d\d(?!\d))?(?![\d:]))"
    r"|(?P<ymd>(?<!\d)\d{4}(?P<sep>[-/.])\d{1,2}(?P=sep)\d{1,2}(?!\d))"
    r"|(?P<compact>(?<!\d)(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d))"
    r"|(?P<dmy>(?<![\d/.])(?:(?<!\d-)\d{1,2}(?P<sep2>[-.])\d{1,2}(?P=sep2)(?:\d{4}|\d\d)(?!\d|[-/]\d)"
    r"|\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)(?!\d|/\d)))"
    r"|(?P<hm>(?<![\d:])\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?![\d:]))"
    r"|(?P<h24>(?<![\w:.])\d{1,2}h\d{2}(?!\w))"
    r"|(?P<ym>(?<![\w/.-])[12]\d{3}[-/](?:0?[1-9]|1[0-2])(?![\w/-]))"
    r"|(?P<my>(?<![\w/.-])\d{1,2}[-/]\d{4}(?!\d|[-/]))"
    r"|(?P<md>(?<![\d/])\d{1,2}/\d{1,2}(?![\d/]))"
    r"|(?P<big>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?)"
    r"|(?P<dec>\d+\.\d+)"
    r"|(?P<ordd>\d+(?:st|nd|rd|th)\b)"
    r"|(?P<digits>\d+))"
    r"|(?P<point>(?<![\w.])\.\d+)"
    r"|(?P<ampm>(?<![^\W\d_])[ap](?:\s?\.\s?m\b(?:\s?\.)?|\s?m\b|(?<=\d[ap])\b))"
    r"|(?P<frac>[½¼¾])"
    r"|(?P<word>week-ends?|[^\W\d_]+)"
    r"|(?P<suffix>['’](?:s|ll|re|d|ve|m|t)\b)"
    r"|(?P<break>[!?\n;]|\.(?=\s|$))"
    r"|(?P<other>\S)"
)
# "How about Friday?", "what about Friday?"
_ABOUT = ("how ", "hat ")
_WORDS = ("plain", "word", "suffix")
_PUNCTUATION = {
    ",": "comma",
    "-": "dash",
    "–": "dash",
    "—": "dash",
    "~": "dash",
    "/": "slash",
    "(": "lpar",
    ")": "rpar",
    "'": "quote",
    "’": "quote",
    "$": "money",
    "€": "money",
    "£": "money",
    "#": "money",
    "<": "lt",
    ">": "gt",
    "=": "eq",
    "+": "plus",
    "%": "percent",
    "@": "at",
    ".": "dot",
}
_FRACTIONS = {"½": 0.5, "¼": 0.25, "¾": 0.75}
# Units that are one letter, only behind digits: 3h, 10d.
_GLUED = {"h": "hour", "d": "day", "y": "year", "w": "week", "s": "second", "mo": "month", "mos": "month"}


_DATE_NEXT = re.compile(
    r"[.,]?\s*(?:\d|\()|[.,]\s*[A-Z][a-z]{2}|\s?[-–/]\s?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
    r"|\s+(?:(?:next|this|last)\s|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))"
)
# "On sat", "by wed": no capital, and yet a day.
_DAY_BEFORE = re.compile(r"\b(?:on|by|next|every|until|til|till)\s$")
_DAY_AFTER = re.compile(r"\s*(?:$|[,.!?;/-]|(?:at|or|and|morning|afternoon|evening|night|\d)\b)")


class Scanner:
    """Cuts texts by one lexicon."""

    def __init__(
        self,
        classes: Classes,
        lexicon: Lexicon,
        *,
        capitals: Set[str] = frozenset(),
        future: Set[str] = frozenset(),
        past: Set[str] = frozenset(),
        day_first: bool = False,
    ) -> None:
        """Args:
        classes: where the class names of the lexicon get their characters.
        lexicon: lower-case words with class name and value.
        capitals: words that count only with a capital letter (Sun, Sat).
        future: words that put what stands near them into the future.
        past: words that put it into the past.
        day_first: how 3/4/2023 is read.
        """
        self._code = classes.code
        self._words = {w: (classes.code(name), value) for w, (name, value) in lexicon.items()}
        self._capitals = capitals
        self._future = future
        self._past = past
        self._day_first = day_first

    def scan(self, original: str, context: Context) -> tuple[list[Token], bool]:
        """Returns the tokens, and whether any of them could be part of a time expression."""
        tokens: list[Token] = []
        text, code, words = context.text, self._code, self._words
        future, past, capitals = self._future, self._past, self._capitals
        useful = False
        for match in _MASTER.finditer(text):
            kind = match.lastgroup
            if kind in _WORDS:
                word = match[0]
                first, last = match.span()
                if word in future or (word == "about" and text[max(0, first - 4) : first] in _ABOUT):
                    context.future.append(first)
                elif word in past or (past and len(word) > 4 and word.endswith("ed")):
                    context.gone.append(first)
                if (word in _GLUED or word == "m") and first and text[first - 1].isdigit():
                    unit = _GLUED.get(word) or _unit_m(original, first, tokens)
                    if unit is not None:
                        tokens.append(Token(code("unit"), first, last, unit))
                        useful = True
                        continue
                found = words.get(word)
                if found is not None and word in capitals and not _named(original, first):
                    found = None
                if found is not None:
                    useful = True
                    tokens.append(Token(found[0], first, last, found[1]))
                else:
                    tokens.append(Token(UNKNOWN, first, last))
                continue
            if kind == "break":
                context.ends.append(match.end())
                tokens.append(Token(code("stop"), match.start(), match.end()))
                continue
            token = self._literal(kind or "", match, tokens)
            useful = useful or token.code != UNKNOWN
            tokens.append(token)
        return tokens, useful

    def _literal(self, kind: str, match: re.Match[str], tokens: list[Token]) -> Token:
        text, (first, last) = match[0], match.span()
        if kind in ("other", "frac"):
            if kind == "frac":
                return Token(self._code("frac"), first, last, _FRACTIONS[text])
            name = _PUNCTUATION.get(text)
            return Token(self._code(name) if name else UNKNOWN, first, last)
        if kind == "ampm":
            return Token(self._code("ampm"), first, last, text[0])
        glued = bool(tokens) and tokens[-1].last == first and tokens[-1].code == UNKNOWN
        if glued and match.string[first - 1].isalpha():
            return Token(UNKNOWN, first, last)
        name, value = self._number(kind, text)
        return Token(self._code(name) if name else UNKNOWN, first, last, value)

    def _number(self, kind: str, text: str) -> tuple[str, Any]:
        if kind == "digits":
            name = {1: "d", 2: "d", 4: "d4"}.get(len(text), "dn")
            return name, int(text[:18])
        if kind == "big":
            return "dn", float(text.replace(",", ""))
        if kind == "dec" or kind == "point":
            return "dec", float(text)
        if kind == "ordd":
            return "ordd", int(text[:-2][:9])
        if kind == "hm":
            return _clock(text)
        if kind == "h24":
            return _clock(text.replace("h", ":"))
        if kind == "iso":
            return moment(text)
        numbers = [int(n) for n in re.findall(r"\d+", text)]
        if kind == "compact":
            return "date", Cal(int(text[:4]), int(text[4:6]), int(text[6:]))
        if kind == "ymd":
            return _checked(Cal(*numbers))
        if kind == "ym":
            return _checked(Cal(numbers[0], numbers[1], None))
        if kind == "my":
            return _checked(Cal(numbers[1], numbers[0], None))
        if kind == "md":
            day, month = numbers if self._day_first else numbers[::-1]
            if month > 12:
                # 22/04 is a date only where the words beside it say so; 24/7 is none anywhere.
                name, cal = _checked(Cal(None, day, month))
                return ("dm" if name and numbers != [24, 7] else "", cal)
            return _checked(Cal(None, month, day))
        day, month, year = numbers
        if not self._day_first and "." not in text:
            day, month = month, day
        if month > 12:
            day, month = month, day
        if year < 100:
            year += 2000 if year < 50 else 1900
        return _checked(Cal(year, month, day))


# "Sat 5 jan", "wed the 2nd", "mon 2/1".
_DATE_AFTER = re.compile(
    r",?\s(?:the\s)?(?:\d{1,2}(?:st|nd|rd|th)\b|\d{1,2}/\d{1,2}\b|(?:\d{1,2}\s)?(?:jan|feb|apr|jun|jul|aug|sep|oct|nov|dec)"
    r"|\d{1,2}\s(?:mar|may)|(?:mar|may)\s\d)",
    re.IGNORECASE,
)
_FOR_M = re.compile(r"\bfor \d{1,3}[mM]$")
_END = re.compile(r"\s*(?:$|[.,!?;])")
_DAYS = ("mon", "wed", "sat", "sun")


def _named(original: str, first: int) -> bool:
    """Says whether a word stands with a capital that the start of a sentence does not explain."""
    if not original[first].isupper():
        end = first + 3
        if original[first:end] not in _DAYS:
            return False
        if _DATE_AFTER.match(original, end):
            return True
        if not _DAY_AFTER.match(original, end):
            return False
        return _DAY_BEFORE.search(original, max(0, first - 8), first) is not None
    if _DATE_NEXT.match(original, first + 3):
        return True
    before = original[max(0, first - 8) : first].rstrip()
    return bool(before) and before[-1] not in ".!?\n"


def _unit_m(original: str, first: int, tokens: list[Token]) -> str | None:
    """Says what an m glued to a number is: minutes in "1h 30m" and "for 5m", months in "for 5M", else nothing sure."""
    if len(tokens) > 1 and tokens[-2].value == "hour":
        return "minute"
    if not _FOR_M.search(original, max(0, first - 12), first + 1) or not _END.match(original, first + 1):
        return None
    return "minute" if original[first] == "m" else "month"


def _checked(cal: Cal) -> tuple[str, Any]:
    good = 1 <= (cal.month or 1) <= 12 and 1 <= (cal.day or 1) <= 31 and (cal.year is None or cal.year > 0)
    name = "date" if cal.year is not None or cal.day is None else "md"
    return (name, cal) if good else ("", None)


def moment(text: str) -> tuple[str, Any]:
    """Returns class and value of a date with a time of day and perhaps an offset from UTC."""
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        return "", None
    if at.tzinfo is not None:
        at = at.astimezone(UTC).replace(tzinfo=None)
    seconds = text.count(":", 0, 19) > 1
    length = timedelta(seconds=1) if seconds else timedelta(minutes=1)
    at = at.replace(microsecond=0)
    return "A", Span(at, at + length, "second" if seconds else "minute", "time")


def _clock(text: str) -> tuple[str, Any]:
    parts = text.split(":")
    hour, minute = int(parts[0]), int(parts[1])
    second = int(float(parts[2])) if len(parts) > 2 else 0
    if hour > 24 or minute > 59 or second > 60:
        return "", None
    start = hour * 3600 + minute * 60 + second
    loose = 1 <= hour <= 12 and not text.startswith("0")
    grain, length = ("second", 1) if len(parts) > 2 else ("minute", 60)
    return "hm", Clock(start, start + length, grain, loose)

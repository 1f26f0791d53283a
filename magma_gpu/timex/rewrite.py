"""Rewrites texts of other languages, word by word, into words that the English grammar reads.

A language is a phrase book and a few rules about order; this is what they share. What a reader would not guess:
the rewritten text is no English and is never shown. Words without a meaning for time become one filler word, and
every word remembers the characters that it came from, so that a span lies on the original text again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

FILLER = "zz"
# English words for months that the English grammar does not take for verbs.
MONTHS = "january february xmarch april xmay june july august september october november december".split()


@dataclass(frozen=True, slots=True)
class Piece:
    """A word of the rewritten text and the characters of the original that it stands for."""

    word: str
    first: int
    last: int


Make = Callable[[re.Match[str]], Sequence[int | str] | None]


@dataclass(frozen=True, slots=True)
class Order:
    """What a pattern over words becomes.

    `parts` are numbers of groups of the pattern, taken as they are, and words, which stand for the whole match; a
    function makes the parts from the match, or returns None to leave it.
    """

    pattern: re.Pattern[str]
    parts: Sequence[int | str] | Make


_ONES = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    "seventeen|eighteen|nineteen"
)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_MACROS = {
    "NUM": rf"(?:\d+(?:\.\d+)?|{_ONES}|{_TENS}|hundred|thousand|few|several|some|couple)",
    "UNIT": r"(?:seconds?|minutes?|hours?|days?|weeks?|weekends?|fortnights?|months?|quarters?|years?|decades?"
    r"|century|centuries|nights?)",
    "DOW": r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?",
    "MONTH": "(?:" + "|".join(MONTHS) + ")",
    "SEASON": r"(?:spring|summer|autumn|winter)",
    "HOLIDAY": r"(?:christmas|easter|halloween|thanksgiving)",
    "STEP": r"(?:last|next|this|coming)",
    "PART": r"(?:morning|afternoon|evening|night)",
    "ISO": r"\d{4}-\d\d?-\d\d?",
    "CLOCK": r"\d{1,2}:\d\d",
}


def order(
    pattern: str, *parts: int | str, make: Callable[[re.Match[str]], Sequence[int | str] | None] | None = None
) -> Order:
    """Makes a rule; capital names in the pattern stand for sets of words, and every word ends with a blank."""
    for name, regex in _MACROS.items():
        pattern = re.sub(rf"\b{name}\b", lambda _, r=regex: r, pattern)  # type: ignore[misc]
    return Order(re.compile(r"(?<!\S)" + pattern), make or parts)


_TIMED = re.compile(
    "|".join(_MACROS[n] for n in ("NUM", "UNIT", "MONTH", "ISO", "SEASON", "PART")) + r"|\d+th|half|end"
)
_VALUES = {w: k for k, w in enumerate(_ONES.split("|"))} | {w: 20 + 10 * k for k, w in enumerate(_TENS.split("|"))}


def number(text: str) -> int | None:
    """Returns the value of words such as "twenty five", or None."""
    total = 0
    for word in text.split():
        if word.isdigit():
            total += int(word)
        elif word in _VALUES:
            total += _VALUES[word]
        else:
            return None
    return total


def clock(match: re.Match[str], minutes: int) -> Sequence[int | str] | None:
    """Makes a time of day out of an hour in group 1 and minutes; the hour may stand in words."""
    hour = number(match[1])
    if hour is None or hour > 24:
        return None
    total = (hour * 60 + minutes) % 1440
    return [f"{total // 60 or 12 if hour < 13 else total // 60}:{total % 60:02d}"]


def oclock(match: re.Match[str], group: int) -> Sequence[int | str] | None:
    """Makes "at 15:00" out of an hour in a group, in digits or words."""
    hour = number(match[group])
    return ["at", f"{hour} oclock"] if hour is not None and hour <= 24 else None


def with_minutes(match: re.Match[str]) -> Sequence[int | str] | None:
    """Makes "8:20" out of an hour in group 1 and minutes in group 2."""
    minutes = number(match[2])
    return clock(match, minutes) if minutes is not None and minutes < 60 else None


def begins(match: re.Match[str]) -> bool:
    """Says whether what stands before a match leaves it free to be the start of a range."""
    before = match.string[max(0, match.start() - 24) : match.start()].split()
    return not before or not _TIMED.fullmatch(before[-1])


def read_book(text: str) -> dict[str, str]:
    """Reads a phrase book: lines of an English meaning, a colon, and phrases between commas."""
    book = {}
    for line in text.strip().splitlines():
        meaning, _, phrases = line.partition(":")
        for phrase in phrases.split(","):
            book[phrase.strip()] = meaning.strip()
    return book


def reorder(pieces: list[Piece], orders: Iterable[Order]) -> list[Piece]:
    """Applies rules about order, one after another."""
    words = "".join([p.word + " " for p in pieces])
    for rule in orders:
        if rule.pattern.search(words) is None:
            continue
        out: list[Piece] = []
        done = 0
        for match in rule.pattern.finditer(words):
            parts = rule.parts(match) if callable(rule.parts) else rule.parts
            if parts is None:
                continue
            first, last = words.count(" ", 0, match.start()), words.count(" ", 0, match.end())
            out.extend(pieces[done:first])
            span = (min(p.first for p in pieces[first:last]), max(p.last for p in pieces[first:last]))
            for part in parts:
                if isinstance(part, str):
                    out.extend(Piece(word, *span) for word in part.split())
                elif match[part] is not None:
                    a, b = (words.count(" ", 0, k) for k in match.span(part))
                    out.extend(pieces[a:b])
            done = last
        out.extend(pieces[done:])
        pieces = out
        words = "".join([p.word + " " for p in pieces])
    return pieces


def original(pieces: Sequence[Piece], first: int, last: int) -> tuple[int, int]:
    """Returns the characters of the original text behind characters of the rewritten one."""
    at, firsts, lasts = 0, [], []
    for piece in pieces:
        end = at + len(piece.word)
        if at < last and end > first:
            firsts.append(piece.first)
            lasts.append(piece.last)
        at = end + 1
    return min(firsts), max(lasts)


# What the languages with blanks between words share, after their own rules.
COMMON: tuple[Order, ...] = (
    order(
        rf"((?:{_TENS}) )and ((?:one|two|three|four|five|six|seven|eight|nine) )",
        1,
        2,
    ),
    order(r"(MONTH |DOW )\. (?=\S)", 1),
    order(r"(\d{1,2} )[-/] (MONTH )[-/] (\d{4} )", 1, 2, 3),
    order(r"(\d{4} )[-/] (MONTH )[-/] (\d{1,2} )", 2, 3, 1),
    order(r"(\d{1,2} )[-/] (\d{4} )[-/] (MONTH )", 3, 1, 2),
    order(r"(MONTH )[-/] (\d{4} )", 1, 2),
    order(r"(between |and |until |from |since |before |after |to |at )the (?=CLOCK|\d{1,2} |NUM)", 1),
    order(r"(?:the )?years (\d0) ", make=lambda m: [f"the 19{m[1]}s"]),
    order(r"(?:the )?decade (?:of )?(\d{3}0) ", make=lambda m: [f"{m[1]}s"]),
    order(r"century (\d{1,2}) ", make=lambda m: [f"{m[1]}th century"]),
    order(r"((?:UNIT|DOW|MONTH|SEASON|HOLIDAY) )(STEP )", 2, 1),
    order(r"(?:the |this )((?:DOW) )(last )", 2, 1),
    order(r"this last (DOW )", "last", 1),
    order(r"((?:NUM ){1,3})(?:of )?(UNIT )(last |next )", 3, 1, 2),
)

_LITERAL = re.compile(
    r"(?P<ymd>(?<!\d)\d{4}(?P<s1>[-/.])\d{1,2}(?P=s1)\d{1,2}(?!\d))"
    r"|(?P<dmy>(?<![\d/.])\d{1,2}(?P<s2>[-/.])\d{1,2}(?P=s2)(?:\d{4}|\d\d)(?!\d))"
    r"|(?P<hm>(?<![\d:])\d{1,2}(?::\d\d(?::\d\d)?|h\d\d)(?![\d:]))"
    r"|(?P<hours>(?<![\d:.,])\d{1,2}\s?h(?![^\W_]))"
    r"|(?P<dm>(?<![\d/])\d{1,2}/\d{1,2}(?![\d/]))"
    r"|(?P<dec>\d+,\d+)"
    r"|(?P<raw>\d+(?:\.\d+)?(?:-\d+-\d+)?)"
    r"|(?P<ampm>(?<![^\W\d_])[ap]\.?\s?m\b\.?)"
    r"|(?P<word>[^\W\d_]+)"
    r"|(?P<other>\S)"
)


def longest_phrases(book: Mapping[str, str]) -> dict[str, int]:
    """Returns for each word that a phrase of a book begins with how many words its longest phrase has."""
    longest: dict[str, int] = {}
    for phrase in book:
        first, *rest = phrase.split(" ")
        longest[first] = max(longest.get(first, 0), 1 + len(rest))
    return longest


def cut(
    text: str,
    book: Mapping[str, str],
    longest: Mapping[str, int],
    *,
    suffixes: re.Pattern[str] | None = None,
) -> list[Piece]:
    """Cuts a lower-case text with blanks between words and translates it by the longest phrases of a book.

    Args:
        text: the text, days before months in its numeric dates.
        book: phrases and their meaning.
        longest: how long the phrases of the book are, by their first word.
        suffixes: digits with what makes an ordinal of them ("1er", "2."), the digits as group 1.
    """
    raw: list[tuple[str, str, int, int]] = []
    at = 0
    while (match := _LITERAL.search(text, at)) is not None:
        kind, word = match.lastgroup or "other", match[0]
        if kind == "raw" and suffixes is not None:
            ordinal = suffixes.match(text, match.start())
            if ordinal is not None:
                kind, word, match = "ordinal", ordinal[1], ordinal
        raw.append((kind, word, match.start(), match.end()))
        at = match.end()
    return _translate(raw, book, longest)


def _translate(
    raw: list[tuple[str, str, int, int]], book: Mapping[str, str], longest: Mapping[str, int]
) -> list[Piece]:
    pieces: list[Piece] = []
    k = 0
    while k < len(raw):
        kind, text, first, last = raw[k]
        if kind in ("word", "other"):
            for size in range(min(longest.get(text, 0), len(raw) - k), 0, -1):
                phrase = text if size == 1 else " ".join([r[1] for r in raw[k : k + size]])
                if phrase in book:
                    last = raw[k + size - 1][3]
                    pieces.extend([Piece(word, first, last) for word in book[phrase].split()])
                    k += size
                    break
            else:
                pieces.append(Piece(FILLER if kind == "word" else text, first, last))
                k += 1
            continue
        pieces.extend([Piece(word, first, last) for word in _literal(kind, text).split()])
        k += 1
    return pieces


def _literal(kind: str, text: str) -> str:
    if kind == "ordinal":
        return f"{int(text)}th"
    if kind == "hm":
        return text.replace("h", ":")
    if kind == "hours":
        return text.rstrip("h").strip() + " hours"
    if kind == "dec":
        return text.replace(",", ".")
    if kind == "ampm":
        return text[0] + "m"
    numbers = [int(n) for n in re.findall(r"\d+", text)] if kind in ("dm", "dmy", "ymd") else []
    if kind == "dm":
        day, month = numbers
        return f"{MONTHS[month - 1]} {day}" if 1 <= month <= 12 and 1 <= day <= 31 else text
    if kind == "dmy":
        day, month, year = numbers
        if month > 12:
            day, month = month, day
        year += (2000 if year < 50 else 1900) if year < 100 else 0
        return f"{year}-{month}-{day}" if 1 <= month <= 12 else text
    if kind == "ymd" and numbers[1] > 12:
        return f"{numbers[0]}-{numbers[2]}-{numbers[1]}"
    return text

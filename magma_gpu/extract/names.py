"""Finds names in the texts of a window by their capitals and the words around them, without a model.

It decides what is a name and of which type, never who is meant: that is `entities`. English only, but for the
names of speakers, which are found in every script. A capital at the start of a sentence proves nothing: such
a word is a name only where something else in the window says so.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from magma_gpu.extract import words
from magma_gpu.extract.keys import is_short_form
from magma_gpu.types import ROLES, Mention

TYPES = ("person", "place", "organisation", "thing", "topic")

_WORD = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W_]+(?:['’\-][^\W_]+)*")
# Bounded repeats: a text of a hundred thousand "x@" takes no longer than any other.
_URL = re.compile(r"(?:https?://|www\.)\S+|[\w.+\-]{1,64}@[\w\-]{1,64}(?:\.[\w\-]{1,64}){1,4}")
_QUOTED = re.compile(r"[\"“«]([^\"”»\n]{2,60})[\"”»]")
_HASHTAG = re.compile(r"(?<!\w)#(?=\w*[^\W\d_])\w{2,40}")
# "Lee from the bakery": who is told apart by where they belong.
_DESCRIBED = re.compile(
    r" from (?:(?:the|my|our|his|her|their) [a-z]{3,20}(?: (?:club|shop|store|team|class|school|"
    r"office|group|church|studio|department|street|company|band))?|"
    r"work|school|college|church|accounting|marketing|next door)\b"
)
_DESCRIBED_AFTER = words.word_set("or and with met saw see called named that by is about know like")
_CONTRACTIONS = ("'s", "'m", "'ll", "'ve", "'d", "'re")
_CONNECTORS = words.word_set("of de da do dos van von der la del y di du al bin le")
_BREAKERS = words.CALENDAR | {"i"}
_DETERMINERS = words.word_set("the a an my our your his her its their this that these those some")
_GOING = words.word_set("went go going gone move moved moving trip travel travelled traveled fly flew drive drove")
_COMING = words.word_set("came come coming moved am i'm is flew back are")
_MEETING = words.word_set("met married dating hug tell ask told asked miss")
_GERMAN = words.word_set("und der die das ist nicht ich ein eine auch wir mit für")
_NO_NAMES = frozenset(ROLES) | {"human", "bot", "ai", "me", "i", "you", "unknown"}


@dataclass(slots=True)
class _Word:
    base: str
    lower: str
    start: int
    end: int
    # What stands between the word before and this one.
    gap: str
    opens: bool
    ends: bool


@dataclass(slots=True)
class _Candidate:
    surface: str
    type: str
    # Whether it is a name on its own, or only where the window names it elsewhere.
    sure: bool


def find_names(texts: Sequence[str], speakers: Sequence[str]) -> list[Mention]:
    """Returns the names in the texts of one window, sorted by index, surface and type.

    Args:
        texts: one text an event.
        speakers: who said each; names of roles ("user") are no names.
    """
    known = _Speakers(sorted(set(speakers)))
    found = [_candidates(text, known) for text in texts]
    named: set[str] = set()
    for candidate in (c for cs in found for c in cs if c.sure):
        lower = candidate.surface.lower()
        named.add(lower)
        if candidate.type == "person":
            named.update(part for part in lower.split() if part not in words.COMMON)
    types: dict[str, Counter[str]] = {}
    kept: set[tuple[int, str]] = set()
    for index, candidates in enumerate(found):
        for c in candidates:
            if c.sure or c.surface.lower() in named:
                kept.add((index, c.surface))
                types.setdefault(c.surface.lower(), Counter())[c.type] += 1
    # One type a name and window: a place cue for a person who was named as one elsewhere is noise.
    best = {key: min(count, key=lambda t: (-count[t], TYPES.index(t))) for key, count in types.items()}
    for key, count in types.items():
        if "person" in count and best[key] in ("thing", "topic", "place") and key not in words.PLACES:
            best[key] = "person"
    return [Mention(index=index, surface=s, type=best[s.lower()]) for index, s in sorted(kept)]


class _Speakers:
    """The names of a window's speakers, prepared for look-up."""

    def __init__(self, speakers: Sequence[str]) -> None:
        self.exact: set[str] = set()
        self.parts: set[str] = set()
        # Names that words do not show: scripts without spaces, nicknames with signs in them.
        self.whole: list[str] = []
        for speaker in speakers:
            lower = speaker.strip().lower()
            if len(lower) < 2 or lower in _NO_NAMES:
                continue
            match = _WORD.fullmatch(lower)
            if match is None or not (lower[0] < "ɐ" or lower[0].upper() != lower[0]):
                if " " not in lower or not lower.isascii():
                    self.whole.append(speaker.strip())
            else:
                self.exact.add(lower)
            self.parts.update(p for p in _WORD.findall(lower) if len(p) > 1 and p not in words.COMMON)

    def is_short_form(self, lower: str) -> bool:
        """Whether a word may be a speaker's nickname."""
        return any(is_short_form(lower, part) for part in self.parts)


def _candidates(text: str, known: _Speakers) -> list[_Candidate]:
    found: list[_Candidate] = []
    if "://" in text or "www." in text or "@" in text:
        text = _URL.sub(lambda m: " " * len(m.group()), text)
    found += [_Candidate(name, "person", True) for name in known.whole if name in text]
    if "#" in text:
        found += [_Candidate(tag, "topic", True) for tag in _HASHTAG.findall(text)]
    masked: list[tuple[int, int]] = []
    for match in _QUOTED.finditer(text) if '"' in text or "“" in text or "«" in text else ():
        if _is_title(match.group(1)):
            found.append(_Candidate(match.group(1).strip(), "thing", True))
            masked.append(match.span())
    tokens = _words(text)
    trusted = _capitals_mean_names(tokens)
    at = 0
    while at < len(tokens):
        word = tokens[at]
        if any(first <= word.start < last for first, last in masked):
            at += 1
        elif not _is_capital(word):
            greeted = at > 0 and tokens[at - 1].lower in words.GREETINGS and word.gap in (" ", ", ")
            known_here = word.lower in known.exact or (greeted and known.is_short_form(word.lower))
            if known_here and word.lower not in words.COMMON:
                found.append(_Candidate(word.base, "person", True))
            at += 1
        else:
            stop = _sequence_end(tokens, at)
            candidate = _judge(text, tokens, at, stop, known, trusted)
            if candidate is not None:
                found.append(candidate)
            at = stop
    return found


def _words(text: str) -> list[_Word]:
    made: list[_Word] = []
    before = 0
    for match in _WORD.finditer(text):
        raw = match.group()
        start, end = match.span()
        base, ends = raw, False
        cut = max(raw.rfind("'"), raw.rfind("’"))
        if cut > 0 and raw[cut:].replace("’", "'").lower() in _CONTRACTIONS:
            base, ends = raw[:cut], True
        gap = text[before:start]
        opens = not made or (gap != " " and _opens_sentence(gap, made[-1]))
        made.append(_Word(base, base.lower(), start, end, gap, opens, ends))
        before = end
    return made


def _opens_sentence(gap: str, before: _Word) -> bool:
    if gap == ". " and (before.lower in words.ABBREVIATED or (len(before.base) == 1 and before.base.isupper())):
        return False
    return any(c in '.!?…:;\n"“«•*-–—' or ord(c) > 0x2100 for c in gap)


def _is_capital(word: _Word) -> bool:
    first = word.base[0]
    latin = first < "ɐ" or "Ḁ" <= first <= "ỿ"
    return latin and first.isupper() and word.lower not in _BREAKERS


def _sequence_end(tokens: list[_Word], at: int) -> int:
    """Returns the end of the run of capitalised words that starts at `at`."""
    end = at + 1
    while end < len(tokens) and not tokens[end - 1].ends:
        word, last = tokens[end], tokens[end - 1]
        joined = word.gap in (" ", " & ") or (word.gap == ". " and not word.opens)
        if joined and _is_capital(word):
            end += 1
            continue
        if word.gap == " " and word.lower in _CONNECTORS and last.lower not in words.COMMON:
            after = end + 1
            if after < len(tokens) and tokens[after].lower == "the" and tokens[after].gap == " ":
                after += 1
            if after < len(tokens) and tokens[after].gap == " " and _is_capital(tokens[after]):
                end = after + 1
                continue
        break
    return end


def _judge(text: str, tokens: list[_Word], first: int, stop: int, known: _Speakers, trusted: bool) -> _Candidate | None:
    """Decides whether a run of capitalised words is a name, and of which type."""
    greeted = first > 0 and tokens[first - 1].lower in words.GREETINGS and tokens[first].gap in (" ", ", ")
    start = first
    while start < stop - 1 and _drops_first(tokens[start], tokens[start + 1]):
        greeted = tokens[start].lower in words.GREETINGS
        start += 1
    while start < stop and tokens[start].lower in _CONNECTORS | {"the"}:
        start += 1
    if start >= stop:
        return None
    run = tokens[start:stop]
    head = run[0]
    surface = text[head.start : run[-1].start + len(run[-1].base)]
    if len(run) == 1:
        return _judge_single(text, tokens, start, known, trusted, greeted)
    titled = head.lower in words.TITLES and run[1].base[0].isupper()
    if all(w.lower in words.COMMON for w in run) and (head.opens or not trusted):
        return None
    if not trusted and not titled and head.lower not in known.parts and surface.lower() not in words.PLACES:
        return None
    if all(w.base.isupper() for w in run) and any(len(w.base) > 4 for w in run):
        return None
    kind = "person" if titled else _type(tokens, start, stop, surface, known, greeted)
    return _Candidate(surface, kind, True)


def _drops_first(word: _Word, after: _Word) -> bool:
    """Whether the first word of a run is no part of the name: "Thanks Mel", "Visiting Paris"."""
    if word.lower in words.TITLES and after.gap in (" ", ". ") and after.base[0].isupper():
        return False
    if word.lower in words.GREETINGS or word.lower in _DETERMINERS:
        return True
    if word.opens:
        return word.lower in words.COMMON or _is_inflected(word.lower)
    return False


def _is_inflected(lower: str) -> bool:
    return lower not in words.GIVEN_NAMES and len(lower) > 4 and lower.endswith(("ing", "ed", "ly"))


def _judge_single(
    text: str, tokens: list[_Word], at: int, known: _Speakers, trusted: bool, greeted: bool
) -> _Candidate | None:
    word = tokens[at]
    lower = word.lower
    after = text[word.end : word.end + 2]
    called = greeted or after[:1] in (",", "!", "?") or (after == "" and "," in word.gap) or "@" in word.gap
    speaker = lower in known.parts or lower in known.exact
    if lower in words.COMMON or len(lower) == 1:
        if speaker or ((not word.opens or called) and known.is_short_form(lower) and lower != "i"):
            return _Candidate(word.base, "person", True)
        return None
    if lower in _NO_NAMES:
        return None
    if speaker or ((trusted or called) and known.is_short_form(lower)):
        return _Candidate(word.base, "person", True)
    described = _DESCRIBED.match(text, word.end)
    if described and (word.opens or tokens[at - 1].lower in _DESCRIBED_AFTER):
        return _Candidate(word.base + described.group(), "person", True)
    if lower in words.PLACES:
        return _Candidate(word.base, "place", True)
    kind = _type(tokens, at, at + 1, word.base, known, greeted)
    if not trusted:
        return _Candidate(word.base, kind, True) if lower in words.GIVEN_NAMES else None
    if word.base.isupper() and len(word.base) > 1:
        near = [t for t in (*tokens[max(at - 1, 0) : at], *tokens[at + 1 : at + 2]) if len(t.base) > 2]
        if len(word.base) > 6 or any(t.base.isupper() for t in near):
            return None
        return _Candidate(word.base, kind if kind != "thing" else "topic", not word.opens)
    if word.opens:
        cued = at + 1 < len(tokens) and tokens[at + 1].gap == " " and tokens[at + 1].lower in words.PERSON_VERBS
        sure = lower in words.GIVEN_NAMES or (cued and not _is_inflected(lower)) or (greeted and called)
        return _Candidate(word.base, "person" if sure else kind, sure)
    return _Candidate(word.base, kind, True)


def _type(tokens: list[_Word], start: int, stop: int, surface: str, known: _Speakers, greeted: bool) -> str:
    run = tokens[start:stop]
    head, last = run[0].lower, run[-1].lower
    before = tokens[start - 1].lower if start and run[0].gap in (" ", ", ") else ""
    before_that = tokens[start - 2].lower if start > 1 and tokens[start - 1].gap == " " else ""
    after = tokens[stop].lower if stop < len(tokens) and tokens[stop].gap == " " and not run[-1].ends else ""
    short = len(run) <= 3
    if surface.lower() in words.PLACES:
        return "place"
    of = len(run) > 2 and run[1].lower == "of"
    if len(run) > 1 and (last in words.ORGANISATION_AFTER or (of and head in words.ORGANISATION_AFTER)):
        return "organisation"
    if len(run) > 1 and (last in words.PLACE_AFTER or head in words.PLACE_START):
        return "place"
    named = head in words.GIVEN_NAMES or head in words.NICKNAMES or head in known.parts
    if short and (named or greeted or before in words.KIN or before in _MEETING or after in words.PERSON_VERBS):
        return "person"
    if (before == "to" and before_that not in _GOING) or (before == "from" and before_that not in _COMING):
        return "thing"
    if before == "at" or (before in words.PLACE_BEFORE and run[0].gap == " "):
        return "place"
    return "thing"


def _is_title(quoted: str) -> bool:
    """Whether quoted words are a name: they start with a capital and so do most of them."""
    parts = quoted.split()
    capitals = [p[0].isupper() for p in parts]
    if not 1 <= len(parts) <= 6 or not capitals[0] or quoted.rstrip()[-1] in ".,!?…":
        return False
    if len(parts) == 1:
        return parts[0].lower() not in words.COMMON
    small = sum(p.lower() in words.FUNCTION_WORDS for p, c in zip(parts, capitals, strict=True) if not c)
    return sum(capitals) >= 2 and sum(capitals) + small == len(parts)


def _capitals_mean_names(tokens: list[_Word]) -> bool:
    """False for headlines, shouting and German, where a capital says little."""
    if len(tokens) < 5:
        return True
    inside = [b for a, b in pairwise(tokens) if not b.opens and b.lower != "i"]
    capitals = sum(w.base[0].isupper() for w in inside)
    if len(inside) >= 8 and capitals * 5 > len(inside) * 3:
        return False
    return capitals < 2 or sum(w.lower in _GERMAN for w in tokens) < 2

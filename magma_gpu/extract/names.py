"""Finds names in the texts of a window by their capitals and the words around them, without a model.

It decides what is a name and of which type, never who is meant: that is `entities`. English only, but for the
names of speakers, which are found in every script. A capital at the start of a sentence proves nothing: such
a word is a name only where something else in the window says so.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from magma_gpu.extract import words
from magma_gpu.extract.keys import is_short_form
from magma_gpu.extract.tokens import WORD, Token, Tokens
from magma_gpu.types import ROLES, Mention

TYPES = ("person", "place", "organisation", "thing", "topic")

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
_CONNECTORS = words.word_set("of de da do dos van von der la del y di du al bin le")
_SMALL_STARTS = _CONNECTORS | {"the"}
_BREAKERS = words.CALENDAR | {"i"}
_DETERMINERS = words.word_set("the a an my our your his her its their this that these those some")
_GOING = words.word_set("went go going gone move moved moving trip travel travelled traveled fly flew drive drove")
_COMING = words.word_set("came come coming moved am i'm is flew back are")
_MEETING = words.word_set("met married dating hug tell ask told asked miss")
_GERMAN = words.word_set("und der die das ist nicht ich ein eine auch wir mit für")
_NO_NAMES = frozenset(ROLES) | {"human", "bot", "ai", "me", "i", "you", "unknown"}


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
    known = _speakers(tuple(sorted(set(speakers))))
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
            match = WORD.fullmatch(lower)
            if match is None or not (lower[0] < "ɐ" or lower[0].upper() != lower[0]):
                if " " not in lower or not lower.isascii():
                    self.whole.append(speaker.strip())
            else:
                self.exact.add(lower)
            self.parts.update(p for p in WORD.findall(lower) if len(p) > 1 and p not in words.COMMON)

        self._parts = frozenset(self.parts)

    def may_be(self, lower: str) -> bool:
        """Whether a word may name a speaker in any way."""
        return lower in self.parts or lower in self.exact or self.is_short_form(lower)

    def is_short_form(self, lower: str) -> bool:
        """Whether a word may be a speaker's nickname."""
        return _is_short_form(lower, self._parts)


@lru_cache(maxsize=65536)
def _is_short_form(lower: str, parts: frozenset[str]) -> bool:
    return any(is_short_form(lower, part) for part in parts)


@lru_cache(maxsize=64)
def _speakers(speakers: tuple[str, ...]) -> _Speakers:
    return _Speakers(speakers)


# Windows overlap, so the last texts of one are the first of the next.
@lru_cache(maxsize=64)
def _candidates(text: str, known: _Speakers) -> tuple[_Candidate, ...]:
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
    tokens = Tokens(text)
    lowers = tokens.lowers
    upper = [at for at, base in enumerate(tokens.bases) if base[0].isupper()]
    capitals = {at for at in upper if _is_capital(tokens.bases[at], lowers[at])}
    trusted = _capitals_mean_names(tokens, upper)
    looked_at = set(capitals)
    # Other words are looked at where they follow a greeting, or where a speaker has such a name.
    if not words.GREETINGS.isdisjoint(lowers):
        looked_at.update(at for at, lower in enumerate(lowers[:-1], 1) if lower in words.GREETINGS)
    if not known.exact.isdisjoint(lowers):
        looked_at.update(at for at, lower in enumerate(lowers) if lower in known.exact)
    stop = 0
    for at in sorted(looked_at):
        if at < stop or (masked and any(first <= tokens[at].start < last for first, last in masked)):
            continue
        if at in capitals:
            stop = _sequence_end(tokens, capitals, at)
            # The most frequent case by far: "The" at the start of a sentence.
            if stop == at + 1 and lowers[at] in words.COMMON and not known.may_be(lowers[at]):
                continue
            candidate = _judge(text, tokens, at, stop, known, trusted)
            if candidate is not None:
                found.append(candidate)
            continue
        lower = lowers[at]
        greeted = at > 0 and lowers[at - 1] in words.GREETINGS and tokens.gaps[at] in (" ", ", ")
        known_here = lower in known.exact or (greeted and known.is_short_form(lower))
        if known_here and lower not in words.COMMON:
            found.append(_Candidate(tokens.bases[at], "person", True))
    return tuple(found)


def _is_capital(base: str, lower: str) -> bool:
    """Whether a word that starts with an upper-case letter may be part of a name by it."""
    first = base[0]
    return (first < "ɐ" or "Ḁ" <= first <= "ỿ") and lower not in _BREAKERS


def _sequence_end(tokens: Tokens, capitals: set[int], at: int) -> int:
    """Returns the end of the run of capitalised words that starts at `at`."""
    end = at + 1
    gaps, lowers = tokens.gaps, tokens.lowers
    while end < len(tokens) and len(tokens.raws[end - 1]) == len(tokens.bases[end - 1]):
        gap = gaps[end]
        joined = gap in (" ", " & ") or (gap == ". " and end not in tokens.openers)
        if joined and end in capitals:
            end += 1
            continue
        if gap == " " and lowers[end] in _CONNECTORS and lowers[end - 1] not in words.COMMON:
            after = end + 1
            if after < len(tokens) and lowers[after] == "the" and gaps[after] == " ":
                after += 1
            if after in capitals and gaps[after] == " ":
                end = after + 1
                continue
        break
    return end


def _judge(text: str, tokens: Tokens, first: int, stop: int, known: _Speakers, trusted: bool) -> _Candidate | None:
    """Decides whether a run of capitalised words is a name, and of which type."""
    greeted = first > 0 and tokens[first - 1].lower in words.GREETINGS and tokens[first].gap in (" ", ", ")
    start = first
    while start < stop - 1 and _drops_first(tokens[start], tokens[start + 1]):
        greeted = tokens[start].lower in words.GREETINGS
        start += 1
    while start < stop and tokens[start].lower in _SMALL_STARTS:
        start += 1
    if start >= stop:
        return None
    run = tokens.part(start, stop)
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


def _drops_first(word: Token, after: Token) -> bool:
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
    text: str, tokens: Tokens, at: int, known: _Speakers, trusted: bool, greeted: bool
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
        near = [t for t in (*tokens.part(max(at - 1, 0), at), *tokens.part(at + 1, at + 2)) if len(t.base) > 2]
        if len(word.base) > 6 or any(t.base.isupper() for t in near):
            return None
        return _Candidate(word.base, kind if kind != "thing" else "topic", not word.opens)
    if word.opens:
        cued = at + 1 < len(tokens) and tokens[at + 1].gap == " " and tokens[at + 1].lower in words.PERSON_VERBS
        sure = lower in words.GIVEN_NAMES or (cued and not _is_inflected(lower)) or (greeted and called)
        return _Candidate(word.base, "person" if sure else kind, sure)
    return _Candidate(word.base, kind, True)


def _type(tokens: Tokens, start: int, stop: int, surface: str, known: _Speakers, greeted: bool) -> str:
    run = tokens.part(start, stop)
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


def _capitals_mean_names(tokens: Tokens, upper: Sequence[int]) -> bool:
    """False for headlines, shouting and German, where a capital says little.

    Args:
        tokens: the words of a text.
        upper: those that start with an upper-case letter.
    """
    if len(tokens) < 5:
        return True
    lowers, openers = tokens.lowers, tokens.openers
    # Words inside sentences, "I" apart.
    inside = len(tokens) - 1 - sum(0 < at < len(tokens) for at in openers)
    if "i" in lowers:
        inside -= sum(lower == "i" and at > 0 and at not in openers for at, lower in enumerate(lowers))
    capitals = sum(at > 0 and at not in openers and lowers[at] != "i" for at in upper)
    if inside >= 8 and capitals * 5 > inside * 3:
        return False
    return capitals < 2 or sum(map(_GERMAN.__contains__, lowers)) < 2

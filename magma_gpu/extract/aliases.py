"""Finds for every name of a memory the fullest name it is short for: nicknames, titles, parts of names.

It works on keys alone (see `keys`) and knows no events. A name is merged only where one candidate exists in
the whole memory; with two it stays an entity of its own, because a wrong merge gives one person another's
life.
"""

from collections.abc import Iterable, Mapping

from magma_gpu.extract.keys import KIN_TITLES, PersonName, is_short_form, person_name
from magma_gpu.extract.words import NICKNAMES

SAME = "same name"
AMBIGUOUS = "ambiguous"
_OF_SPEAKER = "part of a speaker's name"
_NICKNAME_OF_SPEAKER = "nickname of a speaker"
_TITLE = "title"
_MIDDLE = "middle name"
_PART = "part of a name"
_NICKNAME = "nickname"


class Aliases:
    """Which name of one memory stands for which; a function of the set of names.

    Args:
        speakers: pairs of a session and the key of somebody who speaks in it.
        types: the type of every name, by key.
    """

    def __init__(self, speakers: Iterable[tuple[str, str]], types: Mapping[str, str]) -> None:
        in_session: dict[str, set[str]] = {}
        for session, key in speakers:
            in_session.setdefault(session, set()).add(key)
        self._in_session = {session: frozenset(keys) for session, keys in in_session.items()}
        self._speakers = frozenset().union(*self._in_session.values())
        self._types = types
        persons = {key: person_name(key) for key, kind in sorted(types.items()) if kind == "person"}
        self._full = _full_names(persons)
        self._persons = persons
        self._titled = {k: n for k, n in persons.items() if n.title and len(n.parts) == 1 and not n.described}
        self._described = {k: n for k, n in persons.items() if n.described and len(n.parts) == 1}
        self._by_part: dict[str, set[str]] = {}
        self._by_last: dict[str, set[str]] = {}
        for full, parts in self._full.items():
            self._by_last.setdefault(parts[-1], set()).add(full)
            for part in parts:
                self._by_part.setdefault(part, set()).add(full)
        self._titles: dict[str, set[str]] = {}
        for name in persons.values():
            if name.title:
                self._titles.setdefault(name.base, set()).add(name.title)
        self._of_name: dict[str, tuple[str, str]] = {}
        self._of_speaker: dict[tuple[frozenset[str], str], tuple[str, str] | None] = {}

    def is_speaker(self, key: str) -> bool:
        """Whether somebody of this name speaks in the memory."""
        return key in self._speakers

    def base(self, key: str) -> str:
        """Returns the key of a name without a title that is only decoration ("Dr. Susan Lee")."""
        name = self._persons.get(key)
        if name is None:
            return key
        if len(name.parts) > 1 and name.base in self._full:
            return name.base
        return _plain_title(name) if key in self._titled else key

    def root(self, session_id: str, key: str) -> tuple[str, str]:
        """Returns the key of the entity that a name means in a session, and the rule that says so.

        Whoever speaks in the session comes first, then whoever speaks elsewhere in the memory, then other
        names.
        """
        for speakers in (self._in_session.get(session_id, frozenset()), self._speakers):
            if key in speakers:
                return key, SAME
            found = self._speaker(speakers, key)
            if found is not None:
                return found
        return self._name(key)

    def _speaker(self, speakers: frozenset[str], key: str) -> tuple[str, str] | None:
        known = (speakers, key)
        if known not in self._of_speaker:
            self._of_speaker[known] = self._find_speaker(speakers, key)
        return self._of_speaker[known]

    def _find_speaker(self, speakers: frozenset[str], key: str) -> tuple[str, str] | None:
        kind = self._types.get(key, "thing")
        name = person_name(key)
        if kind not in ("person", "thing") or len(name.parts) != 1 or name.described:
            return None
        word = name.parts[0]
        split = {speaker: person_name(speaker).parts for speaker in speakers}
        if name.title:
            same = [s for s, parts in split.items() if len(parts) > 1 and parts[-1] == word]
            return (same[0], _OF_SPEAKER) if len(same) == 1 and not self._others(word, name.title) else None
        same = [s for s, parts in split.items() if len(parts) > 1 and word in (parts[0], parts[-1])]
        if len(same) == 1:
            return same[0], _OF_SPEAKER
        if same or kind != "person" or any(self._full[full][0] == word for full in self._by_part.get(word, ())):
            return None
        short = [s for s, parts in split.items() if parts and is_short_form(word, parts[0])]
        return (short[0], _NICKNAME_OF_SPEAKER) if len(short) == 1 else None

    def _others(self, word: str, title: str) -> bool:
        """Whether somebody else of that name has another title."""
        return any(n.parts[0] == word and n.title != title for n in self._titled.values())

    def _name(self, key: str) -> tuple[str, str]:
        """Follows a name to the fullest that it stands for; the rule is that of the first step."""
        if key not in self._of_name:
            rule = SAME
            at, seen = key, {key}
            while True:
                target, why = self._step(at)
                if rule == SAME:
                    rule = why
                if target in seen:
                    break
                seen.add(target)
                at = target
            self._of_name[key] = (at, rule)
        return self._of_name[key]

    def _step(self, key: str) -> tuple[str, str]:
        kind = self._types.get(key)
        name = person_name(key)
        if key in self._full:
            return self._fuller(key)
        if kind == "person" and len(name.parts) > 1 and name.base in self._full:
            return name.base, _TITLE if name.title else SAME
        if name.described or len(name.parts) != 1 or kind not in ("person", "thing"):
            return key, SAME
        return self._of_title(name) if name.title else self._of_part(key, name.parts[0], kind)

    def _fuller(self, key: str) -> tuple[str, str]:
        """John T. Doe is John Doe, and J. Doe is, unless there are two of them."""
        parts = self._full[key]
        first, last = parts[0], parts[-1]
        if len(first) == 1:
            written = (k for k in self._by_last[last] if len(p := self._full[k][0]) > 1 and p[0] == first)
            same = {self._fuller(k)[0] for k in written}
            return (same.pop(), _PART) if len(same) == 1 else (key, AMBIGUOUS if same else SAME)
        short = f"{first} {last}"
        if len(parts) == 2 or short not in self._full:
            return key, SAME
        longer = [k for k in self._by_last[last] if len(self._full[k]) > 2 and self._full[k][0] == first]
        return (short, _MIDDLE) if len(longer) == 1 else (key, AMBIGUOUS)

    def _of_title(self, name: PersonName) -> tuple[str, str]:
        word = name.parts[0]
        kin = name.title in KIN_TITLES
        fits: set[str] = set()
        for full in (self._by_part if kin else self._by_last).get(word, ()):
            titles = self._titles.get(full)
            if not titles or name.title in titles:
                fits.add(self._fuller(full)[0])
        if len(fits) != 1 or self._others(word, name.title):
            return _plain_title(name), AMBIGUOUS if fits else SAME
        return fits.pop(), _TITLE

    def _of_part(self, key: str, word: str, kind: str) -> tuple[str, str]:
        fulls = (full for full in self._by_part.get(word, ()) if word in (self._full[full][0], self._full[full][-1]))
        fits = {self._fuller(full)[0] for full in fulls}
        fits.update(self._of_title(n)[0] for n in self._titled.values() if n.parts[0] == word)
        fits.update(k for k, n in self._described.items() if n.parts[0] == word)
        if fits:
            return (fits.pop(), _PART) if len(fits) == 1 else (key, AMBIGUOUS)
        if kind != "person" or word not in NICKNAMES:
            return key, SAME
        formal = NICKNAMES[word]
        fulls = (full for part in formal for full in self._by_part.get(part, ()) if self._full[full][0] == part)
        fits = {self._fuller(full)[0] for full in fulls}
        fits.update(self._step(k)[0] for k in formal if k in self._persons)
        return (fits.pop(), _NICKNAME) if len(fits) == 1 else (key, AMBIGUOUS if fits else SAME)


def _plain_title(name: PersonName) -> str:
    """One key for "Doctor Lee" and "Dr. Lee"."""
    return f"{name.title} {name.base}"


def _full_names(persons: Mapping[str, PersonName]) -> dict[str, tuple[str, ...]]:
    """Names of two parts or more by their key without a title; those that two titles claim are left out."""
    titles: dict[str, set[str]] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for name in persons.values():
        if len(name.parts) > 1 and not name.described:
            parts[name.base] = name.parts
            titles.setdefault(name.base, set()).update({name.title} - {""})
    return {base: parts[base] for base in sorted(parts) if len(titles[base]) < 2}

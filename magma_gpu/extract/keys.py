"""Makes names comparable: keys under which spellings of one name are equal, and the parts of a person's name.

It decides nothing about who is meant. Look-alike letters of different scripts stay different: a Cyrillic "А"
is not a Latin "A", because merging them silently is how one name is passed off as another.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from magma_gpu.extract.words import NICKNAMES, TITLES, word_set

_OPENING = "\"'“”‘’«»([{<#@*_~`"
_CLOSING = "\"'“”‘’«»)]}>*_~`.,;:!?…"
_TITLE_FORMS = {"doctor": "dr", "professor": "prof", "mister": "mr", "captain": "capt", "sergeant": "sgt"}
_TITLE_FORMS |= {"lieutenant": "lt", "reverend": "rev", "auntie": "aunt", "aunty": "aunt"}
# Titles that go with a given name rather than a family name.
KIN_TITLES = word_set("father sister brother uncle aunt grandma grandpa coach chef king queen prince princess")
_REPEATED_END = re.compile(r"([^\W\d_])\1+$")
_GREEK_ACCENTS = "\u0301\u0300\u0342"


@lru_cache(maxsize=65536)
def name_key(name: str) -> str:
    """Returns what two spellings of a name have in common; empty only for a name without any visible
    character.

    Composed and decomposed letters, case (STRASSE, Straße), ligatures, full-width forms, white space,
    surrounding quotes and a possessive "'s" make no difference; spaces between letters of scripts without
    case (Korean, Chinese) neither.
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    text = "".join(c for c in text if c == "\u200d" or unicodedata.category(c) not in ("Cf", "Cc") or c.isspace())
    text = " ".join(text.split())
    bare = text.lstrip(_OPENING).rstrip(_CLOSING).strip()
    bare = bare.removesuffix("'s").removeprefix("the ").strip() or bare
    bare = bare or text
    if not bare.isascii():
        bare = _without_greek_accents(bare)
        bare = re.sub(r"(?<=[^\W\d_]) (?=[^\W\d_])", _keep_space, bare)
    return bare


def _keep_space(match: re.Match[str]) -> str:
    before, after = match.string[match.start() - 1], match.string[match.end()]
    # The category of letters without case.
    caseless = all(unicodedata.category(c) == "Lo" for c in (before, after))
    return "" if caseless else " "


def _without_greek_accents(text: str) -> str:
    """Capitals are written without accents in Greek, so ΕΛΕΝΗ can only equal Ελένη without them."""
    parts: list[str] = []
    for c in unicodedata.normalize("NFD", text):
        if c in _GREEK_ACCENTS and parts and "\u0370" <= parts[-1] <= "\u03ff":
            continue
        parts.append(c)
    return unicodedata.normalize("NFC", "".join(parts)).replace("ς", "σ")


@dataclass(frozen=True, slots=True)
class PersonName:
    """A person's name in parts, all in key form."""

    # "" where there is none.
    title: str
    parts: tuple[str, ...]
    # What tells this person apart, as in "from the bakery"; "" where there is nothing.
    described: str

    @property
    def base(self) -> str:
        """The name without its title."""
        return " ".join(self.parts) + self.described


@lru_cache(maxsize=65536)
def person_name(key: str) -> PersonName:
    """Takes the key of a person's name apart."""
    named, sign, described = key.partition(" from ")
    parts = [p if len(p) > 2 and p.rstrip(".") not in TITLES else p.rstrip(".") or p for p in named.split()]
    title = ""
    if len(parts) > 1 and parts[0] in TITLES:
        title = _TITLE_FORMS.get(parts[0], parts[0])
        parts = parts[1:]
    return PersonName(title, tuple(parts), sign + described)


def is_short_form(word: str, name: str) -> bool:
    """Whether a word is a given name cut short by two letters or more, or a common nickname for it.

    Both in lower case. A doubled last letter counts once ("Mell"); longer forms count too ("Timmy").
    """
    if name in NICKNAMES.get(word, ()):
        return True
    plain = _REPEATED_END.sub(r"\1", word)
    for short in (word, plain):
        if len(short) >= 3 and name.startswith(short) and len(name) >= len(short) + 2:
            return True
    longer = word.startswith(name) and len(name) < len(word) <= len(name) + 3 and word.endswith(("y", "ie"))
    return longer and (word in NICKNAMES or word[len(name)] == name[-1])

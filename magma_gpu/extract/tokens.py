"""The words of a text with what stands between them; English contractions are taken off ("Ana's" is "Ana").

It judges no word. Columns are made for all words at once, a `Token` only when a rule asks for one: few are.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, islice

from magma_gpu.extract.words import ABBREVIATED

WORD = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W_]+(?:['’\-][^\W_]+)*")
# The same where no letters are joined by dots; with what follows the word.
_LETTERS_WITH_DOTS = re.compile(r"\.[^\W\d_]\.")
_WORD_AND_GAP = re.compile(r"([^\W_]+(?:['’\-][^\W_]+)*)([\W_]*)")
_WORD_START = re.compile(r"[^\W_]")
_SENTENCE_GAP = re.compile('[.!?…:;\n"“«•*\\-–—\u2101-\U0010ffff]')
_CONTRACTIONS = ("'s", "'m", "'ll", "'ve", "'d", "'re")


@dataclass(slots=True)
class Token:
    """One word."""

    base: str
    lower: str
    start: int
    end: int
    # What stands between the word before and this one.
    gap: str
    opens: bool
    ends: bool


class Tokens:
    """The words of a text. Columns are made at once, a `Token` only when a rule asks for it: few are."""

    __slots__ = ("_made", "_starts", "bases", "gaps", "lowers", "openers", "raws")

    def __init__(self, text: str) -> None:
        # `gaps`: what stands before each word, and after the last.
        if _LETTERS_WITH_DOTS.search(text):
            self.raws, self.gaps = WORD.findall(text), WORD.split(text)
        else:
            found = _WORD_AND_GAP.findall(text)
            self.raws = [raw for raw, _ in found]
            match = _WORD_START.search(text)
            self.gaps = [text[: match.start()] if match else text, *[gap for _, gap in found]]
        self.bases = self.raws
        if "'" in text or "’" in text:
            self.bases = [_without_contraction(raw) if "'" in raw or "’" in raw else raw for raw in self.raws]
        self.lowers = list(map(str.lower, self.bases))
        # The first words of sentences.
        self.openers = {at for at, gap in enumerate(self.gaps) if gap != " " and self._opens(at)}
        self._starts: list[int] | None = None
        self._made: dict[int, Token] = {}

    def __len__(self) -> int:
        return len(self.raws)

    def __getitem__(self, at: int) -> Token:
        word = self._made.get(at)
        if word is None:
            word = self._made[at] = self._make(at)
        return word

    def part(self, first: int, stop: int) -> list[Token]:
        return [self[at] for at in range(first, min(stop, len(self.raws)))]

    def _opens(self, at: int) -> bool:
        if at == 0:
            return True
        if self.gaps[at] == ". ":
            base, lower = self.bases[at - 1], self.lowers[at - 1]
            return not (lower in ABBREVIATED or (len(base) == 1 and base.isupper()))
        return _ends_sentence(self.gaps[at])

    def _make(self, at: int) -> Token:
        if self._starts is None:
            lengths = chain.from_iterable(zip(map(len, self.gaps), map(len, self.raws), strict=False))
            self._starts = list(islice(accumulate(lengths), 0, None, 2))
        raw, base, start = self.raws[at], self.bases[at], self._starts[at]
        ends = len(raw) != len(base)
        return Token(base, self.lowers[at], start, start + len(raw), self.gaps[at], at == 0 or at in self.openers, ends)


@lru_cache(maxsize=4096)
def _ends_sentence(gap: str) -> bool:
    return _SENTENCE_GAP.search(gap) is not None


def _without_contraction(raw: str) -> str:
    cut = max(raw.rfind("'"), raw.rfind("’"))
    return raw[:cut] if cut > 0 and raw[cut:].replace("’", "'").lower() in _CONTRACTIONS else raw

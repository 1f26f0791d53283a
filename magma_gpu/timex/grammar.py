"""The engine of the tagger: words become classes, and rules over classes become intervals.

It knows no language and no calendar. What a reader would not guess: a text is rewritten as a string with one
character a token, its class, so that a rule is an ordinary regular expression over classes and a match costs
microseconds. Rules run in order; each replaces what it matched by one token with a value, and later rules build on
the results of earlier ones.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from magma_gpu.timex.intervals import Cal, Qty, Span, complete

UNKNOWN = "x"
_NAME = re.compile(r"<([^<>]+)>")


class Classes:
    """The characters that stand for token classes; a name may also stand for several."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {UNKNOWN: UNKNOWN}

    def code(self, name: str) -> str:
        """Returns the character of a class, made on first use."""
        if name not in self._codes:
            self._codes[name] = chr(0x4E00 + len(self._codes))
        return self._codes[name]

    def union(self, name: str, members: str) -> None:
        """Lets a name stand for several classes."""
        self._codes[name] = "".join(self._codes.get(m) or self.code(m) for m in members.split())

    def pattern(self, text: str) -> re.Pattern[str]:
        """Compiles a rule: `<a|b>` is a token of class a or b, blanks mean nothing."""

        def one(match: re.Match[str]) -> str:
            names = match[1]
            negated = "^" if names.startswith("^") else ""
            return f"[{negated}{''.join(self.code(n) for n in names.lstrip('^').split('|'))}]"

        return re.compile(_NAME.sub(one, text).replace(" ", ""))


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of the text and what it means so far."""

    code: str
    first: int
    last: int
    value: Any = None


class Context:
    """What the rules know about the text they work on."""

    __slots__ = ("at", "ends", "future", "gone", "past", "ref", "text", "tokens")

    def __init__(self, text: str, ref: datetime | None, *, past: bool = False) -> None:
        # Lower case, as long as the original.
        self.text = text
        self.ref = ref
        # Whether every sentence counts as one about the past.
        self.past = past
        # Offsets of words that put what stands near them into the future or the past, and of the ends of sentences.
        self.future: list[int] = []
        self.gone: list[int] = []
        self.ends: list[int] = []
        # Where the match begins that a rule is asked about, and its tokens.
        self.at = 0
        self.tokens: Sequence[Token] = ()

    def way(self) -> int:
        """Returns 1 where the nearest word of the sentence that tells speaks of the future, else -1."""
        if self.past or not self.future:
            return -1
        start = max((e for e in self.ends if e <= self.at), default=0)
        end = min((e for e in self.ends if e > self.at), default=len(self.text))
        ahead = min((abs(f - self.at) for f in self.future if start <= f < end), default=None)
        behind = min((abs(f - self.at) for f in self.gone if start <= f < end), default=None)
        return 1 if ahead is not None and (behind is None or ahead < behind) else -1

    def fix(self, value: Any) -> Span | None:
        """Resolves what a rule was given to an interval, or None where that cannot be."""
        if isinstance(value, Span):
            return value
        if isinstance(value, Cal):
            return complete(value, self.ref, self.way())
        return None


Make = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """Tokens that match the pattern become one token of a class, unless `make` returns None."""

    result: str
    pattern: re.Pattern[str]
    make: Make


class Grammar:
    """Token classes and the ordered rules of one language."""

    def __init__(self) -> None:
        self.classes = Classes()
        self.rules: list[Rule] = []

    def add(self, result: str, pattern: str, make: Make) -> None:
        """Adds a rule; `make` gets the context and the value of each group (a list where a group is longer)."""
        self.rules.append(Rule(self.classes.code(result), self.classes.pattern(pattern), make))

    def reduce(self, tokens: list[Token], context: Context) -> list[Token]:
        """Applies all rules in order."""
        codes = "".join(t.code for t in tokens)
        for rule in self.rules:
            match = rule.pattern.search(codes)
            if match is None:
                continue
            tokens = _apply(rule, match, codes, tokens, context)
            codes = "".join(t.code for t in tokens)
        return tokens


def _apply(rule: Rule, match: re.Match[str] | None, codes: str, tokens: list[Token], context: Context) -> list[Token]:
    out: list[Token] = []
    done = 0
    while match is not None:
        first, last = match.span()
        context.tokens = tokens[first:last]
        context.at = tokens[first].first
        try:
            value = rule.make(context, *_groups(match, tokens))
        except (ValueError, OverflowError):
            # The calendar has no such date.
            value = None
        if value is None:
            match = rule.pattern.search(codes, first + 1)
            continue
        out.extend(tokens[done:first])
        out.append(Token(rule.result, tokens[first].first, tokens[last - 1].last, value))
        done = last
        match = rule.pattern.search(codes, last)
    out.extend(tokens[done:])
    return out


def _groups(match: re.Match[str], tokens: list[Token]) -> Iterable[Any]:
    for k in range(1, (match.re.groups or 0) + 1):
        first, last = match.span(k)
        if first < 0 or first == last:
            yield None
        elif last == first + 1:
            yield tokens[first].value
        else:
            yield [t.value for t in tokens[first:last]]


def merge(parts: Iterable[Qty]) -> Qty:
    """Joins amounts said one after another."""
    return Qty(tuple(p for q in parts for p in q.parts))

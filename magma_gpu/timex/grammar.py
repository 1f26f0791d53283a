"""The engine of the tagger: words become classes, and rules over classes become intervals.

It knows no language and no calendar. What a reader would not guess: a text is rewritten as a string with one
character a token, its class, so that a rule is an ordinary regular expression over classes and a match costs
microseconds. Rules run in order; each replaces what it matched by one token with a value, and later rules build on
the results of earlier ones. A rule is tried only where every class that it cannot do without is there.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from magma_gpu.timex.intervals import Cal, Qty, Span, complete
from magma_gpu.timex.needs import needs

UNKNOWN = "x"
# How many of the classes that a rule needs are looked for before it is tried.
_NUM_NEEDS = 4
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


class Token(NamedTuple):
    """A stretch of the text and what it means so far; a named tuple because one is made for every word."""

    code: str
    first: int
    last: int
    value: Any = None


class Context:
    """What the rules know about the text they work on."""

    __slots__ = ("at", "ends", "future", "gone", "past", "ref", "rewritten", "text", "tokens")

    def __init__(self, text: str, ref: datetime | None, *, past: bool = False, rewritten: bool = False) -> None:
        # Lower case, as long as the original.
        self.text = text
        self.ref = ref
        # Whether every sentence counts as one about the past.
        self.past = past
        # Whether the text was rewritten from another language, whose ordinals are days of a month.
        self.rewritten = rewritten
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

    def told(self) -> bool:
        """Says whether the sentence tells of the past before the match, and of no future."""
        start = max((e for e in self.ends if e <= self.at), default=0)
        end = min((e for e in self.ends if e > self.at), default=len(self.text))
        return any(start <= g < self.at for g in self.gone) and not any(start <= f < end for f in self.future)

    def fix(self, value: Any) -> Span | None:
        """Resolves what a rule was given to an interval, or None where that cannot be."""
        if isinstance(value, Span):
            return value
        if isinstance(value, Cal):
            return complete(value, self.ref, self.way())
        return None


def text_of(c: Context) -> str:
    """Returns the words of the match that a rule is asked about."""
    return c.text[c.tokens[0].first : c.tokens[-1].last]


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
        # For every class that a rule needs first, second, ... the rules as bits.
        self._wanted: list[dict[str, int]] = [{} for _ in range(_NUM_NEEDS)]
        # Rules that need nothing first, second, ...
        self._free = [0] * _NUM_NEEDS

    def add(self, result: str, pattern: str, make: Make) -> None:
        """Adds a rule; `make` gets the context and the value of each group (a list where a group is longer)."""
        bit = 1 << len(self.rules)
        rule = Rule(self.classes.code(result), self.classes.pattern(pattern), make)
        self.rules.append(rule)
        needed = sorted(needs(rule.pattern.pattern), key=len)
        for k in range(_NUM_NEEDS):
            if k >= len(needed):
                self._free[k] |= bit
                continue
            for code in needed[k]:
                self._wanted[k][code] = self._wanted[k].get(code, 0) | bit

    def possible(self, codes: Iterable[str]) -> int:
        """Returns the rules, as bits, that may match where only these classes are."""
        codes = list(codes)
        rules = -1
        for wanted, found in zip(self._wanted, self._free, strict=True):
            for code in codes:
                found |= wanted.get(code, 0)
            rules &= found
        return rules

    def reachable(self, codes: Iterable[str]) -> frozenset[str]:
        """Returns the classes that rules could make of these classes, with the classes themselves."""
        known = set(codes)
        while True:
            rules = self.possible(known)
            made = {rule.result for k, rule in enumerate(self.rules) if rules >> k & 1}
            if made <= known:
                return frozenset(known)
            known |= made

    def reduce(self, tokens: list[Token], context: Context) -> list[Token]:
        """Applies all rules in order."""
        codes = "".join([t.code for t in tokens])
        present = set(codes)
        waiting = self.possible(present)
        while waiting:
            lowest = waiting & -waiting
            waiting ^= lowest
            rule = self.rules[lowest.bit_length() - 1]
            match = rule.pattern.search(codes)
            if match is None:
                continue
            tokens = _apply(rule, match, codes, tokens, context)
            codes = "".join([t.code for t in tokens])
            if rule.result in codes and rule.result not in present:
                present.add(rule.result)
                # Only rules after this one: the bits from `lowest` on, without itself.
                waiting = self.possible(present) & -(lowest << 1)
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

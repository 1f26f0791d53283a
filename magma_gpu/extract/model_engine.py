"""Extraction by a language model, whoever runs it: prompts, second questions, outcomes that account for every row.

It runs no model: a `Generator` does (vllm_engine.py, openai_engine.py). Answers are matched to windows by the id they
were asked under, never by their order. A generator that dies costs the windows it was at, which come out as failed; a
second death in a row is raised, because then it is not the windows.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from magma_gpu.extract.parse import outcome_of
from magma_gpu.extract.prompts import Prompt, make_prompts
from magma_gpu.types import CausalPair, Mention, Outcome, Window

log = logging.getLogger(__name__)

TOO_LONG = "the prompt is longer than the model's window"
NO_ANSWER = "no answer came back"
CUT_OFF = "cut off at the limit of tokens"
# A window that did not fit is cut in two, and again, this many times at most.
_MAX_CUTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to a model."""

    # Unique within one call of `Generator.generate`.
    id: str
    # Pairs of a role and what it says.
    messages: tuple[tuple[str, str], ...]
    # JSON schema that the answer must fit.
    schema: str
    # Tokens of the answer at most.
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came back for a question."""

    id: str
    # None where there is no answer; `error` then says why.
    text: str | None
    # The answer ended at the limit of tokens.
    is_cut: bool = False
    # The prompt was longer than the model allows: a smaller window may fit.
    is_too_long: bool = False
    prompt_tokens: int = 0
    # Of these, how many were in the prefix cache.
    cached_tokens: int = 0
    output_tokens: int = 0
    error: str | None = None


class GeneratorDiedError(Exception):
    """The engine of a generator broke; it makes a new one when it is asked again.

    Attributes:
        said: what had come back before.
    """

    def __init__(self, reason: str, said: Sequence[Said]) -> None:
        super().__init__(reason)
        self.said = list(said)


class Generator(Protocol):
    """Answers questions in batches."""

    # All that decides its answers, in words; part of every prompt's hash.
    identity: dict[str, str]

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        """Returns what came back, in any order; a question may be missing.

        Raises:
            GeneratorDiedError: its engine broke.
            MagmaError: it cannot be started as configured.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A window or a piece of one, on its way to an answer."""

    row: int
    window: Window
    # Index of its first event in the whole window.
    offset: int
    max_tokens: int
    cuts: int = 0
    is_retry: bool = False


class ModelExtractor:
    """Names and causes by a language model; see `Extractor`."""

    version = 1

    def __init__(self, name: str, generator: Generator, *, max_tokens: int) -> None:
        self.name = name
        self.generator = generator
        self._max_tokens = max_tokens
        self._model = "\n".join(f"{key}={value}" for key, value in sorted(generator.identity.items()))
        self._counts: Counter[str] = Counter()
        self._has_died = False

    def prompt_hash(self, window: Window) -> str:
        """Returns a hash of the prompt, the model and its settings."""
        return self._key(make_prompts([window])[0])

    def _key(self, prompt: Prompt) -> str:
        return prompt.key(f"{self.name} {self.version}\n{self._model}\nmax_tokens={self._max_tokens}")

    def take_counts(self) -> dict[str, int]:
        """Returns what was counted since the last call, for the ledger: tokens, retries, engines that died."""
        counts, self._counts = dict(sorted(self._counts.items())), Counter()
        return counts

    def extract(self, windows: Sequence[Window]) -> list[Outcome]:
        """Returns one outcome for every window, in order.

        Raises:
            GeneratorDiedError: the generator died twice in a row.
        """
        keys = [self._key(prompt) for prompt in make_prompts(windows)]
        answers: list[list[tuple[_Part, Said]]] = [[] for _ in windows]
        parts = [_Part(row=row, window=w, offset=0, max_tokens=self._max_tokens) for row, w in enumerate(windows)]
        while parts:
            again: list[_Part] = []
            for part, said in self._ask(parts):
                self._count(said)
                more = self._once_more(part, said)
                again += more
                if not more:
                    answers[part.row].append((part, said))
            parts = again
        return [
            _outcome(window, sorted(of_row, key=lambda a: a[0].offset), key)
            for window, of_row, key in zip(windows, answers, keys, strict=True)
        ]

    def _ask(self, parts: Sequence[_Part]) -> list[tuple[_Part, Said]]:
        """Returns an answer for every part, one that says why where none came."""
        prompts = make_prompts([part.window for part in parts])
        asked = [
            Asked(id=str(at), messages=prompt.messages, schema=prompt.schema, max_tokens=part.max_tokens)
            for at, (prompt, part) in enumerate(zip(prompts, parts, strict=True))
        ]
        lost = NO_ANSWER
        try:
            came = self.generator.generate(asked)
            self._has_died = False
        except GeneratorDiedError as error:
            if self._has_died:
                raise
            log.warning("the engine of extract died (%s); what it was at is marked as failed", error)
            self._has_died = True
            self._counts["engine_deaths"] += 1
            came, lost = error.said, f"the engine died: {error}"
        by_id: dict[str, Said] = {}
        for said in came:
            # Of two answers under one id the first counts, and one under an id nobody asked none.
            if said.id in by_id or not (said.id.isdecimal() and int(said.id) < len(parts)):
                self._counts["stray_answers"] += 1
            else:
                by_id[said.id] = said
        return [
            (part, by_id.get(one.id) or Said(id=one.id, text=None, error=lost))
            for part, one in zip(parts, asked, strict=True)
        ]

    def _count(self, said: Said) -> None:
        self._counts["prompt_tokens"] += said.prompt_tokens
        self._counts["cached_prompt_tokens"] += said.cached_tokens
        self._counts["output_tokens"] += said.output_tokens

    def _once_more(self, part: _Part, said: Said) -> list[_Part]:
        """What is asked again instead of taking this answer."""
        if said.is_too_long and part.cuts < _MAX_CUTS:
            if part.is_retry:
                # More room for the answer left too little for the prompt.
                return _halves(replace(part, max_tokens=self._max_tokens))
            return _halves(part)
        if said.is_cut and not part.is_retry:
            self._counts["cut_off_retried"] += 1
            return [replace(part, max_tokens=2 * part.max_tokens, is_retry=True)]
        return []


def _halves(part: _Part) -> list[_Part]:
    """The two halves of a window, or of its history where it looks for causes far back; none of one event."""
    window = part.window
    num = window.history or len(window.events)
    if num < 2:
        return []
    middle, rest = num // 2, window.events[window.history :] if window.history else ()
    made = []
    for first, last in ((0, middle), (middle, num)):
        events = (*window.events[first:last], *rest)
        made.append(
            replace(
                part,
                window=dataclasses.replace(window, events=events, history=last - first if window.history else 0),
                offset=part.offset + first,
                cuts=part.cuts + 1,
            )
        )
    return made


def _outcome(window: Window, answers: Sequence[tuple[_Part, Said]], key: str) -> Outcome:
    """Puts the answers about the pieces of a window together."""
    mentions: list[Mention] = []
    causal: list[CausalPair] = []
    notes: list[str] = []
    failed = 0
    for part, said in answers:
        if said.text is None:
            failed += 1
            notes.append(said.error or (TOO_LONG if said.is_too_long else NO_ANSWER))
            continue
        made = outcome_of(said.text, part.window, prompt_hash=key, prompt_tokens=0, output_tokens=0)
        failed += made.status == "failed"
        notes += [note for note in (CUT_OFF if said.is_cut else None, made.error) if note]
        mentions += [replace(m, index=m.index + part.offset) for m in made.mentions]
        causal += [_placed(pair, part, window) for pair in made.causal]
    if len(answers) > 1:
        notes.insert(0, f"asked in {len(answers)} pieces")
    is_failed = failed == len(answers)
    return Outcome(
        window_id=window.window_id,
        prompt_hash=key,
        status="failed" if is_failed else "repaired" if notes else "ok",
        error="; ".join(dict.fromkeys(notes)) or None,
        mentions=() if is_failed else tuple(mentions),
        causal=() if is_failed else tuple(causal),
        prompt_tokens=sum(said.prompt_tokens for _, said in answers),
        output_tokens=sum(said.output_tokens for _, said in answers),
    )


def _placed(pair: CausalPair, part: _Part, window: Window) -> CausalPair:
    """A pair with its indexes in the whole window; those of no event stay so."""

    def whole(index: int) -> int:
        num = len(part.window.events)
        if not 0 <= index < num:
            return -1
        if not window.history or index < part.window.history:
            return index + part.offset
        return index + len(window.events) - num

    return pair if part.window is window else replace(pair, cause=whole(pair.cause), effect=whole(pair.effect))

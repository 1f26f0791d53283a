"""An answer without a language model: the date, the number or the sentence of the evidence that fits the question best.

It copies and never infers. Where the evidence covers too few of the question's words it refuses; the threshold was
fitted on our own examples (docs/benchmarks.md says how) and on no benchmark. A name of somebody who speaks covers
nothing by itself, JSON and tags inside a text are nothing that was said, and a number about a speaker is taken from
that speaker's own turns alone.
"""

import datetime
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from magma_gpu.answer import REFUSAL, Answer, Task
from magma_gpu.graph import NO_TIME
from magma_gpu.lexical import Analyzer

# Share of the question's words, by weight, that the best piece of evidence must hold.
THRESHOLD = 0.3
# Events of the evidence that are looked at, best first.
_LOOKED_AT = 10
# What each place further down in the ranking takes from an event's score.
_PER_RANK = 0.03

_DATE = re.compile(r"\b(?:when|(?:what|which) (?:\w+ )?(?:date|day|month|year|week|weekend|time)|since when)\b", re.I)
_NUMBER_ASKED = re.compile(r"\bhow (?:many|much|old|long|far|often|tall)\b", re.I)
_NUMBER = re.compile(
    r"(?:[$€£]\s?)?\b\d[\d,.]*(?:\s?%)?|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|"
    r"fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|hundred|once|twice)\b",
    re.I,
)
# Where an object with keys, as JSON writes it, begins inside a text; and a tag.
_OBJECT = re.compile(r"""(?:\[\s*)*\{\s*(?:"[^"\n]*"|'[^'\n]*')\s*:""")
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.I)
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY = 86_400_000_000
_MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True, slots=True)
class Pick:
    """The event that an answer is taken from.

    Attributes:
        cover: share of the question's words, by weight, that it holds.
    """

    event: int
    cover: float


class ExtractiveEngine:
    """Answers by copying."""

    identity = {"engine": "extractive", "version": "2"}  # noqa: RUF012 (never changed)

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self.threshold = threshold
        self._analyzer = Analyzer()

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        return [self._answer(task) for task in tasks]

    def cover(self, task: Task) -> float:
        """How much of the question the evidence covers: what the threshold is held against; 0 without evidence."""
        pick = self._pick(task)
        return 0.0 if pick is None else pick.cover

    def _answer(self, task: Task) -> Answer:
        pick = self._pick(task)
        text = REFUSAL
        used: tuple[str, ...] = ()
        if pick is not None and pick.cover >= self.threshold:
            text, used = self._text(task, pick.event), (task.index.turn_ids[pick.event],)
        return Answer(
            memory_id=task.question.memory_id,
            query_id=task.question.query_id,
            answer=text,
            abstained=not used,
            evidence=used,
            context_tokens=task.context_tokens,
        )

    def _pick(self, task: Task) -> Pick | None:
        index, question = task.index, task.question.question
        weight = self._weights(task)
        total = sum(weight.values())
        if not task.events or not total:
            return None
        names = {t for speaker in set(index.speakers) for t in self._analyzer.terms(speaker)}
        asks_date = _DATE.search(question) is not None
        asks_number = _NUMBER_ASKED.search(question) is not None
        wanted = self._told_by(task) if asks_number else frozenset()
        best: tuple[float, Pick] | None = None
        for rank, event in enumerate(task.events[:_LOOKED_AT] if task.ranked else task.events):
            if wanted and index.speakers[event] not in wanted:
                continue
            held = self._held(task, event)
            near = set(held)
            for other in (index.previous_E[event], index.next_E[event]):
                # An answer often follows the words of its question in the turn before.
                near |= self._held(task, int(other)) if other >= 0 else set()
            own, cover = _share(weight, names, held) / total, _share(weight, names, near) / total
            if asks_number and not own and not _NUMBER.search(index.texts[event]):
                continue
            fits = 0.1 if asks_date and (index.span_event == event).any() else 0.0
            score = 0.7 * own + 0.3 * cover + fits - (_PER_RANK * rank if task.ranked else 0.0)
            if best is None or score > best[0]:
                best = (score, Pick(event, 0.5 * (own + cover)))
        return None if best is None else best[1]

    def _held(self, task: Task, event: int) -> set[str]:
        """The terms of an event, of its date and its speaker, without those that only stand in markup."""
        index = task.index
        text = index.texts[event]
        plain = said_words(text)
        if plain == text:
            return set(index.terms[event])
        return set(self._analyzer.terms(f"{index.speakers[event]} {plain} {index.captions[event] or ''}"))

    def _told_by(self, task: Task) -> frozenset[str]:
        """Those speakers of the memory that the question names."""
        asked = set(self._analyzer.terms(task.question.question))
        return frozenset(s for s in set(task.index.speakers) if asked.intersection(self._analyzer.terms(s)))

    def _weights(self, task: Task) -> dict[str, float]:
        """Terms of the question, rare ones in this memory heavier; what the memory never says is the heaviest."""
        index = task.index
        terms = dict.fromkeys(self._analyzer.terms(task.question.question))
        counts: Counter[str] = Counter()
        for said in index.terms:
            counts.update(t for t in set(said) if t in terms)
        return {t: math.log(1 + (index.num_events + 1) / (counts[t] + 0.5)) for t in terms}

    def _text(self, task: Task, event: int) -> str:
        question, index = task.question.question, task.index
        if _DATE.search(question):
            spans = np.flatnonzero(index.span_event == event)
            if len(spans):
                return interval_words(int(index.span_start[spans[0]]), int(index.span_end[spans[0]]))
            said = int(index.time_E[event])
            if said != NO_TIME:
                return interval_words(said, said + 1)
        sentences = _sentences(said_words(index.texts[event]))
        after_E = index.next_E
        if sentences and all(s.endswith("?") for s in sentences) and after_E[event] >= 0:
            # A question asked in the log is answered by the turn after it.
            sentences = _sentences(said_words(index.texts[int(after_E[event])]))
        if not sentences:
            return index.captions[event] or REFUSAL
        weight = self._weights(task)
        asks_number = _NUMBER_ASKED.search(question) is not None

        def score(sentence: str) -> float:
            held = set(self._analyzer.terms(sentence))
            number = 2.0 if asks_number and _NUMBER.search(sentence) else 0.0
            asked = 4.0 if sentence.endswith("?") else 0.0
            return sum(w for t, w in weight.items() if t in held) + number - asked

        best = max(sentences, key=score)
        if asks_number and (found := _NUMBER.search(best)):
            after = best[found.end() :].split()
            return f"{found[0]} {after[0].strip('.,!?;:')}".strip() if after else found[0]
        return best


def _share(weight: dict[str, float], names: set[str], held: set[str]) -> float:
    """The weight of the terms that are held; none where names of speakers are all that is."""
    found = weight.keys() & held
    return sum(weight[t] for t in found) if found - names else 0.0


def said_words(text: str) -> str:
    """A text without the JSON and the tags in it; what is left of it as it stands."""
    kept, at = [], 0
    while match := _OBJECT.search(text, at):
        kept.append(text[at : match.start()])
        at = _end_of_object(text, match.start())
    kept.append(text[at:])
    return _TAG.sub(" ", " ".join(kept))


def _end_of_object(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`; the end of the text where none does."""
    depth, quote, at = 0, "", start
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in "[{") - (char in "]}")
            if depth == 0:
                return at + 1
        at += 1
    return len(text)


def _sentences(text: str) -> list[str]:
    return [s.strip() for s in _SENTENCE.split(text) if s.strip()]


def fit_threshold(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """The threshold of the best balanced accuracy, to two decimals; of several the middle one.

    Args:
        answerable, unanswerable: `cover` of questions that the evidence answers, and of others.
    """
    grid = np.arange(0.0, 1.0, 0.01)
    yes, no = np.asarray(answerable), np.asarray(unanswerable)
    accuracy = [((yes >= t).mean() + (no < t).mean()) / 2 for t in grid]
    best = np.flatnonzero(np.isclose(accuracy, max(accuracy)))
    return round(float(grid[best[len(best) // 2]]), 2)


def interval_words(start: int, end: int) -> str:
    """A time as people write it: a day, a month, a year, or a range of days; the end is exclusive."""
    try:
        first = _EPOCH + datetime.timedelta(microseconds=start)
        last = _EPOCH + datetime.timedelta(microseconds=max(start, end - 1))
    except OverflowError:
        return REFUSAL
    if first.date() == last.date():
        return f"{first.day} {_MONTHS[first.month - 1]} {first.year}"
    whole_months = first.day == 1 and (last + datetime.timedelta(days=1)).day == 1
    if whole_months and (first.year, first.month) == (last.year, last.month):
        return f"{_MONTHS[first.month - 1]} {first.year}"
    if whole_months and first.month == 1 and last.month == 12 and first.year == last.year:
        return str(first.year)
    begin = f"{first.day} {_MONTHS[first.month - 1]}" + (f" {first.year}" if first.year != last.year else "")
    return f"{begin} to {last.day} {_MONTHS[last.month - 1]} {last.year}"

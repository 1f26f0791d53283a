"""The extraction engine without a model: names by their capitals, causes by explicit words; deterministic and
fast.

It prefers silence to a guess. A causal edge needs two events, so a cue counts only where the cause it names
was told by an earlier event of the window: it points back ("That's why we moved."), or its words repeat what
was said.
"""

import re
from collections.abc import Sequence

import Stemmer

from magma_gpu.extract.causes import CausalCue, find_causal
from magma_gpu.extract.names import find_names
from magma_gpu.extract.words import FUNCTION_WORDS, PRESENT, SMALL_TALK
from magma_gpu.store import stable_hash
from magma_gpu.types import CausalPair, Mention, Outcome, Window, WindowEvent

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SENTENCE_END = re.compile(r"[.!?…\n]")
_POSSIBLE = re.compile(r"(?:can|could|may|might|would|will)\b", re.IGNORECASE)
# Share of a cause's content words that an earlier event must hold, and how many.
_MIN_SHARE = 0.6
_MIN_SHARED = 2
# Cues that point back reach over this many events without content ("Oh no!").
_MAX_SKIPPED = 2
_MAX_EVIDENCE = 160


class RulesExtractor:
    """Names and explicit causes by rules; see `Extractor`."""

    name = "rules"
    version = 2

    def prompt_hash(self, window: Window) -> str:
        """Returns a hash of the rules' version and of all that they look at: speakers, roles, texts, in order."""
        said = (part for event in window.events for part in (event.speaker, event.role, event.text))
        history = (f"history {window.history}",) if window.history else ()
        return stable_hash(self.name, str(self.version), *history, *said)

    def extract(self, windows: Sequence[Window]) -> list[Outcome]:
        """Returns one outcome of status `ok` for every window, in order."""
        return [self._extract(window) for window in windows]

    def _extract(self, window: Window) -> Outcome:
        texts = [event.text for event in window.events]
        mentions: Sequence[Mention] = ()
        if not window.history:
            mentions = find_names(texts, [event.speaker for event in window.events])
        return Outcome(
            window_id=window.window_id,
            prompt_hash=self.prompt_hash(window),
            status="ok",
            error=None,
            mentions=tuple(mentions),
            causal=tuple(link_causes(texts, window.history, window.events)),
            prompt_tokens=0,
            output_tokens=0,
        )


def link_causes(texts: Sequence[str], history: int = 0, events: Sequence[WindowEvent] = ()) -> list[CausalPair]:
    """Returns the causal pairs between the events of one window, sorted; the cause is always the earlier
    event.

    Args:
        texts: the events' texts in the order they were said.
        history: where it is not 0, only pairs of one of so many first texts, which need not follow each other, with
            one of the others; a cue that merely points back says nothing of these.
        events: whose texts they are; if not given, all belong to one talk.
    """
    cues = find_causal(texts)
    if not any(cues):
        return []
    stems = _Stems(texts)
    talks = _talks(events) if events else [range(effect - 1, -1, -1) for effect in range(len(texts))]
    best: dict[tuple[int, int], CausalPair] = {}
    for effect, of_event in enumerate(cues):
        for cue in of_event if effect >= max(history, 1) else ():
            if history and cue.cause is None:
                continue
            found = _cause_of(texts, stems, effect, cue, history or effect, talks[effect])
            if found is None:
                continue
            cause, confidence = found
            pair = CausalPair(cause=cause, effect=effect, evidence=_evidence(texts[effect], cue), confidence=confidence)
            old = best.get((cause, effect))
            if old is None or (-pair.confidence, pair.evidence) < (-old.confidence, old.evidence):
                best[cause, effect] = pair
    return [best[key] for key in sorted(best)]


def _cause_of(
    texts: Sequence[str], stems: "_Stems", effect: int, cue: CausalCue, num_causes: int, talk: Sequence[int]
) -> tuple[int, float] | None:
    """Returns the earlier event that tells the cause of a cue, one of the first `num_causes`, and the confidence."""
    if cue.cause is None:
        if cue.effect is None:
            return None
        for cause in talk[: 1 + _MAX_SKIPPED]:
            if len(stems.of(cause)) >= 2:
                return None if _asks(texts[cause]) else (cause, cue.confidence)
        return None
    words = texts[effect][cue.cue[0] : cue.cue[1]]
    between = texts[effect][cue.cause[1] : cue.cue[0]]
    # A cause told in the sentence before is told by this event; a possible cause ("can lead to") by none.
    if _SENTENCE_END.search(between) or _POSSIBLE.match(words):
        return None
    wanted = stems.of_words(texts[effect][cue.cause[0] : cue.cause[1]])
    if len(wanted) < _MIN_SHARED:
        return None
    shares = [(len(wanted & stems.of(at)), at) for at in range(num_causes) if not _asks(texts[at])]
    if not shares:
        return None
    # Of equals the nearest.
    shared, cause = max(shares)
    share = shared / len(wanted)
    if shared < _MIN_SHARED or share < _MIN_SHARE:
        return None
    return cause, round(cue.confidence * (0.7 + 0.3 * share), 3)


def _talks(events: Sequence[WindowEvent]) -> list[Sequence[int]]:
    """The earlier events that each event of a window may point back to, nearest first.

    What a system says ("Ana has joined") is no part of a talk. Where more than two take part, several talks run through
    each other: an event then goes on from what its speaker said before, or was told by name.
    """
    said = [at for at in reversed(range(len(events))) if events[at].role != "system"]
    is_crowd = len({e.speaker for e in events if e.role not in ("system", "tool")}) > 2
    talks: list[Sequence[int]] = []
    for effect, event in enumerate(events):
        before = [at for at in said if at < effect]
        if is_crowd:
            who = event.speaker
            before = [at for at in before if events[at].speaker == who or _calls(events[at], who)]
        talks.append(before)
    return talks


def _calls(event: WindowEvent, name: str) -> bool:
    """Whether an event opens with somebody's name, as chats with many voices do ("ana: try again")."""
    text = event.text.lstrip("@ ").lower()
    return bool(name) and text.startswith(name.lower()) and text[len(name) : len(name) + 1] in (":", ",", " ")


def _asks(text: str) -> bool:
    return text.rstrip("\"'”’) ").endswith("?")


def _evidence(text: str, cue: CausalCue) -> str:
    """Returns the cue with its cause and effect as they stand in the text, cut at a word."""
    spans = [cue.cue, *(span for span in (cue.cause, cue.effect) if span is not None)]
    first, last = min(s[0] for s in spans), max(s[1] for s in spans)
    if last - first > _MAX_EVIDENCE:
        first = max(first, cue.cue[0] - _MAX_EVIDENCE // 2)
        last = min(last, first + _MAX_EVIDENCE)
        first = text.find(" ", first, cue.cue[0]) + 1 or first
        last = max(text.rfind(" ", first, last), cue.cue[1])
    return text[first:last].strip()


class _Stems:
    """The content words of the events of a window as stems, made when asked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._made: dict[int, frozenset[str]] = {}
        self._stemmer = Stemmer.Stemmer("english")

    def of(self, at: int) -> frozenset[str]:
        if at not in self._made:
            self._made[at] = self.of_words(self._texts[at])
        return self._made[at]

    def of_words(self, text: str) -> frozenset[str]:
        said = (w.lower().replace("’", "'").removesuffix("'s") for w in _WORD.findall(text))
        content = [w for w in said if len(w) > 1 and w not in FUNCTION_WORDS and w not in SMALL_TALK]
        return frozenset(self._stemmer.stemWords([PRESENT.get(w, w) for w in content]))

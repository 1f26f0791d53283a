"""Found events as context for a language model: ordered by intent, each with its reference, within a token budget.

The best events are kept whole; a run of others between them is folded into one line. Nothing of a log can break out of
its line: white space in it, also inside a name or an id, is one space.
"""

import datetime
from collections.abc import Callable, Sequence

import numpy as np

from magma_gpu.embed import day_of
from magma_gpu.graph import NO_TIME, TYPE_CODE
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.search import Found

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
CountTokens = Callable[[Sequence[str]], list[int]]


def iso(time_us: int | None) -> str | None:
    """UTC microseconds as ISO 8601, to the second; None for no time and for the open side of an interval."""
    if time_us is None or time_us == NO_TIME or not _is_day(time_us):
        return None
    moment = (_EPOCH + datetime.timedelta(microseconds=time_us)).replace(microsecond=0, tzinfo=None)
    return f"{moment.isoformat()}Z"


def block(index: MemoryIndex, event: int) -> str:
    """One event as a line: reference, time of saying, times it speaks of, speaker, words."""
    said = iso(int(index.time_E[event]))
    first, last = np.searchsorted(index.span_event, [event, event + 1])
    about = [
        f"{index.span_text[i]} = {_interval(int(index.span_start[i]), int(index.span_end[i]))}"
        for i in range(first, last)
    ]
    words = index.texts[event]
    if index.captions[event]:
        words = f"{words} [image: {index.captions[event]}]"
    when = f" {said[:16].replace('T', ' ')}" if said else ""
    times = f" ({'; '.join(about)})" if about else ""
    return " ".join(f"[{index.turn_ids[event]}]{when} {index.speakers[event]}: {words}{times}".split())


def _interval(start: int, end: int) -> str:
    """Days as people write them, with the time of day where the interval is shorter than one; the end is exclusive."""
    if not _is_day(start):
        return f"until {day_of(end - 1)}" if _is_day(end) else "any time"
    if not _is_day(end):
        return f"from {day_of(start)}"
    a, b = day_of(start), day_of(max(start, end - 1))
    if a == b and end - start < _DAY_US:
        first, last = start % _DAY_US // _MINUTE_US, (end - 1) % _DAY_US // _MINUTE_US + 1
        clock = f"{a} {first // 60:02d}:{first % 60:02d}"
        # An hour or less is a moment that somebody named.
        return clock if last - first <= 60 else f"{clock} to {last // 60:02d}:{last % 60:02d}"
    return a if a == b else f"{a} to {b}"


_MINUTE_US = 60_000_000
_DAY_US = 24 * 60 * _MINUTE_US
# The first and the last microsecond of the calendar stand for the open sides of intervals.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


def _is_day(time_us: int) -> bool:
    return _FIRST_US < time_us < _LAST_US


def order(index: MemoryIndex, found: Sequence[Found], intent: str) -> list[Found]:
    """Puts evidence into the order of telling.

    `when`: by time. `why`: causes before effects, else by time. Others: by episode, then by time inside it.
    """
    by_time = sorted(found, key=lambda f: f.event)
    if intent == "why":
        return _causes_first(index, by_time)
    if intent == "when":
        return by_time
    return sorted(by_time, key=lambda f: (int(index.episode_E[f.event]), f.event))


def _causes_first(index: MemoryIndex, by_time: list[Found]) -> list[Found]:
    """Kahn's sort over the causal edges among the events; whatever is free goes by time, and a cycle is cut there."""
    graph = index.graph
    chosen = {f.event: f for f in by_time}
    causes: dict[int, set[int]] = {event: set() for event in chosen}
    causal = (graph.type_E == TYPE_CODE["causal"]).numpy()
    for cause, effect in zip(graph.src_E.numpy()[causal].tolist(), graph.dst_E.numpy()[causal].tolist(), strict=True):
        if cause in chosen and effect in chosen and cause != effect:
            causes[effect].add(cause)
    told: list[Found] = []
    waiting = dict.fromkeys(f.event for f in by_time)
    while waiting:
        free = next((e for e in waiting if waiting.keys().isdisjoint(causes[e])), next(iter(waiting)))
        del waiting[free]
        told.append(chosen[free])
    return told


def narrate(
    index: MemoryIndex, found: Sequence[Found], intent: str, budget: int, count_tokens: CountTokens
) -> tuple[str, int]:
    """Writes the context.

    Args:
        found: best first.
        budget: tokens that the context may have.
        count_tokens: tokens of each of some texts, by the tokenizer of the model that will read them.

    Returns:
        the context and its number of tokens.
    """
    uncounted = {f.event: block(index, f.event) for f in found if f.event not in index.blocks}
    folds = [_fold(n) for n in (1, 99, max(1, len(found)))]
    lines = [*uncounted.values(), *(line for line in folds if line not in index.line_tokens)]
    counted: dict[str, int] = {}
    if lines:
        # With its line end, which is a token to some tokenizers.
        counted = dict(zip(lines, count_tokens([f"{line}\n" for line in lines]), strict=True))
        index.line_tokens.update({line: counted[line] for line in folds if line in counted})
    for event, line in uncounted.items():
        index.blocks[event] = (line, counted[line])
    ordered = order(index, found, intent)
    fold = max(index.line_tokens[line] for line in folds)
    kept: set[int] = set()
    used = 0
    for f in found:
        # Every kept event may leave a folded run on each side.
        gaps = len(kept) + 2 if len(kept) + 1 < len(found) else 0
        tokens = index.blocks[f.event][1]
        if used + tokens + fold * gaps <= budget:
            kept.add(f.event)
            used += tokens
    lines = []
    folded = 0
    for told in [*ordered, None]:
        if told is not None and told.event not in kept:
            folded += 1
            continue
        if folded and fold <= budget:
            lines.append(_fold(folded))
            used += fold
        folded = 0
        if told is not None:
            lines.append(index.blocks[told.event][0])
    return "\n".join(lines), used


def _fold(count: int) -> str:
    return f"\u2026 {count} intermediate event{'s' if count > 1 else ''} \u2026"

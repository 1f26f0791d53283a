"""Finds out which earlier events may have led to an event, where no window holds both: the paper's Algorithm 3.

It asks nobody: it makes windows of a few events and the earlier ones that the graph suggests for them, and an extractor
looks at these. Suggestions come from at most two steps in the graph (like in meaning, next in time, same entity), and
every step has a fixed number of ways to go, so the work grows with the number of events and not with its square.
"""

import bisect
import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from magma_gpu.config import ExtractConfig, ResolveConfig
from magma_gpu.entities import resolve_shard
from magma_gpu.extract.windows import PlacedWindow, history_id
from magma_gpu.extract.words import says_something
from magma_gpu.types import Window, WindowEvent

# Of the events that mention an entity, so many are looked at: the last ones before the event in question.
_PER_ENTITY = 8
# What a step to the event before or after is worth; others are worth the weight of their edge.
_TEMPORAL = 0.5


@dataclass(slots=True)
class _Memory:
    """The events of one memory in the order they were said, and the ways between them."""

    events: list[WindowEvent]
    sessions: list[str]
    # In its session and in the memory.
    places: list[int]
    positions: list[int]
    # By event: like events and how like.
    alike: dict[int, list[tuple[int, float]]]
    # By event: entities it mentions, with the edge's weight; by entity the events that mention it, ascending.
    entities: dict[int, list[tuple[str, float]]]
    mentioned: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Suggested:
    """Windows to look at, sorted by memory, first position and id; and how many steps in the graph it took."""

    places: list[PlacedWindow]
    num_steps: int


def suggest_windows(events: pa.Table, extracts: pa.Table, semantic: pa.Table, config: ExtractConfig) -> Suggested:
    """Makes the windows in which causes that lie far back may be found.

    Args:
        events: table `events` of one shard, sorted by memory and position.
        extracts: table `extracts` of the runs of sessions: it says which entities events share.
        semantic: table `edges/semantic` of the shard.
        config: how many events a window asks about, and how many earlier ones it suggests.
    """
    resolved, _ = resolve_shard(events, extracts, ResolveConfig(min_confidence=1.0))
    places: list[PlacedWindow] = []
    num_steps = 0
    for memory_id, memory in _memories(events, semantic, resolved["edges/entity"]):
        found: list[PlacedWindow] = []
        for targets in _groups(memory, config.consolidate_targets):
            scores: dict[int, float] = {}
            for target in targets:
                ways = _neighbourhood(memory, target)
                num_steps += len(ways)
                for event, score in ways:
                    if event < targets[0] and not _in_one_window(memory, event, target, config):
                        scores[event] = max(score, scores.get(event, 0.0))
            best = heapq.nsmallest(config.consolidate_candidates, scores, key=lambda e: (-scores[e], -e))
            if best:
                found.append(_place(memory_id, memory, sorted(best), targets))
        places += sorted(found, key=lambda p: (p.first, p.window.window_id))
    return Suggested(places, num_steps)


def _memories(events: pa.Table, semantic: pa.Table, entity: pa.Table) -> Iterator[tuple[str, _Memory]]:
    names = ("memory_id", "event_id", "session_id", "position", "speaker", "role", "text", "caption")
    rows = events.select(names).to_pylist()
    times = events["time"].cast(pa.int64()).to_pylist()
    memories: dict[str, _Memory] = {}
    place: dict[tuple[str, str], int] = {}
    count: Counter[tuple[str, str]] = Counter()
    for row, time in zip(rows, times, strict=True):
        memory = memories.setdefault(row["memory_id"], _Memory([], [], [], [], {}, {}, {}))
        place[row["memory_id"], row["event_id"]] = len(memory.events)
        memory.events.append(
            WindowEvent(
                event_id=row["event_id"],
                speaker=row["speaker"],
                role=row["role"],
                text=row["text"] or row["caption"] or "",
                time=time,
            )
        )
        memory.sessions.append(row["session_id"])
        memory.places.append(count[row["memory_id"], row["session_id"]])
        count[row["memory_id"], row["session_id"]] += 1
        memory.positions.append(row["position"])
    for memory_id, src, dst, weight in _edges(semantic):
        ends = place.get((memory_id, src)), place.get((memory_id, dst))
        if None in ends:
            continue
        for one, other in (ends, ends[::-1]):
            assert one is not None
            assert other is not None
            memories[memory_id].alike.setdefault(one, []).append((other, weight))
    for memory_id, src, dst, weight in _edges(entity):
        at = place[memory_id, src]
        memories[memory_id].entities.setdefault(at, []).append((dst, weight))
        memories[memory_id].mentioned.setdefault(dst, []).append(at)
    for memory in memories.values():
        for mentioning in memory.mentioned.values():
            mentioning.sort()
    yield from sorted(memories.items())


def _edges(table: pa.Table) -> Iterator[tuple[str, str, str, float]]:
    columns = (table[name].to_pylist() for name in ("memory_id", "src", "dst", "weight"))
    yield from zip(*columns, strict=True)


def _groups(memory: _Memory, size: int) -> Iterator[list[int]]:
    """Runs of a session, at most `size` long, in which something is said."""
    first = 0
    for at in range(1, len(memory.events) + 1):
        ends = at == len(memory.events) or memory.sessions[at] != memory.sessions[first]
        if ends or at - first == size:
            if any(says_something(memory.events[e].text) for e in range(first, at)):
                yield list(range(first, at))
            first = at


def _neighbourhood(memory: _Memory, target: int) -> list[tuple[int, float]]:
    """Events at most two steps away and said before, each way with what it is worth."""
    ways: list[tuple[int, float]] = []
    for near, weight in memory.alike.get(target, ()):
        ways.append((near, weight))
        ways += [(far, weight * more) for far, more in memory.alike.get(near, ())]
        ways += [(next_to, weight * _TEMPORAL) for next_to in (near - 1, near + 1) if _follow(memory, near, next_to)]
    before = target - 1
    if _follow(memory, target, before):
        ways += [(far, _TEMPORAL * more) for far, more in memory.alike.get(before, ())]
    for entity, weight in memory.entities.get(target, ()):
        mentioning = memory.mentioned[entity]
        last = bisect.bisect_left(mentioning, target)
        ways += [(event, weight * weight) for event in mentioning[max(0, last - _PER_ENTITY) : last]]
    return [(event, worth) for event, worth in ways if event < target]


def _follow(memory: _Memory, one: int, other: int) -> bool:
    return 0 <= other < len(memory.events) and memory.sessions[one] == memory.sessions[other]


def _in_one_window(memory: _Memory, cause: int, effect: int, config: ExtractConfig) -> bool:
    """Whether a window of the session holds both; `make_windows` lays them."""
    if memory.sessions[cause] != memory.sessions[effect]:
        return False
    step = config.window - config.overlap
    # Of the windows that hold the effect, the one that begins first.
    start = max(0, -(-(memory.places[effect] - config.window + 1) // step)) * step
    return memory.places[cause] >= start


def _place(memory_id: str, memory: _Memory, candidates: Sequence[int], targets: Sequence[int]) -> PlacedWindow:
    seen = tuple(memory.events[e] for e in (*candidates, *targets))
    made = Window(
        memory_id=memory_id,
        window_id=history_id(memory_id, len(candidates), [e.event_id for e in seen]),
        events=seen,
        history=len(candidates),
    )
    return PlacedWindow(
        window=made,
        session_id=memory.sessions[targets[0]],
        first=memory.positions[candidates[0]],
        last=memory.positions[targets[-1]],
    )

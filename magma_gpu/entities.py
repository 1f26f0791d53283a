"""Decides within each memory which names are one entity, and links events to entities (table `edges/entity`).

It never looks across memories: the Kat of one log is not the Kat of another. The result is a function of the
set of events and mentions, not of their order, and every merge is written beside its mention (`rule`), so
that it can be undone. A name that could be two people is left alone.

Weights: an entity that `df` of a memory's `N` events mention has edges of weight log(1 + N / df) / log(1 +
N): 1 where a single event mentions it, falling to log 2 / log(1 + N) where all do, so that the speakers join
little.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from magma_gpu.causal import CausalEdge, PlacedEvent, causal_table, check_pairs, merge_edges
from magma_gpu.config import ResolveConfig
from magma_gpu.extract.aliases import SAME, Aliases
from magma_gpu.extract.keys import name_key
from magma_gpu.extract.names import TYPES
from magma_gpu.extract.windows import decode_events, decode_output, history_id, window_id
from magma_gpu.extract.words import says_something, word_set
from magma_gpu.schema import TABLES
from magma_gpu.store import stable_hash

EMPTY_NAME = "entity: empty name"
PRONOUN = "entity: pronoun"
NOT_IN_WINDOW = "entity: index not in the window"
STALE_WINDOW = "window: not of these events"
FAILED_WINDOW = "window: extraction failed"

# A merge that the extractor alone asks for; it holds for the one event, never for the name elsewhere.
TOLD = "alias told by the extractor"

_FIRST_PERSON = word_set("i me my myself mine speaker i'm i've")
_PRONOUNS = word_set(
    "you your he him his she her it its we us our they them their this that these those who someone everyone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMention:
    """A name in an event, as an extractor found it."""

    event_id: str
    surface: str
    # One of person, place, organisation, thing, topic.
    type: str
    # rule or llm.
    origin: str
    # The fuller name that the extractor says it stands for here; "" where it says nothing.
    alias_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The entities of one memory as rows of the three tables, sorted."""

    entities: list[dict[str, object]]
    mentions: list[dict[str, object]]
    edges: list[dict[str, object]]


def resolve(
    memory_id: str, events: Sequence[PlacedEvent], mentions: Iterable[EventMention], dropped: Counter[str]
) -> Resolved:
    """Resolves the names of one memory to entities.

    Besides the mentions given, every event that says something mentions its speaker (rule "speaker"): that is
    who its "I" is. A turn of greetings alone ("Hello!") mentions nobody.

    Args:
        memory_id: the memory.
        events: all its events.
        mentions: of these events; repeated ones count once.
        dropped: counts of mentions without a name, by reason; changed in place.
    """
    by_id = {event.event_id: event for event in events}
    mentions = list(mentions)
    # Windows overlap: of what they say about one mention the smallest counts.
    alias_of: dict[tuple[str, str], str] = {}
    for m in sorted(mentions, key=lambda m: m.alias_of, reverse=True):
        if m.alias_of:
            alias_of[m.event_id, m.surface.strip()] = m.alias_of
    named: set[tuple[str, str, str, str]] = set()
    found: set[tuple[str, str, str, str, str]] = set()
    for one in sorted({(m.event_id, m.surface.strip(), m.type, m.origin) for m in mentions}):
        event_id, surface, _, origin = one
        key = name_key(surface)
        if key in _FIRST_PERSON:
            who = name_key(by_id[event_id].speaker)
            if who:
                found.add((event_id, surface, who, origin, "first person"))
        elif not key or key in _PRONOUNS:
            dropped[PRONOUN if key else EMPTY_NAME] += 1
        else:
            named.add(one)
    types: dict[str, Counter[str]] = {}
    for _, surface, kind, _ in sorted(named):
        types.setdefault(name_key(surface), Counter())[kind] += 1
    aliases = Aliases(
        speakers=((event.session_id, name_key(event.speaker)) for event in events if event.speaker.strip()),
        types={key: _most(count) for key, count in types.items()},
    )
    for event_id, surface, _, origin in named:
        root, rule = aliases.root(by_id[event_id].session_id, name_key(surface))
        if rule == SAME and root == name_key(surface) and not aliases.is_speaker(root):
            told = alias_of.get((event_id, surface), "")
            fuller, _ = aliases.root(by_id[event_id].session_id, name_key(told))
            if told and fuller != root and (aliases.is_speaker(fuller) or fuller in types):
                root, rule = fuller, TOLD
        found.add((event_id, surface, root, origin, rule))
    for event in events:
        who = name_key(event.speaker)
        if who and says_something(event.text):
            found.add((event.event_id, event.speaker.strip(), who, "rule", "speaker"))
    return _rows(memory_id, len(events), found, aliases, types)


def _most(count: Counter[str]) -> str:
    return min(count, key=lambda kind: (-count[kind], TYPES.index(kind) if kind in TYPES else len(TYPES), kind))


def _rows(
    memory_id: str,
    num_events: int,
    found: set[tuple[str, str, str, str, str]],
    aliases: Aliases,
    types: dict[str, Counter[str]],
) -> Resolved:
    by_root: dict[str, list[tuple[str, str, str, str, str]]] = {}
    for row in sorted(found):
        by_root.setdefault(row[2], []).append(row)
    entities: list[dict[str, object]] = []
    mentions: list[dict[str, object]] = []
    edges: list[dict[str, object]] = []
    for root, rows in by_root.items():
        entity_id = stable_hash("entity", memory_id, root)
        in_events = sorted({row[0] for row in rows})
        kinds: Counter[str] = Counter()
        for key in {name_key(row[1]) for row in rows}:
            kinds.update(types.get(key, {}))
        entities.append(
            {
                "memory_id": memory_id,
                "entity_id": entity_id,
                "name": (name := _display_name(root, rows, aliases)),
                "type": "person" if aliases.is_speaker(root) or not kinds else _most(kinds),
                "aliases": sorted({row[1] for row in rows} - {name}),
                "num_events": len(in_events),
            }
        )
        # One row a surface and event; a name said of oneself is told by the rule that says less, "speaker".
        told: dict[tuple[str, str], tuple[str, str]] = {}
        for event_id, surface, _, origin, rule in rows:
            told[event_id, surface] = max(told.get((event_id, surface), ("", "")), (origin, rule))
        for (event_id, surface), (origin, rule) in told.items():
            mentions.append(
                {
                    "memory_id": memory_id,
                    "event_id": event_id,
                    "surface": surface,
                    "entity_id": entity_id,
                    "origin": origin,
                    "rule": rule,
                }
            )
        weight = math.log1p(num_events / len(in_events)) / math.log1p(num_events)
        by_rule = {row[0] for row in rows if row[3] == "rule"}
        # Looked up, not searched for: a speaker of a long memory stands in all of its events.
        smallest: dict[str, str] = {}
        for event_id, surface, *_ in rows:
            smallest[event_id] = min(surface, smallest.get(event_id, surface))
        for event_id in in_events:
            edges.append(
                {
                    "memory_id": memory_id,
                    "src": event_id,
                    "dst": entity_id,
                    "type": "entity",
                    "weight": min(weight, 1.0),
                    "origin": "rule" if event_id in by_rule else "llm",
                    "evidence": smallest[event_id],
                }
            )
    return Resolved(
        entities=sorted(entities, key=lambda r: str(r["entity_id"])),
        mentions=sorted(mentions, key=lambda r: (str(r["event_id"]), str(r["entity_id"]), str(r["surface"]))),
        edges=sorted(edges, key=lambda r: (str(r["src"]), str(r["dst"]))),
    )


def _display_name(root: str, rows: Sequence[tuple[str, str, str, str, str]], aliases: Aliases) -> str:
    """Returns the most frequent spelling of the root itself, of equals the smallest."""
    spoken = [row[1] for row in rows if row[4] == "speaker"] if aliases.is_speaker(root) else []
    exact = [row[1] for row in rows if aliases.base(name_key(row[1])) == root]
    count = Counter(spoken or exact or [row[1] for row in rows])
    return min(count, key=lambda surface: (-count[surface], surface))


def resolve_shard(
    events: pa.Table, extracts: pa.Table, config: ResolveConfig
) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """Makes the tables of stage `resolve` for one shard.

    Args:
        events: table `events`, sorted by memory and position.
        extracts: table `extracts` of the same events. Rows of engines that read no prompt (no prompt tokens)
            have origin "rule", others "llm".
        config: the lowest confidence of a causal edge.

    Returns:
        Tables `entities`, `mentions`, `edges/entity` and `edges/causal`, sorted by memory and then id, event
        and entity, or source and target; and how many mentions, pairs and windows were dropped, by reason.
    """
    dropped: Counter[str] = Counter()
    by_memory: dict[str, list[PlacedEvent]] = {}
    names = ("memory_id", "event_id", "session_id", "position", "speaker", "role", "text", "caption")
    for row in events.select(names).to_pylist():
        by_memory.setdefault(row["memory_id"], []).append(
            PlacedEvent(
                event_id=row["event_id"],
                session_id=row["session_id"],
                position=row["position"],
                # What an app itself writes into a chat is said by nobody.
                speaker="" if row["role"] == row["speaker"] == "system" else row["speaker"],
                text=row["text"] or row["caption"] or "",
            )
        )
    windows: dict[str, list[dict[str, object]]] = {}
    for row in extracts.to_pylist():
        windows.setdefault(row["memory_id"], []).append(row)
    rows: dict[str, list[dict[str, object]]] = {"entities": [], "mentions": [], "edges/entity": []}
    causal: list[tuple[str, list[CausalEdge]]] = []
    for memory_id in sorted(by_memory):
        told = by_memory[memory_id]
        mentions, edges = _read_windows(memory_id, told, windows.get(memory_id, []), config, dropped)
        made = resolve(memory_id, told, mentions, dropped)
        rows["entities"] += made.entities
        rows["mentions"] += made.mentions
        rows["edges/entity"] += made.edges
        causal.append((memory_id, merge_edges(edges)))
    tables = {name: pa.Table.from_pylist(made, schema=TABLES[name]) for name, made in rows.items()}
    tables["edges/causal"] = causal_table(causal)
    return tables, dict(sorted(dropped.items()))


def _read_windows(
    memory_id: str,
    events: Sequence[PlacedEvent],
    windows: Sequence[dict[str, object]],
    config: ResolveConfig,
    dropped: Counter[str],
) -> tuple[list[EventMention], list[CausalEdge]]:
    """Returns the mentions and checked causal edges of a memory's windows, without stale windows."""
    session_at = {event.position: event.session_id for event in events}
    by_id = {event.event_id: event for event in events}
    sessions: dict[str, list[PlacedEvent]] = {}
    for event in events:
        sessions.setdefault(event.session_id, []).append(event)
    place = {s: {event.position: i for i, event in enumerate(told)} for s, told in sessions.items()}
    mentions: list[EventMention] = []
    edges: list[CausalEdge] = []
    for row in windows:
        output, first, last = row["output"], row["first"], row["last"]
        if output is None:
            dropped[FAILED_WINDOW] += 1
            continue
        assert isinstance(output, str)
        assert isinstance(first, int)
        assert isinstance(last, int)
        # Only looked for where it can be: most rows are runs of a session.
        named, history = decode_events(output) if ',"history":' in output else ([], 0)
        if history:
            seen = [by_id[event_id] for event_id in named if event_id in by_id]
            wanted = history_id(memory_id, history, named)
        else:
            session = session_at.get(first, "")
            at = place.get(session, {})
            seen = sessions[session][at[first] : at[last] + 1] if first in at and last in at else []
            wanted = window_id(memory_id, [event.event_id for event in seen])
        if wanted != row["window_id"] or (history and len(seen) < len(named)):
            dropped[STALE_WINDOW] += 1
            continue
        found, pairs = decode_output(output)
        origin = "llm" if row["prompt_tokens"] else "rule"
        for m in found:
            if 0 <= m.index < len(seen):
                mentions.append(
                    EventMention(
                        event_id=seen[m.index].event_id,
                        surface=m.surface,
                        type=m.type,
                        origin=origin,
                        alias_of=m.alias_of,
                    )
                )
            else:
                dropped[NOT_IN_WINDOW] += 1
        edges += check_pairs(pairs, seen, min_confidence=config.min_confidence, origin=origin, dropped=dropped)
    return mentions, edges

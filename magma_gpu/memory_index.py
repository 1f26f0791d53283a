"""All that a search needs of one memory, made once from its tables and used for every question.

E events, D embedding. Event numbers are positions in the graph: events are its first nodes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from magma_gpu.embed import day_of
from magma_gpu.graph import NO_TIME, GraphBatch, MemoryGraph, build_graph
from magma_gpu.lexical import Analyzer, LexicalIndex

FloatED = npt.NDArray[np.float32]
IntE = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MemoryIndex:
    """One memory, ready to be asked.

    Attributes:
        x_ED: float32 unit rows; window_ED: the unit mean of an event and its two neighbours in the session.
        next_E, previous_E: the neighbour in the same session, -1 at its ends.
        time_E: UTC microseconds of saying, NO_TIME where unknown.
        span_event, span_start, span_end: the event times of the `times` table, one row a span, sorted by event.
        lexical, lexical_window: BM25 over date + speaker + text + caption, of an event and of it with its neighbours.
        missing: edge types whose stage has not run.
    """

    memory_id: str
    graph: MemoryGraph
    # The graph as a traversal walks it.
    walked: GraphBatch
    x_ED: FloatED
    window_ED: FloatED
    turn_ids: list[str]
    speakers: list[str]
    roles: list[str]
    texts: list[str]
    captions: list[str | None]
    # Every name an entity goes by, in the order of the graph's entities.
    entity_names: list[list[str]]
    session_E: IntE
    episode_E: IntE
    next_E: IntE
    previous_E: IntE
    time_E: IntE
    span_event: IntE
    span_start: IntE
    span_end: IntE
    span_text: list[str]
    terms: list[list[str]]
    lexical: LexicalIndex
    lexical_window: LexicalIndex
    missing: tuple[str, ...]
    # Each event's line of context and its tokens, and its time in words, filled in as they are asked for; tokens of
    # other lines by their text.
    blocks: dict[int, tuple[str, int]]
    said: dict[int, str | None]
    line_tokens: dict[str, int]

    @property
    def num_events(self) -> int:
        return len(self.turn_ids)


def build_index(
    memory_id: str, tables: dict[str, pa.Table], missing: tuple[str, ...], analyzer: Analyzer
) -> MemoryIndex:
    """Makes the index of one memory from its rows (see `graph.build_graph`), `times` among them."""
    events = tables["events"]
    graph = build_graph(memory_id, tables)
    num_events = events.num_rows
    sessions = events["session_id"].to_pylist()
    before, after = _neighbors(sessions)
    number_of = {session: n for n, session in enumerate(dict.fromkeys(sessions))}
    entities = tables["entities"]
    x = graph.x_ND[:num_events].numpy()
    times = graph.time_N.numpy()
    texts, speakers = events["text"].to_pylist(), events["speaker"].to_pylist()
    captions = events["caption"].to_pylist()
    terms = []
    for time, speaker, text, caption in zip(times.tolist(), speakers, texts, captions, strict=True):
        day = day_of(time) if time != NO_TIME else ""
        terms.append(analyzer.terms(f"{day} {speaker} {text} {caption or ''}"))
    window_terms = [
        [
            *(terms[before[i]] if before[i] >= 0 else ()),
            *terms[i],
            *(terms[after[i]] if after[i] >= 0 else ()),
        ]
        for i in range(num_events)
    ]
    number = {event_id: i for i, event_id in enumerate(graph.event_ids)}
    spans = tables["times"]
    span_event = np.array([number[e] for e in spans["event_id"].to_pylist()], dtype=np.int64)
    by = np.argsort(span_event, kind="stable")
    span_text = spans["text"].to_pylist()
    episode = np.full(num_events, -1, dtype=np.int64)
    membership = graph.type_E.numpy() == 4
    episode[graph.src_E.numpy()[membership]] = graph.dst_E.numpy()[membership]
    return MemoryIndex(
        memory_id=memory_id,
        graph=graph,
        walked=GraphBatch.of([graph]),
        x_ED=x,
        window_ED=_window_means(x, before, after),
        turn_ids=events["turn_id"].to_pylist(),
        speakers=speakers,
        roles=events["role"].to_pylist(),
        texts=texts,
        captions=captions,
        entity_names=[
            [name, *aliases]
            for name, aliases in zip(entities["name"].to_pylist(), entities["aliases"].to_pylist(), strict=True)
        ],
        session_E=np.array([number_of[s] for s in sessions], dtype=np.int64),
        episode_E=episode,
        next_E=after,
        previous_E=before,
        time_E=times,
        span_event=span_event[by],
        span_start=spans["start"].cast(pa.int64()).to_numpy()[by],
        span_end=spans["end"].cast(pa.int64()).to_numpy()[by],
        span_text=[span_text[i] for i in by],
        terms=terms,
        lexical=LexicalIndex(terms),
        lexical_window=LexicalIndex(window_terms),
        missing=missing,
        blocks={},
        said={},
        line_tokens={},
    )


def said_until(tables: dict[str, pa.Table], limit_us: int) -> dict[str, pa.Table]:
    """The rows of one memory as it was at a moment: later events are gone, with all that rests on them.

    Events of unknown time stay. Entities stay, without the mentions that came later.
    """
    events = tables["events"]
    keep = pc.fill_null(pc.less_equal(events["time"].cast(pa.int64()), limit_us), True)
    made = dict(tables)
    made["events"] = events.filter(keep)
    ids = made["events"]["event_id"].combine_chunks()
    made["vectors"] = tables["vectors"].filter(keep)
    made["times"] = tables["times"].filter(pc.is_in(tables["times"]["event_id"], ids))
    for name, table in tables.items():
        if name.startswith("edges/"):
            here = pc.is_in(table["src"], ids)
            made[name] = table.filter(here if name == "edges/entity" else pc.and_(here, pc.is_in(table["dst"], ids)))
    return made


def _neighbors(sessions: list[str]) -> tuple[IntE, IntE]:
    before = np.full(len(sessions), -1, dtype=np.int64)
    after = np.full(len(sessions), -1, dtype=np.int64)
    last: dict[str, int] = {}
    for i, session in enumerate(sessions):
        if session in last:
            before[i] = last[session]
            after[last[session]] = i
        last[session] = i
    return before, after


def _window_means(x: FloatED, before: IntE, after: IntE) -> FloatED:
    total = x.astype(np.float64)
    for near in (before, after):
        total[near >= 0] += x[near[near >= 0]]
    norm = np.sqrt((total * total).sum(axis=1, keepdims=True))
    means: FloatED = np.divide(total, norm, out=np.zeros_like(total), where=norm > 1e-12).astype(np.float32)
    return means


def groups(
    names: Sequence[str], turns_of: Callable[[str], int], most_memories: int, most_turns: int
) -> Iterator[list[str]]:
    """Memories in order, so many at a time as may be kept; one of more turns than that stands alone."""
    group: list[str] = []
    turns = 0
    for name in names:
        turns += turns_of(name)
        if group and (len(group) >= most_memories or turns > most_turns):
            yield group
            group, turns = [], turns_of(name)
        group.append(name)
    if group:
        yield group

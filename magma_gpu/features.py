"""What a ranker reads of a candidate event: signals, how near events scored, who speaks, what is named, when.

Features of a question's candidates are relative to the best of that question, so that a ranker fitted on one memory
fits another. Features that only tell the style of a data set (length, place, question marks, captions) are named in
`STYLE` and can be left out.

Q questions, E events, C candidates of a question, F features.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from magma_gpu.anchors import Signals, best_first, cosines
from magma_gpu.graph import TYPE_CODE
from magma_gpu.lexical import Analyzer, LexicalIndex, words_of
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.types import INTENTS
from magma_gpu.word_match import VIEWS as WORD_VIEWS
from magma_gpu.word_match import WordIndex
from magma_gpu.word_vectors import WordVectors

Float = npt.NDArray[np.float32]

# Scores of every event, by view; each gives a relative score and a rank.
VIEWS = (
    "dense",
    "dense_window",
    "dense_session",
    "lexical",
    "lexical_window",
    "lexical_wide",
    "lexical_session",
    "content",
    "content_window",
    "coverage",
    "coverage_window",
    *WORD_VIEWS,
    "fused",
)
# Views whose scores at the neighbour turns are features too.
_NEAR_VIEWS = ("dense", "content", "fused")
_OFFSETS = (-2, -1, 1, 2)
_EDGES = ("semantic", "causal", "entity")
STATIC = ("has_number", "has_time", "has_name", "has_cause", "first_person")
STYLE = ("log_length", "asks", "previous_asks", "has_caption", "place_in_session", "place_in_memory")

NAMES: tuple[str, ...] = (
    *(f"{view}:{form}" for view in VIEWS for form in ("score", "gap", "rank")),
    *(f"{view}:{offset:+d}" for view in _NEAR_VIEWS for offset in _OFFSETS),
    *(f"near:{edge}" for edge in _EDGES),
    "speaker_named",
    "other_speaker_named",
    "speaker_is_user_and_i",
    "entity_named",
    "window_inside",
    "window_asked",
    *(f"intent:{name}" for name in INTENTS),
    "asks_number",
    *(f"is:{name}" for name in STATIC),
    "when_and_time",
    "why_and_cause",
    "number_and_number",
    "question_terms",
    *(f"style:{name}" for name in STYLE),
)
STYLE_COLUMNS = tuple(i for i, name in enumerate(NAMES) if name.startswith("style:"))

_NUMBER = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|twelve|dozen|hundred|couple|both|twice|once)\b"
)
_CAUSE = re.compile(
    r"\b(because|since|so that|that'?s why|due to|thanks to|as a result|therefore|reason|in order to|made me|led to|"
    r"inspired|motivat\w+|caused?|wanted to|decided)\b"
)
_FIRST_PERSON = re.compile(r"\b(i|my|me|we|our|i'm|i've|i'd|we're|we've)\b")
_ASKS_NUMBER = re.compile(r"\bhow (many|much|far|tall|big|often|old|long)\b|\bnumber of\b|\btotal\b")
_I = re.compile(r"\b(i|my|me|mine|we|our|us)\b")


@dataclass(frozen=True, slots=True, eq=False)
class RankerView:
    """What the features need of a memory beside its index; made once a memory.

    Attributes:
        session_SD: unit mean vector of each session.
        words: the words of the events; speaker_words: those of the speakers' names, which a question's words are not.
        static_EF: features of an event alone, STATIC then STYLE.
        speaker_terms: index terms of each speaker's name; speaker_E: who speaks.
        entity_terms: index terms of each name of each entity that is no speaker.
    """

    session_SD: Float
    lexical_wide: LexicalIndex
    lexical_session: LexicalIndex
    words: WordIndex
    static_EF: Float
    speaker_terms: list[frozenset[str]]
    speaker_words: frozenset[str]
    speaker_E: npt.NDArray[np.int64]
    user_E: npt.NDArray[np.bool_]
    entity_terms: list[tuple[frozenset[str], ...]]
    entity_edges: sp.csr_matrix
    near: dict[str, sp.csr_matrix]
    offset_E: dict[int, npt.NDArray[np.int64]]


def make_view(index: MemoryIndex, analyzer: Analyzer, vectors: WordVectors) -> RankerView:
    """Prepares a memory for ranking."""
    number = index.num_events
    sessions = int(index.session_E.max(initial=-1)) + 1
    total = np.zeros((sessions, index.x_ED.shape[1]))
    np.add.at(total, index.session_E, index.x_ED.astype(np.float64))
    norm = np.sqrt((total * total).sum(axis=1, keepdims=True))
    session = np.divide(total, norm, out=np.zeros_like(total), where=norm > 1e-12).astype(np.float32)
    by_session: list[list[str]] = [[] for _ in range(sessions)]
    for s, terms in zip(index.session_E.tolist(), index.terms, strict=True):
        by_session[s].extend(terms)
    offsets = {-1: index.previous_E, 1: index.next_E}
    for step in (-1, 1):
        one = offsets[step]
        offsets[2 * step] = np.where(one >= 0, one[one], -1)
    wide = []
    for i in range(number):
        near = [int(offsets[o][i]) for o in (-2, -1, 1, 2)]
        wide.append([t for j in (*near[:2], i, *near[2:]) if j >= 0 for t in index.terms[j]])
    names = list(dict.fromkeys(index.speakers))
    return RankerView(
        session_SD=session,
        lexical_wide=LexicalIndex(wide),
        lexical_session=LexicalIndex(by_session),
        words=WordIndex.of(
            [f"{text}\n{caption or ''}" for text, caption in zip(index.texts, index.captions, strict=True)],
            index.previous_E,
            index.next_E,
            vectors,
        ),
        static_EF=_static(index),
        speaker_terms=[frozenset(analyzer.terms(n)) for n in names],
        speaker_words=frozenset(w for n in names for w in words_of(n)),
        speaker_E=np.array([names.index(s) for s in index.speakers], dtype=np.int64),
        user_E=np.array([r == "user" for r in index.roles], dtype=bool),
        entity_terms=_entity_terms(index, analyzer, names),
        entity_edges=_entity_edges(index),
        near={edge: _near(index, edge) for edge in _EDGES},
        offset_E=offsets,
    )


def _static(index: MemoryIndex) -> Float:
    number = index.num_events
    out = np.zeros((number, len(STATIC) + len(STYLE)), dtype=np.float32)
    texts = [t.lower() for t in index.texts]
    has_time = np.bincount(index.span_event, minlength=number) > 0
    mentions = np.zeros(number)
    first = index.graph.first_node("entity")
    of_type = index.graph.type_E.numpy() == TYPE_CODE["entity"]
    np.add.at(mentions, index.graph.src_E.numpy()[of_type], 1.0)
    assert first <= index.graph.num_nodes
    asks = np.array([t.rstrip().endswith("?") for t in texts], dtype=bool)
    sizes = np.bincount(index.session_E) if number else np.zeros(0)
    seen: dict[int, int] = {}
    for i, text in enumerate(texts):
        session = int(index.session_E[i])
        place = seen.get(session, 0)
        seen[session] = place + 1
        before = int(index.previous_E[i])
        out[i] = (
            bool(_NUMBER.search(text)),
            has_time[i],
            min(mentions[i], 4) / 4,
            bool(_CAUSE.search(text)),
            bool(_FIRST_PERSON.search(text)),
            np.log1p(len(index.terms[i])) / 5,
            asks[i],
            before >= 0 and asks[before],
            index.captions[i] is not None,
            place / max(1, sizes[session] - 1),
            i / max(1, number - 1),
        )
    return out


def _entity_terms(index: MemoryIndex, analyzer: Analyzer, speakers: Sequence[str]) -> list[tuple[frozenset[str], ...]]:
    known = {s.casefold() for s in speakers}
    result: list[tuple[frozenset[str], ...]] = []
    for names in index.entity_names:
        if any(n.casefold() in known for n in names):
            result.append(())
            continue
        sets = {frozenset(analyzer.terms(n)) for n in names}
        result.append(tuple(sorted((s for s in sets if s), key=sorted)))
    return result


def _entity_edges(index: MemoryIndex) -> sp.csr_matrix:
    graph = index.graph
    of_type = graph.type_E.numpy() == TYPE_CODE["entity"]
    first = graph.first_node("entity")
    shape = (len(graph.entity_ids), index.num_events)
    return sp.csr_matrix(
        (graph.weight_E.numpy()[of_type], (graph.dst_E.numpy()[of_type] - first, graph.src_E.numpy()[of_type])),
        shape=shape,
    )


def _near(index: MemoryIndex, edge: str) -> sp.csr_matrix:
    """Who is one step away along a type of edge: [E, E] with weights; entities that many share count little."""
    graph = index.graph
    n = index.num_events
    if edge == "entity":
        incidence = _entity_edges(index).astype(np.float64)
        taken = np.asarray((incidence > 0).sum(axis=1)).ravel()
        # Entities of a tenth of all events (the speakers) join everything and tell nothing.
        rare = sp.diags_array(np.where((taken > 1) & (taken <= max(3, 0.1 * n)), 1.0 / np.maximum(taken, 1), 0.0))
        joined = (incidence.T @ rare @ incidence).tocsr()
        joined.setdiag(0)
        joined.eliminate_zeros()
        return joined.astype(np.float32)
    of_type = graph.type_E.numpy() == TYPE_CODE[edge]
    src, dst, w = graph.src_E.numpy()[of_type], graph.dst_E.numpy()[of_type], graph.weight_E.numpy()[of_type]
    return sp.csr_matrix((np.r_[w, w], (np.r_[src, dst], np.r_[dst, src])), shape=(n, n), dtype=np.float32)


def view_scores(
    index: MemoryIndex,
    view: RankerView,
    signals: Signals,
    query_QD: Float,
    questions: Sequence[str],
    terms: Sequence[Sequence[str]],
) -> dict[str, Float]:
    """Every view's score of every event, float32 [Q, E]; whatever a signal may not see has 0 in `fused` alone."""
    names = frozenset().union(*view.speaker_terms) if view.speaker_terms else frozenset()
    content = [[t for t in question if t not in names] for question in terms]
    session = cosines(query_QD, view.session_SD)[:, index.session_E] if index.num_events else np.zeros((len(terms), 0))
    return {
        "dense": signals.raw["dense"],
        "dense_window": signals.raw["dense_window"],
        "dense_session": session.astype(np.float32),
        "lexical": signals.raw["lexical"],
        "lexical_window": signals.raw["lexical_window"],
        "lexical_wide": view.lexical_wide.scores(content),
        "lexical_session": view.lexical_session.scores(content)[:, index.session_E],
        "content": index.lexical.scores(content),
        "content_window": index.lexical_window.scores(content),
        "coverage": index.lexical.coverage(content),
        "coverage_window": index.lexical_window.coverage(content),
        **view.words.scores([[w for w in words_of(q) if w not in view.speaker_words] for q in questions]),
        "fused": signals.fused_QE.astype(np.float32),
    }


def features(
    index: MemoryIndex,
    view: RankerView,
    scores: dict[str, Float],
    candidates_QC: npt.NDArray[np.int64],
    questions: Sequence[str],
    terms: Sequence[Sequence[str]],
    inside_QE: npt.NDArray[np.bool_],
    asked_window_Q: npt.NDArray[np.bool_],
    intent_QI: npt.NDArray[np.float64],
) -> Float:
    """Features of candidates, float32 [Q, C, F] in the order of NAMES.

    Args:
        scores: `view_scores`.
        candidates_QC: event numbers, -1 where a question has fewer; their features are zero.
        inside_QE: events inside the window that the question names.
    """
    at = np.maximum(candidates_QC, 0)
    number, count = at.shape
    q = np.arange(number)[:, None]
    absent = candidates_QC < 0
    # Places in the flattened arrays [Q, E] and [Q, C]: taking by them is several times as fast as by two indices.
    cell = at + q * index.num_events
    row = q * count
    by_rank = (1 / (1 + np.log1p(np.arange(max(1, count))))).astype(np.float32)
    columns: list[npt.NDArray[Any]] = []
    relative = {}
    for name in VIEWS:
        score = scores[name]
        best = np.maximum(score.max(axis=1, keepdims=True, initial=1e-9), 1e-9)
        if name in _NEAR_VIEWS:
            relative[name] = np.ascontiguousarray(score) / best
        # Ranks are among the candidates, so that they cost nothing in a large memory.
        of = np.ascontiguousarray(score).take(cell) / best
        of[absent] = -np.inf
        ranked = best_first(of)
        ranks = np.empty(at.shape, dtype=np.float32)
        ranks.ravel()[ranked + row] = by_rank[:count]
        fifth = np.take_along_axis(of, ranked[:, [min(4, count - 1)]], axis=1)
        of[absent] = 0.0
        columns += [of, of - np.where(np.isneginf(fifth), 0.0, fifth), ranks]
    near_at = {}
    for offset in _OFFSETS:
        near = view.offset_E[offset][at]
        near_at[offset] = (near < 0, np.maximum(near, 0) + q * index.num_events)
    for name in _NEAR_VIEWS:
        for missing, near_cell in near_at.values():
            column = relative[name].take(near_cell)
            column[missing] = 0.0
            columns.append(column)
    for edge in _EDGES:
        columns.append(_handed_on(view.near[edge], relative["fused"]).take(cell))
    columns += _naming(view, index, at, questions, terms)
    columns.append(inside_QE.take(cell))
    shape = at.shape
    columns.append(np.broadcast_to(asked_window_Q[:, None], shape))
    intents = {name: np.broadcast_to(intent_QI[:, i][:, None], shape) for i, name in enumerate(INTENTS)}
    columns += [intents[name] for name in INTENTS]
    asks_number = np.array([bool(_ASKS_NUMBER.search(t.lower())) for t in questions], dtype=np.float32)[:, None]
    columns.append(np.broadcast_to(asks_number, shape))
    static = view.static_EF[at]
    of_static = {name: static[:, :, i] for i, name in enumerate((*STATIC, *STYLE))}
    columns += [of_static[name] for name in STATIC]
    columns.append(intents["when"] * of_static["has_time"])
    columns.append(intents["why"] * of_static["has_cause"])
    columns.append(asks_number * of_static["has_number"])
    columns.append(np.broadcast_to(np.array([min(len(t), 20) / 20 for t in terms])[:, None], shape))
    columns += [of_static[name] for name in STYLE]
    assert len(columns) == len(NAMES)
    by_feature = np.empty((len(columns), *at.shape), dtype=np.float32)
    for place, column in enumerate(columns):
        by_feature[place] = column
    made: Float = np.ascontiguousarray(by_feature.transpose(1, 2, 0))
    made[absent] = 0.0
    return made


def _handed_on(near: sp.csr_matrix, score: Float) -> Float:
    """The largest weight x score among the neighbours of every event, [Q, E]."""
    out = np.zeros_like(score)
    if near.nnz == 0:
        return out
    values = score[:, near.indices] * near.data[None, :]
    rows = np.flatnonzero(np.diff(near.indptr))
    out[:, rows] = np.maximum.reduceat(values, near.indptr[rows], axis=1)
    return out


def _naming(
    view: RankerView,
    index: MemoryIndex,
    at: npt.NDArray[np.int64],
    questions: Sequence[str],
    terms: Sequence[Sequence[str]],
) -> list[npt.NDArray[Any]]:
    sets = [frozenset(t) for t in terms]
    named = np.array([[bool(s & t) for s in view.speaker_terms] for t in sets], dtype=bool)
    if not view.speaker_terms:
        named = np.zeros((len(sets), 1), dtype=bool)
    who = view.speaker_E[at]
    q = np.arange(len(at))[:, None]
    is_named = named[q, who]
    other = (named.sum(axis=1)[:, None] - is_named) > 0
    first_person = np.array([bool(_I.search(t.lower())) for t in questions], dtype=bool)[:, None]
    hits = sp.csr_matrix(
        np.array([[any(n <= t for n in names) for names in view.entity_terms] for t in sets], dtype=np.float32).reshape(
            len(sets), len(view.entity_terms)
        )
    )
    entity = (hits @ view.entity_edges).toarray() if index.num_events else np.zeros((len(sets), 0))
    return [is_named, other, first_person & view.user_E[at], entity[q, at]]

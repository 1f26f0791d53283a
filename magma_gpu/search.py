"""From a batch of questions to ranked evidence, by one of the policies; a search visits, then ranks, then returns.

`learned` ranks the best of `smooth` by a small network over their features; `gnn` by one that also hears along the
edges that join them. `paper` walks the graph from the fused anchors (Algorithm 1) and returns the best of what it
visited.
`smooth` ranks every event by its fused score, of which a share goes to the neighbour turns and, by config, along graph
edges. Nothing here classifies questions or writes context.

Q questions, E events, V visited.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from magma_gpu.anchors import Signals, best_first, measure, scaled
from magma_gpu.beam import Walks, walk
from magma_gpu.config import SearchConfig
from magma_gpu.features import RankerView, features, view_scores
from magma_gpu.graph import TYPE_CODE
from magma_gpu.graph_learning.model import GraphRanker
from magma_gpu.graph_learning.rating import rate
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.policy import structure_QR
from magma_gpu.ranker import Ranker

FloatQD = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Found:
    """One event that a search returns.

    Attributes:
        event: its number in the memory.
        score: in [0, 1]; the best of a question has 1.
        hop: steps from an anchor.
        path: (node number, edge type walked from it), from the anchor on; empty for an anchor.
        signals: rank of the event by each signal that hit it, from 1.
    """

    event: int
    score: float
    hop: int
    path: tuple[tuple[int, str], ...]
    signals: dict[str, int]


@dataclass(frozen=True, slots=True)
class Search:
    """What was found for one question."""

    found: tuple[Found, ...]
    num_visited: int
    truncated: bool


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Questions to several memories, analysed.

    Attributes:
        memory_Q: index into the memories of the batch.
        questions: their words.
        query_QD: float32 unit rows.
        terms, windows: see `anchors.measure`.
        intent_QI: probabilities in the order of INTENTS.
    """

    memory_Q: npt.NDArray[np.int64]
    questions: Sequence[str]
    query_QD: FloatQD
    terms: Sequence[Sequence[str]]
    windows: Sequence[tuple[int, int] | None]
    intent_QI: npt.NDArray[np.float64]

    def take(self, rows: Sequence[int]) -> "Asked":
        """Some of the questions, in the order given."""
        return Asked(
            memory_Q=self.memory_Q[list(rows)],
            questions=[self.questions[r] for r in rows],
            query_QD=self.query_QD[list(rows)],
            terms=[self.terms[r] for r in rows],
            windows=[self.windows[r] for r in rows],
            intent_QI=self.intent_QI[list(rows)],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What the policies `learned` and `gnn` need: the weights, and a view of each memory of the batch."""

    ranker: Ranker | GraphRanker
    views: Sequence[RankerView]


# Scores held at once for one memory: questions x events.
_CELLS = 2_000_000


def search(
    indexes: Sequence[MemoryIndex], asked: Asked, config: SearchConfig, ranking: Ranking | None = None
) -> list[Search]:
    """Answers a batch; every question sees its own memory alone.

    Args:
        ranking: for the policies `learned` and `gnn`; the views in the order of the memories.
    """
    results: list[Search | None] = [None] * len(asked.memory_Q)
    for m, index in enumerate(indexes):
        rows = np.flatnonzero(asked.memory_Q == m).tolist()
        chunk = max(1, _CELLS // max(1, index.num_events))
        for first in range(0, len(rows), chunk):
            part = rows[first : first + chunk]
            for row, result in zip(part, _search_memory(index, asked.take(part), m, config, ranking), strict=True):
                results[row] = result
    done = [r for r in results if r is not None]
    assert len(done) == len(results)
    return done


def _search_memory(
    index: MemoryIndex, asked: Asked, m: int, config: SearchConfig, ranking: Ranking | None
) -> list[Search]:
    signals = measure(index, asked.query_QD, asked.terms, asked.windows, config)
    if config.policy == "paper":
        return _paper(index, asked, signals, config)
    handed = hand_on(index, signals, config)
    if config.policy in ("learned", "gnn"):
        assert ranking is not None
        return _learned(index, asked, signals, handed, config, ranking.ranker, ranking.views[m])
    top = best_first(handed.total_QE)[:, : config.k]
    return _collect(index, signals, handed, top, np.take_along_axis(handed.total_QE, top, axis=1))


def _signals_of(
    ranks: dict[str, npt.NDArray[np.int32]], rows: npt.NDArray[np.int64] | int, events: npt.NDArray[np.int64]
) -> Iterator[dict[str, int]]:
    """Rank of each event by the signals that hit it, event after event."""
    names = list(ranks)
    for hit in np.stack([rank[rows, events].ravel() for rank in ranks.values()], axis=1).tolist():
        yield {name: rank for name, rank in zip(names, hit, strict=True) if rank}


# ---------------------------------------------------------------------------------------------------------- smooth


@dataclass(frozen=True, slots=True, eq=False)
class Handed:
    """Fused scores after every event gave a share to its neighbours (policy smooth).

    Attributes:
        total_QE: float64, best of a question = 1; 0 for what may not be found.
        given: (edge type, what an event got, from which event) for each kind of neighbour.
    """

    total_QE: npt.NDArray[np.float64]
    given: list[tuple[str, npt.NDArray[np.float64], npt.NDArray[np.int64]]]


def hand_on(index: MemoryIndex, signals: Signals, config: SearchConfig) -> Handed:
    own = signals.fused_QE
    given: list[tuple[str, npt.NDArray[np.float64], npt.NDArray[np.int64]]] = []
    total = own.copy()
    for share, near in ((config.smooth_next, index.next_E), (config.smooth_previous, index.previous_E)):
        part = np.where(near >= 0, share * own[:, near], 0.0)
        given.append(("temporal", part, np.broadcast_to(near, own.shape)))
        total += part
    for name in ("semantic", "causal", "entity"):
        share = getattr(config, f"spread_{name}")
        if share > 0:
            part, source = _spread(index, own, name)
            given.append((name, share * part, source))
            total += share * part
    # What no signal may see (outside a hard window) is not found through a neighbour either.
    return Handed(scaled(np.where(signals.allowed_QE, total, 0.0)), given)


def _collect(
    index: MemoryIndex,
    signals: Signals,
    handed: Handed,
    top: npt.NDArray[np.int64],
    score: npt.NDArray[np.float64],
    walks: Walks | None = None,
) -> list[Search]:
    """Returns the events [Q, K] of each question with their scores, each with why it is there; 0 is not found.

    Where questions walked the graph, the way to an event is the walk's; anchors have none.
    """
    rows = np.arange(len(top))[:, None]
    own = signals.fused_QE[rows, top]
    parts = np.stack([g[1][rows, top] for g in handed.given]) if handed.given else np.zeros((1, *top.shape))
    best = parts.argmax(axis=0)
    largest = parts.max(axis=0) > own
    hits = _signals_of(signals.ranks, rows, top)
    if walks is not None:
        place_QN, parent_QV = walks.places(index.graph.num_nodes)
        place_QK = place_QN[rows, top]
        num_Q, cut_Q = (walks.node_QV >= 0).sum(axis=1).tolist(), walks.truncated_Q.tolist()
    else:
        place_QK = np.full(top.shape, -1, dtype=np.int32)
        num_Q, cut_Q = [0] * len(top), [False] * len(top)
    any_Q = (signals.fused_QE > 0).sum(axis=1).tolist()
    results = []
    for q, row in enumerate(zip(top.tolist(), score.tolist(), place_QK.tolist(), largest.tolist(), strict=True)):
        found = []
        for k, (event, value, at, handed_on) in enumerate(zip(*row, strict=True)):
            hit = next(hits)
            if value <= 0:
                continue
            path: tuple[tuple[int, str], ...] = ()
            if at >= 0:
                assert walks is not None
                path = walks.path(q, at, parent_QV)
            elif handed_on:
                edge, _, source = handed.given[int(best[q, k])]
                path = _step(index, int(source[q, event]), event, edge)
            found.append(Found(event, value, len(path), path, hit))
        results.append(Search(tuple(found), num_Q[q] or any_Q[q], cut_Q[q]))
    return results


def _step(index: MemoryIndex, source: int, event: int, edge: str) -> tuple[tuple[int, str], ...]:
    """The way from a neighbour over edges that the graph has; sessions that overlap in time have no direct one."""
    if edge != "temporal" or abs(source - event) == 1:
        return ((source, edge),)
    episode = int(index.episode_E[source])
    if episode == index.episode_E[event]:
        return ((source, "episode"), (episode, "episode"))
    return ()


# --------------------------------------------------------------------------------------------------------- learned


def candidates(handed_QE: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """The best events of each question by what `smooth` says, [Q, C]; -1 where there are fewer."""
    order = best_first(handed_QE)[:, :count]
    return np.where(np.take_along_axis(handed_QE, order, axis=1) > 0, order, -1)


def candidate_features(
    index: MemoryIndex, asked: Asked, signals: Signals, handed: Handed, view: RankerView, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Candidates [Q, C] of questions to one memory, and their features [Q, C, F]."""
    chosen = candidates(handed.total_QE, count)
    made = features(
        index,
        view,
        view_scores(index, view, signals, asked.query_QD, asked.questions, asked.terms),
        chosen,
        asked.questions,
        asked.terms,
        signals.inside_QE,
        np.array([w is not None for w in asked.windows], dtype=bool),
        asked.intent_QI,
    )
    return chosen, made


# The least score that is shown of a candidate, and what one beyond the candidates counts.
_LEAST = 1e-6


def _learned(
    index: MemoryIndex,
    asked: Asked,
    signals: Signals,
    handed: Handed,
    config: SearchConfig,
    ranker: Ranker | GraphRanker,
    view: RankerView,
) -> list[Search]:
    if not index.num_events:
        return [Search((), 0, False)] * len(asked.questions)
    chosen, x = candidate_features(index, asked, signals, handed, view, config.num_candidates)
    valid = chosen >= 0
    if isinstance(ranker, GraphRanker):
        # What it says is calibrated: a score is how likely the event holds evidence.
        rated, shown = rate(ranker, index, view, chosen, x)
    else:
        rated = np.where(valid, ranker.score(x, valid).astype(np.float64), -np.inf)
        best = np.where(valid.any(axis=1), rated.max(axis=1), 0.0)
        shown = np.exp(rated - best[:, None])
    shown = np.where(valid, np.maximum(shown, _LEAST), 0.0)
    # Candidates by what the ranker says of them, and then what `smooth` found beyond them.
    by = best_first(rated)[:, : config.k]
    top, score = np.take_along_axis(chosen, by, axis=1), np.take_along_axis(shown, by, axis=1)
    if config.k > config.num_candidates:
        rest = best_first(handed.total_QE)[:, config.num_candidates : config.k]
        top = np.hstack([top, rest])
        score = np.hstack([score, np.take_along_axis(handed.total_QE, rest, axis=1) * _LEAST])
    return _collect(index, signals, handed, top, score, walk_from(index, asked, signals, config))


def _spread(
    index: MemoryIndex, own: npt.NDArray[np.float64], name: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The best score that a neighbour along one edge type hands on, and which neighbour it is.

    Events that share an entity are neighbours through it; a score is divided by the root of the number of takers.
    """
    graph = index.graph
    of_type = (graph.type_E.numpy() == TYPE_CODE[name]).nonzero()[0]
    src, dst = graph.src_E.numpy()[of_type], graph.dst_E.numpy()[of_type]
    weight = graph.weight_E.numpy()[of_type].astype(np.float64)
    shape = (graph.num_nodes, graph.num_nodes)
    edges = sp.csr_matrix((np.r_[weight, weight], (np.r_[src, dst], np.r_[dst, src])), shape=shape)
    if name == "entity":
        edges = edges @ edges
        edges.setdiag(0)
    edges = edges[: index.num_events, : index.num_events].tocsr()
    edges.eliminate_zeros()
    degree = np.diff(edges.indptr)
    edges = sp.diags_array(1 / np.sqrt(np.maximum(degree, 1))) @ edges
    part = np.zeros_like(own)
    source = np.full(own.shape, -1, dtype=np.int64)
    taker = edges.tocsc()
    for event in range(index.num_events):
        near = taker.indices[taker.indptr[event] : taker.indptr[event + 1]]
        if len(near):
            values = own[:, near] * taker.data[taker.indptr[event] : taker.indptr[event + 1]]
            best = values.argmax(axis=1)
            part[:, event] = values[np.arange(len(values)), best]
            source[:, event] = near[best]
    return part, source


# ----------------------------------------------------------------------------------------------------------- paper


def _paper(index: MemoryIndex, asked: Asked, signals: Signals, config: SearchConfig) -> list[Search]:
    walks = walk_from(index, asked, signals, config)
    _, parent_QV = walks.places(index.graph.num_nodes)
    return [_visited(index, walks, parent_QV, q, signals, config) for q in range(len(asked.questions))]


def walk_from(index: MemoryIndex, asked: Asked, signals: Signals, config: SearchConfig) -> Walks:
    """Algorithm 1 for every question, from the best of its fused ranking."""
    fused = signals.fused_QE
    top = best_first(fused)[:, : config.num_anchors]
    anchors = []
    for q in range(len(top)):
        nodes = top[q][fused[q, top[q]] > 0]
        anchors.append((nodes, fused[q, nodes].astype(np.float32)))
    return walk(
        [index],
        index.walked,
        np.zeros(len(top), dtype=np.int64),
        asked.query_QD,
        structure_QR(asked.intent_QI, config.lambda_structure, config.min_intent),
        anchors,
        config,
    )


def _visited(
    index: MemoryIndex,
    walks: Walks,
    parent_QV: npt.NDArray[np.int32],
    q: int,
    signals: Signals,
    config: SearchConfig,
) -> Search:
    """Ranks what a walk visited: the fused score of a node, and less so how well the walk rates it among its hop."""
    node, hop = walks.node_QV[q], walks.hop_QV[q]
    at = np.flatnonzero((node >= 0) & (node < index.num_events))
    at = at[signals.allowed_QE[q, node[at]]]
    events = node[at]
    score = walks.score_QV[q, at].astype(np.float64)
    # Scores grow with every hop, so they compare within a hop alone.
    rated = np.zeros(len(at))
    for step in np.unique(hop[at]):
        of_step = hop[at] == step
        best = score[of_step].max()
        rated[of_step] = score[of_step] / best if best > 0 else 0.0
    final = signals.fused_QE[q, events] + _WALK_SHARE * rated * config.decay ** hop[at].astype(np.float64)
    by = np.lexsort((events, -final))[: config.k]
    best = final[by[0]] if len(by) else 1.0
    found = tuple(
        Found(
            int(events[i]),
            float(final[i] / best),
            int(hop[at[i]]),
            walks.path(q, int(at[i]), parent_QV),
            hit,
        )
        for i, hit in zip(by, _signals_of(signals.ranks, q, events[by]), strict=True)
    )
    return Search(found, int((node >= 0).sum()), bool(walks.truncated_Q[q]))


# What the walk's own rating counts beside a fused score of at most 1.
_WALK_SHARE = 0.1

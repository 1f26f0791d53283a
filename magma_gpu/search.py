"""From a batch of questions to ranked evidence, by one of the policies; a search visits, then ranks, then returns.

`paper` walks the graph from the fused anchors (Algorithm 1) and returns the best of what it visited. `smooth` ranks
every event by its fused score, of which a share goes to the neighbour turns and, by config, along graph edges. Neither
classifies questions nor writes context.

Q questions, E events, V visited.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from magma_gpu.anchors import Signals, measure, scaled
from magma_gpu.beam import Walks, walk
from magma_gpu.config import SearchConfig
from magma_gpu.graph import TYPE_CODE, GraphBatch
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.policy import structure_QR

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
        query_QD: float32 unit rows.
        terms, windows, as_of: see `anchors.measure`.
        intent_QI: probabilities in the order of INTENTS.
    """

    memory_Q: npt.NDArray[np.int64]
    query_QD: FloatQD
    terms: Sequence[Sequence[str]]
    windows: Sequence[tuple[int, int] | None]
    as_of: Sequence[int | None]
    intent_QI: npt.NDArray[np.float64]


def search(indexes: Sequence[MemoryIndex], asked: Asked, config: SearchConfig) -> list[Search]:
    """Answers a batch; every question sees its own memory alone."""
    num_queries = len(asked.memory_Q)
    results: list[Search | None] = [None] * num_queries
    signals: dict[int, Signals] = {}
    rows_of: dict[int, npt.NDArray[np.int64]] = {}
    for m, index in enumerate(indexes):
        rows = np.flatnonzero(asked.memory_Q == m)
        if not len(rows):
            continue
        rows_of[m] = rows
        signals[m] = measure(
            index,
            asked.query_QD[rows],
            [asked.terms[r] for r in rows.tolist()],
            [asked.windows[r] for r in rows.tolist()],
            [asked.as_of[r] for r in rows.tolist()],
            config,
        )
    walks = _walks(indexes, asked, rows_of, signals, config) if config.policy == "paper" else None
    for m, rows in rows_of.items():
        ranks = _ranks(signals[m])
        if walks is None:
            made = _smooth(indexes[m], signals[m], ranks, config)
        else:
            made = [_visited(indexes[m], walks, int(row), signals[m], ranks, q, config) for q, row in enumerate(rows)]
        for row, result in zip(rows, made, strict=True):
            results[row] = result
    done = [r for r in results if r is not None]
    assert len(done) == num_queries
    return done


def _ranks(signals: Signals) -> dict[str, npt.NDArray[np.int64]]:
    """Rank of each event by each signal, from 1; 0 where it is no hit."""
    ranks = {}
    for name, score in signals.scores.items():
        by = np.argsort(-score, axis=1, kind="stable")
        rank = np.empty(by.shape, dtype=np.int64)
        np.put_along_axis(rank, by, np.arange(1, by.shape[1] + 1)[None, :], axis=1)
        rank[np.isneginf(score)] = 0
        ranks[name] = rank
    return ranks


def _signals_of(ranks: dict[str, npt.NDArray[np.int64]], q: int, event: int) -> dict[str, int]:
    return {name: int(rank[q, event]) for name, rank in ranks.items() if rank[q, event]}


# ---------------------------------------------------------------------------------------------------------- smooth


def _smooth(
    index: MemoryIndex, signals: Signals, ranks: dict[str, npt.NDArray[np.int64]], config: SearchConfig
) -> list[Search]:
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
    # What no signal may see (as of a time, outside a hard window) is not found through a neighbour either.
    total = scaled(np.where(signals.allowed_QE, total, 0.0))
    results = []
    top = np.argsort(-total, axis=1, kind="stable")[:, : config.k]
    for q, events in enumerate(top):
        found = []
        for event in events[total[q, events] > 0].tolist():
            best = max(given, key=lambda g: g[1][q, event])
            from_neighbor = best[1][q, event] > own[q, event]
            path = ((int(best[2][q, event]), best[0]),) if from_neighbor else ()
            found.append(Found(event, float(total[q, event]), len(path), path, _signals_of(ranks, q, event)))
        results.append(Search(tuple(found), int((own[q] > 0).sum()), False))
    return results


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


def _walks(
    indexes: Sequence[MemoryIndex],
    asked: Asked,
    rows_of: dict[int, npt.NDArray[np.int64]],
    signals: dict[int, Signals],
    config: SearchConfig,
) -> Walks:
    nothing = (np.empty(0, np.int64), np.empty(0, np.float32))
    anchors = [nothing] * len(asked.memory_Q)
    for m, rows in rows_of.items():
        fused = signals[m].fused_QE
        top = np.argsort(-fused, axis=1, kind="stable")[:, : config.num_anchors]
        for q, row in enumerate(rows):
            nodes = top[q][fused[q, top[q]] > 0]
            anchors[row] = (nodes, fused[q, nodes].astype(np.float32))
    return walk(
        indexes,
        GraphBatch.of([i.graph for i in indexes]),
        asked.memory_Q,
        asked.query_QD,
        structure_QR(asked.intent_QI, config.lambda_structure, config.min_intent),
        anchors,
        config,
    )


def _visited(
    index: MemoryIndex,
    walks: Walks,
    row: int,
    signals: Signals,
    ranks: dict[str, npt.NDArray[np.int64]],
    q: int,
    config: SearchConfig,
) -> Search:
    """Ranks what a walk visited: the fused score of a node, and less so how well the walk rates it among its hop."""
    node, hop = walks.node_QV[row], walks.hop_QV[row]
    at = np.flatnonzero((node >= 0) & (node < index.num_events))
    at = at[signals.allowed_QE[q, node[at]]]
    events = node[at]
    score = walks.score_QV[row, at].astype(np.float64)
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
            tuple(walks.path(row, int(at[i]))),
            _signals_of(ranks, q, int(events[i])),
        )
        for i in by
    )
    return Search(found, int((node >= 0).sum()), bool(walks.truncated_Q[row]))


# What the walk's own rating counts beside a fused score of at most 1.
_WALK_SHARE = 0.1

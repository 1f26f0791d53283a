"""Where a search starts: rankings of a memory's events by several signals, fused by reciprocal rank.

Everything is computed for all questions to one memory at once, row by row independent, so that a question gets the
same scores alone and in a batch. Q questions, E events, D embedding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from magma_gpu.config import SearchConfig
from magma_gpu.graph import NO_TIME
from magma_gpu.memory_index import MemoryIndex

FloatQE = npt.NDArray[np.float32]
BoolQE = npt.NDArray[np.bool_]

# Rows of one exact product.
_TILE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """What each signal says of every event; a score that is no hit is -inf.

    Attributes:
        scores: signal -> float32 [Q, E].
        ranks: signal -> int32 [Q, E], the event's rank from 1; 0 where it is no hit.
        fused_QE: weighted reciprocal rank fusion, float64, best of a question = 1; 0 where no signal hits.
        raw: the same scores for every event, hit or not; what rankers read.
        inside_QE: events about the window that the question names.
        allowed_QE: what may be found at all (inside a hard window).
    """

    scores: dict[str, FloatQE]
    ranks: dict[str, npt.NDArray[np.int32]]
    fused_QE: npt.NDArray[np.float64]
    raw: dict[str, FloatQE]
    inside_QE: BoolQE
    allowed_QE: BoolQE


def cosines(query_QD: npt.NDArray[np.float32], x_ED: npt.NDArray[np.float32]) -> FloatQE:
    """Cosines of unit rows, accumulated in float64 and rounded to float32: the same for every batch shape."""
    out = np.empty((len(query_QD), len(x_ED)), dtype=np.float32)
    query = query_QD.astype(np.float64)
    for first in range(0, len(x_ED), _TILE):
        out[:, first : first + _TILE] = query @ x_ED[first : first + _TILE].astype(np.float64).T
    return out


def measure(
    index: MemoryIndex,
    query_QD: npt.NDArray[np.float32],
    terms: Sequence[Sequence[str]],
    windows: Sequence[tuple[int, int] | None],
    config: SearchConfig,
) -> Signals:
    """Scores every event of a memory for every question and fuses the rankings (paper equation 4).

    Args:
        terms: index terms of each question.
        windows: the interval a question names, [start, end) in UTC microseconds, or None.
    """
    inside = _inside(index, windows)
    allowed = np.ones_like(inside)
    if config.time_window == "filter":
        named = np.array([w is not None for w in windows], dtype=bool)
        # A window that holds nothing filters nothing: the question still gets an answer.
        named &= inside.any(axis=1)
        allowed = inside | ~named[:, None]
    raw = {
        "dense": cosines(query_QD, index.x_ED),
        "dense_window": cosines(query_QD, index.window_ED),
        "lexical": index.lexical.scores(terms),
        "lexical_window": index.lexical_window.scores(terms),
    }
    weights = {name: getattr(config, f"weight_{name}") for name in raw}
    scores: dict[str, FloatQE] = {}
    for name, score in raw.items():
        if weights[name] > 0:
            floor = (
                config.retrieval_threshold if name.startswith("dense") else np.nextafter(np.float32(0), np.float32(1))
            )
            scores[name] = np.where((score >= floor) & allowed, score, np.float32(-np.inf))
    if config.time_window != "off" and config.weight_time > 0:
        # Inside the window the closest in meaning come first.
        scores["time"] = np.where(inside & allowed, raw["dense"], np.float32(-np.inf))
        weights["time"] = config.weight_time
    ranks = {name: rank(score) for name, score in scores.items()}
    return Signals(scores, ranks, fuse(ranks, weights, config.rrf_k), raw, inside, allowed)


def best_first(
    score_QN: npt.NDArray[np.floating[Any]], number_QN: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """The numbers of each row's columns by falling score, [Q, N]; equal scores go by the smaller number.

    Args:
        score_QN: compared as float32.
        number_QN: what to return of each column, different within a row and below 2^31; the places where left out.
    """
    # Scores and numbers packed into one integer sort faster than a stable sort of floats; adding 0 makes -0 one with 0.
    bits = (score_QN.astype(np.float32) + np.float32(0)).view(np.int32)
    rising = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    packed = -rising.astype(np.int64) << 32
    packed += np.arange(score_QN.shape[1]) if number_QN is None else number_QN
    packed.sort(axis=1)
    return packed & 0xFFFFFFFF


def rank(score_QE: FloatQE) -> npt.NDArray[np.int32]:
    """Ranks of each row from 1, best first; ties go to the smaller event number; 0 where the score is -inf."""
    by = best_first(score_QE)
    made = np.empty(by.shape, dtype=np.int32)
    np.put_along_axis(made, by, np.arange(1, by.shape[1] + 1, dtype=np.int32)[None, :], axis=1)
    made[np.isneginf(score_QE)] = 0
    return made


def fuse(ranks: dict[str, npt.NDArray[np.int32]], weights: dict[str, float], k: float) -> npt.NDArray[np.float64]:
    """Weighted reciprocal rank fusion of `rank`s, scaled so that each question's best is 1."""
    shape = next(iter(ranks.values())).shape if ranks else (0, 0)
    fused = np.zeros(shape, dtype=np.float64)
    for name, of in ranks.items():
        fused += np.where(of > 0, weights[name] / (k + of), 0.0)
    return scaled(fused)


def scaled(score_QE: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Divides each row by its largest value, where that is positive."""
    best = score_QE.max(axis=1, keepdims=True, initial=0.0)
    divided: npt.NDArray[np.float64] = np.divide(score_QE, best, out=np.zeros_like(score_QE), where=best > 0)
    return divided


def _inside(index: MemoryIndex, windows: Sequence[tuple[int, int] | None]) -> BoolQE:
    """Events about the window: by event time where a text names one, else by the time of saying."""
    inside = np.zeros((len(windows), index.num_events), dtype=bool)
    has_span = np.zeros(index.num_events, dtype=bool)
    has_span[index.span_event] = True
    for q, window in enumerate(windows):
        if window is None:
            continue
        start, end = window
        said = (index.time_E >= start) & (index.time_E < end) & (index.time_E != NO_TIME)
        inside[q] = said & ~has_span
        about = index.span_event[(index.span_start < end) & (index.span_end > start)]
        inside[q, about] = True
    return inside

"""Means with intervals, and differences of two systems on the same questions, with tests; all by resampling.

Every function takes a matrix of questions by metrics in which NaN is "not computed"; outside this module that is None.
Random numbers come from a seed, so the same scores give the same report. Q questions, M metrics, B resamples.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatQM = npt.NDArray[np.float64]
LEVEL = 0.95
MIN_CLUSTERS = 5
# All sign patterns are tried up to this many clusters, else this many random ones.
_EXACT_CLUSTERS = 12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions.

    Attributes:
        value: None where no question has the metric.
        n: questions that have it.
        low, high: 95 % percentile bootstrap over questions.
        low_clustered, high_clustered: the same over whole conversations; None where fewer than MIN_CLUSTERS have it,
            because so few resample into too narrow an interval.
    """

    value: float | None
    n: int
    low: float | None
    high: float | None
    low_clustered: float | None
    high_clustered: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of the second system minus mean of the first, over questions that both have.

    Attributes:
        p: two-sided sign-flip test over questions; p_clustered: over conversations.
        wins, losses: questions on which the second is better, worse.
    """

    estimate: Estimate
    p: float | None
    p_clustered: float | None
    wins: int
    losses: int


def matrix(rows: Sequence[Sequence[float | None]]) -> FloatQM:
    """Rows of metrics as a matrix; None becomes NaN."""
    made = np.array([[np.nan if v is None else v for v in row] for row in rows], dtype=np.float64)
    return made.reshape(len(rows), len(rows[0]) if rows else 0)


def estimate(x_QM: FloatQM, clusters: Sequence[str], *, resamples: int, seed: int) -> list[Estimate]:
    """Means of every column with both intervals.

    Args:
        clusters: the conversation of each question.
    """
    num_questions, num_metrics = x_QM.shape
    if not num_questions:
        return [Estimate(None, 0, None, None, None, None)] * num_metrics
    rng = np.random.default_rng(seed)
    known = ~np.isnan(x_QM)
    value = np.where(known, x_QM, 0.0)
    names, place = np.unique(np.array(clusters), return_inverse=True)
    n = known.sum(axis=0)
    mean = value.sum(axis=0) / np.maximum(n, 1)
    low, high = _interval(rng, value, known, resamples)
    clustered = np.zeros((len(names), num_metrics))
    counts = np.zeros((len(names), num_metrics))
    np.add.at(clustered, place, value)
    np.add.at(counts, place, known)
    low_c, high_c = _interval(rng, clustered, counts, resamples)
    several = (counts > 0).sum(axis=0) >= MIN_CLUSTERS
    return [
        Estimate(float(mean[m]), int(n[m]), float(low[m]), float(high[m]), *_pair(low_c[m], high_c[m], several[m]))
        if n[m]
        else Estimate(None, 0, None, None, None, None)
        for m in range(num_metrics)
    ]


def _pair(low: float, high: float, known: bool) -> tuple[float | None, float | None]:
    return (float(low), float(high)) if known else (None, None)


def _interval(
    rng: np.random.Generator, sum_QM: FloatQM, count_QM: npt.NDArray[np.generic], resamples: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Percentiles of ratio means over resampled rows."""
    rows = len(sum_QM)
    means = []
    step = max(1, 4_000_000 // rows)
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        weight_BQ = rng.multinomial(rows, np.full(rows, 1 / rows), size=size).astype(np.float64)
        count = weight_BQ @ count_QM.astype(np.float64)
        means.append(np.where(count > 0, weight_BQ @ sum_QM / np.maximum(count, 1e-300), np.nan))
    drawn = np.concatenate(means)
    empty = np.isnan(drawn).all(axis=0)
    drawn[:, empty] = 0.0
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def compare(
    first_QM: FloatQM, second_QM: FloatQM, clusters: Sequence[str], *, resamples: int, seed: int
) -> list[Difference]:
    """Paired differences of every column; a question counts where both systems have the metric."""
    difference = second_QM - first_QM
    estimates = estimate(difference, clusters, resamples=resamples, seed=seed)
    rng = np.random.default_rng(seed + 1)
    _, place = np.unique(np.array(clusters), return_inverse=True)
    made = []
    for m, found in enumerate(estimates):
        column = difference[:, m]
        has = ~np.isnan(column)
        column = column[has]
        sums: npt.NDArray[np.float64] = np.zeros(0)
        if len(column):
            sums = np.bincount(place[has], weights=column)[np.unique(place[has])].astype(np.float64)
        made.append(
            Difference(
                found,
                sign_flip_p(column, rng, resamples) if len(column) else None,
                sign_flip_p(sums, rng, resamples) if len(sums) > 1 else None,
                int((column > 0).sum()),
                int((column < 0).sum()),
            )
        )
    return made


def sign_flip_p(values: npt.NDArray[np.float64], rng: np.random.Generator, resamples: int) -> float:
    """Two-sided p of "the sum is as likely to be of either sign"; exact for few values, else by random signs."""
    observed = abs(float(values.sum()))
    # Sums of the same numbers in another order differ in the last bits.
    near = observed * (1 - 1e-12) - 1e-12
    moved = values[values != 0]
    if not len(moved):
        return 1.0
    if len(moved) <= _EXACT_CLUSTERS:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(moved)))).reshape(-1, len(moved))
        return float((np.abs(signs @ moved) >= near).mean())
    hits = 0
    step = max(1, 4_000_000 // len(moved))
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        signs = rng.integers(0, 2, size=(size, len(moved)), dtype=np.int8).astype(np.float64) * 2 - 1
        hits += int((np.abs(signs @ moved) >= near).sum())
    return (hits + 1) / (resamples + 1)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment of a family of p values; None stays None and is no member."""
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[i] = largest
    return adjusted

"""Intervals and paired tests against exact values."""

import numpy as np
import pytest

from magma_gpu.evaluate.statistics import compare, estimate, holm, matrix, sign_flip_p


def test_an_estimate_leaves_out_what_was_not_computed() -> None:
    x = matrix([[1.0, None], [0.0, None], [None, None], [1.0, 4.0]])
    first, second = estimate(x, ["a", "a", "b", "b"], resamples=500, seed=0)
    assert first.value == pytest.approx(2 / 3)
    assert first.n == 3
    assert first.low is not None
    assert first.high is not None
    assert 0.0 <= first.low < first.value < first.high <= 1.0
    assert (second.value, second.n) == (4.0, 1)
    # Too few conversations for an interval over them.
    assert second.low_clustered is None
    (nothing,) = estimate(matrix([[None], [None]]), ["a", "b"], resamples=10, seed=0)
    assert (nothing.value, nothing.n, nothing.low) == (None, 0, None)


def test_the_bootstrap_of_a_proportion_has_the_width_of_the_binomial() -> None:
    rows = [[1.0]] * 60 + [[0.0]] * 40
    (got,) = estimate(matrix(rows), [str(i) for i in range(100)], resamples=4000, seed=1)
    half = 1.96 * np.sqrt(0.6 * 0.4 / 100)
    assert got.low == pytest.approx(0.6 - half, abs=0.015)
    assert got.high == pytest.approx(0.6 + half, abs=0.015)
    # Every question its own conversation: the two intervals are of the same kind.
    assert got.low_clustered == pytest.approx(got.low, abs=0.02)


def test_clusters_that_agree_within_widen_the_interval() -> None:
    rows = [[float(c % 2)] for c in range(10) for _ in range(50)]
    clusters = [str(c) for c in range(10) for _ in range(50)]
    (got,) = estimate(matrix(rows), clusters, resamples=1000, seed=0)
    assert got.high is not None
    assert got.low is not None
    assert got.high_clustered is not None
    assert got.low_clustered is not None
    assert got.high_clustered - got.low_clustered > 3 * (got.high - got.low)


def test_estimates_depend_on_the_seed_alone() -> None:
    x = matrix([[v] for v in (0.1, 0.9, 0.4, 0.7)])
    assert estimate(x, list("aabb"), resamples=50, seed=3) == estimate(x, list("aabb"), resamples=50, seed=3)


def test_sign_flips_of_few_values_are_exact() -> None:
    rng = np.random.default_rng(0)
    # Of 8 sign patterns two reach |1 + 2 + 3|.
    assert sign_flip_p(np.array([1.0, 2.0, 3.0]), rng, 100) == 0.25
    assert sign_flip_p(np.zeros(5), rng, 100) == 1.0
    assert sign_flip_p(np.array([1.0, -1.0]), rng, 100) == 1.0


def test_sign_flips_of_many_values_come_close_to_the_normal() -> None:
    values = np.r_[np.ones(60), -np.ones(40)]
    # z = 20 / 10; with the continuity of steps of two the two-sided p is about 0.057.
    assert sign_flip_p(values, np.random.default_rng(0), 20_000) == pytest.approx(0.057, abs=0.008)


def test_a_comparison_counts_questions_that_both_have() -> None:
    first = matrix([[0.0], [0.0], [1.0], [None]])
    second = matrix([[1.0], [1.0], [1.0], [1.0]])
    (got,) = compare(first, second, ["a", "b", "c", "d"], resamples=200, seed=0)
    assert got.estimate.n == 3
    assert got.estimate.value == pytest.approx(2 / 3)
    assert (got.wins, got.losses) == (2, 0)
    assert got.p == 0.5
    assert got.p_clustered == 0.5


def test_equal_systems_differ_by_nothing() -> None:
    x = matrix([[0.5], [0.2]])
    (got,) = compare(x, x, ["a", "b"], resamples=50, seed=0)
    assert (got.estimate.value, got.estimate.low, got.estimate.high, got.p) == (0.0, 0.0, 0.0, 1.0)


def test_holm() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([]) == []

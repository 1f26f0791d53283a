import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.knn import SimilarPairs, mutual_neighbors

Floats = npt.NDArray[np.float32]


def unit(x: npt.NDArray[np.floating]) -> Floats:
    made: Floats = (x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
    return made


def brute_force(x: Floats, order: npt.NDArray[np.int64], k: int, threshold: float) -> dict[tuple[int, int], float]:
    """All pairs in float64, the k nearest of each row by a plain sort, and those that name each other."""
    with np.errstate(all="ignore"):
        norm = np.sqrt((x.astype(np.float64) ** 2).sum(axis=1))
    usable = [r for r in range(len(x)) if np.isfinite(norm[r]) and abs(norm[r] - 1) < 1e-3]
    near: dict[int, dict[int, np.float32]] = {}
    for a in usable:
        scored = []
        for b in usable:
            if a != b:
                cosine = np.float32(np.dot(x[a].astype(np.float64), x[b].astype(np.float64)))
                cosine = np.float32(1.0) if np.array_equal(x[a], x[b]) else min(cosine, np.float32(1.0))
                if cosine > np.float32(threshold):
                    scored.append((-cosine, order[b], b))
        near[a] = {b: -c for c, _, b in sorted(scored)[:k]}
    return {(a, b): float(c) for a in usable for b, c in near[a].items() if a < b and a in near[b]}


def as_dict(pairs: SimilarPairs) -> dict[tuple[int, int], float]:
    assert (pairs.i < pairs.j).all()
    keys = list(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    assert keys == sorted(set(keys))
    return dict(zip(keys, pairs.weight.tolist(), strict=True))


def test_three_vectors_by_hand() -> None:
    x = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    pairs = mutual_neighbors(x, np.arange(3), 2, 0.5)
    assert as_dict(pairs) == {(0, 1): pytest.approx(0.8), (1, 2): pytest.approx(0.6)}
    # Row 1 has its two.
    assert (pairs.num_capped, pairs.recall) == (1, 1.0)
    # With one neighbour each, row 2 wants row 1 and row 1 wants row 0.
    only = mutual_neighbors(x, np.arange(3), 1, 0.5)
    assert list(as_dict(only)) == [(0, 1)]
    assert only.num_capped == 3
    # The threshold itself is not above it.
    assert list(as_dict(mutual_neighbors(x, np.arange(3), 2, float(np.float32(0.6))))) == [(0, 1)]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows(n: int) -> None:
    x = np.eye(1, 8, dtype=np.float32).repeat(n, axis=0)
    pairs = mutual_neighbors(x, np.arange(n), 5, 0.5)
    assert as_dict(pairs) == ({(0, 1): 1.0} if n == 2 else {})
    assert pairs.recall == 1.0


def test_k_above_the_number_of_rows() -> None:
    x = unit(np.random.default_rng(0).standard_normal((6, 4)))
    made = as_dict(mutual_neighbors(x, np.arange(6), 1000, -1.0))
    assert len(made) == 15
    assert made == brute_force(x, np.arange(6), 1000, -1.0)


def test_ties_go_to_the_smaller_rank_not_the_smaller_row() -> None:
    x = np.eye(1, 4, dtype=np.float32).repeat(4, axis=0)
    order = np.array([3, 2, 1, 0])
    # The nearest of ranks 1, 2 and 3 is rank 0 (row 3), and that of rank 0 is rank 1 (row 2).
    assert as_dict(mutual_neighbors(x, order, 1, 0.5)) == {(2, 3): 1.0}
    assert as_dict(mutual_neighbors(x, np.arange(4), 1, 0.5)) == {(0, 1): 1.0}


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 40),
    distinct=st.integers(1, 40),
    k=st.integers(1, 6),
    threshold=st.sampled_from([-1.0, -0.25, 0.0, 0.3, 0.7, 0.999]),
    seed=st.integers(0, 1 << 30),
)
def test_equals_brute_force(n: int, distinct: int, k: int, threshold: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    # Small integers give many equal vectors and many equal cosines of different ones.
    base = draw.integers(-1, 2, (distinct, 5)).astype(np.float64)
    base[~base.any(axis=1)] = 1.0
    x = unit(base)[draw.integers(0, distinct, n)] if n else np.zeros((0, 5), np.float32)
    for row in range(n):
        bad = draw.integers(0, 12)
        if bad < 4:
            x[row] = (0.0, np.nan, np.inf, 7e4)[bad]
    order = draw.permutation(n)
    assert as_dict(mutual_neighbors(x, order, k, threshold)) == brute_force(x, order, k, threshold)


def test_equals_brute_force_in_many_dimensions() -> None:
    x = unit(np.random.default_rng(5).standard_normal((120, 384)))
    order = np.random.default_rng(6).permutation(120)
    assert as_dict(mutual_neighbors(x, order, 5, 0.0)) == brute_force(x, order, 5, 0.0)


def test_vectors_closer_than_float32_can_tell() -> None:
    """More of them than candidates are asked for: the exact order must still come from float64."""
    draw = np.random.default_rng(7)
    x = unit(np.ones((60, 16)) + draw.standard_normal((60, 16)) * 1e-4)
    assert as_dict(mutual_neighbors(x, np.arange(60), 3, 0.5)) == brute_force(x, np.arange(60), 3, 0.5)


def test_the_order_of_rows_does_not_show() -> None:
    draw = np.random.default_rng(8)
    x = unit(draw.integers(-1, 2, (80, 6)) + 0.0 + 1e-9)
    order = draw.permutation(80)
    expected = {frozenset((order[a], order[b])): w for (a, b), w in as_dict(mutual_neighbors(x, order, 4, 0.2)).items()}
    assert expected
    for _ in range(3):
        by = draw.permutation(80)
        made = as_dict(mutual_neighbors(x[by], order[by], 4, 0.2))
        assert {frozenset((order[by[a]], order[by[b]])): w for (a, b), w in made.items()} == expected


def test_no_row_has_more_edges_than_the_cap_and_rows_at_the_cap_are_counted() -> None:
    """Case C14: near-duplicates, every pair above the threshold."""
    few = unit(np.ones((5, 16)) + np.random.default_rng(9).standard_normal((5, 16)) * 0.01)
    x = few[np.arange(6000) % 5]
    pairs = mutual_neighbors(x, np.arange(6000), 5, 0.5)
    degree = np.bincount(np.concatenate([pairs.i, pairs.j]), minlength=6000)
    assert degree.max() <= 5
    assert len(pairs.i) >= 15
    assert pairs.num_capped == 6000
    assert np.isfinite(pairs.weight).all()


def test_weights_stay_within_bounds() -> None:
    x = unit(np.random.default_rng(10).standard_normal((300, 3)).round(1) + 0.05)
    weight = mutual_neighbors(x, np.arange(300), 20, -1.0).weight
    assert weight.dtype == np.float32
    assert float(weight.max()) <= 1.0
    assert float(weight.min()) >= -1.0


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_an_approximate_index_measures_its_recall(index: str) -> None:
    draw = np.random.default_rng(11)
    # Around topics, as sentences lie.
    x = unit(draw.standard_normal((300, 24))[np.arange(3000) % 300] + 0.4 * draw.standard_normal((3000, 24)))
    x[1::500] = x[::500]
    exact = as_dict(mutual_neighbors(x, np.arange(3000), 5, 0.3))
    pairs = mutual_neighbors(x, np.arange(3000), 5, 0.3, index=index, recall_sample=64)
    assert 0.9 < pairs.recall <= 1.0
    made = as_dict(pairs)
    # What it finds has exact weights, and equal rows are joined whatever the index gives back.
    assert all(exact.get(pair, weight) == weight for pair, weight in made.items())
    assert len(exact.keys() & made.keys()) > 0.9 * len(exact)
    assert all(made[(r, r + 1)] == 1.0 for r in range(0, 3000, 500))


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_an_index_of_few_rows_finds_what_an_exact_search_does(index: str) -> None:
    draw = np.random.default_rng(14)
    x = unit(draw.integers(-1, 2, (60, 6)) + 1e-9)
    order = draw.permutation(60)
    pairs = mutual_neighbors(x, order, 3, 0.1, index=index)
    assert as_dict(pairs) == brute_force(x, order, 3, 0.1)
    assert pairs.num_capped == mutual_neighbors(x, order, 3, 0.1).num_capped
    none = mutual_neighbors(np.zeros((3, 6), np.float32), np.arange(3), 3, 0.1, index=index)
    assert (len(none.i), none.recall) == (0, 1.0)


@pytest.mark.parametrize("case", ["bad_vectors", "dup_vectors"])
def test_cases_c13_and_c14(case: str, cases_folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(cases_folder / "make_inputs.py"), case, str(tmp_path)], check=True)
    x = np.load(tmp_path / f"{case}.npy")
    if case == "bad_vectors":
        good = np.setdiff1d(np.arange(64), [3, 7, 9, 11])
        x[good] = unit(x[good])
    order = np.random.default_rng(12).permutation(len(x))
    made = as_dict(mutual_neighbors(x, order, 5, 0.05))
    assert made == brute_force(x, order, 5, 0.05)
    assert made
    if case == "bad_vectors":
        assert made[(20, 21)] == 1.0
        assert not {3, 7, 9, 11} & {node for pair in made for node in pair}


def test_a_cosine_rounded_above_one_does_not_pass_an_equal_row() -> None:
    draw = np.random.default_rng(13)
    for _ in range(2000):
        a, b = unit(np.ones((1, 3)) * draw.random(3) + [[0], [1e-7]] * draw.random(3))
        if not np.array_equal(a, b) and np.float32(a.astype(np.float64) @ b.astype(np.float64)) > 1:
            break
    else:
        raise AssertionError("no such pair was drawn")
    made = as_dict(mutual_neighbors(np.stack([a, a, b]), np.arange(3), 1, 0.5))
    assert made == {(0, 1): 1.0}
    # With the smaller rank the other row wins the tie.
    assert as_dict(mutual_neighbors(np.stack([a, a, b]), np.array([0, 2, 1]), 1, 0.5)) == {(0, 2): 1.0}

"""Mutual nearest neighbours: by hand, the reference against loops, the tiled product against the
reference."""

import itertools

import numpy as np
import pytest
import torch

from magma_kernels import backend
from magma_kernels.semantic_link import LinkResult, _numba, _tiled, pair_cosines, reference, semantic_link
from magma_kernels.semantic_link.cases import Case, awkward_cases, duplicates_case, random_case


def defined(case: Case) -> LinkResult:
    return reference.semantic_link(case.x_ND, case.ptr, case.order_N, case.usable_N, k=case.k, threshold=case.threshold)


def tiled(case: Case, block: int = 1 << 21) -> LinkResult:
    return _tiled.semantic_link(
        case.x_ND, case.ptr, case.order_N, case.usable_N, k=case.k, threshold=case.threshold, block=block
    )


def strips(case: Case, **sizes: int) -> LinkResult:
    return _numba.semantic_link(
        case.x_ND, case.ptr, case.order_N, case.usable_N, k=case.k, threshold=case.threshold, **sizes
    )


def assert_same(got: LinkResult, want: LinkResult) -> None:
    assert torch.equal(got.src_E, want.src_E)
    assert torch.equal(got.dst_E, want.dst_E)
    assert torch.equal(got.cos_E.view(torch.int32), want.cos_E.view(torch.int32))
    assert torch.equal(got.capped_N, want.capped_N)


def edges(result: LinkResult) -> list[tuple[int, int, float]]:
    return list(zip(result.src_E.tolist(), result.dst_E.tolist(), result.cos_E.tolist(), strict=True))


def by_loops(case: Case) -> list[tuple[int, int, float]]:
    """Returns the edges by the text of the contract, with Python floats (which are float64)."""
    x, order, usable = case.x_ND.tolist(), case.order_N.tolist(), case.usable_N.tolist()
    found = []
    for first, last in itertools.pairwise(case.ptr.tolist()):
        nodes = [i for i in range(first, last) if usable[i]]
        cos, near = {}, {}
        for i, j in itertools.permutations(nodes, 2):
            total = 0.0
            for a, b in zip(x[i], x[j], strict=True):
                total += a * b
            # At most 1, and 1 between equal rows.
            cos[i, j] = 1.0 if x[i] == x[j] else min(float(np.float32(total)), 1.0)
        for i in nodes:
            others = sorted((j for j in nodes if j != i), key=lambda j: (-cos[i, j], order[j]))
            near[i] = others[: case.k]
        for i, j in itertools.combinations(nodes, 2):
            if j in near[i] and i in near[j] and cos[i, j] > np.float32(case.threshold):
                found.append((i, j, cos[i, j]))
    return found


BOTH = pytest.mark.parametrize("search", [defined, tiled, strips], ids=["reference", "tiled", "numba"])

# Rows 0 and 1 are equal, 2 is at 0.6 to them and at 0.8 to 3; 0 and 3 are at right angles. Row 4 is not
# usable.
FIVE = Case(
    name="five",
    x_ND=torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [float("nan")] * 2]),
    ptr=torch.tensor([0, 5]),
    order_N=torch.tensor([1, 0, 2, 3, 4]),
    usable_N=torch.tensor([True, True, True, True, False]),
    k=1,
    threshold=0.5,
)


def changed(case: Case, **values: object) -> Case:
    return Case(**({name: getattr(case, name) for name in Case.__slots__} | values))


@BOTH
def test_worked_by_hand(search):
    near, far = float(np.float32(0.8)), float(np.float32(0.6))
    # 0 and 1 are nearest to each other; 2 and 3 are too.
    assert edges(search(FIVE)) == [(0, 1, 1.0), (2, 3, near)]
    # Two each: 2 has 3, then of 0 and 1, both at 0.6, the one of smaller order, 1; and 1 has 0, then 2.
    assert edges(search(changed(FIVE, k=2))) == [(0, 1, 1.0), (1, 2, far), (2, 3, near)]
    assert edges(search(changed(FIVE, k=9))) == [(0, 1, 1.0), (0, 2, far), (1, 2, far), (2, 3, near)]
    # The cosine must be above the threshold, and both are float32.
    assert edges(search(changed(FIVE, k=9, threshold=0.6))) == [(0, 1, 1.0), (2, 3, near)]
    # Memories do not see each other.
    assert edges(search(changed(FIVE, k=9, ptr=torch.tensor([0, 1, 3, 5])))) == [(1, 2, far)]


@BOTH
def test_equal_rows_link_the_smallest_orders(search):
    case = changed(
        FIVE,
        x_ND=torch.tensor([[0.6, 0.8]] * 5),
        order_N=torch.tensor([4, 0, 3, 1, 2]),
        usable_N=torch.ones(5, dtype=torch.bool),
        k=2,
    )
    # By order: 1, 3, 4, 2, 0. The first three are one another's nearest two; the others' are 1 and 3.
    assert [(a, b) for a, b, _ in edges(search(case))] == [(1, 3), (1, 4), (3, 4)]


@pytest.mark.parametrize("case", awkward_cases(), ids=lambda case: case.name)
def test_awkward_shapes(case):
    want = defined(case)
    assert edges(want) == by_loops(case)
    assert_same(tiled(case), want)
    assert_same(strips(case), want)


def test_random_memories():
    total = 0
    for seed in range(150):
        case = random_case(seed)
        want = defined(case)
        if case.x_ND.shape[0] < 120:
            assert edges(want) == by_loops(case)
        for block in (1, 300, 1 << 21):
            assert_same(tiled(case, block), want)
        for strip in (1, 7, 128):
            assert_same(strips(case, strip=strip), want)
        assert_same(strips(case, large=5, large_strip=3), want)
        total += want.src_E.shape[0]
    assert total > 1000


def test_many_pairs_above_the_threshold(monkeypatch):
    """The closer look before sorting, taken for every block, changes nothing."""
    monkeypatch.setattr(_tiled, "_MANY", 0)
    for seed in range(150):
        case = random_case(seed)
        assert_same(tiled(case, 300), defined(case))


def test_a_rounding_that_the_product_gets_wrong_is_mended():
    """Cosines half-way between two floats, give or take what the order of a sum changes, on purpose."""
    rng = np.random.default_rng(0)
    x = np.zeros((400, 65), np.float32)
    x[:, 1:] = rng.normal(size=(400, 64)) * 1e-2
    x[:, 0] = np.sqrt(1 - (x[:, 1:].astype(np.float64) ** 2).sum(1))
    rows = torch.from_numpy(x).to(torch.float64)
    case = changed(
        FIVE,
        x_ND=torch.from_numpy(x),
        ptr=torch.tensor([0, 400]),
        order_N=torch.arange(400),
        usable_N=torch.ones(400, dtype=torch.bool),
        k=20,
    )
    assert_same(tiled(case), defined(case))
    # The summing again is what holds when nothing of the product may be trusted.
    a, b = torch.triu_indices(400, 400, 1)
    again = _tiled._summed_again(rows, a, b)
    assert torch.equal(again, reference.cosines(case.x_ND, case.x_ND)[a, b])


@pytest.mark.parametrize("wrong", [1e-16, -1e-16])
def test_result_does_not_rest_on_the_product_s_last_bits(monkeypatch, wrong):
    """A product that is off by what its order of summing may change gives the same edges, bit for bit."""
    matmul = torch.matmul
    monkeypatch.setattr(torch, "matmul", lambda a, b: matmul(a, b) + wrong)
    for seed in range(0, 60):
        case = random_case(seed)
        assert_same(tiled(case), defined(case))


def test_thousands_of_near_duplicates_stay_below_the_cap():
    case = duplicates_case(6000, 24, seed=1)
    result = tiled(case)
    degree = torch.bincount(torch.cat([result.src_E, result.dst_E]), minlength=6000)
    assert int(degree.max()) <= case.k
    # Of the 3000 equal rows those of the six smallest orders are linked, all with one another.
    equal = set(torch.argsort(case.order_N[:3000])[:6].tolist())
    inside = [(a, b) for a, b, _ in edges(result) if b < 3000]
    assert inside == list(itertools.combinations(sorted(equal), 2))
    # The others are nearly equal, not equal: most find neighbours of their own.
    assert int((degree[3000:] > 0).sum()) > 1500


def test_a_memory_does_not_depend_on_its_batch():
    case = random_case(4)
    whole = edges(tiled(case))
    alone = []
    for first, last in itertools.pairwise(case.ptr.tolist()):
        part = changed(
            case,
            x_ND=case.x_ND[first:last],
            order_N=case.order_N[first:last],
            usable_N=case.usable_N[first:last],
            ptr=torch.tensor([0, last - first]),
        )
        alone += [(first + a, first + b, cos) for a, b, cos in edges(tiled(part))]
    assert alone == whole
    assert whole


@pytest.mark.parametrize("value", ["", "reference", "compiled"])
def test_public_function_obeys_and_agrees(monkeypatch, value):
    monkeypatch.setenv(backend.VARIABLE, value)
    case = random_case(7)
    result = semantic_link(case.x_ND, case.ptr, case.order_N, case.usable_N, k=case.k, threshold=case.threshold)
    assert_same(result, defined(case))


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        {"k": 0},
        {"order_N": torch.tensor([0, 0, 1, 2, 3])},
        {"ptr": torch.tensor([0, 4])},
        {"ptr": torch.tensor([0, 3, 2, 5])},
        {"usable_N": torch.ones(5, dtype=torch.bool)},
        {"x_ND": torch.ones(5, 2)},
        {"x_ND": torch.ones(5, 1, dtype=torch.float64)},
    ],
    ids=["k", "equal-orders", "short-ptr", "falling-ptr", "nan-usable", "not-unit", "float64"],
)
def test_mistakes_are_asserted(search, change):
    with pytest.raises(AssertionError):
        search(changed(FIVE, **change))


def test_cosines_of_pairs_are_those_of_edges():
    case = random_case(6)
    rows = torch.unique(torch.nan_to_num(case.x_ND[case.usable_N]) + 0.0, dim=0)
    a, b = torch.triu_indices(rows.shape[0], rows.shape[0])
    want = reference.cosines(rows, rows)[a, b].clamp(max=1.0)
    want[a == b] = 1.0
    assert len(a) > 50
    assert torch.equal(pair_cosines(rows, a, b), want)
    assert torch.equal(reference.pair_cosines(rows, a, b), want)


def test_a_rounding_above_one_does_not_pass_an_equal_row():
    rng = np.random.default_rng(13)
    while True:
        a = rng.random(3) + 0.1
        b = a + 1e-7 * rng.random(3)
        a, b = (np.float32(v / np.linalg.norm(v)) for v in (a, b))
        if not np.array_equal(a, b) and np.float32(a.astype(np.float64) @ b.astype(np.float64)) > 1:
            break
    rows = torch.from_numpy(np.stack([a, a, b]))
    three = {"x_ND": rows, "ptr": torch.tensor([0, 3]), "usable_N": torch.ones(3, dtype=torch.bool), "k": 1}
    for search in (defined, tiled, strips):
        # All three cosines are 1; ties go to the smaller order.
        assert edges(search(changed(FIVE, order_N=torch.arange(3), **three))) == [(0, 1, 1.0)]
        assert edges(search(changed(FIVE, order_N=torch.tensor([0, 2, 1]), **three))) == [(0, 2, 1.0)]

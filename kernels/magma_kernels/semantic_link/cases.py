"""Seeded inputs for mutual nearest neighbours: what the tests compare on, and what the benchmark times."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Case:
    """One input with a readable name."""

    name: str
    x_ND: Tensor
    ptr: Tensor
    order_N: Tensor
    usable_N: Tensor
    k: int
    threshold: float


def random_case(seed: int) -> Case:
    """Returns small memories with equal rows, nearly equal rows, rows that are not usable, and few
    dimensions."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, rng.choice([2, 10, 70]), size=rng.integers(1, 6))
    width = int(rng.choice([1, 2, 3, 8, 60]))
    total = int(sizes.sum())
    # Small integers give equal vectors and equal cosines; a grain of noise gives cosines that differ in
    # last bits.
    x = rng.integers(-2, 3, (total, width)).astype(np.float64)
    if seed % 3 == 0:
        x = rng.normal(size=(total, width))
    if seed % 3 == 1:
        x += rng.choice([0.0, 1e-7, 1e-4], (total, 1)) * rng.normal(size=(total, width))
    usable = (np.abs(x).sum(1) > 0) & (rng.random(total) > 0.1)
    return _case(
        f"random-{seed}",
        rng,
        x,
        usable,
        sizes,
        k=int(rng.choice([1, 2, 5, 100])),
        threshold=float(rng.choice([-1.0, 0.0, 0.5, 0.9])),
    )


def awkward_cases() -> tuple[Case, ...]:
    """Returns the shapes that break loops: nothing, one, a row more or less than 64, nothing usable."""
    rng = np.random.default_rng(5)
    cases = [_case("no-memories", rng, np.zeros((0, 4)), np.zeros(0, bool), np.zeros(0, np.int64))]
    for size in (0, 1, 2, 63, 64, 65):
        sizes = np.array([size, 0, size, 1])
        x = rng.normal(size=(int(sizes.sum()), 16))
        cases.append(_case(f"{size}-nodes", rng, x, np.ones(len(x), bool), sizes, threshold=0.0))
    x = rng.normal(size=(40, 16))
    cases.append(_case("none-usable", rng, x, np.zeros(40, bool), np.array([30, 10])))
    cases.append(_case("all-equal", rng, np.ones((50, 3)), np.ones(50, bool), np.array([20, 30]), k=4))
    return tuple(cases)


def duplicates_case(num_nodes: int, width: int, seed: int) -> Case:
    """Returns one memory of two tight bunches, one of equal rows and one of nearly equal rows."""
    rng = np.random.default_rng(seed)
    half = num_nodes // 2
    x = np.concatenate(
        [
            np.tile(rng.normal(size=width), (half, 1)),
            rng.normal(size=width) + 1e-3 * rng.normal(size=(num_nodes - half, width)),
        ]
    )
    return _case("duplicates", rng, x, np.ones(num_nodes, bool), np.array([num_nodes]))


def events_case(*, num_memories: int, num_events: int, width: int, seed: int) -> Case:
    """Returns memories whose vectors lie around a few topics, as sentence vectors do."""
    rng = np.random.default_rng(seed)
    total = num_memories * num_events
    topic = rng.normal(size=(20, width))[rng.integers(0, 20, total)]
    x = topic + rng.normal(size=(total, width))
    sizes = np.full(num_memories, num_events)
    return _case(f"{num_memories}x{num_events}-events", rng, x, np.ones(total, bool), sizes)


def _case(
    name: str,
    rng: np.random.Generator,
    x: np.ndarray,
    usable: np.ndarray,
    sizes: np.ndarray,
    k: int = 5,
    threshold: float = 0.5,
) -> Case:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    unit = (x / np.where(length > 0, length, 1)).astype(np.float32)
    # What is not usable may hold anything.
    unit[~usable] = rng.choice([np.nan, 0.0, np.inf], (int((~usable).sum()), 1))
    orders = [rng.permutation(size) for size in sizes]
    return Case(
        name=name,
        x_ND=torch.from_numpy(unit),
        ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)),
        order_N=torch.from_numpy(np.concatenate([np.zeros(0), *orders]).astype(np.int64)),
        usable_N=torch.from_numpy(usable),
        k=k,
        threshold=threshold,
    )

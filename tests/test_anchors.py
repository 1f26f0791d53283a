from typing import Any

import numpy as np
import pytest

from magma_gpu.anchors import Signals, cosines, fuse, measure, rank, scaled
from magma_gpu.config import SearchConfig
from magma_gpu.memory_index import MemoryIndex
from small_logs import HOUR, JANUARY, all_tables, index_of, turn

HIT_NONE = -np.inf


def test_reciprocal_rank_fusion_by_hand() -> None:
    scores = {
        "dense": np.array([[0.9, 0.5, HIT_NONE, 0.7]], np.float32),
        "lexical": np.array([[HIT_NONE, 3.0, 3.0, HIT_NONE]], np.float32),
    }
    ranks = {name: rank(score) for name, score in scores.items()}
    # A tie goes to the smaller event; no hit has no rank.
    assert ranks["dense"].tolist() == [[1, 3, 0, 2]]
    assert ranks["lexical"].tolist() == [[0, 1, 2, 0]]
    made = fuse(ranks, {"dense": 1.0, "lexical": 2.0}, 60.0)
    raw = [1 / 61, 1 / 63 + 2 / 61, 2 / 62, 1 / 62]
    assert made.tolist() == [pytest.approx([r / raw[1] for r in raw])]
    assert made[0, 1] == 1.0


def test_fusion_of_no_hits_and_of_no_events() -> None:
    nothing = np.full((2, 3), HIT_NONE, np.float32)
    assert fuse({"dense": rank(nothing)}, {"dense": 1.0}, 60.0).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert fuse({"dense": rank(np.zeros((2, 0), np.float32))}, {"dense": 1.0}, 60.0).shape == (2, 0)


def test_scaling() -> None:
    assert scaled(np.array([[1.0, 4.0], [0.0, 0.0]])).tolist() == [[0.25, 1.0], [0.0, 0.0]]


def test_cosines_do_not_depend_on_the_batch() -> None:
    draw = np.random.default_rng(0)
    q, x = draw.standard_normal((33, 384)).astype(np.float32), draw.standard_normal((257, 384)).astype(np.float32)
    together = cosines(q, x)
    for rows in (slice(0, 1), slice(5, 7), slice(32, 33)):
        assert cosines(q[rows], x).tobytes() == together[rows].tobytes()
    assert cosines(q, x[100:101]).tobytes() == together[:, 100:101].tobytes()


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    log = [
        turn("I adopted a puppy called Rex.", turn_id="0", at=1, seq=0),
        turn("The bakery opens tomorrow.", turn_id="1", at=30, seq=1),
        turn("Rex ate the bread of the bakery.", turn_id="2", at=60, seq=2),
        turn("No date here, only Rex.", turn_id="3", session_id="t"),
    ]
    return index_of(all_tables(log))


def ask(index: MemoryIndex, config: SearchConfig, *terms: str, **limits: Any) -> Signals:
    return measure(index, index.x_ED[:1], [list(terms)], [limits.get("window")], config)


def test_each_signal_by_itself(index: MemoryIndex) -> None:
    made = ask(index, SearchConfig(), "rex")
    assert set(made.scores) == {"dense", "dense_window", "lexical", "lexical_window", "time"}
    lexical = made.scores["lexical"][0]
    assert np.isneginf(lexical).tolist() == [False, True, False, False]
    assert np.isneginf(made.scores["time"]).all()
    assert made.scores["dense"][0, 0] == 1.0
    assert made.fused_QE.max() == 1.0
    others = {f"weight_{name}": 0.0 for name in ("dense", "dense_window", "lexical_window", "time")}
    only = ask(index, SearchConfig(**others), "rex")
    assert set(only.scores) == {"lexical"}
    assert (only.fused_QE[0] > 0).tolist() == [True, False, True, True]


def test_below_the_retrieval_threshold_there_is_no_dense_hit(index: MemoryIndex) -> None:
    made = ask(index, SearchConfig(retrieval_threshold=0.999), "nothing")
    assert np.isneginf(made.scores["dense"]).tolist() == [[False, True, True, True]]


def test_a_window_ranks_or_filters(index: MemoryIndex) -> None:
    day_two = (JANUARY + 24 * HOUR, JANUARY + 48 * HOUR)
    ranked = ask(index, SearchConfig(), "rex", window=day_two)
    # Event 1 speaks of the next day, so it is not about day two though it was said then.
    assert np.isneginf(ranked.scores["time"]).tolist() == [[True, True, True, True]]
    day_three = (JANUARY + 48 * HOUR, JANUARY + 72 * HOUR)
    ranked = ask(index, SearchConfig(), "rex", window=day_three)
    assert np.isneginf(ranked.scores["time"]).tolist() == [[True, False, False, True]]
    assert ranked.allowed_QE.all()
    hard = ask(index, SearchConfig(time_window="filter", retrieval_threshold=-1.0), "rex", window=day_three)
    assert hard.allowed_QE.tolist() == [[False, True, True, False]]
    assert (hard.fused_QE[0] > 0).tolist() == [False, True, True, False]
    off = ask(index, SearchConfig(time_window="off"), "rex", window=day_three)
    assert "time" not in off.scores


def test_a_hard_window_that_holds_nothing_filters_nothing(index: MemoryIndex) -> None:
    config = SearchConfig(time_window="filter")
    assert ask(index, config, "rex", window=(JANUARY + 200 * HOUR, JANUARY + 300 * HOUR)).allowed_QE.all()


def test_the_end_of_a_window_is_not_in_it(index: MemoryIndex) -> None:
    for window, inside in (
        ((0, JANUARY + HOUR), False),
        ((0, JANUARY + HOUR + 1), True),
        ((JANUARY + HOUR, JANUARY + HOUR + 1), True),
    ):
        assert np.isneginf(ask(index, SearchConfig(), "rex", window=window).scores["time"][0, 0]) == (not inside)


def test_a_memory_without_events() -> None:
    from magma_gpu.types import MemoryNote

    empty = index_of(all_tables([MemoryNote(memory_id="m")]))
    made = measure(empty, np.zeros((2, 64), np.float32), [["rex"], []], [None, (0, 1)], SearchConfig())
    assert made.fused_QE.shape == (2, 0)

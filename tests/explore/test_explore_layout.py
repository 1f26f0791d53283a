"""Where nodes stand: the same every time, in reading order, nothing on top of another."""

import numpy as np
from scipy.spatial.distance import pdist

from magma_gpu.explore.layout import _MAX_GROUP, _SPACING, place


def _nothing() -> np.ndarray:
    return np.empty((0, 2), dtype=np.int64)


def test_no_events() -> None:
    layout = place([], [], 0, _nothing(), 0)
    assert layout.groups == ()
    assert layout.event_E2.shape == (0, 2)


def test_one_session_is_one_spiral_from_the_middle() -> None:
    layout = place([0] * 30, [0] * 30, 1, _nothing(), 0)
    [group] = layout.groups
    assert (group.session, group.first, group.last) == (0, 0, 30)
    far = np.linalg.norm(layout.event_E2 - (group.x, group.y), axis=1)
    assert (np.diff(far) > 0).all()
    assert far[-1] < group.radius
    assert pdist(layout.event_E2).min() > 0.7 * _SPACING


def test_sessions_follow_in_reading_order_and_do_not_meet() -> None:
    sizes = [5, 40, 12, 90, 3, 3, 60, 21]
    session_E = [s for s, n in enumerate(sizes) for _ in range(n)]
    layout = place(session_E, session_E, len(sizes), _nothing(), 0)
    assert [g.session for g in layout.groups] == list(range(len(sizes)))
    for a, b in zip(layout.groups, layout.groups[1:], strict=False):
        # To the right in the same row, or in a row below.
        assert (a.y == b.y and b.x > a.x) or b.y > a.y
    for i, a in enumerate(layout.groups):
        for b in layout.groups[:i]:
            assert np.hypot(a.x - b.x, a.y - b.y) > a.radius + b.radius


def test_a_long_session_is_cut_between_episodes() -> None:
    episode_E = [i // 25 for i in range(1000)]
    layout = place([0] * 1000, episode_E, 40, _nothing(), 0)
    assert len(layout.groups) > 5
    assert all(g.last - g.first <= _MAX_GROUP for g in layout.groups)
    assert [g.first for g in layout.groups[1:]] == [g.last for g in layout.groups[:-1]]
    assert all(g.first % 25 == 0 for g in layout.groups)


def test_an_episode_longer_than_a_spiral_is_cut_all_the_same() -> None:
    layout = place([0] * 500, [0] * 500, 1, _nothing(), 0)
    assert all(g.last - g.first <= _MAX_GROUP for g in layout.groups)
    assert layout.groups[-1].last == 500


def test_entities_stand_apart_and_beside_what_mentions_them() -> None:
    session_E = [0] * 20 + [1] * 20 + [2] * 20
    # Entity 0 is said in session 1 alone, entity 1 mostly in session 2, twenty more in session 0.
    pairs = [(25, 0), (26, 0), (3, 1), (45, 1), (46, 1), *((i % 20, 2 + i) for i in range(20))]
    layout = place(session_E, session_E, 3, np.array(pairs, dtype=np.int64), 22)
    for entity, session in ((0, 1), (1, 2)):
        distances = [np.hypot(*(layout.entity_K2[entity] - (g.x, g.y))) for g in layout.groups]
        assert int(np.argmin(distances)) == session
    for group in layout.groups:
        far = np.linalg.norm(layout.entity_K2 - (group.x, group.y), axis=1)
        assert (far > group.radius - 1e-6).all()
    assert pdist(layout.entity_K2).min() > 8


def test_the_same_memory_gives_the_same_places() -> None:
    rng = np.random.default_rng(3)
    session_E = sorted(rng.integers(0, 9, 400).tolist())
    pairs = np.stack([rng.integers(0, 400, 900), rng.integers(0, 60, 900)], axis=1)
    a = place(session_E, session_E, 9, pairs, 60)
    b = place(session_E, session_E, 9, pairs, 60)
    assert a.event_E2.tobytes() == b.event_E2.tobytes()
    assert a.entity_K2.tobytes() == b.entity_K2.tobytes()
    assert np.isfinite(a.entity_K2).all()

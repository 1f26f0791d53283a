"""Where nodes stand on the page: time by session, the same for the same memory.

Every session is a spiral that starts in its middle with what was said first; spirals follow each other like words in
a text, so reading order is time. A long session is several spirals, cut between episodes. An entity stands near the
events that mention it. Coordinates are in units of the page's graph, y downwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

FloatN2 = npt.NDArray[np.float64]

# Between neighbours on a spiral.
_SPACING = 15.0
# Between two spirals; entities stand here.
_GAP = 64.0
# Room that an entity keeps to others, and to the spirals.
_ENTITY_ROOM = 24.0
_MAX_GROUP = 160
# Width to height of the whole.
_ASPECT = 1.35
_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Group:
    """One spiral: events [first, last), around (x, y)."""

    session: int
    first: int
    last: int
    x: float
    y: float
    radius: float


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """E events, P episodes, K entities."""

    event_E2: FloatN2
    episode_P2: FloatN2
    entity_K2: FloatN2
    groups: tuple[Group, ...]


def place(
    session_E: Sequence[int],
    episode_E: Sequence[int],
    num_episodes: int,
    mentions: npt.NDArray[np.int64],
    num_entities: int,
) -> Layout:
    """Places all nodes of a memory.

    Args:
        session_E, episode_E: number of each event's session and episode, events by position.
        mentions: [M, 2] pairs of event and entity.
    """
    groups = _pack(_runs(session_E, episode_E))
    event_E2 = np.zeros((len(session_E), 2))
    for group in groups:
        spiral = _spiral(group.last - group.first)
        event_E2[group.first : group.last] = spiral + np.array([group.x, group.y])
    episodes = np.asarray(episode_E, dtype=np.int64)
    episode_P2 = _means(event_E2, np.arange(len(episodes)), episodes, num_episodes)
    entity_K2 = _entities(event_E2, mentions, num_entities, groups)
    return Layout(event_E2, episode_P2, entity_K2, groups)


def _runs(session_E: Sequence[int], episode_E: Sequence[int]) -> list[tuple[int, int, int]]:
    """(session, first event, event after the last): a session, or a part of a long one."""
    runs: list[tuple[int, int, int]] = []
    first = 0
    for i in range(1, len(session_E) + 1):
        if i == len(session_E) or session_E[i] != session_E[first]:
            runs.extend((session_E[first], a, b) for a, b in _parts(episode_E, first, i))
            first = i
    return runs


def _parts(episode_E: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
    """Parts of at most _MAX_GROUP events that end between episodes where they can, and are about equally long."""
    size = last - first
    target = size / max(1, round(size / (_MAX_GROUP * 0.75))) if size > _MAX_GROUP else size
    cuts = [first]
    for i in range(first + 1, last):
        length = i - cuts[-1]
        between = episode_E[i] != episode_E[i - 1]
        if (length >= target and between) or length >= _MAX_GROUP:
            cuts.append(i)
    return list(zip(cuts, [*cuts[1:], last], strict=True))


def _spiral(size: int) -> FloatN2:
    """Points on an Archimedean spiral, equally far apart along it and across its turns."""
    k = np.arange(size) + 0.5
    angle = np.sqrt(4 * np.pi * k)
    radius = _SPACING * np.sqrt(k / np.pi)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _pack(runs: Sequence[tuple[int, int, int]]) -> tuple[Group, ...]:
    """Sets spirals in rows, as words in a paragraph; of several widths the one that can be drawn largest."""
    radius = np.array([_SPACING * np.sqrt((b - a) / np.pi) + _SPACING for _, a, b in runs])
    sizes: list[float] = (2 * radius + _GAP).tolist()
    if not sizes:
        return ()
    widest = max(sizes)
    square = float(np.sqrt(np.square(sizes).sum() * _ASPECT))
    best = min(
        (_rows(sizes, max(widest, square * share)) for share in np.linspace(0.6, 1.8, 25).tolist()),
        key=lambda rows: _extent(sizes, rows),
    )
    groups = []
    top = 0.0
    for row in best:
        height = max(sizes[i] for i in row)
        left = 0.0
        for i in row:
            session, first, last = runs[i]
            center = (left + sizes[i] / 2, top + height / 2)
            groups.append(Group(session, first, last, *center, float(radius[i])))
            left += sizes[i]
        top += height
    return tuple(groups)


def _rows(sizes: Sequence[float], width: float) -> list[list[int]]:
    rows: list[list[int]] = [[]]
    used = 0.0
    for i, size in enumerate(sizes):
        if rows[-1] and used + size > width + 1e-6:
            rows.append([])
            used = 0.0
        rows[-1].append(i)
        used += size
    return rows


def _extent(sizes: Sequence[float], rows: Sequence[Sequence[int]]) -> float:
    """How far the picture must be scaled down: by its width or its height, whichever asks for more."""
    width = max(sum(sizes[i] for i in row) for row in rows)
    height = sum(max(sizes[i] for i in row) for row in rows)
    return max(width / _ASPECT, height)


def _means(points: FloatN2, of: npt.NDArray[np.int64], owner: npt.NDArray[np.int64], size: int) -> FloatN2:
    total = np.zeros((size, 2))
    np.add.at(total, owner, points[of])
    count = np.bincount(owner, minlength=size)[:, None]
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)


def _entities(
    event_E2: FloatN2, mentions: npt.NDArray[np.int64], num_entities: int, groups: Sequence[Group]
) -> FloatN2:
    """Beside the spiral that mentions it most (the first of several), on the side of its other events.

    The mean of all its events would set everything that is mentioned everywhere into one place.
    """
    mean = _means(event_E2, mentions[:, 0], mentions[:, 1], num_entities)
    if not num_entities or not groups:
        return mean
    center = np.array([(g.x, g.y) for g in groups])
    reach = np.array([g.radius + _ENTITY_ROOM / 2 for g in groups])
    group_E = np.repeat(np.arange(len(groups)), [g.last - g.first for g in groups])
    pair = mentions[:, 1] * len(groups) + group_E[mentions[:, 0]]
    pairs_K, times = np.unique(pair, return_counts=True)
    # By entity, then most mentions, then first group; the first row of each entity is its home.
    by = np.lexsort((pairs_K, -times, pairs_K // len(groups)))
    entities, first = np.unique(pairs_K[by] // len(groups), return_index=True)
    home = np.zeros(num_entities, dtype=np.int64)
    home[entities] = pairs_K[by][first] % len(groups)
    away = mean - center[home]
    far = np.sqrt((away**2).sum(axis=1, keepdims=True))
    at: FloatN2 = center[home] + away / np.maximum(far, 1e-9) * np.minimum(far, reach[home][:, None])
    # A start of its own for each, so that two of one event are not on one point.
    angle = np.arange(num_entities) * 2.399963
    at = at + np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tree_of_groups = cKDTree(center)
    for _ in range(_ROUNDS):
        _, near = tree_of_groups.query(at, k=min(4, len(groups)))
        for column in near.reshape(len(at), -1).T:
            away = at - center[column]
            far = np.sqrt((away**2).sum(axis=1))
            inside = far < reach[column]
            scale = reach[column] / np.maximum(far, 1e-9)
            at = np.where(inside[:, None], center[column] + away * scale[:, None], at)
        pairs = cKDTree(at).query_pairs(_ENTITY_ROOM, output_type="ndarray")
        if not len(pairs):
            break
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        a, b = pairs.T
        away = at[a] - at[b]
        far = np.maximum(np.sqrt((away**2).sum(axis=1)), 1e-6)
        push = away / far[:, None] * ((_ENTITY_ROOM - far) * 0.35)[:, None]
        # No step is longer than an entity's room, however many push at once.
        step = np.zeros_like(at)
        np.add.at(step, a, push)
        np.add.at(step, b, -push)
        length = np.sqrt((step**2).sum(axis=1, keepdims=True))
        at = at + step * np.minimum(1.0, _ENTITY_ROOM / np.maximum(length, 1e-9))
    return at

"""What the page shows of a memory, as one JSON document: columns, not rows, and node numbers instead of ids.

Nodes are numbered as in `graph.MemoryGraph`: events by position, then episodes, then entities.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from magma_gpu import __version__
from magma_gpu.explore.layout import place
from magma_gpu.export.select import Tables, episode_of
from magma_gpu.types import EDGE_TYPES, INTENTS

_STORED = ("temporal", "semantic", "causal", "entity")


def node_numbers(rows: Tables) -> dict[str, int]:
    """The number of every node by its id."""
    ids: list[str] = []
    for table, column in (("events", "event_id"), ("episodes", "episode_id"), ("entities", "entity_id")):
        ids += rows[table][column].to_pylist()
    return {node: i for i, node in enumerate(ids)}


def describe(memory_id: str, rows: Tables, queries: Sequence[dict[str, Any]], missing: Sequence[str]) -> dict[str, Any]:
    """The page's document.

    Args:
        rows: a memory's tables, as `export.select.Selection.memories` gives them.
        queries: what `trace.trace` made.
        missing: edge types whose stage has not run.
    """
    events, episodes, entities = rows["events"], rows["episodes"], rows["entities"]
    number = node_numbers(rows)
    sessions = {s: i for i, s in enumerate(rows["sessions"]["session_id"].to_pylist())}
    session_E = [sessions[s] for s in events["session_id"].to_pylist()]
    owners = episode_of(events, episodes)
    first_episode, first_entity = events.num_rows, events.num_rows + episodes.num_rows
    episode_E = [number[o] - first_episode for o in owners]
    edges = {name: _edges(rows[f"edges/{name}"], number) for name in _STORED}
    edges["episode"] = {
        "src": list(range(events.num_rows)),
        "dst": [e + first_episode for e in episode_E],
        "weight": [],
        "evidence": [],
    }
    mentions = np.array([edges["entity"]["src"], edges["entity"]["dst"]], dtype=np.int64).reshape(2, -1).T
    layout = place(session_E, episode_E, episodes.num_rows, mentions - np.array([0, first_entity]), entities.num_rows)
    speakers, speaker_E = _coded(events["speaker"])
    return {
        "memory": memory_id,
        "version": __version__,
        "edge_types": list(EDGE_TYPES),
        "intents": list(INTENTS),
        "missing": list(missing),
        "speakers": speakers,
        "sessions": {
            "id": list(sessions),
            "title": rows["sessions"]["title"].to_pylist(),
            "time": _seconds(rows["sessions"]["time"]),
        },
        "groups": [[g.session, g.first, g.last, *_short([g.x, g.y, g.radius])] for g in layout.groups],
        "events": {
            "id": events["event_id"].to_pylist(),
            "turn": events["turn_id"].to_pylist(),
            "session": session_E,
            "episode": episode_E,
            "speaker": speaker_E,
            "time": _seconds(events["time"]),
            "text": events["text"].to_pylist(),
            "caption": events["caption"].to_pylist(),
            **_points(layout.event_E2),
        },
        "about": _about(rows["times"], number),
        "episodes": {"title": episodes["title"].to_pylist(), **_points(layout.episode_P2)},
        "entities": {
            "name": entities["name"].to_pylist(),
            "type": entities["type"].to_pylist(),
            "aliases": entities["aliases"].to_pylist(),
            **_points(layout.entity_K2),
        },
        "edges": edges,
        "queries": list(queries),
    }


def _coded(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    """Distinct values, the most frequent first, and the number of each row's."""
    counts = sorted(column.value_counts().to_pylist(), key=lambda c: (-c["counts"], c["values"]))
    place_of = {c["values"]: i for i, c in enumerate(counts)}
    return list(place_of), [place_of[v] for v in column.to_pylist()]


def _seconds(column: pa.ChunkedArray) -> list[int | None]:
    return [None if t is None else t // 1_000_000 for t in column.cast(pa.int64()).to_pylist()]


def _short(values: Sequence[float]) -> list[float]:
    return [round(float(v), 1) for v in values]


def _points(at: npt.NDArray[np.float64]) -> dict[str, list[float]]:
    return {"x": _short(at[:, 0].tolist()), "y": _short(at[:, 1].tolist())}


def _edges(table: pa.Table, number: dict[str, int]) -> dict[str, list[Any]]:
    evidence = table["evidence"].to_pylist()
    return {
        "src": [number[i] for i in table["src"].to_pylist()],
        "dst": [number[i] for i in table["dst"].to_pylist()],
        "weight": [round(w, 3) for w in table["weight"].to_pylist()],
        "evidence": evidence if any(evidence) else [],
    }


def _about(times: pa.Table, number: dict[str, int]) -> list[list[Any]]:
    """Times that texts speak of: (event, words, start, end) in seconds."""
    return [
        [number[event], text, start, end]
        for event, text, start, end in zip(
            times["event_id"].to_pylist(),
            times["text"].to_pylist(),
            _seconds(times["start"]),
            _seconds(times["end"]),
            strict=True,
        )
    ]

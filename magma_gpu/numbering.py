"""The turns of a memory in their order: times inferred, sessions and positions numbered, turns cut into events.

It reads nothing and knows no store. The order is a function of the turns alone.
"""

from collections.abc import Sequence
from typing import Any

from magma_gpu.config import IngestConfig
from magma_gpu.segment import episode_title, find_episodes, split_text
from magma_gpu.store import stable_hash
from magma_gpu.turn_rows import id_of_event


def number_memory(
    memory_id: str,
    keyed: list[tuple[str, dict[str, Any]]],
    kept: dict[tuple[str, str], list[dict[str, Any]]],
    config: IngestConfig,
    out: dict[str, list[dict[str, Any]]],
) -> None:
    """Numbers one memory and adds its rows to the tables of its shard.

    Args:
        memory_id: whose turns they are.
        keyed: its turns with their keys, in any order.
        kept: rows of `sessions` that are stored already, by memory and session; several where stores are joined.
        config: how turns are cut and episodes found.
        out: rows by table; `memories`, `sessions`, `events` and `episodes` grow.
    """
    by_session: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, row in keyed:
        by_session.setdefault(row["session_id"], []).append((key, row))
    sessions = []
    for session_id, members in by_session.items():
        _infer_times(members)
        of_session = [row for _, row in members]
        sessions.append(_session_row(memory_id, session_id, of_session, kept.get((memory_id, session_id), ())))
    sessions.sort(key=lambda s: (s["time"] is None, s["time"] or 0, s["seq"], s["session_id"]))
    for ordinal, session in enumerate(sessions):
        session["ordinal"] = ordinal
    ordinals = {s["session_id"]: s["ordinal"] for s in sessions}
    # The total order: time, then session, then place in the source, then id (untimed sessions last).
    keyed.sort(
        key=lambda kr: (
            kr[1]["time"] is None,
            kr[1]["time"] or 0,
            ordinals[kr[1]["session_id"]],
            kr[1]["seq"],
            kr[0],
        )
    )
    events = [event for key, row in keyed for event in _events_of(key, row, config.max_tokens)]
    for position, event in enumerate(events):
        event["position"] = position
    out["events"].extend(events)
    out["sessions"].extend(sorted(sessions, key=lambda s: s["session_id"]))
    out["episodes"].extend(_episodes(memory_id, events, {s["session_id"]: s["title"] for s in sessions}, config))
    known = [row["time"] for _, row in keyed if row["time"] is not None]
    out["memories"].append(
        {
            "memory_id": memory_id,
            "num_sessions": len(sessions),
            "num_turns": len(keyed),
            "first_time": min(known, default=None),
            "last_time": max(known, default=None),
        }
    )


def _infer_times(members: list[tuple[str, dict[str, Any]]]) -> None:
    """Places turns without a time between their neighbours in the source's order; never "now".

    A session's date counts as a time only in a session none of whose turns has one of its own.
    """
    rows = [row for _, row in sorted(members, key=lambda kr: (kr[1]["seq"], kr[0]))]
    sources = {row["time_source"] for row in rows}
    known = "given" if "given" in sources else "assumed"
    timed = [i for i, row in enumerate(rows) if row["time_source"] == known]
    if not timed or len(sources) == 1:
        return
    after = 0
    for i, row in enumerate(rows):
        if row["time_source"] == known:
            continue
        while after < len(timed) and timed[after] < i:
            after += 1
        left = timed[after - 1] if after > 0 else None
        right = timed[after] if after < len(timed) else None
        if left is None or right is None:
            near = right if left is None else left
            assert near is not None
            row["time"] = rows[near]["time"]
        else:
            a, b = rows[left]["time"], rows[right]["time"]
            row["time"] = a + (b - a) * (i - left) // (right - left)
        row["time_source"] = "inferred"


def _session_row(
    memory_id: str, session_id: str, rows: list[dict[str, Any]], kept: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    stamps = [(r["session_time"], r["session_time_text"] or "") for r in rows if r["session_time"] is not None]
    titles = [r["session_title"] for r in rows if r["session_title"] is not None]
    seqs = [r["session_seq"] for r in rows if r["session_seq"] is not None]
    sources = [r["source"] for r in rows]
    for session in kept:
        if session["time_source"] == "given":
            stamps.append((session["time"], session["time_text"] or ""))
        titles += [session["title"]] if session["title"] is not None else []
        seqs.append(session["seq"])
    known = [r["time"] for r in rows if r["time"] is not None]
    time, text = min(stamps) if stamps else (min(known, default=None), None)
    return {
        "memory_id": memory_id,
        "session_id": session_id,
        "ordinal": 0,
        "time": time,
        "title": min(titles, default=None),
        "source": min(sources),
        "seq": min(seqs),
        "time_source": "given" if stamps else "inferred" if known else "missing",
        "time_text": text or None,
    }


def _events_of(key: str, row: dict[str, Any], max_tokens: int) -> list[dict[str, Any]]:
    turn_id = row["turn_id"] if row["turn_id"] is not None else f"~{key[:12]}-{row['ordinal']}"
    return [
        {
            "memory_id": row["memory_id"],
            "event_id": id_of_event(key, part),
            "session_id": row["session_id"],
            "turn_id": turn_id,
            "position": 0,
            "part": part,
            "speaker": row["speaker"],
            "role": row["role"],
            "text": text,
            "caption": row["caption"],
            "reply_to": row["reply_to"],
            "time": row["time"],
            "time_text": row["time_text"],
            "time_source": row["time_source"],
            "zone_source": row["zone_source"],
            "source": row["source"],
            "seq": row["seq"],
        }
        for part, text in enumerate(split_text(row["text"], max_tokens))
    ]


def _episodes(
    memory_id: str, events: list[dict[str, Any]], titles: dict[str, str | None], config: IngestConfig
) -> list[dict[str, Any]]:
    by_session: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_session.setdefault(event["session_id"], []).append(event)
    rows = []
    for session_id, members in by_session.items():
        runs = find_episodes(
            [e["time"] for e in members],
            [e["part"] for e in members],
            gap_min=config.episode_gap_min,
            max_turns=config.episode_max_turns,
        )
        for run in runs:
            first, last = members[run.first], members[run.last]
            rows.append(
                {
                    "memory_id": memory_id,
                    "episode_id": stable_hash("episode", first["event_id"])[:24],
                    "session_id": session_id,
                    "first": first["position"],
                    "last": last["position"],
                    "title": episode_title(titles[session_id], first["text"] or first["caption"] or ""),
                }
            )
    return sorted(rows, key=lambda r: (r["first"], r["episode_id"]))

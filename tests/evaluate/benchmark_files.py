"""Benchmark files made of `examples/` in the schemas of LoCoMo and LongMemEval; no published set is in them."""

import datetime
import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_CATEGORY = {"why": 4, "when": 2, "entity": 1, "open": 3}


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


def _sessions() -> dict[str, dict[str, list[dict[str, Any]]]]:
    made: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in _rows("conversations.jsonl"):
        made.setdefault(row["memory_id"], {}).setdefault(row["session_id"], []).append(row)
    return made


def locomo_file(path: Path, num_questions: int = 6) -> Path:
    """Three conversations, each with some questions and one that has no answer (category 5)."""
    items = []
    for memory_id, sessions in _sessions().items():
        conversation: dict[str, Any] = {}
        ids = {}
        for n, rows in enumerate(sessions.values(), 1):
            time = datetime.datetime.fromisoformat(rows[0]["time"])
            conversation[f"session_{n}_date_time"] = (
                f"{time:%I:%M} {'am' if time.hour < 12 else 'pm'} on {time:%d %B, %Y}"
            )
            conversation[f"session_{n}"] = [
                {"speaker": r.get("speaker") or r["role"], "dia_id": f"D{n}:{i}", "text": r["text"]}
                for i, r in enumerate(rows, 1)
            ]
            ids |= {r["turn_id"]: f"D{n}:{i}" for i, r in enumerate(rows, 1)}
        asked = [q for q in _rows("queries.jsonl") if q["memory_id"] == memory_id][:num_questions]
        qa = [
            {
                "question": q["question"],
                "answer": q["gold"],
                "evidence": [ids[e] for e in q["evidence"]],
                "category": _CATEGORY[q["category"]],
            }
            for q in asked
        ]
        qa.append({"question": "Which spaceship did they board?", "evidence": [], "category": 5})
        items.append({"sample_id": memory_id, "conversation": conversation, "qa": qa})
    path.write_text(json.dumps(items), encoding="utf-8")
    return path


def longmemeval_file(path: Path, num_questions: int = 4) -> Path:
    """A haystack for each of some questions: all sessions of its memory, evidence marked."""
    items = []
    for q in [q for q in _rows("queries.jsonl") if q["memory_id"] == "ana"][:num_questions]:
        sessions = _sessions()["ana"]
        items.append(
            {
                "question_id": q["query_id"],
                "question_type": "single-session-user",
                "question": q["question"],
                "answer": q["gold"],
                "question_date": "2024/12/01 (Sun) 10:00",
                "haystack_session_ids": list(sessions),
                "haystack_dates": [
                    f"{datetime.datetime.fromisoformat(rows[0]['time']):%Y/%m/%d (%a) %H:%M}"
                    for rows in sessions.values()
                ],
                "haystack_sessions": [
                    [{"role": "user", "content": r["text"], "has_answer": r["turn_id"] in q["evidence"]} for r in rows]
                    for rows in sessions.values()
                ],
            }
        )
    path.write_text(json.dumps(items), encoding="utf-8")
    return path

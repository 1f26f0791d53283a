"""A log with most turns taken away: what is left of each session stands in pieces of a turn or a few.

A ranker fitted on whole conversations leans on the turns around an event. Where it is asked about memories that hold
single remembered turns, as LongMemEval's evidence does, these are missing. So it is shown both: the conversations as
they are, and again with the evidence and a seventh of the other turns. How much is left, and that a ranker is fitted
on both, was chosen on the conversations written for this project, never on what is reported.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from magma_gpu.types import Question, Record, Turn

SHARE = 0.15


def thinned(
    records: Iterable[Record], asked: Sequence[tuple[Question, Sequence[str]]], log: Path, share: float = SHARE
) -> tuple[list[Question], list[Sequence[str]]]:
    """Writes the turns that stay to `log`, in memories named MEMORY-thin; turns need ids of their own.

    Args:
        asked: questions with the turn ids of their evidence, which all stay.
        share: of the other turns that stay, drawn from a fixed seed.

    Returns:
        the questions, asked of the thinned memories, and their evidence.
    """
    needed = {(question.memory_id, turn) for question, evidence in asked for turn in evidence}
    draw = np.random.default_rng(0)
    piece = 0
    last: tuple[str, str, int | None] | None = None
    with log.open("w", encoding="utf-8") as out:
        for turn in records:
            if not isinstance(turn, Turn):
                continue
            if (turn.memory_id, turn.turn_id) not in needed and draw.random() >= share:
                continue
            if turn.seq is None or last != (turn.memory_id, turn.session_id, turn.seq - 1):
                piece += 1
            last = (turn.memory_id, turn.session_id, turn.seq)
            row = {
                "memory_id": f"{turn.memory_id}-thin",
                "session_id": f"{turn.session_id}-{piece}",
                "turn_id": turn.turn_id,
                "role": turn.role,
                "speaker": turn.speaker,
                "text": turn.text,
                "time": turn.time or turn.session_time,
                "caption": turn.caption,
            }
            out.write(json.dumps({k: v for k, v in row.items() if v is not None}, ensure_ascii=False) + "\n")
    return [replace(q, memory_id=f"{q.memory_id}-thin") for q, _ in asked], [evidence for _, evidence in asked]

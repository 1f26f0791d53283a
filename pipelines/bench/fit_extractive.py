"""Fits the refusal threshold of the extractive engine on the questions of `examples/`, by lexical search alone.

    python pipelines/bench/fit_extractive.py

Answerable are the questions as they stand. Unanswerable are the same questions put to each other memory, with the names
of its own speakers in them. The last line of standard output is one JSON document. No benchmark is read.
"""

import dataclasses
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from magma_gpu.answer import make_tasks
from magma_gpu.config import config_from
from magma_gpu.evaluate.systems import plain_search
from magma_gpu.extractive import THRESHOLD, ExtractiveEngine, fit_threshold
from magma_gpu.memory import Memory
from magma_gpu.types import Question
from magma_pipelines.build import BuildOptions, build

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def measure(examples: Path, folder: Path) -> dict[str, Any]:
    """Fits the threshold on a folder with conversations.jsonl and queries.jsonl; `folder` is for a store."""
    config = config_from({"embed": {"encoder": "hash"}, "search": {"policy": "smooth"}})
    build([str(examples / "conversations.jsonl")], folder, config, BuildOptions(quiet=True))
    memory = Memory.open(folder, config)
    # By words alone, so that the fit does not depend on an encoder.
    memory.config = dataclasses.replace(memory.config, search=plain_search(config.search, "bm25"))
    rows = [json.loads(line) for line in (examples / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    names = {m: list(dict.fromkeys(memory.indexes([m])[0].speakers)) for m in memory.memory_ids()}
    own = [(r["question"], r["memory_id"]) for r in rows]
    foreign = [
        (_renamed(r["question"], names[r["memory_id"]], names[other]), other)
        for r in rows
        for other in names
        if other != r["memory_id"]
    ]
    yes, no = _covers(memory, own), _covers(memory, foreign)
    threshold = fit_threshold(yes, no)
    return {
        "threshold": threshold,
        "in_use": THRESHOLD,
        "answerable": len(yes),
        "unanswerable": len(no),
        "answered": round(sum(c >= threshold for c in yes) / len(yes), 4),
        "refused": round(sum(c < threshold for c in no) / len(no), 4),
    }


def _renamed(question: str, own: Sequence[str], other: Sequence[str]) -> str:
    for n, name in enumerate(own):
        new = other[n % len(other)].split()[0]
        for old in (name, name.split()[0]):
            question = re.sub(rf"\b{re.escape(old)}\b", new, question)
    return question


def _covers(memory: Memory, asked: Sequence[tuple[str, str]]) -> list[float]:
    questions = [Question(memory_id=m, query_id=str(n), question=q) for n, (q, m) in enumerate(asked)]
    found = [[e.turn_id for e in r.evidence] for r in memory.ask(questions)]
    engine = ExtractiveEngine()
    return [engine.cover(task) for task in make_tasks(memory, questions, found, 2000)]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(EXAMPLES, Path(folder) / "store")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

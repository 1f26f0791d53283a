"""Labelled questions to examples for the ranker, and the training of the weights that are shipped.

What is shipped is fitted on freely licensed data alone: conversations and questions written for this project, and,
where its file is given, the evidence turns of LongMemEval (MIT), pooled into one memory so that there are others to
tell them from.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magma_gpu import ranker
from magma_gpu.anchors import measure
from magma_gpu.config import Config, SearchConfig
from magma_gpu.errors import InputError
from magma_gpu.features import NAMES, STYLE_COLUMNS
from magma_gpu.memory import Memory
from magma_gpu.ranker import Examples, Ranker
from magma_gpu.readers import find_sources, read_source
from magma_gpu.search import candidate_features, hand_on
from magma_gpu.types import INTENTS, Question, Turn
from magma_pipelines.build import BuildOptions, build

TRAINING = Path(ranker.__file__).parent / "training"


def labelled_questions(paths: Sequence[Path]) -> tuple[list[Question], list[tuple[str, ...]]]:
    """Questions with the turn ids of their evidence, from JSONL; those without evidence are left out.

    Raises:
        InputError: a file or row cannot be read.
    """
    questions: list[Question] = []
    evidence: list[tuple[str, ...]] = []
    for path in paths:
        try:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
            for row in rows:
                if row["evidence"]:
                    questions.append(
                        Question(
                            memory_id=row["memory_id"],
                            query_id=row["query_id"],
                            question=row["question"],
                            time=row.get("time"),
                            category=row.get("category"),
                        )
                    )
                    evidence.append(tuple(row["evidence"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"'{path}' must be JSONL with memory_id, query_id, question, evidence (got: {error})."
            ) from None
    return questions, evidence


def examples(
    memory: Memory, questions: Sequence[Question], evidence: Sequence[Sequence[str]], weight: float = 1.0
) -> tuple[Examples, np.ndarray]:
    """Candidates of every question with features and labels, in the order of the questions.

    Returns:
        the examples, and the candidates' event numbers [Q, C].
    """
    settings = memory.config.search
    vectors = memory.encode([q.question for q in questions])
    count = settings.num_candidates
    x = np.zeros((len(questions), count, len(NAMES)), dtype=np.float32)
    chosen = np.full((len(questions), count), -1, dtype=np.int64)
    label = np.zeros((len(questions), count), dtype=np.float32)
    for memory_id in sorted({q.memory_id for q in questions}):
        rows = [i for i, q in enumerate(questions) if q.memory_id == memory_id]
        (index,) = indexes = memory.indexes([memory_id])
        asked = memory.analyse([questions[i] for i in rows], indexes, [0] * len(rows), vectors[rows])
        signals = measure(index, asked.query_QD, asked.terms, asked.windows, settings)
        (view,) = memory.views(indexes)
        part, made = candidate_features(index, asked, signals, hand_on(index, signals, settings), view, count)
        x[rows, : part.shape[1]] = made
        chosen[rows, : part.shape[1]] = part
        turn = np.array([*index.turn_ids, ""], dtype=object)
        for place, i in enumerate(rows):
            label[i, : part.shape[1]] = np.isin(turn[part[place]], list(evidence[i])) & (part[place] >= 0)
    return Examples(x, label, chosen >= 0, np.full(len(questions), weight, np.float32)), chosen


def pooled(longmemeval: Path, folder: Path) -> tuple[Path, Path]:
    """LongMemEval's haystacks as one memory: a log and the questions with evidence, written below `folder`."""
    log, asked = folder / "pool.jsonl", folder / "pool_questions.jsonl"
    seen: set[tuple[str, str]] = set()
    (source,) = find_sources([str(longmemeval)])
    with log.open("w", encoding="utf-8") as turns, asked.open("w", encoding="utf-8") as questions:
        for record in read_source(source, "longmemeval", memory_id=None):
            if isinstance(record, Turn):
                key = (record.session_id, record.turn_id or "")
                if key in seen:
                    continue
                seen.add(key)
                row = {
                    "memory_id": "pool",
                    "session_id": record.session_id,
                    "turn_id": record.turn_id,
                    "role": record.role,
                    "text": record.text,
                    "time": record.session_time,
                    "seq": record.seq,
                }
                turns.write(json.dumps(row, ensure_ascii=False) + "\n")
            elif isinstance(record, Question):
                made = {
                    "memory_id": "pool",
                    "query_id": record.query_id,
                    "question": record.question,
                    "category": record.category,
                    "evidence": list(record.evidence),
                }
                questions.write(json.dumps(made, ensure_ascii=False) + "\n")
    return log, asked


def free_data(longmemeval: Path | None, folder: Path) -> Iterator[tuple[str, list[Path], list[Path]]]:
    """The freely licensed sets: name, logs, questions."""
    yield "own", sorted(TRAINING.glob("conversations*.jsonl")), sorted(TRAINING.glob("conversation_queries*.jsonl"))
    if longmemeval is not None:
        log, questions = pooled(longmemeval, folder)
        yield "longmemeval_pool", [log], [questions]


def training_config(config: Config) -> Config:
    """The settings that candidates are made with: those of the shipped search."""
    return Config(
        ingest=config.ingest,
        embed=config.embed,
        link=config.link,
        extract=config.extract,
        resolve=config.resolve,
        search=SearchConfig(policy="smooth"),
        run=config.run,
    )


# Features of edges and of the intent without which the ranking lost nothing (docs/search.md): not fitted by default.
GAINLESS = frozenset(
    [f"near:{edge}" for edge in ("semantic", "causal", "entity")]
    + [f"intent:{name}" for name in INTENTS]
    + ["entity_named", "when_and_time", "why_and_cause"]
)


def columns(*, style: bool = False, every_part: bool = False) -> list[int]:
    """Features a ranker is fitted with; those of style and those that gain nothing only where they are asked for."""
    return [
        i for i, name in enumerate(NAMES) if (style or i not in STYLE_COLUMNS) and (every_part or name not in GAINLESS)
    ]


def train_ranker(config: Config, longmemeval: Path | None, out: Path | None) -> dict[str, Any]:
    """Fits the shipped ranker on the free data; returns its card."""
    parts: list[Examples] = []
    sizes: dict[str, int] = {}
    settings = training_config(config)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, logs, asked in free_data(longmemeval, folder):
            store = folder / label
            build([str(p) for p in logs], store, settings, BuildOptions(quiet=True))
            questions, evidence = labelled_questions(asked)
            made, _ = examples(Memory.open(store, settings), questions, evidence)
            parts.append(made)
            sizes[label] = len(questions)
    model: Ranker = ranker.fit(ranker.join(parts), columns())
    card = {
        "model": "three averaged networks over features of candidates, fitted listwise",
        "data": sizes,
        "licence": "fitted on data written for this project (CC0) and LongMemEval's evidence turns (MIT)",
        "features": [NAMES[i] for i in columns()],
        "scores": "docs/results/locomo_retrieval.json",
    }
    ranker.save(model, card, out or ranker.WEIGHTS)
    return card

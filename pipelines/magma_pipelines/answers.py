"""The command `answer`: a file of questions in, a file of answers out, and back into the memory where that is wanted.

Written back is what was asked and answered, as two turns of a session `asked` (the paper's equation 2), through an
ordinary build of the store; a refusal is not. The same question at the same time is written once.
"""

import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from magma_gpu.answer import Answer, Engine, make_tasks
from magma_gpu.config import Config
from magma_gpu.errors import InputError
from magma_gpu.memory import Memory
from magma_gpu.store import stable_hash, write_error
from magma_gpu.types import Question
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.queries import read_queries

SCHEMA = pa.schema(
    [
        pa.field("memory_id", pa.string(), nullable=False),
        pa.field("query_id", pa.string(), nullable=False),
        # Null where the engine failed.
        pa.field("answer", pa.string()),
        pa.field("abstained", pa.bool_(), nullable=False),
        pa.field("context_tokens", pa.int32(), nullable=False),
        pa.field("evidence", pa.list_(pa.string()), nullable=False),
        pa.field("error", pa.string()),
    ]
)
# Questions that are searched and answered as one batch.
_BATCH = 256


def answer_file(
    store: Path, queries: Path, answers: Path, config: Config, engine: Engine, *, write_back: bool = False
) -> dict[str, Any]:
    """Answers a file of questions; returns counts and the answers.

    Args:
        queries, answers: JSONL or Parquet by their ending.

    Raises:
        InputError: a file does not fit, or the engine's server answers nothing.
        StoreError: the store cannot be read, or a file not be written.
    """
    if answers.suffix not in (".jsonl", ".parquet"):
        raise InputError(f"--answers wants a name ending in .jsonl or .parquet (got '{answers}').")
    memory = Memory.open(store, config)
    questions = read_queries(queries, None, None)
    made: list[Answer] = []
    for first in range(0, len(questions), _BATCH):
        part = questions[first : first + _BATCH]
        vectors = memory.encode([q.question for q in part])
        found = [[e.turn_id for e in r.evidence] for r in memory.ask(part, vectors)]
        made += engine.answer(make_tasks(memory, part, found, memory.config.search.context_tokens, vectors))
    _write(answers, made)
    written = _write_back(memory, questions, made) if write_back else 0
    return {
        "answered": sum(a.answer is not None and not a.abstained for a in made),
        "abstained": sum(a.abstained for a in made),
        "failed": sum(a.answer is None for a in made),
        "written_back": written,
        "answers": [a.to_json() for a in made],
    }


def _write(path: Path, answers: Sequence[Answer]) -> None:
    rows = [{f.name: a.to_json()[f.name] for f in SCHEMA} for a in answers]
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary, compression="zstd")
        else:
            with temporary.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _write_back(memory: Memory, questions: Sequence[Question], answers: Sequence[Answer]) -> int:
    rows = []
    for question, answer in zip(questions, answers, strict=True):
        if answer.answer is None or answer.abstained:
            continue
        name = stable_hash(question.memory_id, question.question, str(question.time))[:12]
        shared = {"memory_id": question.memory_id, "session_id": "asked"}
        if question.time is not None:
            shared["time"] = str(question.time)
        rows.append(shared | {"turn_id": f"asked-{name}-q", "role": "user", "text": question.question})
        rows.append(shared | {"turn_id": f"asked-{name}-a", "role": "assistant", "text": answer.answer})
    if not rows:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "asked.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        config = dataclasses.replace(memory.config)
        report = build([str(path)], memory.store.root, config, BuildOptions(format="jsonl", quiet=True))
    return report.ingest.new

"""Question files in, result files out: JSONL or Parquet by the file's ending."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from magma_gpu.errors import InputError
from magma_gpu.results import Result
from magma_gpu.schema import TABLES
from magma_gpu.store import read_parquet, write_error
from magma_gpu.types import Question
from magma_pipelines.progress import progress

if TYPE_CHECKING:
    from magma_gpu.memory import Memory

# Questions asked at once: enough to fill a device, few enough that the bar moves.
_BATCH = 1024
_FIELDS = ("memory_id", "query_id", "question")


def ask_all(memory: "Memory", questions: Sequence[Question], *, quiet: bool) -> list[Result]:
    """Asks a file of questions, with a bar on a terminal; results come in the order of the questions.

    Raises:
        InputError: a question names no memory of the store, or a time that cannot be read.
    """
    # A wrong name is found before the first question is answered.
    for memory_id in {q.memory_id for q in questions}:
        memory.require(memory_id)
    # Questions to one memory come together, so that it is opened once.
    order = sorted(range(len(questions)), key=lambda i: questions[i].memory_id)
    results: dict[int, Result] = {}
    with progress("query", len(questions), quiet=quiet, unit="question") as shown:
        for first in range(0, len(order), _BATCH):
            rows = order[first : first + _BATCH]
            results |= zip(rows, memory.ask([questions[i] for i in rows]), strict=True)
            shown.step(len(rows))
    return [results[i] for i in range(len(questions))]


def read_queries(path: Path, memory_id: str | None, as_of: str | None) -> list[Question]:
    """Reads questions: `memory_id, query_id, question`, optional `time` (as of).

    Args:
        memory_id: for rows that name none.
        as_of: for rows without a time.

    Raises:
        InputError: the file is missing, or a row does not fit; the row is named.
    """
    rows = _rows(path)
    if not rows:
        raise InputError(f"'{path}' holds no question; one a line is wanted, with {', '.join(_FIELDS)}.")
    questions = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(
                f"'{path}', row {number}: an object with {', '.join(_FIELDS)} is wanted (got {str(row)[:60]})."
            )
        values = {
            "memory_id": row.get("memory_id", memory_id),
            "query_id": row.get("query_id", str(number)),
            "question": row.get("question"),
        }
        for name, value in values.items():
            if isinstance(value, int) and not isinstance(value, bool) and name != "question":
                values[name] = value = str(value)
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"'{path}', row {number}: {name} must be a text that is not empty (got {value!r}).")
        time: Any = row.get("time", as_of)
        if hasattr(time, "isoformat"):
            time = time.isoformat()
        questions.append(
            Question(
                memory_id=str(values["memory_id"]),
                query_id=str(values["query_id"]),
                question=str(values["question"]),
                time=time if time is not None else as_of,
            )
        )
    return questions


def _rows(path: Path) -> list[Any]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"The questions '{path}' do not exist; give a JSONL or Parquet file.") from None
    except OSError as error:
        raise InputError(f"The questions '{path}' cannot be read: {error.strerror}.") from None
    if data[:4] == b"PAR1":
        try:
            rows: list[Any] = read_parquet(data).to_pylist()
        except pa.ArrowException as error:
            raise InputError(f"'{path}' is a damaged Parquet file: {error}.") from None
        return rows
    rows = []
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"'{path}' is neither Parquet nor JSONL in UTF-8.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                raise InputError(f"'{path}', line {number} is not JSON (got {line.strip()[:60]!r}).") from None
    return rows


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Writes results whole or not at all: JSONL with everything, or Parquet as the table `results`.

    Raises:
        StoreError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix == ".parquet":
            pq.write_table(results_table(results), temporary, compression="zstd")
        else:
            with temporary.open("w", encoding="utf-8") as file:
                for result in results:
                    file.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def results_table(results: Sequence[Result]) -> pa.Table:
    """Results in the schema of the table `results`, one row an event."""
    rows = [
        {
            "memory_id": result.memory_id,
            "query_id": result.query_id,
            "rank": rank,
            "event_id": e.event_id,
            "score": e.score,
            "hop": e.hop,
            "path": [{"node": node, "edge_type": kind} for node, kind in e.path],
            "signals": [(name, float(value)) for name, value in e.signals.items()],
            "intent": result.main_intent,
            "truncated": result.truncated,
        }
        for result in results
        for rank, e in enumerate(result.evidence, 1)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["results"])

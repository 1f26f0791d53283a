"""The inputs of the shared cases, read where they lie, and stores made of them by the hash encoder.

It checks nothing, and copies nothing of a case into the checkout: rows go into a test's own folder.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from magma_gpu.config import config_from
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.build import BuildOptions, BuildReport, build

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases"


def all_cases() -> dict[str, dict[str, Any]]:
    """Every case by its id; skips the test where the cases are not beside the checkout."""
    path = CASES / "cases.jsonl"
    if not path.exists():
        pytest.skip("the shared cases are not beside the checkout")
    return {c["id"]: c for c in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def case_input(name: str) -> Any:
    return all_cases()[name]["input"]


def case_file(name: str) -> Path:
    """A file beside the cases."""
    all_cases()
    return CASES / name


def generated(what: str, folder: Path) -> Path:
    """Runs the generator of the cases; returns the folder it wrote to."""
    all_cases()
    subprocess.run([sys.executable, str(CASES / "make_inputs.py"), what, str(folder)], check=True)
    return folder


def jsonl(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def made(out: Path, *inputs: Path, config: dict[str, dict[str, Any]] | None = None, **options: Any) -> BuildReport:
    """Builds a store, and asserts that it verifies and that no turn is unaccounted for."""
    settings = config_from({"embed": {"encoder": "hash"}, "run": {"device": "cpu"}} | (config or {}))
    report = build(list(map(str, inputs)), out, settings, BuildOptions(quiet=True, **options))
    assert not report.failed, report.failed[0].trace
    assert report.ingest.balanced()
    found = verify(Store(out))
    assert found.clean, found.problems
    return report


def table(out: Path, name: str) -> pa.Table:
    """A whole table of a store, its times as microseconds."""
    store = Store(out)
    read = pa.concat_tables([store.read_table(e, name) for _, e in sorted(store.open().tables[name].items())])
    for at, field in enumerate(read.schema):
        if pa.types.is_timestamp(field.type):
            read = read.set_column(at, field.name, read[field.name].cast(pa.int64()))
    return read


def rows(out: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(out, name).to_pylist()
    return found


def answered(out: Path, question: str, memory_id: str | None = None) -> Any:
    """What the engine without a model says to one question, over a store's own search."""
    from magma_gpu.answer import make_tasks
    from magma_gpu.extractive import ExtractiveEngine
    from magma_gpu.memory import Memory
    from magma_gpu.types import Question

    memory = Memory.open(out)
    asked = [Question(memory_id=memory.require(memory_id), query_id="1", question=question)]
    found = [[e.turn_id for e in r.evidence] for r in memory.ask(asked)]
    return ExtractiveEngine().answer(make_tasks(memory, asked, found, 2000))[0]

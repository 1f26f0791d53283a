"""What the tests of builds share: a small log, a way to build it, and what must be equal between two stores."""

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from magma_gpu.config import Config, config_from
from magma_pipelines.build import BuildOptions, BuildReport, build
from magma_pipelines.runner import Runner

ROOT = Path(__file__).resolve().parents[2]


def bench(name: str) -> ModuleType:
    """A script of pipelines/bench as a module."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / "pipelines" / "bench" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CRASH = bench("crash")


def config(**sections: dict[str, Any]) -> Config:
    """The hash encoder, four shards, on the CPU, with sections over it."""
    base: dict[str, dict[str, Any]] = {
        "ingest": {"num_shards": 4},
        "embed": {"encoder": "hash"},
        "run": {"device": "cpu", "max_attempts": 2},
    }
    for name, section in sections.items():
        base[name] = base.get(name, {}) | section
    return config_from(base)


def make(
    inputs: Sequence[Path],
    out: Path,
    settings: Config | None = None,
    runner: Runner | None = None,
    **options: Any,
) -> BuildReport:
    """Builds without a word."""
    chosen = BuildOptions(**({"quiet": True} | options))
    report = build([str(p) for p in inputs], out, settings or config(), chosen, runner)
    assert not report.failed, report.failed[0].trace
    return report


def content(root: Path) -> dict[str, bytes]:
    """Every Parquet file and the manifest."""
    found: dict[str, bytes] = CRASH.store_bytes(root)
    return found


def rows(root: Path) -> dict[str, list[str]]:
    """Every row of every table as text, sorted, without regard to shards."""
    import pyarrow.parquet as pq

    found: dict[str, list[str]] = {}
    for table, shards in json.loads((root / "manifest.json").read_bytes())["tables"].items():
        made = [repr(row) for entry in shards.values() for row in pq.read_table(root / entry["file"]).to_pylist()]
        found[table] = sorted(made)
    return found


def only_file(root: Path, table: str, shard: int) -> Path:
    """The file of a shard that counts."""
    document = json.loads((root / "manifest.json").read_bytes())
    return root / document["tables"][table][f"{shard:05d}"]["file"]


def ready() -> None:
    """Called in every Ray worker of a test; importing this module has already made it log and die."""


def log_shares() -> None:
    """Called in every Ray worker of a test: each stage logs what its actor holds of the machine."""
    import ray

    from magma_pipelines.worker import Worker

    stage = Worker._stage

    def logged(self: Any, task: Any) -> Any:
        CRASH._log("share", [task.stage, ray.get_runtime_context().get_assigned_resources()])
        return stage(self, task)

    Worker._stage = logged  # type: ignore[method-assign]

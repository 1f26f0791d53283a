"""C35: workers that die, and attempts that end late. Nothing is lost, nothing counts twice, and the others go on."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import crash_stores as stores
import pytest

from magma_gpu.config import Config
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.local_runner import LocalRunner
from magma_pipelines.runner import Then
from magma_pipelines.tasks import Outcome, Task
from magma_pipelines.worker import Worker

SETTINGS = ["--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--device", "cpu", "--quiet"]
SETTINGS += ["--set", "run.num_workers=2", "--set", "run.max_attempts=2"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "a.jsonl"
    stores.CRASH.write_log(path, 120, 1)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Path:
    out = tmp_path_factory.mktemp("reference") / "store"
    stores.make([log], out)
    return out


@pytest.mark.parametrize("when", ["exit-before", "exit-after"])
def test_worker_that_dies_once_changes_nothing(tmp_path: Path, log: Path, reference: Path, when: str) -> None:
    out = tmp_path / "out"
    point = f"{when}:embed:2:{tmp_path / 'marker'}"
    assert stores.CRASH.run_build([str(log), *SETTINGS, "--out", str(out)], tmp_path / "log", point) == 0
    assert (tmp_path / "marker").exists()
    tries = [w for w in stores.CRASH.work_of(tmp_path / "log")["stage"] if w == ["embed", 2]]
    assert len(tries) == 2
    assert stores.content(out) == stores.content(reference)


def test_worker_that_always_dies_is_named_and_the_rest_is_kept(tmp_path: Path, log: Path, reference: Path) -> None:
    out = tmp_path / "out"
    arguments = [str(log), *SETTINGS, "--out", str(out)]
    assert stores.CRASH.run_build(arguments, tmp_path / "log", "exit-always:embed:2:-", allowed=[1]) == 1
    failure = json.loads((out / "failed" / "embed" / "shard-00002.json").read_text())
    assert failure["attempts"] == 2
    assert "ended with code 1" in failure["error"]
    done = json.loads((out / "manifest.json").read_bytes())["tables"]
    assert sorted(done["vectors"]) == ["00000", "00001", "00003"]
    assert sorted(done["events"]) == ["00000", "00001", "00002", "00003"]
    assert len(stores.rows(out)["events"]) == len(stores.rows(reference)["events"])
    # Once the cause is gone, the same command does what is missing and nothing else.
    assert stores.CRASH.run_build(arguments, tmp_path / "again") == 0
    again = stores.CRASH.work_of(tmp_path / "again")
    assert {shard for _, shard in again["stage"]} == {2}
    assert ["embed", 2] in again["stage"]
    assert "reduce" not in again
    assert stores.content(out) == stores.content(reference)
    assert not list((out / "failed").rglob("*.json"))


class _Recorder(LocalRunner):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[Task] = []

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        self.tasks += tasks

        def note(outcome: Outcome) -> Sequence[Task]:
            following = then(outcome)
            self.tasks += following
            return following

        return super().run(root, config, tasks, note)


def test_late_attempts_count_for_nothing(tmp_path: Path, log: Path) -> None:
    """A first attempt that ends after its retry, after the commit, and after the next build."""
    new = tmp_path / "b.jsonl"
    stores.CRASH.write_log(new, 60, 1)
    out, recorder = tmp_path / "out", _Recorder()
    stores.make([new], out, runner=recorder)
    committed = stores.content(out)
    stages = [t for t in recorder.tasks if t.stage in ("embed", "link", "extract", "resolve")]
    assert len(stages) == 16
    worker = Worker(str(out), stores.config())
    for task in stages:
        worker.run(task)
    assert stores.content(out) == committed
    stores.make([log], out)
    counting = {e.file for t in Store(out).open().tables.values() for e in t.values()}
    # What a late attempt reads is gone by now, or its file is one that nothing names.
    for task in stages:
        try:
            worker.run(task)
        except Exception as error:
            assert "missing" in str(error)  # noqa: PT017
    assert {e.file for t in Store(out).open().tables.values() for e in t.values()} == counting
    assert verify(Store(out)).clean
    stores.make([log, new], out)
    stores.make([new, log], tmp_path / "fresh")
    assert stores.content(out) == stores.content(tmp_path / "fresh")


def test_every_turn_is_there_once(reference: Path, log: Path) -> None:
    import pyarrow.parquet as pq

    document = json.loads((reference / "manifest.json").read_bytes())["tables"]["events"]
    ids = [i for e in document.values() for i in pq.read_table(reference / e["file"])["event_id"].to_pylist()]
    assert len(ids) == len(set(ids))
    counted = json.loads((reference / "ledger.json").read_bytes())["runs"][-1]["turns"]
    assert counted["in"] == sum(1 for line in log.read_text().splitlines() if line)
    assert counted["in"] == counted["new"] + counted["unchanged"] + counted["duplicates"] + counted["rejected"]

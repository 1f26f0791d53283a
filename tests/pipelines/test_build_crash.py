"""A build that is killed anywhere and run again ends in the same bytes, and does nothing twice."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import crash_stores as stores
import pytest

from magma_gpu.config import Config
from magma_pipelines import schedule
from magma_pipelines.local_runner import LocalRunner
from magma_pipelines.runner import Then
from magma_pipelines.tasks import Outcome, Task

SETTINGS = ["--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("logs")
    old, new = folder / "a.jsonl", folder / "b.jsonl"
    stores.CRASH.write_log(old, 120, 1)
    stores.CRASH.write_log(new, 120, 2)
    return old, new


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, logs: tuple[Path, Path]) -> Path:
    out = tmp_path_factory.mktemp("reference") / "reference"
    arguments = [str(p) for p in logs]
    assert stores.CRASH.run_build([*arguments, *SETTINGS, "--out", str(out)], out.with_suffix(".log")) == 0
    return out


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory, logs: tuple[Path, Path]) -> Path:
    out = tmp_path_factory.mktemp("before") / "before"
    stores.make(logs[:1], out)
    return out


@pytest.mark.parametrize(
    ("point", "begins_with_store"),
    [
        ("before-swap", False),
        ("during-swap", True),
        ("after-swap", True),
        # Half-way through the spilled rows, the ingest tables and the later stages.
        ("written:1", True),
        ("write:20", False),
        ("written:45", True),
    ],
)
def test_killed_build_ends_in_the_same_bytes(
    tmp_path: Path, logs: tuple[Path, Path], reference: Path, before: Path, point: str, begins_with_store: bool
) -> None:
    begin = before if begins_with_store else None
    arguments = [*map(str, logs), *SETTINGS]
    found = stores.CRASH.check_kill(tmp_path / "run", arguments, reference, begin, point, None)
    assert found["killed"]
    assert found["identical"]
    assert found["finished_made_again"] == found["texts_again"] == found["read_again"] == 0
    assert found["left_over"] == []


def test_the_check_sees_work_done_twice(tmp_path: Path, logs: tuple[Path, Path], reference: Path) -> None:
    """A store whose finished vectors are taken away before it goes on must be noticed by the text log."""
    out = tmp_path / "out"
    arguments = [*map(str, logs), *SETTINGS, "--out", str(out)]
    stores.CRASH.run_build(arguments, tmp_path / "first.log", "before-swap")
    done, texts = stores.CRASH.finished(out, reference)
    assert ("embed", 0) in done
    for file in (out / "vectors").iterdir():
        file.unlink()
    stores.CRASH.run_build(arguments, tmp_path / "second.log")
    assert set(stores.CRASH.work_of(tmp_path / "second.log")["text"]) & texts
    assert stores.content(out) == stores.content(reference)


def test_builds_in_any_order_and_split_are_one_build(tmp_path: Path, logs: tuple[Path, Path], reference: Path) -> None:
    wanted = stores.content(reference)
    for name, steps in {
        "a-b": [logs[:1], logs[1:]],
        "b-a": [logs[1:], logs[:1]],
        "ba": [(logs[1], logs[0])],
        "ab-a": [logs, logs[:1]],
    }.items():
        for step in steps:
            stores.make(step, tmp_path / name)
        assert stores.content(tmp_path / name) == wanted, name


def test_a_build_killed_before_it_was_ingested_has_no_effect(tmp_path: Path, logs: tuple[Path, Path]) -> None:
    """Half of a log never gets in by way of what a killed build left."""
    out = tmp_path / "out"
    stores.CRASH.run_build([str(logs[0]), *SETTINGS, "--out", str(out)], tmp_path / "log", "written:20")
    stores.make(logs[1:], out)
    stores.make(logs[1:], tmp_path / "alone")
    assert stores.content(out) == stores.content(tmp_path / "alone")


class _Interrupted(LocalRunner):
    """Stops after some outcomes of a stage, as Ctrl-C does."""

    def __init__(self, stage: str, number: int) -> None:
        super().__init__()
        self.stage, self.left = stage, number

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        for outcome in super().run(root, config, tasks, then):
            yield outcome
            self.left -= outcome.stage == self.stage
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize(("stage", "number", "is_in"), [("ingest", 3, False), ("ingest", 4, True), ("embed", 2, True)])
def test_logs_count_once_all_shards_are_ingested(
    tmp_path: Path, logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, stage: str, number: int, is_in: bool
) -> None:
    monkeypatch.setattr(schedule, "_SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(schedule, "_SAVE_SHARE", 0)
    with pytest.raises(KeyboardInterrupt):
        stores.make(logs[:1], tmp_path / "out", runner=_Interrupted(stage, number))
    stores.make(logs[1:], tmp_path / "out")
    stores.make(logs if is_in else logs[1:], tmp_path / "fresh")
    assert stores.content(tmp_path / "out") == stores.content(tmp_path / "fresh")


def test_changed_log_is_read_again_after_a_kill(tmp_path: Path, logs: tuple[Path, Path]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(logs[0].read_bytes())
    out = tmp_path / "out"
    stores.CRASH.run_build([str(log), *SETTINGS, "--out", str(out)], tmp_path / "x", "written:3")
    assert list((out / ".spill").glob("*.json"))
    log.write_bytes(logs[1].read_bytes())
    stamp = logs[0].stat()
    os.utime(log, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    stores.make([log], out)
    stores.make([log], tmp_path / "alone")
    assert stores.content(out) == stores.content(tmp_path / "alone")

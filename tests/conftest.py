"""Fixtures for the tests of the core: the store of `examples/`, made once."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Ran, exit_code

# Threads of small products wait for each other longer than they work; processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def examples_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of `examples/conversations.jsonl` by the hash encoder. Tests read it; those that change it copy it."""
    from magma_gpu.config import config_from
    from magma_pipelines.build import BuildOptions, build

    out = tmp_path_factory.mktemp("examples") / "store"
    config = config_from({"embed": {"encoder": "hash"}, "run": {"device": "cpu"}})
    report = build([str(ROOT / "examples" / "conversations.jsonl")], out, config, BuildOptions(quiet=True))
    assert not report.failed
    return out


@pytest.fixture(scope="session")
def cases_folder() -> Path:
    folder = SHARED / "cases"
    if not (folder / "make_inputs.py").exists():
        pytest.skip("needs the shared cases")
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("needs the shared data")
    return folder


@pytest.fixture
def store(examples_store: Path, tmp_path: Path) -> Path:
    """A copy of the store of `examples/` that a test may change."""
    return shutil.copytree(examples_store, tmp_path / "store")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command of `magma-gpu` in this process."""

    def command(*arguments: object) -> Ran:
        capfd.readouterr()
        code = exit_code(arguments)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return command

"""The contract with users, in processes of their own: what is imported, signals, pipes, encodings."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import HASH, LOG, Ran, refused, tree

HEAVY = ("torch", "sentence_transformers", "transformers", "faiss", "torch_geometric")


# ------------------------------------------------------------------------------------------------- real processes


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "magma_pipelines", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def imported_by(*arguments: object) -> set[str]:
    """Which heavy packages a command imports, in a process of its own."""
    code = (
        "import sys\nfrom magma_pipelines.cli import main\n"
        "try:\n    code = main(sys.argv[1:])\nexcept SystemExit as e:\n    code = e.code or 0\n"
        f"print(code, *[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    last = ran.stderr.splitlines()[-1].split()
    assert last[0] == "0", ran.stderr
    return set(last[1:])


@pytest.mark.parametrize("command", ["status", "memories", "verify", "--help"])
def test_commands_that_look_at_a_store_import_no_torch(examples_store: Path, command: str) -> None:
    assert imported_by(command, *([examples_store] if command != "--help" else [])) == set()


def test_a_build_with_nothing_to_do_loads_no_model(store: Path) -> None:
    assert imported_by("build", LOG, "--out", store, *HASH) == set()


def test_a_whole_run_in_processes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    built = process("build", LOG, "--out", out, "--json", *HASH)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    assert json.loads(built.stdout.splitlines()[-1])["turns"]["new"] == 239
    missing = process("build", tmp_path / "none.jsonl", "--out", out, *HASH)
    assert refused(Ran(missing.returncode, missing.stdout, missing.stderr))


def test_output_in_a_small_encoding(examples_store: Path) -> None:
    ran = process(
        *("query", examples_store, "What is the name of the new apprentice?", "--memory", "ana", "--json"),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0
    assert json.loads(ran.stdout.splitlines()[-1])["results"]


def test_ctrl_c_ends_with_130(store: Path, tmp_path: Path) -> None:
    before = tree(store)
    path = tmp_path / "long.jsonl"
    rows = (
        json.dumps({"memory_id": "long", "turn_id": str(i), "text": f"Text {i}, yesterday."}) for i in range(100_000)
    )
    path.write_text("\n".join(rows))
    command = [sys.executable, "-m", "magma_pipelines", "build", str(path), "--out", str(store), *HASH]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2.5)
    assert running.poll() is None, running.communicate()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted" in err
    # Nothing that was committed is lost.
    assert {k: v for k, v in tree(store).items() if k in before} == before
    ran = process("verify", store)
    assert ran.returncode == 0, ran.stdout


def test_whoever_reads_may_leave(examples_store: Path) -> None:
    command = f"{sys.executable} -m magma_pipelines memories {examples_store} --json | true"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in ran.stderr
    assert "Exception" not in ran.stderr

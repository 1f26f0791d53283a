"""The script for a CUDA machine, tried on the CPU with little to do: its steps run, and a failing one is
told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().with_name("run_on_device.sh")


def run(out: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    # One thread: what is timed here is not looked at, and threads that wait for one another take long.
    fixed = {"OUT": str(out), "PYTHON": sys.executable, "DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    environment = os.environ | fixed | variables
    return subprocess.run(
        ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False, timeout=240
    )


def test_steps_run_and_leave_their_results(tmp_path):
    pytest.importorskip("numba")
    done = run(tmp_path, TESTS="tests/kernels/test_kernel_backend.py", BENCH="--quick --op semantic_link")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "performance.json").read_text())
    assert report["machine"]["device"] == "cpu"
    assert report["ops"]["semantic_link"]["tests"] == "passed"
    assert {path.name for path in tmp_path.glob("*.log")} == {"versions.log", "parity.log", "bench.log"}
    last = (tmp_path / "bench.log").read_text().strip().splitlines()[-1]
    assert json.loads(last) == report


def test_failing_step_is_told_and_the_others_run(tmp_path):
    done = run(tmp_path, TESTS="tests/kernels/no_such_test.py", BENCH="--help")
    assert done.returncode == 1
    assert "failed: parity" in done.stdout
    assert "== bench: ok" in done.stdout

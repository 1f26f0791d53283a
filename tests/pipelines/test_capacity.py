"""The capacity model: its arithmetic on round numbers, and its comparison with builds."""

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "pipelines" / "bench"
COSTS = {
    "cpu_us_a_turn": {"read": 50.0, "link": 10.0, "embed": 1000.0, "resolve": 40.0},
    "bytes_a_turn": {"events": 100.0, "vectors": 300.0, "extracts": 20.0},
    "bytes_of_log_a_turn": 200.0,
    "files_a_shard": 15,
    "manifest_bytes_a_file": 300,
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(BENCH))
    yield BENCH
    for name in ("capacity", "performance", "throughput"):
        sys.modules.pop(name, None)


def test_a_plan_by_hand(bench: Path) -> None:
    import capacity

    made = capacity.plan(COSTS, 10**8, 2, 1e6)
    # 50 + 6 x 10 + 40 microseconds of a core; the encoder's are the GPU's: 43.05 tokens at a million a second.
    assert made["core_hours"] == pytest.approx(10**8 * 150e-6 / 3600, abs=0.1)
    assert made["gpu_hours"] == pytest.approx(10**8 * 43.046e-6 / 3600, abs=0.1)
    # 16 cores beside each of two GPUs do the rest faster than these encode.
    assert made["hours"] == pytest.approx(0.6, abs=0.01)
    # Vectors of 384 numbers in place of 64.
    assert made["store_tb"] == pytest.approx(10**8 * (420 + 1280) / 1e12, abs=1e-3)
    # The log and its rows, the tables, and what is read again.
    assert made["moved_tb"] == pytest.approx(10**8 * (600 + 1700 + 400 + 1580 + 20) / 1e12, abs=1e-3)
    assert (made["shards"], made["files"], made["manifest_mb"]) == (2048, 30720, 9.2)


def test_the_smallest_build_of_a_runner_tells_the_start(bench: Path, tmp_path: Path) -> None:
    import capacity

    runs = [
        {"turns": 1000, "runner": "local", "cpu_seconds": 3.1, "bytes_of_store": 420_000},
        {"turns": 11_000, "runner": "local", "cpu_seconds": 14.0, "bytes_of_store": 4_000_000},
        {"turns": 11_000, "runner": "old", "bytes_of_store": 4_000_000},
    ]
    (tmp_path / "throughput.json").write_text(json.dumps({"runs": runs}))
    first, second = capacity.check(COSTS, tmp_path / "throughput.json")
    assert first["start_taken_from_it"]
    assert second["cpu_s"] == {"predicted": 14.1, "measured": 14.0}
    assert second["bytes_off_by"] == pytest.approx(0.155)


def test_sections_are_merged(bench: Path, tmp_path: Path) -> None:
    import performance

    out = tmp_path / "performance.json"
    performance.merge(None, "link", {"a": 1})
    performance.merge(out, "link", {"a": 1})
    performance.merge(out, "link", {"b": 2})
    performance.merge(out, "encode", {"c": 3})
    performance.merge(out, "encode", {"d": 4})
    assert json.loads(out.read_text()) == {"link": {"a": 1, "b": 2}, "encode": {"d": 4}}

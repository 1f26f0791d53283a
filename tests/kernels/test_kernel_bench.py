"""The benchmark: what fails is not timed, implementations take turns, and the last line is the JSON
document."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "kernels" / "bench" / "bench.py"
    spec = importlib.util.spec_from_file_location("kernel_bench", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel_bench"] = module
    spec.loader.exec_module(module)
    return module


def test_failing_kernel_is_not_timed(bench, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "tests_pass", lambda op, device: op == "semantic_link")
    monkeypatch.setattr(bench, "bench_beam", lambda device, quick: pytest.fail("it was timed"))
    monkeypatch.setattr(bench, "bench_link", lambda device, quick: {"timings": []})
    out = tmp_path / "performance.json"
    assert bench.main(["--quick", "--out", str(out)]) == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["ops"]["beam_search"] == {"tests": "failed"}
    assert report["ops"]["semantic_link"] == {"tests": "passed", "timings": []}
    assert not out.exists()


def test_document_is_written_and_printed(bench, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "tests_pass", lambda op, device: True)
    monkeypatch.setattr(bench, "bench_link", lambda device, quick: {"timings": []})
    out = tmp_path / "performance.json"
    assert bench.main(["--op", "semantic_link", "--out", str(out)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report == json.loads(out.read_text())
    assert report["machine"]["torch"] == torch.__version__


def test_implementations_take_turns(bench):
    calls = []
    runners = [bench.Runner(name, lambda name=name: calls.append(name), 10) for name in ("a", "b")]
    timings = bench.take_turns("op", "case", "items", runners, CPU, 2)
    # The first call of each is not counted.
    assert calls == ["a", "b"] * 3
    assert [(t.implementation, t.repeats, t.items) for t in timings] == [("a", 2, 10), ("b", 2, 10)]


def test_ratios_are_of_items_a_second(bench):
    def timing(name: str, items: int, seconds: float) -> object:
        return bench.Timing("op", "case", name, items, "items", seconds, seconds, seconds, seconds, 1)

    timings = [timing("reference", 10, 1.0), timing("numba", 100, 0.5), timing("oracle", 1, 1.0)]
    assert bench.ratios(timings) == [
        {"case": "case", "over": "reference", "ratio": 20.0},
        {"case": "case", "over": "oracle", "ratio": 200.0},
    ]

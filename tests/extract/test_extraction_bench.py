"""The measurement of the extraction rules, run where the data lie beside the checkout."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / ".." / "shared" / "data"


def _bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("extraction_bench", ROOT / "pipelines" / "bench" / "extraction.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_intervals() -> None:
    share = _bench().share
    none = share(0, 0, "x")
    assert (none["value"], none["low"], none["high"]) == (None, None, None)
    # Wilson, 8 of 10, worked out by hand.
    some = share(8, 10, "x")
    assert (some["value"], some["low"], some["high"]) == (0.8, 0.4902, 0.9433)


def test_the_rules_reach_what_is_promised(tmp_path: Path) -> None:
    if not (DATA / "causal").is_dir() or not (DATA / "locomo" / "locomo10.json").is_file():
        pytest.skip("needs the folders causal and locomo of the shared data beside the checkout")
    out = tmp_path / "extraction.json"
    assert _bench().main(["--data", str(DATA), "--out", str(out)]) == 0
    rules = json.loads(out.read_text(encoding="utf-8"))["rules"]
    assert rules["causal_precision_explicit"]["value"] >= 0.8
    assert rules["locomo_nicknames"]["resolved"]["value"] >= 0.95
    assert rules["locomo_nicknames"]["precision"]["value"] >= 0.95
    stored = json.loads((ROOT / "docs" / "results" / "extraction.json").read_text(encoding="utf-8"))["rules"]
    # What is published is what the code gives; only the speed may differ.
    assert {k: v for k, v in stored.items() if "cpu_s" not in k} == {k: v for k, v in rules.items() if "cpu_s" not in k}

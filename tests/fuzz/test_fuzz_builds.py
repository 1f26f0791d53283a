"""Broken logs, whole builds: no turn is lost, every store verifies, and nothing raises but a MagmaError."""

import importlib.util
import json
import random
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BENCH = Path(__file__).resolve().parents[2] / "pipelines" / "bench"


def _load(name: str) -> ModuleType:
    """A script of pipelines/bench as the module that its neighbours import."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


forms, broken, commands, fuzz = map(_load, ("log_forms", "broken_logs", "broken_commands", "fuzz_readers"))
# A seed is what a failure is named by: `fuzz_readers.py --builds 1 --seed N` runs it again.
SEEDS = st.integers(0, 1 << 30)


def _build(seed: int, form: str, *, by_content: bool) -> str:
    log = broken.broken_log(random.Random(seed), form)
    with tempfile.TemporaryDirectory() as folder:
        outcome: str = fuzz.build_log(Path(folder), log, by_content=by_content)
    return outcome


@pytest.mark.parametrize("form", ["jsonl", "openai", "locomo", "whatsapp", "csv"])
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=SEEDS, by_content=st.booleans())
def test_a_broken_log_never_breaks_a_build(form: str, seed: int, by_content: bool) -> None:
    assert _build(seed, form, by_content=by_content) in fuzz.OUTCOMES[:-1]


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=SEEDS, form=st.sampled_from(sorted(forms.FORMS)))
def test_nor_does_one_of_any_other_form(seed: int, form: str) -> None:
    assert _build(seed, form, by_content=True) in fuzz.OUTCOMES[:-1]


def test_commands_end_as_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    report = commands.run_commands(3, 1, 60.0)
    assert (report["commands"], report["forked"], report["crashes"]) == (3, 0, [])
    assert set(report["exit_codes"]) <= {"0", "2"}
    # It goes on behind what was done, and sees a command that breaks.
    monkeypatch.setattr(commands.sys, "executable", "/bin/false")
    again = commands.run_commands(4, 1, 60.0, report)
    assert (again["commands"], len(again["crashes"])) == (4, 1)


def test_readers_take_what_comes() -> None:
    report = fuzz.run_readers(600, 7_000_000)
    assert report["crashes"] == []
    assert report["slow"] == []
    # The generator is worth something: valid logs are read whole, and faults lead to every outcome.
    assert report["unbroken"] > 50
    assert report["by_fault"]["none"]["read"] == report["unbroken"]
    seen = {name for counts in report["by_reader"].values() for name, count in counts.items() if count}
    assert seen == set(fuzz.OUTCOMES) - {"crash"}


@pytest.mark.parametrize("form", sorted(forms.FORMS))
def test_logs_without_a_fault_are_told_by_content(form: str, tmp_path: Path) -> None:
    found = 0
    for seed in range(40):
        log = broken.broken_log(random.Random(seed), form)
        if log.faults:
            continue
        path = tmp_path / f"{seed}" / log.name
        path.parent.mkdir()
        path.write_bytes(log.data)
        assert fuzz.detect_format(fuzz.Source(path, log.name)) == form
        found += 1
    assert found


def test_the_check_sees_a_lost_turn_and_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def loses(*args: object, **more: object) -> list[object]:
        return list(read(*args, **more))[1:]

    def raises(*args: object, **more: object) -> list[object]:
        raise KeyError("content")

    read = fuzz.read_source
    monkeypatch.setattr(fuzz, "read_source", loses)
    assert {c["error"][:9] for c in fuzz.run_readers(40, 0)["crashes"]} == {"Assertion"}
    monkeypatch.setattr(fuzz, "read_source", raises)
    assert len(fuzz.run_readers(10, 0)["crashes"]) == 10


def test_a_tree_whose_parent_is_no_name_is_read(tmp_path: Path) -> None:
    """Found by these logs: what stands for the name of a node may be anything."""
    node = {"id": "a", "parent": ["r"], "children": [], "message": {"author": {"role": "user"}, "content": "hi"}}
    path = tmp_path / "log.json"
    path.write_text(json.dumps([{"id": "c", "mapping": {"a": node, "b": {**node, "parent": {}}}}]))
    (turn, reject) = fuzz.read_source(fuzz.Source(path, "log.json"), "chatgpt", memory_id=None)
    assert (turn.text, reject.reason) == ("hi", "abandoned branch")


def test_what_a_message_shows_of_a_log_is_one_printable_line() -> None:
    from magma_gpu.readers.clean import shown

    assert shown(' {\n  "a": \x1b[2J\u200e\x00"b"', 20) == '{ "a": [2J "b"'
    assert shown("x" * 99, 40) == "x" * 40
    assert shown("\ud800\ufffd 你好", 9) == "\ufffd 你好"

"""Inputs that once broke a parser, found by coverage-guided fuzzing (atheris_readers.py): each through all of them."""

import importlib.util
from pathlib import Path

import pytest

from magma_gpu.readers import FORMATS

HERE = Path(__file__).resolve().parent
FOUND = sorted((HERE / "found").glob("*"))

_SPEC = importlib.util.spec_from_file_location("atheris_readers", HERE / "atheris_readers.py")
assert _SPEC is not None
assert _SPEC.loader is not None
script = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(script)


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.name)
def test_what_was_found_breaks_nothing(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()[1:]
    # A byte chooses by the order of formats, which changes when one is added.
    seen = {script.check(bytes([first]) + content, tmp_path / "log") for first in range(len(FORMATS) + 2)}
    assert seen == {*FORMATS, "auto", "stamps"}


def test_the_script_sees_what_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise KeyError("content")

    monkeypatch.setattr("magma_gpu.readers.jsonl.read", breaks)
    with pytest.raises(KeyError):
        script.check(b"\0{}", tmp_path / "log")
    assert script.check(b"", tmp_path / "log") == "auto"

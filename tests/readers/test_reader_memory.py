"""Readers stream: what they hold does not grow with a file of many conversations."""

import importlib.util
import tracemalloc
from pathlib import Path

import pytest

from magma_gpu.readers import FORMATS, Source, read_source

_SCRIPT = Path(__file__).resolve().parents[2] / "pipelines" / "bench" / "reader_memory.py"
_SPEC = importlib.util.spec_from_file_location("reader_memory", _SCRIPT)
assert _SPEC is not None
assert _SPEC.loader is not None
script = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(script)

# A chat of Instagram is one conversation, and Arrow's memory is not Python's.
STREAMED = sorted(set(script.FORMS) - {"instagram", "parquet"})


def test_the_script_measures_every_reader():
    assert set(script.FORMS) == set(FORMATS)


def _growth(form, folder, monkeypatch):
    """Bytes by which the peak of a large file is above that of a small one."""
    # The beginning that is looked at, and what is read at a time, are small beside these files.
    monkeypatch.setattr("magma_gpu.readers.peek.HEAD_BYTES", 1 << 14)
    monkeypatch.setattr("magma_gpu.readers.json_stream._CHUNK", 1 << 12)
    ending, parts, turns = script.FORMS[form]
    size = len("".join(parts(2))) - len("".join(parts(1)))
    peaks = []
    for num_bytes in (100_000, 100_000, 400_000):
        path = folder / f"log{ending}"
        path.write_text("".join(parts(num_bytes // size)), encoding="utf-8")
        tracemalloc.start()
        try:
            num_turns = sum(1 for r in read_source(Source(path, path.name), form, memory_id=None) if hasattr(r, "seq"))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert num_turns == num_bytes // size * turns
    # The first reading has also filled caches.
    return peaks[2] - peaks[1]


@pytest.mark.parametrize("form", STREAMED)
def test_peak_memory_does_not_grow_with_the_file(form, tmp_path, monkeypatch):
    assert _growth(form, tmp_path, monkeypatch) < 40_000


def test_the_check_sees_a_file_that_is_held(tmp_path, monkeypatch):
    assert _growth("instagram", tmp_path, monkeypatch) > 300_000

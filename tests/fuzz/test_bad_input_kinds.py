"""The kinds of bad input that docs/bad_input.md lists: what is read of each, what is rejected and why, what refuses."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from magma_gpu.errors import InputError
from magma_gpu.readers import detect_format, find_sources, read_source
from magma_gpu.types import Record, Reject, Turn

ROW = b'{"speaker": "A", "text": "hi", "time": "2024-01-01"}\n'
HI = b'{"role": "user", "content": "hi"}'
NOT_TOLD = "looks like none of"


def _read(path: Path) -> list[Record]:
    (source,) = find_sources([str(path)])
    return list(read_source(source, detect_format(source), memory_id=None))


@pytest.mark.parametrize(
    ("name", "data", "turns", "reasons"),
    [
        pytest.param("a.jsonl", ROW + ROW.strip(), 2, {}, id="no line end at the end"),
        pytest.param("a.jsonl", (ROW + ROW).replace(b"\n", b"\r\n"), 2, {}, id="CRLF"),
        pytest.param("a.jsonl", ROW + b"\n \n\n" + ROW, 2, {}, id="blank lines"),
        pytest.param("a.jsonl", ROW + ROW[:20], 1, {"not JSON": 1}, id="cut line"),
        pytest.param("a.jsonl", ROW + b'5\nnull\n[]\n"x"\n', 1, {"not an object": 4}, id="values that are no rows"),
        pytest.param(
            "a.jsonl",
            ROW + b'{"speaker": "A"}\n{"text": ""}\n{"text": null}\n{"text": NaN}\n',
            1,
            {"no text": 4},
            id="no text",
        ),
        pytest.param("a.jsonl", ROW + b'{"text": 5}\n{"text": [1]}\n', 1, {"text of a wrong type": 2}, id="wrong type"),
        pytest.param(
            "a.jsonl",
            ROW + b'{"text": "x", "memory_id": ""}\n{"text": "x", "session_id": {}}\n',
            1,
            {"unusable id": 2},
            id="ids",
        ),
        pytest.param(
            "a.jsonl", ROW + b'{"text":' + b"[" * 60_000 + b"]" * 60_000 + b"}\n", 1, {"nested too deep": 1}, id="deep"
        ),
        pytest.param(
            "a.jsonl", ROW + b'{"text": "' + b"x" * (17 << 20) + b'"}\n' + ROW, 2, {"line too long": 1}, id="long"
        ),
        pytest.param("a.jsonl", ROW + '{"text": "café"}\n'.encode("latin-1"), 2, {}, id="Latin-1"),
        pytest.param("a.jsonl", (ROW + ROW).decode().encode("utf-16"), 2, {}, id="UTF-16"),
        pytest.param("a.jsonl", ROW + b'{"text": "a\\ud800b"}\n', 2, {}, id="half a surrogate pair"),
        pytest.param("a.jsonl", ROW + b'{"text": "a\\u0000b"}\n\0\0\0\n', 2, {"not JSON": 1}, id="NUL"),
        pytest.param(
            "a.jsonl", b'{"text": "x", "time": "31 June 2023"}\n{"text": "y", "time": 1e300}\n', 2, {}, id="dates"
        ),
        pytest.param("a.json", b"[" + HI + b"," + HI[:20], 1, {"broken JSON": 1}, id="cut document"),
        pytest.param("a.json", b"[" + HI + b"] and more", 1, {"broken JSON": 1}, id="something behind a document"),
        pytest.param(
            "a.json", b"[" + HI + b', null, 5, {"role": "user"}]', 1, {"not an object": 2, "no text": 1}, id="items"
        ),
        pytest.param("a.csv", b"speaker,text\nA\nB,ho,3,4\n,\n\nC,x\n", 2, {"no text": 2}, id="ragged rows"),
        pytest.param("a.csv", b'speaker,text\nA,"hi\nB,ho\n', 1, {"quote not closed": 1}, id="quote never closed"),
        pytest.param(
            "a.txt",
            b"Exported\n30/12/23, 10:00 - A: x\n30/12/23, 10:01 - B: y\nz\n",
            2,
            {"not a message": 1},
            id="head",
        ),
    ],
)
def test_what_can_be_read_is_read(tmp_path: Path, name: str, data: bytes, turns: int, reasons: dict[str, int]) -> None:
    (tmp_path / name).write_bytes(data)
    records = _read(tmp_path / name)
    assert sum(isinstance(r, Turn) for r in records) == turns
    assert Counter(r.reason for r in records if isinstance(r, Reject)) == reasons


def test_a_compressed_log_is_read_up_to_its_damage(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": str(i * 7919 % 10007)}).encode() + b"\n" for i in range(20_000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(rows)[:20_000])
    records = _read(tmp_path / "a.jsonl.gz")
    assert sum(isinstance(r, Turn) for r in records) > 1000
    assert Counter(r.reason for r in records if isinstance(r, Reject))["damaged file"] == 1


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        pytest.param("a.jsonl", b"", "is empty", id="nothing"),
        pytest.param("a.jsonl", b"\n \n", NOT_TOLD, id="blank"),
        pytest.param("a.jsonl", bytes(range(256)) * 20, NOT_TOLD, id="no log at all"),
        pytest.param("a.jsonl", (ROW + ROW).decode().encode("utf-16-le"), NOT_TOLD, id="UTF-16 without its mark"),
        pytest.param("a.jsonl.gz", gzip.compress(ROW * 5000)[:14], NOT_TOLD, id="compressed, cut at once"),
        pytest.param("a.zip", b"PK\x03\x04" + b"x" * 60, "is not a zip file", id="cut archive"),
        pytest.param("a.parquet", b"PAR1" + b"x" * 99, "is not a Parquet file", id="cut Parquet"),
        pytest.param("a.csv", b"A,hi\nB,ho\n", NOT_TOLD, id="no header line"),
        pytest.param("a.txt", b"Dear diary\n", NOT_TOLD, id="no chat"),
        pytest.param(
            "a.txt", b"1/2/23, 10:00 - A: x\n3/4/23, 10:00 - A: y\n", "none that tells day from month", id="order"
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words) as raised:
        _read(tmp_path / name)
    assert str(raised.value).isprintable()

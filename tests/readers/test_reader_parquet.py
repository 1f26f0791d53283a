"""Parquet files: the same rows as jsonl, in the types of columns."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from magma_gpu.errors import InputError
from magma_gpu.readers import Source, detect_format, read_source
from magma_gpu.types import Turn


def read(path):
    source = Source(path, path.name)
    assert detect_format(source) == "parquet"
    return list(read_source(source, "parquet", memory_id=None))


def test_rows(tmp_path):
    table = pa.table(
        {
            "memory_id": pa.array([1, 2, None], pa.int64()),
            "text": ["hi", None, "e\u0301"],
            "time": pa.array([1, 2, 3], pa.timestamp("ns", tz="UTC")),
            "ignored": [b"\xff"] * 3,
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    first, second, third = read(tmp_path / "x.parquet")
    assert first == Turn(
        memory_id="1",
        session_id="x",
        turn_id=None,
        speaker=None,
        role="other",
        text="hi",
        time="1970-01-01T00:00:00+00:00",
        seq=0,
        source="x.parquet",
        line=1,
    )
    assert (second.reason, second.memory_id, second.line) == ("no text", "2", 2)
    assert (third.memory_id, third.text) == ("x", "é")


def test_nan_cells_are_missing(tmp_path):
    nan = float("nan")
    table = pa.table({"text": ["a", "b"], "memory_id": [nan, 3.0], "role": [nan, nan], "seq": [nan, 4.0]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert [(r.memory_id, r.role, r.seq) for r in read(tmp_path / "x.parquet")] == [
        ("x", "other", 0),
        ("3", "other", 4),
    ]
    pq.write_table(pa.table({"text": [nan, nan]}), tmp_path / "y.parquet")
    assert [r.reason for r in read(tmp_path / "y.parquet")] == ["no text", "no text"]


def test_dates_and_decimals(tmp_path):
    table = pa.table({"text": ["a"], "date": [dt.date(2024, 3, 1)], "id": pa.array([7], pa.decimal128(5, 0))})
    pq.write_table(table, tmp_path / "x.parquet")
    (turn,) = read(tmp_path / "x.parquet")
    assert (turn.time, turn.turn_id) == ("2024-03-01", "7")


def test_many_row_groups_keep_order_and_number(tmp_path):
    pq.write_table(pa.table({"text": [f"t{i}" for i in range(2000)]}), tmp_path / "x.parquet", row_group_size=300)
    assert [(r.text, r.line, r.seq) for r in read(tmp_path / "x.parquet")] == [(f"t{i}", i + 1, i) for i in range(2000)]


def test_a_column_of_messages(tmp_path):
    table = pa.table(
        {"id": ["c"], "messages": [[{"role": "user", "content": "hi"}, {"role": "tool", "content": None}]]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    turn, reject = read(tmp_path / "x.parquet")
    assert (turn.session_id, turn.role, turn.text, reject.reason) == ("c", "user", "hi", "no text")


def test_no_rows(tmp_path):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet") == []


def test_no_column_of_texts(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"no column named text, content, message.*got a, b"):
        read(tmp_path / "x.parquet")


def test_a_file_cut_before_its_footer(tmp_path):
    pq.write_table(pa.table({"text": ["a"] * 100}), tmp_path / "x.parquet")
    content = (tmp_path / "x.parquet").read_bytes()
    (tmp_path / "x.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="not a Parquet file"):
        read(tmp_path / "x.parquet")


def test_a_damaged_page_rejects_the_rest(tmp_path):
    path = tmp_path / "x.parquet"
    texts = [f"text {i}" for i in range(3000)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=1000, compression="gzip", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset + column.total_compressed_size // 2
    content[start : start + 200] = b"\0" * 200
    path.write_bytes(content)
    records = read(path)
    assert [r.text for r in records[:1000]] == texts[:1000]
    assert records[-1].reason == "broken Parquet"
    assert sum(hasattr(r, "reason") for r in records) == 1

"""Large files in pieces: the rows are those of one reader that read the whole file."""

import itertools
import json
import random
from collections import Counter
from pathlib import Path

import crash_stores as stores
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from magma_gpu import store
from magma_gpu.pieces import Piece, content_hash, split_source
from magma_gpu.readers import find_sources
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import parquet_bytes
from magma_pipelines import worker


def _log(path: Path, num_lines: int, *, end: str = "\n", mark: str = "") -> None:
    """Everything that a reader counts: equal turns without ids, places, lines, blank and broken lines."""
    rng = random.Random(3)
    lines = []
    for i in range(num_lines):
        row: dict[str, object] = {
            "user_id": f"u{rng.randrange(4)}",
            "text": rng.choice(["ok", "yes", "see you on Monday", "h\u00e9llo"]),
        }
        if rng.random() < 0.5:
            row["session_id"] = f"s{rng.randrange(2)}"
        if rng.random() < 0.3:
            row["id"] = f"m{i}"
        if rng.random() < 0.4:
            row["time"] = f"2024-0{rng.randrange(1, 9)}-1{rng.randrange(9)}T10:00:00Z"
        if rng.random() < 0.1:
            row["seq"] = rng.randrange(50)
        if rng.random() < 0.05:
            row["text"] = ""
        kind = rng.random()
        line = json.dumps(row, ensure_ascii=rng.random() < 0.5)
        lines.append("broken" if kind < 0.03 else "" if kind < 0.05 else "\ufeff" + line if kind < 0.07 else line)
    path.write_text(mark + "\n".join(lines) + end, encoding="utf-8")


@pytest.mark.parametrize(
    ("end", "mark", "workers"), [("\n", "", 2), ("", "\ufeff", 1)], ids=["plain", "marked, no last line end"]
)
def test_pieces_make_the_rows_of_the_whole(tmp_path: Path, end: str, mark: str, workers: int) -> None:
    log = tmp_path / "log.jsonl"
    _log(log, 400, end=end, mark=mark)
    whole = stores.make([log], tmp_path / "whole", until="ingest")
    settings = stores.config(run={"num_workers": workers})
    pieces = stores.make([log], tmp_path / "pieces", settings, until="ingest", piece_bytes=1500)
    assert whole.stage("read").shards == 1
    assert pieces.stage("read").shards > 15
    assert pieces.to_json()["turns"] == whole.to_json()["turns"]
    assert pieces.ingest.by_reason == whole.ingest.by_reason
    assert pieces.ingest.balanced()
    assert stores.content(tmp_path / "pieces") == stores.content(tmp_path / "whole")


def test_each_table_of_a_shard_is_made_into_bytes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counting(table: str, data: pa.Table) -> bytes:
        made.append(table)
        return parquet_bytes(table, data)

    for module in (store, worker):
        monkeypatch.setattr(module, "parquet_bytes", counting)
    log = tmp_path / "log.jsonl"
    _log(log, 40)
    stores.make([log], tmp_path / "out", stores.config(ingest={"num_shards": 2}), until="ingest")
    assert Counter(made) == dict.fromkeys(STAGE_TABLES["ingest"], 2)


def test_pieces_begin_and_end_between_lines(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    _log(log, 100)
    data = log.read_bytes()
    for size in (60, 100, 333, 5000):
        pieces = split_source(find_sources([str(log)])[0], "jsonl", size)
        parts = [data[p.first : p.last] for p in pieces]
        assert b"".join(parts) == data
        assert all(part.endswith(b"\n") for part in parts)


def test_one_endless_line_and_other_encodings_are_one_piece(tmp_path: Path) -> None:
    line, wide = tmp_path / "line.jsonl", tmp_path / "wide.jsonl"
    line.write_text(json.dumps({"text": "x" * 5000}))
    wide.write_text('{"text": "a"}\n' * 500, encoding="utf-16")
    for path in (line, wide):
        source = find_sources([str(path)])[0]
        assert split_source(source, "jsonl", 100) == [Piece(source, "jsonl")]


def test_lines_of_conversations_are_read_whole(tmp_path: Path) -> None:
    """Conversations without an id are named by their number in the file, which no piece knows."""
    log = tmp_path / "log.jsonl"
    rows: list[dict[str, object]] = [{"text": f"turn {i}", "session_id": "s"} for i in range(100)]
    rows[40:40] = [{"messages": [{"role": "user", "content": f"talk {i}"}]} for i in range(10)]
    log.write_text("".join(json.dumps(r) + "\n" for r in rows))
    stores.make([log], tmp_path / "whole", until="ingest", format="jsonl")
    stores.make([log], tmp_path / "pieces", until="ingest", format="jsonl", piece_bytes=500)
    assert stores.content(tmp_path / "pieces") == stores.content(tmp_path / "whole")


def _parquet(path: Path, num_rows: int, *, rows_per_group: int) -> None:
    """The rows of a log as a Parquet file: equal turns without ids, missing cells, rows without a text."""
    log = path.with_suffix(".jsonl")
    _log(log, num_rows)
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    log.unlink()
    columns = ("user_id", "session_id", "id", "text", "time", "seq")
    pq.write_table(
        pa.table({c: [r.get(c) for r in rows] for c in columns}),
        path,
        row_group_size=rows_per_group,
        compression="none",
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_row_groups_make_the_rows_of_the_whole(tmp_path: Path, workers: int) -> None:
    log = tmp_path / "log.parquet"
    _parquet(log, 400, rows_per_group=23)
    source = find_sources([str(log)])[0]
    cuts = [(p.first, p.last) for p in split_source(source, "parquet", 1500)]
    assert len(cuts) > 5
    assert cuts[0][0] == 0
    assert cuts[-1][1] == pq.read_metadata(log).num_row_groups
    assert all(a[1] == b[0] for a, b in itertools.pairwise(cuts))
    whole = stores.make([log], tmp_path / "whole", until="ingest")
    settings = stores.config(run={"num_workers": workers})
    pieces = stores.make([log], tmp_path / "pieces", settings, until="ingest", piece_bytes=1500)
    assert whole.stage("read").shards == 1
    assert pieces.stage("read").shards == len(cuts)
    assert pieces.to_json()["turns"] == whole.to_json()["turns"]
    assert pieces.ingest.by_reason == whole.ingest.by_reason
    assert stores.content(tmp_path / "pieces") == stores.content(tmp_path / "whole")


def test_pieces_of_parquet_are_known_again_by_their_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    _parquet(log, 200, rows_per_group=20)
    source = find_sources([str(log)])[0]
    pieces = split_source(source, "parquet", 1500)
    before = [content_hash(p) for p in pieces]
    assert len(set(before)) == len(pieces) > 3
    assert [content_hash(p) for p in pieces] == before
    data = bytearray(log.read_bytes())
    at = data.rindex(b"Monday")
    data[at : at + 6] = b"Friday"
    log.write_bytes(bytes(data))
    changed = [a != b for a, b in zip(before, [content_hash(p) for p in pieces], strict=True)]
    assert sum(changed) == 1


@pytest.mark.parametrize("what", ["conversations", "broken"])
def test_parquet_that_only_one_reader_can_tell_is_read_whole(tmp_path: Path, what: str) -> None:
    log = tmp_path / "log.parquet"
    rows: list[dict[str, object]] = [{"text": f"turn {i}", "messages": None} for i in range(1200)]
    if what == "conversations":
        rows[70:80] = [{"text": None, "messages": [{"role": "user", "content": f"talk {i}"}]} for i in range(10)]
    message = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    table = pa.table({"text": [r["text"] for r in rows], "messages": pa.array([r["messages"] for r in rows], message)})
    pq.write_table(table, log, row_group_size=10, compression="snappy", use_dictionary=False)
    if what == "broken":
        data = bytearray(log.read_bytes())
        at = pq.read_metadata(log).row_group(110).column(0).data_page_offset
        data[at : at + 30] = bytes(30)
        log.write_bytes(bytes(data))
    whole = stores.make([log], tmp_path / "whole", until="ingest")
    pieces = stores.make([log], tmp_path / "pieces", until="ingest", piece_bytes=1500)
    assert pieces.to_json()["turns"] == whole.to_json()["turns"]
    assert whole.ingest.by_reason == ({"broken Parquet": 1} if what == "broken" else {})
    assert stores.content(tmp_path / "pieces") == stores.content(tmp_path / "whole")

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magma_gpu.errors import StoreError
from magma_gpu.schema import STAGE_TABLES, TABLES, vectors_schema
from magma_gpu.store import Entry, Manifest, Store, parquet_bytes, read_parquet, shard_of, stable_hash
from small_logs import ingest, turn


def manifest(**fields: Any) -> Manifest:
    known: dict[str, Any] = {"config": {"ingest": {"num_shards": 2}}, "fingerprints": {}, "models": {}, "num_shards": 2}
    return Manifest(**(known | fields))


def memories(*ids: str) -> pa.Table:
    rows = [{"memory_id": i, "num_sessions": 0, "num_turns": 0, "first_time": None, "last_time": None} for i in ids]
    return pa.Table.from_pylist(rows, schema=TABLES["memories"])


# ---------------------------------------------------------------------------------------------------------- hashes


def test_hashes_are_fixed_for_ever() -> None:
    assert stable_hash() == "cae66941d9efbd404e4d88758ea67670"
    assert stable_hash("a") == "fc9c942180a48b1bfa36938828a429dc"
    assert [shard_of(m, 8) for m in ("ana", "wes", "samira", "")] == [5, 2, 2, 1]


@given(a=st.lists(st.text()), b=st.lists(st.text()))
def test_no_two_lists_of_strings_run_together(a: list[str], b: list[str]) -> None:
    assert (stable_hash(*a) == stable_hash(*b)) == (a == b)
    assert stable_hash("\ud800", *a) != stable_hash(*a)


@given(st.text())
def test_half_as_many_shards(memory_id: str) -> None:
    assert shard_of(memory_id, 1) == 0
    assert shard_of(memory_id, 64) % 8 == shard_of(memory_id, 8)


# ----------------------------------------------------------------------------------------------------------- bytes


def test_bytes_are_a_function_of_the_rows_alone() -> None:
    table = memories("a", "b", "c")
    expected = parquet_bytes("memories", table)
    assert parquet_bytes("memories", pa.concat_tables([table.slice(0, 1), table.slice(1)])) == expected
    assert parquet_bytes("memories", memories("x", "a", "b", "c").slice(1)) == expected
    assert parquet_bytes("memories", table.select(table.column_names[::-1])) == expected
    assert parquet_bytes("memories", table.replace_schema_metadata({"note": "x"})) == expected


def test_every_table_keeps_its_schema_without_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name, schema in TABLES.items():
        entry = store.write_table(name, 0, "0" * 12, schema.empty_table())
        assert store.read_table(entry, name).schema.equals(schema)
        assert store.read_table(None, name).schema.equals(schema)
    assert store.read_table(None, "memories", columns=["num_turns"]).column_names == ["num_turns"]


def test_an_empty_list_and_null_stay_what_they_are(tmp_path: Path) -> None:
    rows = [
        {
            "memory_id": "m",
            "query_id": str(i),
            "question": "?",
            "time": None,
            "gold": None,
            "evidence": e,
            "category": None,
        }
        for i, e in enumerate(([], ["a"]))
    ]
    store = Store(tmp_path)
    entry = store.write_table("queries", 0, "1" * 12, pa.Table.from_pylist(rows, schema=TABLES["queries"]))
    assert store.read_table(entry, "queries").to_pylist() == rows


def test_vectors_of_any_dimension_round_trip(tmp_path: Path) -> None:
    rows = [
        {"memory_id": "m", "event_id": str(i), "vector": v, "num_tokens": 1, "status": "ok", "text_hash": ""}
        for i, v in enumerate(([1.0, 0.0, 0.0], None))
    ]
    store = Store(tmp_path)
    entry = store.write_table("vectors", 0, "2" * 12, pa.Table.from_pylist(rows, schema=vectors_schema(3)))
    made = store.read_table(entry, "vectors")
    assert made.schema.equals(vectors_schema(3))
    assert made.to_pylist() == rows


def test_files_open_without_this_package(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    store = Store(tmp_path)
    for name, table in ingest([turn("Hi.", at=1), turn("ok")])[0].items():
        path = store.path(store.write_table(name, 0, "3" * 12, table).file)
        count = duckdb.sql(f"select count(*) from '{path}'").fetchall()
        assert count == [(table.num_rows,)]


def test_one_memory_is_read_by_its_row_groups(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ids = [f"m{i:05d}" for i in range(10_000)]
    entry = store.write_table("memories", 0, "4" * 12, memories(*ids))
    assert pq.ParquetFile(store.path(entry.file)).metadata.num_row_groups == 3
    for memory in ("m00000", "m04095", "m04096", "m09999"):
        assert store.read_table(entry, "memories", memory_id=memory)["memory_id"].to_pylist() == [memory]
    assert store.read_table(entry, "memories", memory_id="nobody").num_rows == 0
    only = store.read_table(entry, "memories", memory_id="m00007", columns=["num_turns"])
    assert only["num_turns"].to_pylist() == [0]


@pytest.mark.parametrize("memory", ["", "x" * 9000, "\u6f22\U0001f44d", "a\nb", "'", "\u00e9"])
def test_ids_of_any_kind_are_found_again(memory: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = store.write_table("memories", 0, "5" * 12, memories(*sorted(["a", "z", memory])))
    assert store.read_table(entry, "memories", memory_id=memory)["memory_id"].to_pylist() == [memory]


# -------------------------------------------------------------------------------------------------------- manifest


EVENTS, TIMES = (f"{table}/shard-00001-0123456789ab.parquet" for table in ("events", "times"))


def test_a_manifest_survives_its_json() -> None:
    full = manifest().with_entries(1, {"events": Entry(EVENTS, 3, "ab"), "times": Entry(TIMES, 0, "cd")})
    assert Manifest.from_json(full.to_json(), "here") == full
    assert full.entry("events", 1) == Entry(EVENTS, 3, "ab")
    assert full.entry("events", 0) is None
    assert full.entry("vectors", 1) is None
    assert full.files() == {EVENTS, TIMES}
    less = full.with_entries(1, {"events": None})
    assert less.files() == {TIMES}
    assert full.files() == {EVENTS, TIMES}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format_version": 1}',
        b'{"format_version": 1, "config": {}, "fingerprints": {}, "models": {}, "num_shards": 1, "tables": []}',
        b'{"format_version": 1, "config": {}, "fingerprints": {}, "models": {}, "num_shards": 1, "tables": {"a": 3}}',
        b'{"format_version": 1, "config": {}, "fingerprints": {}, "models": {}, "num_shards": 1, "tables": {"events": '
        b'{"00000": {"file": "../../secret.parquet", "rows": 1, "sha256": ""}}}}',
    ],
)
def test_a_damaged_manifest_is_one_sentence(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path).open()
    assert "manifest.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [0, 2, 99, "2"])
def test_another_format_version_is_refused_by_name(version: object, tmp_path: Path) -> None:
    document = json.loads(manifest().to_json())
    (tmp_path / "manifest.json").write_text(json.dumps(document | {"format_version": version}))
    with pytest.raises(StoreError, match=f"has format version {version} and this release reads 1"):
        Store(tmp_path).open()


def test_a_commit_removes_what_is_not_named_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = store.write_table("memories", 0, "01d000000000", memories("a"))
    new = store.write_table("memories", 0, "0e3000000000", memories("b"))
    (tmp_path / "memories" / "notes.txt").write_text("mine")
    # Half of a file, by a worker that was killed in this very build.
    (tmp_path / "memories" / ".shard-00000-0e3000000000.parquet.0123456789ab.tmp").write_bytes(b"PAR1")
    store.save_building(manifest())
    store.commit(manifest().with_entries(0, {"memories": new}))
    assert sorted(p.name for p in (tmp_path / "memories").iterdir()) == ["notes.txt", Path(new.file).name]
    assert not store.path(old.file).exists()
    assert store.building() is None
    assert store.open().entry("memories", 0) == new


# ------------------------------------------------------------------------------------------------------ bad places


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write_bytes("file", b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"No space is left for .*; what was finished is kept"):
        store.write_bytes("file", b"after")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"before"


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = Store(tmp_path / "file")
    for call in (store.open, store.manifest, lambda: store.write_bytes("a", b"")):
        with pytest.raises(StoreError):
            call()
    with pytest.raises(StoreError), store.lock():
        pass


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = store.write_table("memories", 0, "6" * 12, memories("a"))
    path = store.path(entry.file)
    whole = path.read_bytes()
    assert store.find_table("memories", 0, "6" * 12) == entry
    for data in (b"", whole[:-8], b"PAR1" + b"\0" * 40, whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(StoreError, match="is damaged"):
            store.read_table(entry, "memories")
        assert store.find_table("memories", 0, "6" * 12) is None
    path.unlink()
    with pytest.raises(StoreError, match="named by the manifest and missing"):
        store.read_table(entry, "memories")
    assert store.find_table("memories", 0, "6" * 12) is None


def test_one_build_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    with store.lock(), pytest.raises(StoreError, match="Another build is writing"), Store(tmp_path / "new").lock():
        pass
    with store.lock():
        pass


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    store = Store(tmp_path)
    errors: list[BaseException] = []

    def write(value: int) -> None:
        try:
            for _ in range(20):
                store.write_bytes("file", bytes([value]) * 1000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(v,)) for v in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    data = (tmp_path / "file").read_bytes()
    assert data == data[:1] * 1000
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_every_table_belongs_to_one_stage_or_to_none() -> None:
    made = [t for tables in STAGE_TABLES.values() for t in tables]
    assert len(set(made)) == len(made)
    assert set(TABLES) - set(made) == {"results"}


def test_bytes_of_parquet_are_read_by_one_function() -> None:
    """A thread of Arrow that lets go of Python's bytes while the interpreter ends aborts the process: exit code 134."""
    root = Path(__file__).resolve().parents[1]
    sources = [p for folder in ("magma_gpu", "pipelines/magma_pipelines") for p in (root / folder).rglob("*.py")]
    assert len(sources) > 50
    assert [p.name for p in sources if "read_table(pa.BufferReader" in p.read_text(encoding="utf-8")] == []
    table = pa.table({"a": [1, 2, None]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    assert read_parquet(sink.getvalue().to_pybytes()).equals(table)

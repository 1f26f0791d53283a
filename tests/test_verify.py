import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from magma_gpu.errors import StoreError
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import Entry, Store, parquet_bytes
from magma_gpu.verify import verify


@pytest.fixture
def store(examples_store: Path, tmp_path: Path) -> Store:
    """A copy of the store of `examples/` that a test may damage."""
    return Store(shutil.copytree(examples_store, tmp_path / "store"))


def file_of(store: Store, table: str) -> Path:
    entry = store.open().entry(table, 0)
    assert entry is not None
    return store.path(entry.file)


def edit(store: Store, table: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Changes the rows of a table and makes the manifest agree, as no checksum can tell."""
    manifest = store.open()
    entry = manifest.entry(table, 0)
    assert entry is not None
    old = store.read_table(entry, table)
    rows = old.to_pylist()
    change(rows)
    content = parquet_bytes(table, pa.Table.from_pylist(rows, schema=old.schema))
    store.path(entry.file).write_bytes(content)
    fixed = Entry(entry.file, len(rows), hashlib.sha256(content).hexdigest())
    store.write_bytes("manifest.json", manifest.with_entries(0, {table: fixed}).to_json())


def problems(store: Store) -> str:
    result = verify(store)
    assert not result.clean
    assert result.to_json()["clean"] is False
    assert all("\n" not in p for p in result.problems)
    return "\n".join(result.problems)


def test_a_good_store_is_clean(examples_store: Path) -> None:
    result = verify(Store(examples_store))
    assert result.problems == ()
    assert result.clean
    assert result.memories == 3
    assert result.files == sum(len(tables) for tables in STAGE_TABLES.values())
    assert result.to_json()["problems"] == []
    assert verify(Store(examples_store), [0]) == result


def test_nothing_is_changed(store: Store) -> None:
    def state() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(store.root.rglob("*")) if p.is_file()}

    before = state()
    verify(store)
    assert state() == before


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        verify(Store(tmp_path / "none"))


@pytest.mark.parametrize("table", ["events", "vectors", "edges/causal", "mentions", "rejected"])
def test_one_flipped_byte(store: Store, table: str) -> None:
    path = file_of(store, table)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert f"'{table}/{path.name}' has sha256" in problems(store)


def test_a_cut_file(store: Store) -> None:
    path = file_of(store, "vectors")
    path.write_bytes(path.read_bytes()[:-100])
    assert f"'vectors/{path.name}'" in problems(store)


def test_a_cut_file_whose_checksum_was_made_again(store: Store) -> None:
    path = file_of(store, "vectors")
    data = path.read_bytes()[:-100]
    path.write_bytes(data)
    manifest = store.open()
    entry = Entry(f"vectors/{path.name}", 241, hashlib.sha256(data).hexdigest())
    store.write_bytes("manifest.json", manifest.with_entries(0, {"vectors": entry}).to_json())
    assert "is no Parquet file" in problems(store)


def test_a_missing_file(store: Store) -> None:
    path = file_of(store, "episodes")
    path.unlink()
    assert f"'episodes/{path.name}' cannot be read: No such file" in problems(store)


def test_a_table_of_ingest_that_is_not_named(store: Store) -> None:
    store.write_bytes("manifest.json", store.open().with_entries(0, {"times": None}).to_json())
    assert "shard 0 has no file of times" in problems(store)


def test_stages_that_have_not_run_are_no_problem(store: Store) -> None:
    late = {t: None for s in ("embed", "link", "extract", "resolve") for t in STAGE_TABLES[s]}
    store.write_bytes("manifest.json", store.open().with_entries(0, late).to_json())
    assert verify(store).clean


def test_files_that_no_manifest_names_are_no_problem(store: Store) -> None:
    (store.root / "events" / "shard-00000-ffffffffffff.parquet").write_bytes(b"left over")
    assert verify(store).clean


def test_a_wrong_number_of_rows_in_the_manifest(store: Store) -> None:
    manifest = store.open()
    entry = manifest.entry("rejected", 0)
    assert entry is not None
    wrong = {"rejected": Entry(entry.file, 7, entry.sha256)}
    store.write_bytes("manifest.json", manifest.with_entries(0, wrong).to_json())
    assert "has 0 rows and the manifest says 7" in problems(store)


def test_another_schema(store: Store) -> None:
    manifest = store.open()
    entry = manifest.entry("episodes", 0)
    times = manifest.entry("times", 0)
    assert entry is not None
    assert times is not None
    store.write_bytes("manifest.json", manifest.with_entries(0, {"episodes": times}).to_json())
    assert "has another schema than the table episodes" in problems(store)


def change_row(row: int, **values: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: rows[row].update(values)


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("events", change_row(5, position=99), "positions of memory 'ana' do not run from 0 to"),
        ("events", lambda rows: rows.pop(5), "positions of memory 'ana' do not run from 0 to"),
        ("events", lambda rows: rows.append(dict(rows[0])), "an event id stands twice in events"),
        ("events", change_row(3, session_id="elsewhere"), "turns in 7 sessions and its row says otherwise"),
        ("events", change_row(0, part=1), "memory 'ana' has 95 turns"),
        ("events", lambda rows: rows.reverse(), "events are not sorted by memory"),
        ("memories", change_row(1, num_turns=4), "memory 'samira' has 60 turns"),
        ("memories", lambda rows: rows.pop(0), "name a memory that has no row in memories"),
        ("memories", lambda rows: rows.reverse(), "memories are not sorted"),
        ("memories", lambda rows: rows.append(dict(rows[2])), "memories are not sorted, or one stands twice"),
        ("sessions", lambda rows: rows.pop(0), "its row says otherwise"),
        ("episodes", lambda rows: rows.pop(0), "events of memory 'ana' are not in exactly one episode"),
        ("episodes", change_row(1, first=0), "events of memory 'ana' are not in exactly one episode"),
        ("times", change_row(0, event_id="nobody"), "a time of event 'nobody' has no such event"),
        ("times", lambda rows: rows[0].update(end=rows[0]["start"]), "does not end after its start"),
        ("vectors", lambda rows: rows.pop(0), "vectors are not one row an event in the order of events"),
        ("vectors", lambda rows: rows.reverse(), "vectors are not one row an event in the order of events"),
        ("vectors", change_row(0, vector=[0.5] * 64), "1 vectors are not of unit length"),
        ("vectors", change_row(0, vector=[float("nan")] * 64), "1 vectors are not of unit length"),
        ("vectors", change_row(0, vector=None), "null without being marked failed"),
        ("vectors", change_row(0, status="failed"), "null without being marked failed"),
        ("edges/temporal", lambda rows: rows.pop(4), "there are 237 temporal edges, wanted 238"),
        ("edges/temporal", lambda rows: rows[4].update(dst=rows[7]["dst"]), "which does not follow it"),
        ("edges/semantic", change_row(0, dst="nobody"), "'nobody', which are not both there"),
        ("edges/semantic", change_row(0, memory_id="wes"), "a semantic edge of memory 'wes' joins"),
        ("edges/semantic", change_row(0, weight=1.5), "a semantic edge has a weight outside 0 to 1"),
        ("edges/semantic", change_row(0, weight=-0.1), "a semantic edge has a weight outside 0 to 1"),
        ("edges/semantic", change_row(0, weight=float("nan")), "a semantic edge has a weight outside 0 to 1"),
        ("edges/semantic", change_row(0, type="causal"), "a semantic edge of memory"),
        ("edges/semantic", lambda rows: rows.append(dict(rows[0])), "a semantic edge stands twice"),
        ("edges/semantic", lambda rows: rows[0].update(src=rows[0]["dst"], dst=rows[0]["src"]), "to the smaller"),
        ("edges/causal", lambda rows: rows[0].update(src=rows[0]["dst"], dst=rows[0]["src"]), "was said before it"),
        ("edges/entity", change_row(0, dst="nobody"), "'nobody', which are not both there"),
        ("entities", lambda rows: rows.append(dict(rows[0])), "an entity id stands twice in entities"),
        ("mentions", change_row(0, entity_id="nobody"), "or entity 'nobody' that memory"),
        ("mentions", change_row(0, event_id="nobody"), "a mention names event 'nobody'"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_rows_that_no_checksum_can_tell(
    store: Store, table: str, change: Callable[[list[dict[str, Any]]], Any], words: str
) -> None:
    edit(store, table, change)
    assert words in problems(store)


def test_a_memory_in_the_wrong_shard(store: Store) -> None:
    manifest = store.open()
    tables = {name: {1: shards[0]} for name, shards in manifest.tables.items()}
    wrong = type(manifest)(manifest.config, manifest.fingerprints, manifest.models, 2, tables)
    store.write_bytes("manifest.json", wrong.to_json())
    found = problems(store)
    assert "belongs to shard 0" in found
    assert "shard 0 has no file of events" in found


def test_a_memory_in_two_shards(store: Store) -> None:
    manifest = store.open()
    tables = {name: {0: shards[0], 1: shards[0]} for name, shards in manifest.tables.items()}
    twice = type(manifest)(manifest.config, manifest.fingerprints, manifest.models, 2, tables)
    store.write_bytes("manifest.json", twice.to_json())
    assert "memory 'ana' stands in two shards" in problems(store)


def test_many_problems_of_a_kind_are_summed_up(store: Store) -> None:
    def all_away(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["dst"] = "nobody"

    edit(store, "edges/semantic", all_away)
    found = verify(store).problems
    assert sum("nobody" in p for p in found) == 3
    assert any("more of that kind" in p for p in found)


def test_a_long_session_takes_no_quadratic_time(tmp_path: Path) -> None:
    import time

    from magma_gpu.verify import _outside

    start = time.perf_counter()
    positions = list(range(100_000))
    runs = [(i, i + 11) for i in range(0, 100_000, 12)]
    assert _outside(positions, runs) == 0
    assert time.perf_counter() - start < 5
    assert _outside([0, 1, 2, 5], [(0, 1), (2, 5)]) == 0
    assert _outside([0, 1, 2, 5], [(0, 1), (1, 5)]) == 1
    assert _outside([0, 1, 2, 5], [(1, 2)]) == 2
    assert _outside([0, 1], []) == 2
    assert _outside([0, 1], [(0, 1), (1, 0)]) == 0
    assert _outside([], [(0, 3)]) == 0

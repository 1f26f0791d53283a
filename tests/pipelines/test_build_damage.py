"""Damaged stores: one sentence for each kind, `verify` names it, and `build` repairs what it can and loses nothing."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import crash_stores as stores
import pytest

from magma_gpu.errors import StoreError
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.cli import main


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("logs")
    old, new = folder / "a.jsonl", folder / "b.jsonl"
    stores.CRASH.write_log(old, 80, 1)
    stores.CRASH.write_log(new, 80, 2)
    return old, new


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, logs: tuple[Path, Path]) -> Path:
    out = tmp_path_factory.mktemp("sound") / "store"
    stores.make(logs[:1], out)
    return out


@pytest.fixture
def store(tmp_path: Path, sound: Path) -> Path:
    shutil.copytree(sound, tmp_path / "store")
    return tmp_path / "store"


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def _empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES = {"cut": _cut, "empty": _empty, "flipped": _flip, "missing": Path.unlink}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize(
    "table",
    ["vectors", "edges/temporal", "extracts", "mentions", "times", "episodes", "memories", "events", "sessions"],
)
def test_damaged_file_is_named_and_made_again(
    store: Path, sound: Path, logs: tuple[Path, Path], table: str, damage: Callable[[Path], None]
) -> None:
    file = stores.only_file(store, table, 2)
    damage(file)
    name = file.relative_to(store).as_posix()
    assert any(name in problem for problem in verify(Store(store)).problems)
    report = stores.make(logs[:1], store)
    assert any(name in sentence for sentence in report.repaired)
    assert stores.content(store) == stores.content(sound)
    assert verify(Store(store)).clean


@pytest.mark.parametrize("table", ["events", "sessions"])
def test_turns_of_other_logs_are_never_dropped(store: Path, logs: tuple[Path, Path], table: str) -> None:
    file = stores.only_file(store, table, 1)
    _cut(file)
    before = stores.content(store)
    with pytest.raises(StoreError, match=rf"'{table}/.*' is damaged .* give all logs that shard 1 was made from"):
        stores.make(logs[1:], store)
    after = stores.content(store)
    assert {name: after[name] for name in before} == before
    # The right logs repair it afterwards, and then the other log goes in.
    stores.make(logs[:1], store)
    stores.make(logs[1:], store)
    stores.make(logs, store.with_name("fresh"))
    assert stores.content(store) == stores.content(store.with_name("fresh"))


def test_overwrite_starts_anew_where_turns_are_lost(store: Path, logs: tuple[Path, Path]) -> None:
    _cut(stores.only_file(store, "events", 1))
    stores.make(logs[1:], store, overwrite=True)
    stores.make(logs[1:], store.with_name("fresh"))
    assert stores.content(store) == stores.content(store.with_name("fresh"))


def test_tables_that_follow_from_others_need_no_logs(store: Path, logs: tuple[Path, Path]) -> None:
    _cut(stores.only_file(store, "times", 1))
    _empty(stores.only_file(store, "memories", 3))
    stores.make(logs[1:], store)
    stores.make(logs, store.with_name("fresh"))
    assert stores.content(store) == stores.content(store.with_name("fresh"))


@pytest.mark.parametrize("manifest", [None, b'{"format_version": 1, "tables": {"ev'], ids=["missing", "half"])
def test_manifest_is_made_again_from_the_files(
    store: Path, sound: Path, logs: tuple[Path, Path], manifest: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store / "manifest.json"
    path.unlink() if manifest is None else path.write_bytes(manifest)
    assert main(["verify", str(store)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    # Even a log that has nothing to do with it brings all turns back.
    report = stores.make(logs[1:], store)
    assert report.stage("embed").counts.get("encoded", 0) < 161
    stores.make(logs, store.with_name("fresh"))
    assert stores.content(store) == stores.content(store.with_name("fresh"))
    assert sound.exists()


def test_unclear_files_without_a_manifest_are_refused(store: Path, logs: tuple[Path, Path]) -> None:
    (store / "manifest.json").unlink()
    stores.only_file(sound_copy(store, logs), "events", 0)
    _cut(next((store / "events").glob("shard-00002-*")))
    with pytest.raises(StoreError, match=r"no manifest\.json, and which of them count cannot be told"):
        stores.make(logs[:1], store)
    stores.make(logs[:1], store, overwrite=True)
    assert verify(Store(store)).clean


def sound_copy(store: Path, logs: tuple[Path, Path]) -> Path:
    """Another generation of the same shards beside the first."""
    other = store.with_name("other")
    stores.make(logs[1:], other)
    return other


def test_newer_store_is_left_alone(store: Path, logs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((store / "manifest.json").read_bytes())
    (store / "manifest.json").write_text(json.dumps(document | {"format_version": 99}))
    before = stores.content(store)
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="format version 99 and this release reads 1"):
            stores.make(logs, store, overwrite=overwrite)
    assert main(["verify", str(store)]) == 2
    assert "format version 99" in capsys.readouterr().err
    assert stores.content(store) == before


def test_cut_files_of_the_case_are_noticed(store: Path, sound: Path, logs: tuple[Path, Path]) -> None:
    """C34: a file cut before its footer and a file of no bytes, at a name that an unfinished build would take over."""
    (store / "manifest.json").unlink()
    (store / "building.json").write_bytes(
        json.dumps(json.loads((sound / "manifest.json").read_bytes()) | {"tables": {}}).encode()
    )
    for number, table in enumerate(["vectors", "edges/semantic", "entities", "events"]):
        file = next((store / table).glob(f"shard-{number:05d}-*"))
        file.write_bytes(b"" if number % 2 else b"PAR1" + b"\x07\x00\x00\x00" + bytes(4096))
    stores.make(logs[:1], store)
    assert stores.content(store) == stores.content(sound)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_is_one_sentence_and_loses_nothing(
    small_disk: Path, tmp_path: Path, logs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = small_disk / "store"
    settings = [
        "--set",
        "embed.encoder=hash",
        "--set",
        "embed.hash_dim=1024",
        "--set",
        "ingest.num_shards=4",
        "--quiet",
    ]
    first = tmp_path / "first.jsonl"
    first.write_text("".join(logs[0].read_text().splitlines(keepends=True)[:20]))
    assert main(["build", str(first), "--out", str(out), *settings]) == 0
    committed = stores.content(out)
    large = tmp_path / "large.jsonl"
    stores.CRASH.write_log(large, 600, 5)
    assert main(["build", str(large), "--out", str(out), *settings]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "space" in error
    kept = stores.content(out)
    assert {name: kept.get(name) for name in committed} == committed
    assert verify(Store(out)).clean
    # With room again, the same command finishes.
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert main(["build", str(large), "--out", str(out), *settings]) == 0
    assert main(["build", str(first), str(large), "--out", str(tmp_path / "fresh"), *settings]) == 0
    assert stores.content(out) == stores.content(tmp_path / "fresh")


def test_store_that_cannot_be_written_is_one_sentence(
    small_disk: Path, sound: Path, logs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sound, small_disk / "store")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    settings = ["--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--quiet"]
    assert main(["build", str(logs[1]), "--out", str(small_disk / "store"), *settings]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["verify", str(small_disk / "store")]) == 0


def test_obvious_lack_of_room_stops_before_work(
    tmp_path: Path, logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1000, 900, 100))  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="MB free and this build needs about"):
        stores.make(logs, tmp_path / "out")


def test_room_for_a_vector_of_every_line_is_wanted(
    tmp_path: Path, logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = logs[0].stat().st_size
    free = size * 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(free * 2, free, free))  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match=r"needs about 0\.2 MB"):
        stores.make(logs[:1], tmp_path / "out", stores.config(embed={"hash_dim": 1024}))
    stores.make(logs[:1], tmp_path / "out", stores.config(embed={"hash_dim": 64}))
    # Nothing but what is new needs room where the logs are in already.
    free = size * 3 // 4
    stores.make(logs[:1], tmp_path / "out", stores.config(embed={"hash_dim": 64}))


def test_second_build_of_a_store_is_refused(store: Path, logs: tuple[Path, Path]) -> None:
    with Store(store).lock(), pytest.raises(StoreError, match="Another build is writing"):
        stores.make(logs, store)


@pytest.mark.parametrize("embed", [{"revision": "b"}, {"hash_dim": 128}], ids=["other model", "other size"])
def test_another_model_is_refused_before_any_work(
    store: Path, logs: tuple[Path, Path], embed: dict[str, object]
) -> None:
    """C37: the message names both; with --overwrite everything is embedded anew, and never mixed."""
    before = stores.content(store)
    settings = stores.config(embed=embed)
    with pytest.raises(StoreError, match=r"was built with embed.* and this build"):
        stores.make(logs, store, settings)
    assert stores.content(store) == before
    report = stores.make(logs[:1], store, settings, overwrite=True)
    assert report.stage("embed").counts["reused"] == 0
    stores.make(logs[:1], store.with_name("fresh"), settings)
    assert stores.content(store) == stores.content(store.with_name("fresh"))


def test_refused_build_leaves_no_folder_behind(
    tmp_path: Path, logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert main(["build", str(broken), "--out", str(out), "--quiet"]) == 2
    assert not out.exists()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1000, 900, 100))  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match="MB free"):
            stores.make(logs, out)
        assert not out.exists()
        # What was there stays, and the next build is not told that one was begun.
        out.mkdir()
        (out / "notes.txt").write_text("mine")
        with pytest.raises(StoreError, match="MB free"):
            stores.make(logs, out)
    assert {p.name for p in out.iterdir()} == {"notes.txt", ".lock"}
    stores.make(logs, out)
    assert verify(Store(out)).clean

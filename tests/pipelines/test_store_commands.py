"""merge, reshard, diff, forget and extract: the store is always the one that a build would have made."""

import json
import shutil
from pathlib import Path

import crash_stores as stores
import pytest

from magma_gpu.errors import ConfigError, InputError, StoreError
from magma_gpu.extract import RulesExtractor
from magma_gpu.store import Store, shard_of
from magma_gpu.verify import verify
from magma_pipelines.cli import main
from magma_pipelines.diff import diff
from magma_pipelines.forget import forget
from magma_pipelines.merge import extract, merge
from magma_pipelines.reshard import reshard


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two logs that share memories and sessions, with turns that both have, and that say the place of each turn."""
    folder = tmp_path_factory.mktemp("logs")
    whole = folder / "whole.jsonl"
    stores.CRASH.write_log(whole, 160, 1)
    rows = [json.loads(line) | {"seq": i} for i, line in enumerate(whole.read_text().splitlines())]
    lines = [json.dumps(row) + "\n" for row in rows]
    lines.insert(50, '{"memory_id": "m1-1", "text": ""}\n')
    old, new = folder / "a.jsonl", folder / "b.jsonl"
    old.write_text("".join(lines[:100]))
    new.write_text("".join(lines[80:]))
    return old, new


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory, logs: tuple[Path, Path]) -> Path:
    out = tmp_path_factory.mktemp("joint") / "store"
    stores.make(logs, out)
    return out


def test_merge_is_a_joint_build(tmp_path: Path, logs: tuple[Path, Path], joint: Path) -> None:
    for number, log in enumerate(logs):
        stores.make([log], tmp_path / str(number))
    wanted = stores.content(joint)
    for order in (("0", "1"), ("1", "0")):
        out = tmp_path / f"merged{order[0]}"
        report = merge([tmp_path / n for n in order], out, stores.config(), quiet=True)
        assert stores.content(out) == wanted
        assert report.stage("embed").counts["encoded"] == 0
    # A merged store goes on like any other.
    stores.make(logs, tmp_path / "merged0")
    assert stores.content(tmp_path / "merged0") == wanted


def test_merge_wants_equal_settings_and_a_new_store(tmp_path: Path, logs: tuple[Path, Path], joint: Path) -> None:
    stores.make(logs[:1], tmp_path / "other", stores.config(link={"threshold": 0.7}))
    with pytest.raises(StoreError, match=r"link\.threshold = 0\.5 and this build wants 0\.7.*cannot be merged"):
        merge([joint, tmp_path / "other"], tmp_path / "out", stores.config(), quiet=True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(StoreError, match="is a store already"):
        merge([joint], tmp_path / "other", stores.config(), quiet=True)


@pytest.mark.parametrize("num_shards", [1, 2, 16])
def test_reshard_is_a_build_with_that_many_shards(
    tmp_path: Path, logs: tuple[Path, Path], joint: Path, num_shards: int
) -> None:
    stores.make(logs, tmp_path / "fresh", stores.config(ingest={"num_shards": num_shards}))
    shutil.copytree(joint, tmp_path / "store")
    reshard(tmp_path / "store", stores.config(), num_shards)
    assert stores.content(tmp_path / "store") == stores.content(tmp_path / "fresh")
    assert stores.rows(tmp_path / "store") == stores.rows(joint)
    reshard(tmp_path / "store", stores.config(), 4)
    assert stores.content(tmp_path / "store") == stores.content(joint)


def test_reshard_wants_a_power_of_two(joint: Path) -> None:
    with pytest.raises(ConfigError, match="must be a power of two"):
        reshard(joint, stores.config(), 6)


def _without(manifest: bytes) -> dict[str, object]:
    """A manifest apart from its tombstones."""
    document: dict[str, object] = json.loads(manifest)
    document.pop("tombstones", None)
    return document


def _equal_but_for_tombstones(one: Path, two: Path) -> bool:
    a, b = stores.content(one), stores.content(two)
    return _without(a.pop("manifest.json")) == _without(b.pop("manifest.json")) and a == b


@pytest.mark.parametrize("what", ["memory", "session", "event"])
def test_forget_is_a_build_without_it(tmp_path: Path, logs: tuple[Path, Path], joint: Path, what: str) -> None:
    store = tmp_path / "store"
    shutil.copytree(joint, store)
    memory, session = "m1-3", "s1"
    turns = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    target = next(t for t in turns if (t["memory_id"], t.get("session_id")) == (memory, session) and "turn_id" in t)
    chosen = {"memory_id": memory} | ({"session_id": session} if what != "memory" else {})
    chosen |= {"turn_id": target["turn_id"]} if what == "event" else {}
    event = None
    if what == "event":
        manifest = Store(store).open()
        events = Store(store).read_table(manifest.entry("events", shard_of(memory, 4)), "events", memory_id=memory)
        event = next(e["event_id"] for e in events.to_pylist() if e["turn_id"] == target["turn_id"])
    rest = []
    for number, log in enumerate(logs):
        # A blank line in its place, so that the lines that were rejected keep their numbers.
        kept = [
            line if any(json.loads(line).get(k) != v for k, v in chosen.items()) else "\n"
            for line in log.read_text().splitlines(keepends=True)
        ]
        (tmp_path / f"{number}").mkdir()
        rest.append(tmp_path / f"{number}" / log.name)
        rest[-1].write_text("".join(kept))
    stores.make(rest, tmp_path / "fresh")

    report = forget(store, stores.config(), memory, session if what != "memory" else None, event, quiet=True)
    assert report["rows"]["events"] > 0
    assert _equal_but_for_tombstones(store, tmp_path / "fresh")
    assert verify(Store(store)).clean
    # Tomorrow's log does not bring it back, nor does a store that still has it.
    again = stores.make(logs, store)
    assert again.ingest.by_reason["forgotten"] >= 1
    assert again.ingest.balanced()
    assert _equal_but_for_tombstones(store, tmp_path / "fresh")
    merge([joint, store], tmp_path / "merged", stores.config(), quiet=True)
    assert _equal_but_for_tombstones(tmp_path / "merged", tmp_path / "fresh")


def test_forgotten_words_are_in_no_file(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = [{"memory_id": m, "text": f"{m} keeps a xylophone{m} at home {i}", "id": i} for m in "ab" for i in range(9)]
    log.write_text("".join(json.dumps(r) + "\n" for r in rows))
    settings = stores.config(ingest={"num_shards": 1})
    stores.make([log], tmp_path / "out", settings)
    # An unfinished slow path keeps older tables aside; they must go too.
    log.write_text(json.dumps(rows[0] | {"id": 99}) + "\n")
    stores.make([log], tmp_path / "out", settings, until="link")
    assert Store(tmp_path / "out").open().stale
    forget(tmp_path / "out", settings, "a", quiet=True)
    texts = stores.rows(tmp_path / "out")
    assert not any("xylophonea" in row for table in texts.values() for row in table)
    assert any("xylophoneb" in row for row in texts["events"])
    files = set((tmp_path / "out").rglob("*.parquet"))
    named = {tmp_path / "out" / f for f in Store(tmp_path / "out").open().files()}
    assert files == named


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nobody",), "holds no memory 'nobody'"),
        (("m1-1", "nowhere"), "holds no session 'nowhere'"),
        (("m1-1", None, "nothing"), "holds no event 'nothing'"),
    ],
)
def test_forget_names_what_is_not_there(joint: Path, arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        forget(joint, stores.config(), *arguments, quiet=True)


def test_slow_path_later_is_the_whole_build(tmp_path: Path, logs: tuple[Path, Path], joint: Path) -> None:
    fast = stores.make(logs, tmp_path / "out", until="link")
    assert list(fast.stages) == ["read", "ingest", "embed", "link"]
    report = extract(tmp_path / "out", stores.config(), quiet=True)
    assert {name: s.shards for name, s in report.stages.items()} == {"extract": 4, "resolve": 4}
    assert stores.content(tmp_path / "out") == stores.content(joint)
    assert not extract(tmp_path / "out", stores.config(), quiet=True).stages


def test_slow_path_works_on_what_changed_alone(
    tmp_path: Path, logs: tuple[Path, Path], joint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    stores.make(logs[:1], out)
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps({"memory_id": "m1-3", "session_id": "s9", "text": "Hello, Ana!", "id": "x"}) + "\n")
    shard = shard_of("m1-3", 4)
    fast = stores.make([one], out, until="link")
    assert fast.stage("embed").shards == 1
    assert fast.stage("embed").counts["encoded"] == 1
    manifest = Store(out).open()
    assert manifest.entry("extracts", shard) is None
    assert sorted(manifest.tables["extracts"]) == [s for s in range(4) if s != shard]
    assert verify(Store(out)).clean
    seen: list[str] = []
    original = RulesExtractor.extract
    monkeypatch.setattr(
        RulesExtractor, "extract", lambda self, w: (seen.extend(x.window_id for x in w), original(self, w))[1]
    )
    report = extract(out, stores.config(), quiet=True)
    assert report.stage("extract").shards == report.stage("resolve").shards == 1
    # The one window of the new session is extracted; the others of its shard are taken over.
    assert len(seen) == 1
    assert report.stage("extract").counts["windows_reused"] == report.stage("extract").counts["windows_ok"] - 1 > 1
    assert not Store(out).open().stale
    stores.make([*logs[:1], one], tmp_path / "fresh")
    assert stores.content(out) == stores.content(tmp_path / "fresh")
    assert joint.exists()


def test_diff_counts_rows_whatever_the_shards(tmp_path: Path, logs: tuple[Path, Path], joint: Path) -> None:
    stores.make(logs, tmp_path / "two", stores.config(ingest={"num_shards": 2}))
    same = diff(joint, tmp_path / "two")
    assert same["equal"]
    assert same["settings"] == ["ingest.num_shards: 4 and 2"]
    assert same["num_memories"] == 0
    more = tmp_path / "more.jsonl"
    row = {"memory_id": "m1-3", "session_id": "s1", "text": "One more.", "id": "x", "time": "2025-01-01T00:00:00Z"}
    more.write_text(json.dumps(row) + "\n")
    stores.make([*logs, more], tmp_path / "more")
    found = diff(joint, tmp_path / "more")
    assert not found["equal"]
    events = found["tables"]["events"]
    assert (events["only_in_first"], events["only_in_second"], events["changed"]) == (0, 1, 0)
    assert found["tables"]["memories"]["changed"] == 1
    assert list(found["memories"]) == ["m1-3"]


def test_commands_end_in_words_and_json(
    tmp_path: Path, logs: tuple[Path, Path], joint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(joint, store)
    run = [
        ["reshard", str(store), "--num-shards", "2"],
        ["forget", str(store), "--memory", "m1-3"],
        ["diff", str(joint), str(store)],
        ["merge", str(joint), "--out", str(tmp_path / "merged")],
        ["extract", str(store)],
        ["build", str(logs[0]), "--out", str(tmp_path / "new"), "--dry-run", "--set", "embed.encoder=hash"],
    ]
    for arguments in run:
        assert main([*arguments, "--json", "--device", "cpu"]) == 0, arguments
        last = capsys.readouterr().out.splitlines()[-1]
        assert isinstance(json.loads(last), dict)
    assert main(["forget", str(store), "--memory", "m1-3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

"""The contract with users: exit codes, one sentence an error, and what was there is kept."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import HASH, LOG, Ran, refused, tree
from magma_gpu.store import Store

# ----------------------------------------------------------------------------------------------------------- build


def test_build_and_build_again(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run("build", LOG, "--out", out, "--json", *HASH)
    assert first.code == 0, first.err
    assert first.document["turns"] == {"in": 239, "new": 239, "unchanged": 0, "duplicates": 0, "rejected": 0}
    assert first.document["changed"] is True
    assert first.document["failed"] == []
    before = tree(out)
    again = run("build", LOG, "--out", out, "--json", *HASH)
    assert again.code == 0
    assert again.document["turns"]["unchanged"] == 239
    assert again.document["changed"] is False
    assert "Nothing to do" in again.out
    assert tree(out) == before


def test_quiet_says_nothing_and_json_is_alone(run: Any, tmp_path: Path) -> None:
    ran = run("build", LOG, "--out", tmp_path / "out", "--quiet", *HASH, "--until", "ingest")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ran = run("status", tmp_path / "out", "--quiet", "--json")
    assert len(ran.out.splitlines()) == 1
    assert ran.document["turns"] == 239


def test_until_a_stage_and_on_from_there(run: Any, tmp_path: Path, examples_store: Path) -> None:
    out = tmp_path / "out"
    for stage in ("ingest", "embed", "link"):
        assert run("build", LOG, "--out", out, "--until", stage, *HASH).code == 0
        assert run("verify", out).code == 0
    assert not list(out.glob("entities/*.parquet"))
    assert run("build", LOG, "--out", out, *HASH).code == 0
    assert tree(out) == tree(examples_store)


def test_a_session_more_equals_a_full_build(run: Any, tmp_path: Path, examples_store: Path) -> None:
    lines = LOG.read_text(encoding="utf-8").splitlines(keepends=True)
    late, early = tmp_path / "late", tmp_path / "early"
    for folder in (late, early):
        folder.mkdir()
    (late / LOG.name).write_text("".join(lines[100:]), encoding="utf-8")
    (early / LOG.name).write_text("".join(lines[:100]), encoding="utf-8")
    out = tmp_path / "out"
    for folder in (late, early):
        assert run("build", folder / LOG.name, "--out", out, *HASH).code == 0
    made, wanted = Store(out).open(), Store(examples_store).open()
    for table, shards in wanted.tables.items():
        entry = made.entry(table, 0)
        assert entry is not None
        if table not in ("events", "rejected"):
            assert entry.sha256 == shards[0].sha256, table
    # The place in the file is that of the part it was read from; nothing else differs.
    both = [Store(s).read_table(m.entry("events", 0), "events") for s, m in ((out, made), (examples_store, wanted))]
    assert both[0].drop_columns(["seq"]).equals(both[1].drop_columns(["seq"]))
    assert run("verify", out).code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        (b"", "empty"),
        (b"\n \n", ""),
        (b"not json at all", ""),
        (b'{"a": 1}', ""),
        (b"\x00\x01\x02", ""),
        (b"PAR1 and nothing", ""),
    ],
)
def test_inputs_that_cannot_be_used(run: Any, tmp_path: Path, content: bytes | None, words: str) -> None:
    path, out = tmp_path / "log.jsonl", tmp_path / "out"
    if content is not None:
        path.write_bytes(content)
    sentence = refused(run("build", path, "--out", out, *HASH))
    assert words in sentence
    assert "log.jsonl" in sentence
    assert not (out / "manifest.json").exists()
    if content is None or not content.startswith(b"PAR1"):
        # Nothing is left behind where the format alone tells that nothing can be read.
        assert not out.exists()


def test_a_folder_without_files_and_a_glob_that_matches_nothing(run: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(run("build", tmp_path / "empty", "--out", tmp_path / "out", *HASH))
    refused(run("build", tmp_path / "*.none", "--out", tmp_path / "out", *HASH))
    assert not (tmp_path / "out").exists()


def test_a_format_of_no_known_name(run: Any, tmp_path: Path) -> None:
    sentence = refused(run("build", LOG, "--out", tmp_path / "out", "--format", "jsnol", *HASH))
    assert "jsonl" in sentence
    assert not (tmp_path / "out").exists()


def test_one_bad_input_of_two_is_done_in_part(run: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.bin"
    bad.write_bytes(b"\x00\x01\x02\x03")
    ran = run("build", LOG, bad, "--out", tmp_path / "out", "--json", *HASH, "--until", "ingest")
    assert ran.code == 1
    assert "bad.bin" in ran.err
    assert "Traceback" not in ran.err
    assert ran.document["turns"]["new"] == 239
    assert len(ran.document["unreadable_inputs"]) == 1


def test_rejected_rows_are_no_failure(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"text": "Hi."}\n{"text": ""}\nnot json\n{"text": "Bye."}\n')
    ran = run("build", path, "--out", tmp_path / "out", "--json", *HASH)
    assert ran.code == 0
    assert ran.document["turns"] == {"in": 4, "new": 2, "unchanged": 0, "duplicates": 0, "rejected": 2}
    assert ran.document["rejected_by_reason"] == {"no text": 1, "not JSON": 1}
    assert "2 rejected" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "search.kk=1"), "did you mean 'k'"),
        (("--set", "k"), "section.key=value"),
        (("--set", "ingest.num_shards=3"), "power of two"),
        (("--set", "ingest.assumed_zone=Mars/Olympus"), "Mars/Olympus"),
        (("--config", "none.toml"), "does not exist"),
        (("--device", "gpu"), "run.device must be"),
        (("--runner", "slurm"), "run.runner must be"),
        (("--until", "stars"), "invalid choice: 'stars'"),
        (("--no-such-option",), "unrecognized arguments"),
    ],
)
def test_settings_that_do_not_fit(run: Any, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(run("build", LOG, "--out", tmp_path / "out", *HASH, *arguments))
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_no_command_and_a_wrong_one(run: Any) -> None:
    refused(run())
    assert "invalid choice" in refused(run("biuld"))


def test_a_store_of_other_settings_is_not_touched(run: Any, store: Path) -> None:
    before = tree(store)
    sentence = refused(run("build", LOG, "--out", store, *HASH, "--set", "link.threshold=0.7"))
    assert "link.threshold" in sentence
    assert "--overwrite" in sentence
    assert tree(store) == before
    assert run("build", LOG, "--out", store, *HASH, "--set", "link.threshold=0.7", "--overwrite").code == 0
    assert Store(store).open().config["link"]["threshold"] == 0.7
    assert run("verify", store).code == 0


def test_case_c37_another_encoder_is_refused_by_name(run: Any, store: Path) -> None:
    before = tree(store)
    sentence = refused(run("build", LOG, "--out", store, "--set", "embed.encoder=minilm"))
    assert "hash" in sentence
    assert "minilm" in sentence or "MiniLM" in sentence
    assert tree(store) == before


def test_a_store_of_another_format_version(run: Any, store: Path) -> None:
    document = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps(document | {"format_version": 99}))
    before = tree(store)
    for command in (
        ("build", LOG, "--out", store, *HASH),
        ("build", LOG, "--out", store, *HASH, "--overwrite"),
        ("status", store),
        ("memories", store),
        ("verify", store),
        ("query", store, "Why?", "--memory", "ana"),
    ):
        assert "format version 99" in refused(run(*command)), command
    assert tree(store) == before


def test_out_is_a_file(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    refused(run("build", LOG, "--out", path, *HASH))
    refused(run("build", LOG, "--out", path / "below", *HASH))
    assert path.read_text() == "mine"


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_parent_that_cannot_be_written(run: Any, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o500)
    assert "cannot be written" in refused(run("build", LOG, "--out", parent / "out", *HASH))


def test_a_parent_that_cannot_be_written_as_root() -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("needs a file system that nobody can write")
    ran = subprocess.run(
        [sys.executable, "-m", "magma_pipelines", "build", str(LOG), "--out", "/proc/self/out", *HASH],
        capture_output=True,
        text=True,
    )
    assert refused(Ran(ran.returncode, ran.stdout, ran.stderr))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("needs to mount a small disk")
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("cannot mount a small disk here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_what_was_there(run: Any, small_disk: Path, tmp_path: Path) -> None:
    lines = LOG.read_text(encoding="utf-8").splitlines(keepends=True)
    small = tmp_path / LOG.name
    small.write_text("".join(lines[:40]), encoding="utf-8")
    out = small_disk / "out"
    assert run("build", small, "--out", out, *HASH).code == 0
    before = tree(out)
    large = tmp_path / "more.jsonl"
    rows = [
        json.dumps({"memory_id": "big", "turn_id": str(i), "text": f"Text number {i} of many."}) for i in range(4000)
    ]
    large.write_text("\n".join(rows))
    sentence = refused(run("build", large, "--out", out, *HASH))
    assert "space" in sentence or "free" in sentence
    after = tree(out)
    assert {k: v for k, v in after.items() if k in before} == before
    assert run("verify", out).code == 0
    # With room again the build goes on.
    subprocess.run(["mount", "-o", "remount,size=60m", str(small_disk)], check=True)
    assert run("build", large, "--out", out, *HASH).code == 0
    assert run("verify", out).code == 0


def test_no_space_in_the_middle_of_a_write(
    run: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(store)
    path = tmp_path / "more.jsonl"
    path.write_text('{"memory_id": "new", "text": "Hi."}\n')

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert "No space is left" in refused(run("build", path, "--out", store, *HASH))
    assert {k: v for k, v in tree(store).items() if k in before} == before
    assert run("verify", store).code == 0
    assert run("build", path, "--out", store, *HASH).code == 0
    assert "new" in run("memories", store).out

"""A dry run builds nothing, is right about what can be counted, and is judged in the ledger of the build itself."""

import json
from pathlib import Path

import crash_stores as stores
import pytest

from magma_gpu.errors import StoreError
from magma_pipelines.build import BuildOptions, dry_run


def test_estimate_of_a_small_log_counts_it(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    stores.CRASH.write_log(log, 300, 1)
    found = dry_run([str(log)], tmp_path / "out", stores.config(), BuildOptions(quiet=True))
    assert found["turns"] == 300
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["estimate.json"]
    report = stores.make([log], tmp_path / "out")
    assert report.estimate is not None
    assert report.estimate["turns"] == {"estimated": 300, "was": 300, "off": 0.0}
    assert abs(report.estimate["tokens"]["off"]) < 0.05
    assert abs(report.estimate["bytes_of_store"]["off"]) < 0.5
    assert report.estimate["seconds"]["was"] > 0
    ledger = json.loads((tmp_path / "out" / "ledger.json").read_bytes())["runs"][-1]
    assert ledger["estimate"] == report.estimate
    assert not (tmp_path / "out" / "estimate.json").exists()
    # A later build was not estimated.
    stores.CRASH.write_log(log, 310, 2)
    assert stores.make([log], tmp_path / "out").estimate is None


def test_estimate_of_a_large_log_reads_little_of_it(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    stores.CRASH.write_log(log, 20_000, 1)
    found = dry_run([str(log)], tmp_path / "out", stores.config(), BuildOptions(quiet=True, until="link"))
    assert found["sample"]["bytes"] < log.stat().st_size / 10
    assert abs(found["turns"] / 20_000 - 1) < 0.05
    assert set(found["seconds_by_stage"]) == {"read", "ingest", "embed", "link"}


def test_build_for_which_the_estimate_sees_no_room_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    stores.CRASH.write_log(log, 20, 1)
    dry_run([str(log)], tmp_path / "out", stores.config(), BuildOptions(quiet=True))
    path = tmp_path / "out" / "estimate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bytes": 10**18}))
    with pytest.raises(StoreError, match="free and this build needs about"):
        stores.make([log], tmp_path / "out")


def test_ledger_accounts_for_every_turn(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    stores.CRASH.write_log(log, 50, 1)
    with log.open("a") as file:
        file.write('not json\n{"text": ""}\n' + log.read_text().splitlines()[0] + "\n")
    run = stores.make([log], tmp_path / "out").to_json()
    turns = run["turns"]
    assert turns["in"] == 53 == turns["new"] + turns["duplicates"] + turns["rejected"]
    assert run["rejected_by_reason"] == {"no text": 1, "not JSON": 1}
    embed = run["stages"]["embed"]
    assert embed["rows_in"] == embed["rows_out"]["vectors"] == turns["new"]
    assert 0 < embed["encoded"] <= embed["rows_in"]
    assert embed["tokens"] > 0
    assert embed["device"] == "cpu"
    assert embed["model"] == "hash"
    assert embed["seconds"] >= 0
    assert run["stages"]["ingest"]["rows_out"]["events"] == embed["rows_in"]
    assert (run["runner"], run["num_workers"]) == ("local", 1)

"""Broken logs by the thousand: through the readers in this process, through whole builds, and through the command line.

A log is a small valid one of a reader's form with none to three faults in it, all drawn from a seed, so that log N is
the same on every machine. It looks for what must not happen: any error but a MagmaError, a record that cannot be
stored, a turn that is lost, an exit code but 0, 1 and 2, a traceback. How many logs are refused is no measure of
quality: a fault in the header of a file leaves nothing to read. The last line of standard output is JSON.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import copy
import io
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broken_commands import run_commands
from broken_logs import BrokenLog, broken_log
from magma_gpu.config import Config, IngestConfig, config_from
from magma_gpu.errors import InputError, MagmaError
from magma_gpu.ingest import IngestCounts, reduce_shard, spill_rows
from magma_gpu.readers import Source, detect_format, read_source
from magma_gpu.store import Store
from magma_gpu.types import MemoryNote, Question, Record, Reject, Turn
from magma_gpu.verify import verify
from magma_pipelines.build import BuildOptions, build

ROOT = Path(__file__).resolve().parents[2]
# What came of a log: turns alone, turns and rejects, rejects alone, neither, one sentence, or what must not be.
OUTCOMES = ("read", "in part", "rejected", "empty", "refused", "crash")
# Of processor time: a log of a few lines that takes longer than this is a finding.
SLOW_S = 2.0
# One log in this many also goes through ingest.
INGESTED = 10


def read_log(path: Path, log: BrokenLog) -> tuple[str, list[Record]]:
    """Reads a log by the reader of its form; returns what came of it and its records."""
    path.write_bytes(log.data)
    source = Source(path, f"{log.name}")
    with contextlib.suppress(InputError):
        detect_format(source)
    try:
        records = list(read_source(source, log.form, memory_id=None))
    except InputError as error:
        return _refused(error), []
    for record in records:
        _check_storable(record)
    turns = sum(isinstance(r, Turn) for r in records)
    rejects = sum(isinstance(r, Reject) for r in records)
    if turns:
        return ("in part" if rejects else "read"), records
    return ("rejected" if rejects else "empty"), records


def _refused(error: MagmaError) -> str:
    # One sentence, in which nothing of the log can move a terminal's cursor.
    assert str(error).isprintable(), f"not one printable line: {error}"
    return "refused"


def _check_storable(record: Record) -> None:
    assert isinstance(record, Turn | Reject | MemoryNote | Question)
    for name in type(record).__slots__:
        value = getattr(record, name)
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str):
                text.encode("utf-8")
    if isinstance(record, Turn):
        assert record.text or record.caption
        assert record.memory_id
        assert record.session_id


def ingest(records: Sequence[Record]) -> None:
    """Takes the records of one log through ingest, and once more over what that made."""
    config, tables = IngestConfig(), {}
    for again in (False, True):
        counts = IngestCounts()
        rows: dict[str, list[Any]] = {}
        for shards in spill_rows(records, config, counts):
            for kind, table in shards[0].items():
                rows.setdefault(kind, []).append(table)
        made = reduce_shard(tables, rows, config, counts)
        assert counts.balanced(), counts
        assert counts.turns_in == sum(isinstance(r, Turn | Reject) for r in records)
        if again:
            assert counts.new == 0
            assert all(made[name].equals(tables[name]) for name in made)
        tables = made


def run_readers(
    num_logs: int,
    first_seed: int,
    seconds: float = float("inf"),
    before: dict[str, Any] | None = None,
    workers: int = 1,
) -> dict[str, Any]:
    """Reads that many logs; returns counts by reader and by fault, and every crash with its seed.

    Args:
        seconds: stop after about this long.
        before: the report of a run of the same first seed that was stopped by its time; this one goes on behind it.
        workers: processes that read at a time; they change nothing but the time.
    """
    report = before if before is not None and before["first_seed"] == first_seed else _NO_LOGS
    report = copy.deepcopy(report) | {"first_seed": first_seed}
    start, ran_s = time.perf_counter(), report["seconds"]
    with contextlib.ExitStack() as stack:
        # A reader that ends its process ends the run.
        run = map if workers == 1 else stack.enter_context(concurrent.futures.ProcessPoolExecutor(workers)).map
        while report["logs"] < num_logs and time.perf_counter() - start < seconds:
            first, stop = first_seed + report["logs"], first_seed + num_logs
            chunks = [range(at, min(at + _CHUNK, stop)) for at in range(first, stop, _CHUNK)][: 8 * workers]
            for made in run(_read_range, chunks):
                report = _sum(report, made)
    report["seconds"] = round(ran_s + time.perf_counter() - start, 1)
    return report | {"first_seed": first_seed}


# Logs that a process reads before it reports.
_CHUNK = 50


def _read_range(seeds: range) -> dict[str, Any]:
    report = copy.deepcopy(_NO_LOGS)
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            _run_reader(Path(folder) / "log", seed, report)
    return report | {"logs": len(seeds)}


def _sum(a: Any, b: Any) -> Any:
    """Two reports as one: numbers and lists added, names in order."""
    if isinstance(a, dict):
        return {k: _sum(a[k], b[k]) if k in a and k in b else a.get(k, b.get(k)) for k in sorted(a.keys() | b.keys())}
    return a + b


_NO_LOGS: dict[str, Any] = {
    **{"logs": 0, "first_seed": 0, "unbroken": 0, "ingested_twice": 0, "turns": 0, "seconds": 0.0},
    **{"crashes": [], "slow": [], "by_reader": {}, "by_fault": {}, "by_reader_and_fault": {}, "reject_reasons": {}},
}


def _run_reader(path: Path, seed: int, report: dict[str, Any]) -> None:
    log = broken_log(random.Random(seed))  # noqa: S311
    began = time.process_time()
    named = {"seed": seed, "form": log.form, "faults": log.faults}
    try:
        outcome, records = read_log(path, log)
        if not log.faults:
            report["unbroken"] += 1
            assert outcome == "read", f"a valid log was not read whole: {outcome}"
            assert sum(isinstance(r, Turn) for r in records) == log.num_turns
        if seed % INGESTED == 0:
            report["ingested_twice"] += 1
            ingest(records)
    except Exception as error:
        outcome, records = "crash", []
        report["crashes"].append({**named, "error": repr(error)[:300]})
    took_s = time.process_time() - began
    if took_s > SLOW_S:
        report["slow"].append({**named, "seconds": round(took_s, 2)})
    report["turns"] += sum(isinstance(r, Turn) for r in records)
    for record in records:
        if isinstance(record, Reject):
            report["reject_reasons"][record.reason] = report["reject_reasons"].get(record.reason, 0) + 1
    _count(report["by_reader"], log.form, outcome)
    for fault in log.faults or ("none",):
        _count(report["by_fault"], fault, outcome)
        _count(report["by_reader_and_fault"].setdefault(log.form, {}), fault, outcome)


def _count(counts: dict[str, dict[str, int]], name: str, outcome: str) -> None:
    counts.setdefault(name, dict.fromkeys(OUTCOMES, 0))[outcome] += 1


def _counts(counter: collections.Counter[str]) -> dict[str, int]:
    return {name: counter[name] for name in OUTCOMES}


def hash_config() -> Config:
    return config_from({"embed": {"encoder": "hash"}, "run": {"device": "cpu"}})


def build_log(folder: Path, log: BrokenLog, *, by_content: bool = True) -> str:
    """Builds a store of a log, verifies it, and builds it again; returns what came of it.

    Args:
        by_content: let the build tell the form; else it is named.
    """
    path = folder / log.name
    path.write_bytes(log.data)
    store = folder / "store"
    options = BuildOptions(quiet=True, format="auto" if by_content else log.form)
    try:
        report = build([str(path)], store, hash_config(), options)
    except MagmaError as error:
        assert not (store / "manifest.json").exists(), "a refused log left a store"
        return _refused(error)
    assert not report.failed, report.failed[0].trace
    counts = report.ingest
    assert counts.balanced(), counts
    found = verify(Store(store))
    assert found.clean, found.problems
    before = (store / "manifest.json").read_bytes()
    again = build([str(path)], store, hash_config(), options)
    assert again.ingest.new == 0, again.ingest
    assert not again.changed
    assert (store / "manifest.json").read_bytes() == before
    if counts.new:
        return "in part" if counts.rejected else "read"
    return "rejected" if counts.rejected else "empty"


def run_builds(num_logs: int, first_seed: int) -> dict[str, Any]:
    """Builds a store of each of that many logs, by the hash encoder, twice."""
    outcomes: collections.Counter[str] = collections.Counter()
    crashes: list[dict[str, Any]] = []
    start = time.perf_counter()
    for seed in range(first_seed, first_seed + num_logs):
        log = broken_log(random.Random(seed))  # noqa: S311
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcomes[build_log(Path(folder), log, by_content=seed % 2 == 0)] += 1
            except Exception as error:
                outcomes["crash"] += 1
                crashes.append({"seed": seed, "form": log.form, "faults": log.faults, "error": repr(error)[:300]})
    return {
        "builds": num_logs,
        "first_seed": first_seed,
        "seconds": round(time.perf_counter() - start, 1),
        "crashes": crashes,
        "outcomes": _counts(outcomes),
    }


def table(report: dict[str, dict[str, int]], head: str) -> str:
    """Counts by outcome as a Markdown table."""
    out = io.StringIO()
    print(f"| {head} | logs | {' | '.join(OUTCOMES)} |", file=out)
    print(f"| --- |{' ---: |' * (len(OUTCOMES) + 1)}", file=out)
    for name, counts in report.items():
        cells = " | ".join(f"{counts[o]:,}" for o in OUTCOMES)
        print(f"| {name} | {sum(counts.values()):,} | {cells} |", file=out)
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--logs", type=int, default=2000, help="logs through the readers")
    parser.add_argument("--builds", type=int, default=0, help="logs through whole builds in this process")
    parser.add_argument("--commands", type=int, default=0, help="logs through the command line, a process each")
    parser.add_argument(
        "--seconds", type=float, default=600, help="at most this long for the commands; a later run goes on"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="logs and commands at a time")
    parser.add_argument("--forked", action="store_true", help="fork most commands instead of starting Python for each")
    parser.add_argument("--seed", type=int, default=0, help="of the first log")
    parser.add_argument(
        "--out",
        type=Path,
        help="where the report goes, as JSON; a run that was stopped by --seconds goes on from there",
    )
    parser.add_argument("--tables", action="store_true", help="print the counts as Markdown")
    args = parser.parse_args(arguments)
    report: dict[str, Any] = {}
    if args.out is not None and args.out.exists():
        report = json.loads(args.out.read_text(encoding="utf-8"))
    report["machine"] = {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    if args.logs:
        report["readers"] = run_readers(args.logs, args.seed, args.seconds, report.get("readers"), args.workers)
    if args.builds:
        report["builds"] = run_builds(args.builds, args.seed)
    if args.commands:
        report["commands"] = run_commands(
            args.commands,
            args.seed,
            args.seconds,
            report.get("commands"),
            workers=args.workers,
            forked=args.forked,
        )
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.tables and "readers" in report:
        print(table(report["readers"]["by_reader"], "reader"))
        print(table(report["readers"]["by_fault"], "fault"))
    parts = ("readers", "builds", "commands")
    short = {"machine": report["machine"]}
    for part in parts:
        if part in report:
            short[part] = {k: v for k, v in report[part].items() if not k.startswith("by_")}
    print(json.dumps(short))
    return 1 if any(report[part]["crashes"] for part in parts if part in report) else 0


if __name__ == "__main__":
    raise SystemExit(main())

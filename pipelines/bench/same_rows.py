"""Builds one file of conversations with several numbers of shards, by both runners, and session by session in random
order; compares what comes out.

    python pipelines/bench/same_rows.py --data locomo10.json --work /tmp/work --out docs/results/same_rows_locomo.json

Every store is made from nothing, so every one of them has encoded every text itself. At one number of shards the
runners must give the same bytes, manifest included; across numbers of shards the same rows; and sessions that are
added in any order the bytes of the joint build. A question names what its own file holds as evidence, so `queries` is
left out of that last comparison. Stores that are in the work folder already are not made again; `--ways` makes some.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from magma_gpu.config import load_config
from magma_gpu.store import Store
from magma_pipelines.build import BuildOptions, build

_SESSION = re.compile(r"session_(\d+)")


def sessions_of(items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Items of LoCoMo or LongMemEval with one session each; what counts sessions counts as in the whole item."""
    for item in items:
        if item.get("haystack_sessions") == []:
            # A memory without turns has a row too.
            yield item
        elif "haystack_sessions" in item:
            for place, session in enumerate(item["haystack_sessions"]):
                empty: list[list[Any]] = [[] for _ in item["haystack_sessions"]]
                yield item | {"haystack_sessions": [*empty[:place], session, *empty[place + 1 :]]}
        else:
            conversation = item["conversation"]
            other = {k: v for k, v in conversation.items() if not k.startswith("session_")}
            for name in filter(_SESSION.fullmatch, conversation):
                own = {k: v for k, v in conversation.items() if k in (name, f"{name}_date_time")}
                yield {"sample_id": item["sample_id"], "conversation": other | own}


def split(data: Path, folder: Path, num_builds: int, seed: int) -> list[Path]:
    """Writes every session to a file of the same name as the data, in random order, into one folder a build."""
    parts = list(sessions_of(json.loads(data.read_text(encoding="utf-8"))))
    random.Random(seed).shuffle(parts)  # noqa: S311
    for number in range(num_builds):
        for i, part in enumerate(parts[number::num_builds]):
            # The name of a file is provenance, and part of every row: the same in all of them.
            path = folder / f"{number:03d}" / f"{i:03d}" / data.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps([part]), encoding="utf-8")
    return [folder / f"{n:03d}" for n in range(num_builds)]


def make(data: Path, way: str, work: Path, settings: Sequence[str], workers: int) -> dict[str, Any]:
    """Makes one store; `way` is RUNNER-SHARDS or split-SHARDS-SEED-BUILDS."""
    done = work / f"{way}.json"
    if done.exists():
        found: dict[str, Any] = json.loads(done.read_text())
        return found
    words = way.split("-")
    runner = "local" if words[0] == "split" else words[0]
    config = load_config(
        None,
        [
            *settings,
            f"ingest.num_shards={words[1]}",
            f"run.num_workers={workers}",
            f"run.runner={runner}",
            "run.device=cpu",
        ],
    )
    builds = [[str(data)]]
    if words[0] == "split":
        folders = split(data, work / f"{way}-logs", int(words[3]), int(words[2]))
        builds = [sorted(str(p) for p in folder.rglob(data.name)) for folder in folders]
    encoded = turns = 0
    start = time.perf_counter()
    for inputs in builds:
        report = build(inputs, work / way, config, BuildOptions(quiet=True))
        assert not report.failed, report.failed[0].trace
        encoded += int(report.stage("embed").counts.get("encoded", 0))
        turns += report.ingest.new
    seconds = time.perf_counter() - start
    document = {"builds": len(builds), "turns": turns, "texts_encoded": encoded, "seconds": round(seconds, 1)}
    done.write_text(json.dumps(document))
    print(f"{way}: {document}", file=sys.stderr, flush=True)
    return document


def contents(root: Path) -> dict[str, str]:
    """sha256 of every file that counts, by table and shard, and of the manifest."""
    store = Store(root)
    found = {f"{t}/{s:05d}": e.sha256 for t, shards in store.open().tables.items() for s, e in shards.items()}
    return found | {"manifest": hashlib.sha256(store.read_bytes("manifest.json") or b"").hexdigest()}


def rows(root: Path) -> dict[str, str]:
    """A hash of the rows of every table, sorted, whatever the shards."""
    found = {}
    for table, shards in Store(root).open().tables.items():
        lines = sorted(repr(row) for entry in shards.values() for row in pq.read_table(root / entry.file).to_pylist())
        found[table] = f"{len(lines)} rows, {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"
    return found


def compare(work: Path, ways: Sequence[str], made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What differs between the stores of the ways."""
    files = {way: contents(work / way) for way in ways}
    tables = {way: rows(work / way) for way in ways}
    whole = [w for w in ways if not w.startswith("split")]
    first = whole[0]
    results: dict[str, Any] = {}
    for way in ways:
        shards = way.split("-")[1]
        same_number = next(w for w in whole if w.split("-")[1] == shards)
        keys = {*files[way], *files[same_number]}
        if way.startswith("split"):
            # The manifest names the files of `queries` too.
            keys = {k for k in keys if not k.startswith("queries") and k != "manifest"}
        left_out = {"queries"} if way.startswith("split") else set()
        results[way] = {
            **made[way],
            "files": len(files[way]) - 1,
            "compared_with": same_number,
            "files_that_differ": sorted(k for k in keys if files[way].get(k) != files[same_number].get(k)),
            "tables_with_other_rows_than_" + first: sorted(
                t for t in tables[first] if t not in left_out and tables[way].get(t) != tables[first][t]
            ),
        }
    same = all(not v for r in results.values() for k, v in r.items() if k.startswith(("files_that", "tables_with")))
    return {"same": same, "rows": {t: v.split(",")[0] for t, v in tables[first].items()}, "ways": results}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a JSON list in the schema of LoCoMo or LongMemEval")
    parser.add_argument("--work", type=Path, required=True, help="where stores are made, and found again")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--runners", nargs="+", default=["local", "ray"])
    parser.add_argument("--orders", nargs="*", default=["0-8", "1-5"], help="SEED-BUILDS of sessions in random order")
    parser.add_argument("--ways", nargs="*", help="make only these stores, and compare nothing")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    args.work.mkdir(parents=True, exist_ok=True)
    ways = [f"{runner}-{n}" for n in args.shards for runner in args.runners]
    ways += [f"split-{max(args.shards)}-{order}" for order in args.orders]
    made = {w: make(args.data, w, args.work, args.set, args.workers) for w in args.ways or ways}
    if args.ways:
        return 0
    document = {
        "benchmark": "same_rows",
        "data": args.data.name,
        "settings": args.set or ["the defaults, with the real encoder"],
        "workers": args.workers,
        "threads_per_worker": os.environ.get("OMP_NUM_THREADS"),
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()},
        **compare(args.work, ways, made),
    }
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0 if document["same"] else 1


if __name__ == "__main__":
    sys.exit(main())

"""Builds the same conversations in several ways with the real encoder and compares every Parquet file byte by byte.

    python pipelines/bench/same_bytes.py --data locomo10.json --out docs/results/same_bytes.json

The ways: all files at once; in reverse order; with another batch size; one after the other into the same store. A
file's name holds a hash of the settings, batch size among them, so files are compared by table and shard.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from magma_gpu.config import load_config
from magma_gpu.store import Store
from magma_pipelines.build import BuildOptions, build


def contents(root: Path) -> dict[str, str]:
    """sha256 of every file that counts, by table and shard."""
    manifest = Store(root).open()
    return {f"{t}/{s:05d}": e.sha256 for t, shards in manifest.tables.items() for s, e in shards.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a JSON list of conversations, as LoCoMo's")
    parser.add_argument("--limit", type=int, help="only so many conversations")
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        logs = []
        for n, sample in enumerate(json.loads(args.data.read_text(encoding="utf-8"))[: args.limit]):
            logs.append(work / f"conversation-{n:02d}.json")
            logs[-1].write_text(json.dumps([sample]), encoding="utf-8")
        paths = [str(p) for p in logs]
        other = [f"embed.batch_tokens={args.batch_tokens}"]
        ways: dict[str, tuple[list[list[str]], list[str]]] = {
            "at once": ([paths], []),
            "in reverse order": ([paths[::-1]], []),
            "another batch size": ([paths], other),
            "one after the other": ([[p] for p in paths], []),
        }
        found: dict[str, dict[str, str]] = {}
        document: dict[str, Any] = {"data": args.data.name, "conversations": len(paths), "ways": {}}
        for way, (builds, settings) in ways.items():
            start = time.perf_counter()
            for inputs in builds:
                build(inputs, work / way, load_config(None, settings), BuildOptions(quiet=True))
            found[way] = contents(work / way)
            differ = sorted(k for k in found["at once"] if found[way].get(k) != found["at once"][k])
            document["ways"][way] = {
                "files": len(found[way]),
                "files_that_differ": differ,
                "seconds": round(time.perf_counter() - start, 1),
            }
            print(f"{way:24} {len(found[way])} files, {len(differ)} differ {differ or ''}", file=sys.stderr)
    same = all(not w["files_that_differ"] for w in document["ways"].values())
    document["same"] = same
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

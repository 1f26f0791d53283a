"""One memory of very many turns, and very many memories of few: builds whole, and the peak memory of each stage.

    python pipelines/bench/large_memories.py --memories 1 --turns 100000 --shards 1 --folder FOLDER
    python pipelines/bench/large_memories.py --memories 100000 --turns 10 --shards 64 --folder FOLDER

The encoder is `hash`. Each stage is a command of its own, which goes on where the one before ended, so that its peak is
known and `--steps` can spread a long run over several. What is counted is compared with what was written. The last line
of standard output is one JSON document.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

STEPS = ("ingest", "embed", "link", "extract", "resolve", "verify", "query")
TURNS_A_SESSION = 20
VOCABULARY = 5000
QUESTION = "What did Ana say about the boat?"


def write_log(path: Path, num_memories: int, num_turns: int, seed: int) -> None:
    """Writes memory after memory of this many turns each: sessions of 20 turns a day apart, of seeded noise."""
    rng = random.Random(seed)  # noqa: S311
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 9))) for _ in range(VOCABULARY)]
    pool = rng.choices([*words, "boat"], [1 / k for k in range(1, VOCABULARY + 2)], k=200_000)
    first = datetime(2010, 1, 1, 9, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        for memory in range(num_memories):
            for turn in range(num_turns):
                at, session = rng.randrange(len(pool) - 40), turn // TURNS_A_SESSION
                row = {
                    "memory_id": f"memory-{memory}",
                    "session_id": f"session-{session}",
                    "turn_id": f"{session}:{turn}",
                    "speaker": ("Ana", "Wes")[turn % 2],
                    "text": " ".join(pool[at : at + rng.randint(4, 36)]).capitalize() + ".",
                    "time": (first + timedelta(days=session, minutes=turn % TURNS_A_SESSION)).isoformat(),
                }
                file.write(json.dumps(row) + "\n")


def _command(step: str, log: Path, out: Path, num_shards: int) -> list[str]:
    start = [sys.executable, "-m", "magma_pipelines"]
    if step == "verify":
        return [*start, "verify", str(out), "--json"]
    if step == "query":
        return [*start, "query", str(out), QUESTION, "--memory", "memory-0", "--device", "cpu", "--json"]
    build = ["build", str(log), "--out", str(out), "--until", step, "--quiet", "--device", "cpu", "--json"]
    return [*start, *build, "--set", "embed.encoder=hash", "--set", f"ingest.num_shards={num_shards}"]


def run_step(step: str, log: Path, out: Path, num_shards: int) -> dict[str, Any]:
    """Runs one command; returns its time, the peak of its resident memory, and what it said."""
    start = time.perf_counter()
    process = subprocess.Popen(_command(step, log, out, num_shards), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    process.stdout.close()
    # With one worker the command makes everything itself, so its own peak is that of the build.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"'{step}' ended with {process.returncode}: {said[-500:]}")
    found = {"seconds": round(time.perf_counter() - start, 1), "peak_mb": round(usage.ru_maxrss * 1024 / 1e6)}
    document = json.loads(said.splitlines()[-1])
    if step == "ingest":
        found["turns"] = document["turns"]
    elif step == "query":
        found["evidence"] = len(document["results"][0]["evidence"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1)
    parser.add_argument("--turns", type=int, default=10_000, help="of each memory")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--folder", type=Path, required=True, help="where log and store go; kept, so that steps go on")
    parser.add_argument("--out", type=Path, help="where the report goes, as JSON; other sizes and steps in it stay")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    log, store = args.folder / "log.jsonl", args.folder / "store"
    if not log.exists():
        write_log(log.with_suffix(".part"), args.memories, args.turns, args.seed)
        log.with_suffix(".part").rename(log)
    name = f"{args.memories} x {args.turns}"
    report: dict[str, Any] = json.loads(args.out.read_text()) if args.out and args.out.exists() else {"runs": {}}
    report["machine"] = {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    run = report["runs"].setdefault(name, {"steps": {}})
    run |= {
        "memories": args.memories,
        "turns_each": args.turns,
        "shards": args.shards,
        "bytes_of_log": log.stat().st_size,
    }
    for step in args.steps:
        run["steps"][step] = run_step(step, log, store, args.shards)
        print(f"{name} {step}: {json.dumps(run['steps'][step])}", file=sys.stderr, flush=True)
        if step == "ingest":
            turns = run["steps"][step]["turns"]
            wanted = args.memories * args.turns
            assert turns["in"] == turns["new"] + turns["unchanged"] == wanted, (turns, wanted)
        if args.out is not None:
            args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    run["bytes_of_store"] = sum(p.stat().st_size for p in store.rglob("*.parquet"))
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

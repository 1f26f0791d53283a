"""Turns a second by stage, and the peak memory of every process, of builds of a generated log.

The log is seeded noise shaped like LoCoMo's conversations (sessions a memory, turns a session, words a turn, share
of turns with a caption, size of the vocabulary); no word of it is theirs. The encoder is `hash`, so that what is
measured is everything but a model. The last line of standard output is JSON.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

# Of the ten conversations of LoCoMo.
SESSIONS = (19, 32)
TURNS_MEAN, TURNS_DEVIATION, TURNS_LEAST = 21.6, 6.8, 8
LOG_WORDS_MEAN, LOG_WORDS_DEVIATION, WORDS_MOST = 2.966, 0.589, 87
CAPTION_SHARE = 0.21
VOCABULARY = 5400


def write_log(path: Path, num_turns: int, seed: int) -> None:
    """Writes a log of this many turns, memory after memory."""
    rng = random.Random(seed)  # noqa: S311
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 9))) for _ in range(VOCABULARY)]
    # Zipf: the k-th word is met 1/k times as often as the first.
    weights = [1 / k for k in range(1, VOCABULARY + 1)]
    pool = rng.choices(words, weights, k=200_000)
    written = 0
    memory = 0
    with path.open("w", encoding="utf-8") as file:
        while written < num_turns:
            day = datetime(2023, 1, 1, 9, tzinfo=UTC) + timedelta(days=rng.randrange(200))
            for session in range(rng.randint(*SESSIONS)):
                day += timedelta(days=rng.randint(1, 14))
                for turn in range(max(TURNS_LEAST, round(rng.gauss(TURNS_MEAN, TURNS_DEVIATION)))):
                    count = min(WORDS_MOST, max(1, round(rng.lognormvariate(LOG_WORDS_MEAN, LOG_WORDS_DEVIATION))))
                    at = rng.randrange(len(pool) - count)
                    row = {
                        "memory_id": f"memory-{memory}",
                        "session_id": f"session_{session}",
                        "turn_id": f"D{session}:{turn}",
                        "speaker": ("Ana", "Wes")[turn % 2],
                        "text": " ".join(pool[at : at + count]).capitalize() + ".",
                        "time": (day + timedelta(minutes=turn)).isoformat(),
                    }
                    if rng.random() < CAPTION_SHARE:
                        row["caption"] = " ".join(pool[at : at + 6])
                    file.write(json.dumps(row) + "\n")
                    written += 1
                    if written == num_turns:
                        return
            memory += 1


class Memory(threading.Thread):
    """Looks at the peak memory of a process and of all that come from it, until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        # pid -> (what it is, peak in bytes)
        self.peaks: dict[int, tuple[str, int]] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            for pid in _descendants(self._pid):
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
                except OSError:
                    continue
                peak = next((int(x.split()[1]) * 1024 for x in status.splitlines() if x.startswith("VmHWM")), 0)
                kind = "driver" if pid == self._pid else _kind(command)
                self.peaks[pid] = (kind, max(peak, self.peaks.get(pid, ("", 0))[1]))

    def by_kind(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind, peak in self.peaks.values():
            found[kind] = max(found.get(kind, 0), peak)
        return found


def _kind(command: str) -> str:
    if "multiprocessing" in command and "spawn_main" in command:
        return "worker"
    return "worker" if command.startswith("ray::") else "other"


def _descendants(root: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(folder.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])


def measure(log: Path, out: Path, num_turns: int, num_shards: int, runner: str, workers: int) -> dict[str, Any]:
    """Builds once in a process of its own; returns what it took."""
    shutil.rmtree(out, ignore_errors=True)
    settings = ["embed.encoder=hash", f"ingest.num_shards={num_shards}", f"run.num_workers={workers}"]
    command = [
        sys.executable,
        "-m",
        "magma_pipelines",
        "build",
        str(log),
        "--out",
        str(out),
        "--quiet",
        "--device",
        "cpu",
    ]
    command += [x for s in settings for x in ("--set", s)] + ["--runner", runner]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        memory = Memory(process.pid)
        memory.start()
        process.wait()
        memory.stopped.set()
    if process.returncode:
        raise RuntimeError(f"the build ended with {process.returncode}")
    seconds = time.perf_counter() - start
    memory.join()
    run = json.loads((out / "ledger.json").read_bytes())["runs"][-1]
    size = sum(p.stat().st_size for p in out.rglob("*.parquet"))
    peaks = memory.by_kind()
    return {
        "turns": num_turns,
        "runner": runner,
        "workers": workers,
        "shards": num_shards,
        "seconds": round(seconds, 1),
        "seconds_of_build": run["seconds"],
        "turns_per_s": round(num_turns / run["seconds"]),
        # Of one worker that does nothing else.
        "turns_per_s_by_stage": {
            name: round(num_turns / s["seconds"]) for name, s in run["stages"].items() if s["seconds"]
        },
        "wall_s_by_stage": {name: s["wall_seconds"] for name, s in run["stages"].items()},
        "peak_mb_driver": round(peaks.get("driver", 0) / 1e6),
        "peak_mb_worker": round(peaks["worker"] / 1e6) if "worker" in peaks else None,
        "bytes_of_log": log.stat().st_size,
        "bytes_of_store": size,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--runs", nargs="+", default=["local:1", "local:2", "ray:2"], help="RUNNER:WORKERS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where logs and stores go; default: a temporary folder")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="throughput-", dir=args.folder) as name:
        for num_turns in args.turns:
            log = Path(name) / f"{num_turns}.jsonl"
            write_log(log, num_turns, args.seed)
            for run in args.runs:
                runner, _, workers = run.partition(":")
                results.append(
                    measure(log, Path(name) / "store", num_turns, args.shards, runner, int(workers))
                    | {"load_average": round(os.getloadavg()[0], 1)}
                )
                print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    document = {
        "benchmark": "throughput",
        "encoder": "hash",
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "runs": results,
    }
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Turns a second by stage, and the peak memory of every process, of builds of a generated log.

The log is seeded noise shaped like LoCoMo's conversations (sessions a memory, turns a session, words a turn, share
of turns with a caption, size of the vocabulary); no word of it is theirs. The encoder is `hash`, so that what is
measured is everything but a model. A shard has about the same number of turns whatever the log, and every worker one
thread. Each build is a process of its own; with `--out`, runs are added to those that stand there, so that a large
measurement can be made in pieces. The last line of standard output is JSON.
"""

import argparse
import itertools
import json
import math
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


# More turns than this are not put into one shard.
TURNS_PER_SHARD = 8192
SIZES = (10_000, 100_000, 1_000_000)


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


class Watch(threading.Thread):
    """Looks at the peak memory and the CPU time of a process and of all that come from it, until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        # pid -> (what it is, peak in bytes)
        self.peaks: dict[int, tuple[str, int]] = {}
        # pid -> seconds, of user and system
        self.cpu: dict[int, float] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            for pid in _descendants(self._pid):
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
                    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
                except (OSError, IndexError):
                    continue
                peak = next((int(x.split()[1]) * 1024 for x in status.splitlines() if x.startswith("VmHWM")), 0)
                self.cpu[pid] = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
                kind = "driver" if pid == self._pid else _kind(command)
                was, most = self.peaks.get(pid, ("", 0))
                self.peaks[pid] = ("worker" if was == "worker" else kind, max(peak, most))

    def by_kind(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind, peak in self.peaks.values():
            found[kind] = max(found.get(kind, 0), peak)
        return found


def _kind(command: str) -> str:
    if "multiprocessing" in command and "spawn_main" in command:
        return "worker"
    # Ray names its workers by what they are at.
    return "worker" if command.startswith("ray::_RayWorker") else "other"


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


def measure(log: Path, out: Path, num_turns: int, runner: str, workers: int) -> dict[str, Any]:
    """Builds once in a process of its own; returns what it took."""
    shutil.rmtree(out, ignore_errors=True)
    num_shards = max(workers, 1 << math.ceil(math.log2(num_turns / TURNS_PER_SHARD)))
    settings = ["embed.encoder=hash", f"ingest.num_shards={num_shards}", f"run.num_workers={workers}"]
    command = [sys.executable, "-m", "magma_pipelines", "build", str(log), "--out", str(out), "--quiet"]
    command += ["--device", "cpu", "--runner", runner, *(x for s in settings for x in ("--set", s))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    load = os.getloadavg()[0]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        watch = Watch(process.pid)
        watch.start()
        process.wait()
        watch.stopped.set()
    if process.returncode:
        raise RuntimeError(f"the build ended with {process.returncode}")
    seconds = time.perf_counter() - start
    watch.join()
    run = json.loads((out / "ledger.json").read_bytes())["runs"][-1]
    size = sum(p.stat().st_size for p in out.rglob("*.parquet"))
    peaks = watch.by_kind()
    stages = run["stages"]
    return {
        "turns": num_turns,
        "runner": runner,
        "workers": workers,
        "shards": num_shards,
        "seconds": round(seconds, 1),
        "seconds_of_build": run["seconds"],
        # Of all processes, start-up included; other work on the machine hardly changes it.
        "cpu_seconds": round(sum(watch.cpu.values()), 1),
        "turns_per_s": round(num_turns / run["seconds"]),
        # Of one worker that does nothing else.
        "turns_per_s_by_stage": {name: round(num_turns / s["seconds"]) for name, s in stages.items() if s["seconds"]},
        # Summed over workers, without the loading of models and modules.
        "seconds_by_stage": {name: s["seconds"] for name, s in stages.items()},
        "load_seconds": round(sum(s["load_seconds"] for s in stages.values()), 1),
        "peak_mb_driver": round(peaks.get("driver", 0) / 1e6),
        "peak_mb_worker": round(peaks["worker"] / 1e6) if "worker" in peaks else None,
        "bytes_of_log": log.stat().st_size,
        "bytes_of_store": size,
        "load_average_before": round(load, 1),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What a further turn costs between two sizes, start-up apart, and how that grows; and what two workers bring."""
    found: dict[str, Any] = {}
    by = {(r["runner"], r["workers"], r["turns"]): r for r in runs}
    for runner, workers in sorted({(r["runner"], r["workers"]) for r in runs}):
        here = {n: by[runner, workers, n] for n in SIZES if (runner, workers, n) in by}
        entry: dict[str, Any] = {
            "peak_mb_worker": {n: r["peak_mb_worker"] or r["peak_mb_driver"] for n, r in here.items()}
        }
        entry |= {"microseconds_per_further_turn": {}, "growth": {}}
        for name, what in (("wall", "seconds_of_build"), ("cpu", "cpu_seconds")):
            cost = [_marginal(a, b, what) for a, b in itertools.pairwise(here.values())]
            entry["microseconds_per_further_turn"][name] = [round(v * 1e6, 1) for v in cost]
            if len(cost) == 2:
                entry["growth"][name] = round(cost[1] / cost[0], 3)
        found[f"{runner}:{workers}"] = entry
    gains = {}
    for runner in ("local", "ray"):
        pair = [(by.get((runner, w, SIZES[0])), by.get((runner, w, SIZES[1]))) for w in (1, 2)]
        if all(a and b for a, b in pair):
            one, two = (_marginal(a, b, "seconds_of_build") for a, b in pair if a and b)
            gains[runner] = round(one / two, 2)
    return {"by_run": found, "gain_of_two_workers": gains}


def _marginal(small: dict[str, Any], large: dict[str, Any], what: str) -> float:
    seconds: float = large[what] - small[what]
    return seconds / (large["turns"] - small["turns"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=SIZES[:2])
    parser.add_argument("--runs", nargs="+", default=["local:1", "local:2", "ray:2"], help="RUNNER:WORKERS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where logs and stores go; default: a temporary folder")
    parser.add_argument("--out", type=Path, help="runs are added to what stands there")
    args = parser.parse_args()
    runs = []
    if args.out is not None and args.out.exists():
        runs = json.loads(args.out.read_text(encoding="utf-8"))["runs"]
    with tempfile.TemporaryDirectory(prefix="throughput-", dir=args.folder) as name:
        for num_turns in args.turns:
            log = (args.folder or Path(name)) / f"{num_turns}-{args.seed}.jsonl"
            if not log.exists():
                write_log(log, num_turns, args.seed)
            for run in args.runs:
                runner, _, workers = run.partition(":")
                made = measure(log, Path(name) / "store", num_turns, runner, int(workers))
                print(json.dumps(made), file=sys.stderr, flush=True)
                same = (runner, int(workers), num_turns)
                runs = [r for r in runs if (r["runner"], r["workers"], r["turns"]) != same] + [made]
    runs.sort(key=lambda r: (r["runner"], r["workers"], r["turns"]))
    document = {
        "benchmark": "throughput",
        "encoder": "hash",
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "summary": summary(runs),
        "runs": runs,
    }
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a build of any size takes, from the costs of one turn measured here; checked against builds that were made.

    python pipelines/bench/capacity.py --throughput docs/results/throughput.json --out docs/results/performance.json

A log of `--turns` generated turns (see throughput.py) is built once in this process; the CPU time of every stage and
the bytes of every table are divided by its turns. The model adds them up; what it says of the builds in
`throughput.json`, which it was not made from, stands beside what those took. Of a GPU nothing is measured: its tokens
a second are an assumption, given by `--gpu-tokens-per-s`. The last line of standard output is JSON; with --out it
becomes the section `capacity` of that file.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from magma_gpu.config import load_config
from magma_gpu.store import MANIFEST, Store
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.tasks import Outcome, Task
from magma_pipelines.worker import Worker
from performance import merge
from throughput import write_log

# Of LoCoMo with `embed.content = speaker_date_text` (its ledger: 253,198 tokens of 5,882 turns).
TOKENS_A_TURN = 253_198 / 5_882
ENCODER_DIM, HASH_DIM = 384, 64
TURNS_A_SHARD = 50_000
CORES_A_GPU = 16
SIZES = (10**7, 10**9, 10**11)
GPUS = (1, 8, 512)
# How often a table is read by later stages.
READS = {"events": 4, "vectors": 1, "extracts": 1}


class _Clock:
    """CPU seconds of every kind of task of one build in this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._run = Worker.run

    def run(self, worker: Worker, task: Task) -> Outcome:
        stage = getattr(task, "stage", "read")
        if stage in ("embed", "link", "extract", "resolve"):
            worker._load(stage)
        start = time.process_time()
        outcome = self._run(worker, task)
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - start
        return outcome


def timed_build(log: Path, out: Path) -> tuple[dict[str, float], float]:
    """Builds a log in this process with the hash encoder; returns CPU seconds by stage, and of all else."""
    config = load_config(None, ["embed.encoder=hash"])
    clock = _Clock()
    Worker.run = lambda self, task: clock.run(self, task)  # type: ignore[method-assign]
    try:
        start = time.process_time()
        build([str(log)], out, config, BuildOptions(quiet=True))
        whole = time.process_time() - start
    finally:
        Worker.run = clock._run  # type: ignore[method-assign]
    return clock.seconds, whole - sum(clock.seconds.values())


def stages_of(log: Path) -> dict[str, Any]:
    """CPU seconds of the stages of one log but encoding."""
    with tempfile.TemporaryDirectory(prefix="capacity-") as name:
        seconds, _ = timed_build(log, Path(name) / "store")
    found = {stage: round(s, 3) for stage, s in seconds.items() if stage != "embed"}
    return {"log": log.name, "cpu_s_by_stage": found, "cpu_s_of_stages": round(sum(found.values()), 3)}


def unit_costs(num_turns: int, seed: int) -> dict[str, Any]:
    """Builds once; returns microseconds of CPU and bytes a turn, and what a shard costs apart from its turns."""
    with tempfile.TemporaryDirectory(prefix="capacity-") as name:
        log, out = Path(name) / "log.jsonl", Path(name) / "store"
        write_log(log, num_turns, seed)
        seconds, rest = timed_build(log, out)
        manifest = Store(out).open()
        tables = {
            table: (out / entry.file).stat().st_size
            for table, shards in manifest.tables.items()
            for entry in shards.values()
        }
        files = len(tables)
        return {
            "turns": num_turns,
            "cpu_us_a_turn": {stage: round(s / num_turns * 1e6, 2) for stage, s in seconds.items()},
            "cpu_s_apart_from_turns": round(rest, 2),
            "bytes_a_turn": {table: round(size / num_turns, 1) for table, size in tables.items()},
            "bytes_of_log_a_turn": round(log.stat().st_size / num_turns, 1),
            "files_a_shard": files,
            "manifest_bytes_a_file": round((out / MANIFEST).stat().st_size / files),
        }


def check(costs: dict[str, Any], throughput: Path) -> list[dict[str, Any]]:
    """What the model says of builds with the hash encoder, beside what they took."""
    runs = json.loads(throughput.read_text(encoding="utf-8"))["runs"]
    a_turn = sum(costs["cpu_us_a_turn"].values()) / 1e6
    size = sum(costs["bytes_a_turn"].values())
    # What processes cost before they do anything is taken from the smallest build of each runner.
    smallest: dict[str, dict[str, Any]] = {}
    for run in sorted((r for r in runs if "cpu_seconds" in r), key=lambda r: r["turns"]):
        smallest.setdefault(run["runner"], run)
    found = []
    for run in runs:
        first = smallest.get(run["runner"])
        if first is None or "cpu_seconds" not in run:
            continue
        cpu = first["cpu_seconds"] + a_turn * (run["turns"] - first["turns"])
        stored = size * run["turns"]
        found.append(
            {
                "turns": run["turns"],
                "runner": run["runner"],
                "start_taken_from_it": run is first,
                "cpu_s": {"predicted": round(cpu, 1), "measured": run["cpu_seconds"]},
                "cpu_off_by": round(cpu / run["cpu_seconds"] - 1, 3),
                "bytes": {"predicted": round(stored), "measured": run["bytes_of_store"]},
                "bytes_off_by": round(stored / run["bytes_of_store"] - 1, 3),
            }
        )
    return found


def plan(costs: dict[str, Any], turns: int, gpus: int, tokens_per_s: float) -> dict[str, Any]:
    """A build with the default encoder on this many GPUs, each beside `CORES_A_GPU` cores."""
    by_stage = dict(costs["cpu_us_a_turn"])
    # The encoder's work is the GPU's, and linking multiplies vectors six times as wide.
    by_stage["link"] *= ENCODER_DIM / HASH_DIM
    by_stage.pop("embed", None)
    core_s = turns * sum(by_stage.values()) / 1e6
    gpu_s = turns * TOKENS_A_TURN / tokens_per_s
    tables = dict(costs["bytes_a_turn"])
    tables["vectors"] += 4 * (ENCODER_DIM - HASH_DIM)
    size = sum(tables.values())
    shards = 1
    while shards * TURNS_A_SHARD < turns:
        shards *= 2
    # The log once, the rows between map and reduce twice, every table written, and what later stages read.
    moved = 3 * costs["bytes_of_log_a_turn"] + size + sum(n * tables[t] for t, n in READS.items())
    hours = max(gpu_s / gpus, core_s / (gpus * CORES_A_GPU)) / 3600
    files = shards * costs["files_a_shard"]
    return {
        "turns": turns,
        "gpus": gpus,
        "hours": round(hours, 2),
        "gpu_hours": round(gpu_s / 3600, 1),
        "core_hours": round(core_s / 3600, 1),
        "store_tb": round(turns * size / 1e12, 3),
        "moved_tb": round(turns * moved / 1e12, 3),
        "gbit_per_s": round(turns * moved * 8 / 1e9 / (hours * 3600), 2),
        "shards": shards,
        "files": files,
        "manifest_mb": round(files * costs["manifest_bytes_a_file"] / 1e6, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gpu-tokens-per-s", type=float, default=1e6, help="assumed, of one GPU")
    parser.add_argument("--throughput", type=Path)
    parser.add_argument("--log", type=Path, help="also time the stages of this log: section `build`")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    costs = unit_costs(args.turns, args.seed)
    if args.log:
        merge(args.out, "build", stages_of(args.log))
    found: dict[str, Any] = {
        "unit_costs": costs,
        "gpu_tokens_per_s_assumed": args.gpu_tokens_per_s,
        "plans": [plan(costs, turns, gpus, args.gpu_tokens_per_s) for turns in SIZES for gpus in GPUS],
    }
    if args.throughput:
        found["checked"] = check(costs, args.throughput)
    merge(args.out, "capacity", found)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

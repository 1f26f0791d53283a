"""Kills builds at chosen and at random moments, runs them again, and compares what comes out with an unbroken build.

It checks that every Parquet file and the manifest are the same, byte for byte, and that nothing that was finished when
the build was killed is read, embedded or made again. What workers do is logged outside of the store, by this file being
loaded in every process of the build, on Ray too. The last line of standard output is JSON.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from magma_gpu.schema import STAGE_TABLES, TABLES

LOG, POINT = "MAGMA_CRASH_LOG", "MAGMA_CRASH_POINT"
# Before the manifest is written, between its temporary file and the rename, and after the rename before the sweep.
SWAP_POINTS = ("before-swap", "during-swap", "after-swap")


# ------------------------------------------------------------------------------------------- in the build's processes


def _log(kind: str, what: object) -> None:
    line = json.dumps([kind, what]) + "\n"
    descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def watch() -> None:
    """Makes this process log its work, and die at the point that the environment names."""
    from magma_gpu import embed, store
    from magma_pipelines import worker

    encode, stage = embed.HashEncoder.encode, worker.Worker._stage
    spill, reduce = worker.spill_rows, worker.reduce_shard

    def logged_encode(self: Any, texts: Sequence[str]) -> Any:
        for text in texts:
            _log("text", store.stable_hash(text))
        return encode(self, texts)

    def logged_stage(self: Any, task: Any) -> Any:
        _log("stage", [task.stage, task.shard])
        here = [task.stage, str(task.shard)]
        fate = next((f for p in os.environ.get(POINT, "").split(";") if (f := p.split(":"))[1:3] == here), [""])
        if fate[0] == "exit-before" and _first_time(fate[3]):
            os._exit(1)
        made = stage(self, task)
        if fate[0] == "exit-always" or (fate[0] == "exit-after" and _first_time(fate[3])):
            os._exit(1)
        return made

    def logged_spill(records: Any, *args: Any, **kwargs: Any) -> Any:
        _log("read", 1)
        return spill(records, *args, **kwargs)

    def logged_reduce(*args: Any, **kwargs: Any) -> Any:
        _log("reduce", 1)
        return reduce(*args, **kwargs)

    if (kind := os.environ.get(POINT, "").split(":"))[0] == "worker-after" and not _is_driver():
        threading.Thread(target=_die_later, args=(float(kind[1]), kind[2]), daemon=True).start()
    embed.HashEncoder.encode = logged_encode  # type: ignore[method-assign]
    worker.Worker._stage = logged_stage  # type: ignore[method-assign]
    worker.spill_rows, worker.reduce_shard = logged_spill, logged_reduce
    if (point := os.environ.get(POINT, "")).startswith("outcome:"):
        _die_at_outcome(int(point.split(":")[1]))
    elif point:
        _die_at(point)


def _is_driver() -> bool:
    return __name__ == "__main__" and "--child" in sys.argv


def _die_later(seconds: float, marker: str) -> None:
    """Ends a worker as the system does that runs out of memory; one of all that come here."""
    time.sleep(seconds)
    if _first_time(marker):
        os.kill(os.getpid(), signal.SIGKILL)


def ready() -> None:
    """Called in every Ray worker; importing this module has already made it log and die."""


def join_ray(num_workers: int) -> None:
    """Starts Ray, or joins the cluster of RAY_ADDRESS, with workers that load this file."""
    import ray

    names = (LOG, POINT)
    environment = {name: os.environ[name] for name in names}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    here: dict[str, Any] = (
        {"address": os.environ["RAY_ADDRESS"]}
        if os.environ.get("RAY_ADDRESS")
        else {
            "address": "local",
            "num_cpus": num_workers,
            "include_dashboard": False,
            "object_store_memory": 100 << 20,
        }
    )
    hook = {"env_vars": environment, "worker_process_setup_hook": "crash.ready"}
    ray.init(**here, runtime_env=hook, log_to_driver=False, logging_level="ERROR")


def _first_time(marker: str) -> bool:
    """Whether no process has come this way before."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _die_at_outcome(number: int) -> None:
    """Kills the driver when it has taken so many outcomes in."""
    from magma_pipelines.schedule import Plan

    then, count = Plan.then, 0

    def dying_then(self: Plan, outcome: Any) -> Any:
        nonlocal count
        count += 1
        tasks = then(self, outcome)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return tasks

    Plan.then = dying_then  # type: ignore[method-assign]


def _die_at(point: str) -> None:
    from magma_gpu.store import MANIFEST, Store

    write = Store.write_bytes
    kind, _, number = point.partition(":")
    count = 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def dying_write(self: Store, name: str, data: bytes) -> None:
        nonlocal count
        count += 1
        if name == MANIFEST:
            if kind == "before-swap":
                die()
            if kind == "during-swap":
                self.path(f".{MANIFEST}.0.tmp").write_bytes(data)
                die()
        if kind == "write" and count == int(number):
            die()
        write(self, name, data)
        if (kind == "written" and count == int(number)) or (name == MANIFEST and kind == "after-swap"):
            die()

    Store.write_bytes = dying_write  # type: ignore[method-assign]


if os.environ.get(LOG):
    watch()


# ----------------------------------------------------------------------------------------------------- in the observer


def run_build(
    arguments: Sequence[str],
    log: Path,
    point: str = "",
    kill_after_s: float | None = None,
    allowed: Sequence[int] = (),
) -> int:
    """Runs `build` in a process of its own; returns its exit code, negative where a signal ended it.

    Args:
        point: where it dies; `exit-before:STAGE:SHARD:MARKER`, `exit-after:...` and `exit-always:...` end a worker, and
            several of these may be joined by semicolons; `worker-after:SECONDS:MARKER` kills one worker.
        allowed: exit codes that are no error besides 0.
    """
    environment = {**os.environ, LOG: str(log), POINT: point}
    command = [sys.executable, __file__, "--child", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        if kill_after_s is not None:
            try:
                process.wait(kill_after_s)
            except subprocess.TimeoutExpired:
                process.kill()
        error = process.communicate()[1].decode()
    if process.returncode not in (0, -signal.SIGKILL, *allowed):
        raise RuntimeError(f"the build ended with {process.returncode}: {error}")
    return process.returncode


def store_bytes(root: Path) -> dict[str, bytes]:
    """Every Parquet file and the manifest by name: what must be equal."""
    files = {f"{t}/{p.name}": p.read_bytes() for t in TABLES for p in (root / t).glob("*") if p.is_file()}
    return files | {"manifest.json": (root / "manifest.json").read_bytes()}


def finished(root: Path, reference: Path) -> tuple[set[tuple[str, int]], set[str]]:
    """(stage, shard) that are finished in an unfinished store, and the texts that stand in their vectors alone."""
    import pyarrow.parquet as pq

    document = json.loads((reference / "manifest.json").read_bytes())["tables"]
    done: set[tuple[str, int]] = set()
    for stage, tables in STAGE_TABLES.items():
        if stage != "ingest":
            for shard in document[tables[0]]:
                if all((root / document[t][shard]["file"]).exists() for t in tables):
                    done.add((stage, int(shard)))
    texts: dict[bool, set[str]] = {True: set(), False: set()}
    for shard, entry in document["vectors"].items():
        hashes = pq.read_table(reference / entry["file"], columns=["text_hash"])["text_hash"].to_pylist()
        texts[("embed", int(shard)) in done].update(hashes)
    return done, texts[True] - texts[False]


def work_of(log: Path) -> dict[str, list[Any]]:
    """What a log says was done, by kind."""
    found: dict[str, list[Any]] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        kind, what = json.loads(line)
        found.setdefault(kind, []).append(what)
    return found


def check_kill(
    folder: Path, arguments: Sequence[str], reference: Path, before: Path | None, point: str, kill_after_s: float | None
) -> dict[str, Any]:
    """One kill and one resumption; returns what was found.

    Args:
        arguments: of `build`, without --out.
        reference: the store of an unbroken build.
        before: a store to begin with; None for none.
    """
    out = folder / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if before is not None:
        shutil.copytree(before, out)
    code = run_build([*arguments, "--out", str(out)], folder / "first.log", point, kill_after_s)
    # A worker that was killed has left its mark, and the build went on without it.
    marker = Path(point.split(":")[2]) if point.startswith("worker-after:") else None
    killed = code != 0 or (marker is not None and marker.exists())
    done, texts = finished(out, reference)
    spilled = [p.name for p in (out / ".spill").glob("*.json")]
    reduced = sum(name.startswith("reduced-") for name in spilled)
    whole = work_of(reference.with_suffix(".log"))
    run_build([*arguments, "--out", str(out)], folder / "second.log")
    second = work_of(folder / "second.log")
    read_again = len(second.get("read", [])) - (len(whole["read"]) - (len(spilled) - reduced))
    reduced_again = len(second.get("reduce", [])) - (len(whole["reduce"]) - reduced)
    again = len([w for w in second.get("stage", []) if tuple(w) in done])
    if marker is not None:
        # The task that the worker was at is done by another one; nothing else is.
        stages = [tuple(w) for w in work_of(folder / "first.log").get("stage", [])]
        again += max(0, len(stages) - len(set(stages)) - 1)
    texts_again = [t for t in second.get("text", []) if t in texts]
    same = store_bytes(out) == store_bytes(reference)
    left = [p.name for p in out.iterdir() if p.name.startswith(".") and p.name != ".lock"] + [
        n for n in ("building.json",) if (out / n).exists()
    ]
    return {
        "point": f"a worker after {point.split(':')[1]} s" if marker else point or f"after {kill_after_s:.2f} s",
        "killed": killed,
        "identical": same,
        "shards_finished": len(done),
        "finished_made_again": again,
        "texts_again": len(texts_again),
        "read_again": max(0, read_again) + max(0, reduced_again),
        "left_over": left,
    }


def write_log(path: Path, num_turns: int, seed: int) -> None:
    """A log of several memories and sessions; some turns have no id, some are the same."""
    rng = random.Random(seed)  # noqa: S311
    words = "garden boat letter violin train kitchen river doctor autumn bicycle ticket sister".split()
    with path.open("w", encoding="utf-8") as file:
        for i in range(num_turns):
            row = {
                "memory_id": f"m{seed}-{rng.randrange(12)}",
                "session_id": f"s{rng.randrange(3)}",
                "speaker": rng.choice(["Ana", "Wes"]),
                "text": "ok" if rng.random() < 0.05 else f"We spoke of the {' '.join(rng.choices(words, k=6))} {i}.",
                "time": f"2024-0{rng.randrange(1, 10)}-1{rng.randrange(10)}T1{rng.randrange(10)}:00:00Z",
            }
            if rng.random() < 0.7:
                row["turn_id"] = f"t{i}"
            file.write(json.dumps(row) + "\n")


def measure(
    runner: str, workers: int, num_kills: int, num_turns: int, seed: int, most_seconds: float
) -> dict[str, Any]:
    """Kills builds of a new store and of a larger one, half each; returns what was found.

    Args:
        num_kills: kills at random times, beside the chosen points; on Ray, and with several workers, a third of them
            kill a worker and the others the driver.
        most_seconds: no kill is begun after that.
    """
    rng = random.Random(seed)  # noqa: S311
    results = []
    with tempfile.TemporaryDirectory(prefix="crash-") as name, _cluster(runner, workers):
        folder = Path(name)
        old, new = folder / "a.jsonl", folder / "b.jsonl"
        write_log(old, num_turns, 1)
        write_log(new, num_turns, 2)
        settings = ["--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--device", "cpu", "--quiet"]
        settings += ["--set", f"run.num_workers={workers}", "--runner", runner]
        before, reference = folder / "before", folder / "reference"
        run_build([str(old), *settings, "--out", str(before)], folder / "x.log")
        arguments = [str(old), str(new), *settings]
        start = time.perf_counter()
        run_build([*arguments, "--out", str(reference)], reference.with_suffix(".log"))
        whole_s = time.perf_counter() - start
        points: list[tuple[str, float | None]] = [(p, None) for p in SWAP_POINTS]
        if runner == "local":
            points += [(f"{kind}:{rng.randrange(1, 80)}", None) for kind in ("write", "written") for _ in range(4)]
        for number in range(num_kills):
            after = rng.uniform(0.3, 1.0) * whole_s
            of_worker = workers > 1 and number % 3 == 2
            points.append(
                (f"worker-after:{after / 3:.2f}:{folder / f'mark-{number}'}", None) if of_worker else ("", after)
            )
        for number, (point, after) in enumerate(points):
            if time.perf_counter() - start > most_seconds:
                break
            begin = before if number % 2 else None
            found = check_kill(folder / "run", arguments, reference, begin, point, after)
            while after is not None and not found["killed"]:
                # Other work on the machine has ended meanwhile, and the build with it: too late.
                after *= 0.7
                found = check_kill(folder / "run", arguments, reference, begin, point, after)
            results.append({"begins_with": "a store" if begin else "nothing", **found})
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    killed = [r for r in results if r["killed"]]
    return {
        "runner": runner,
        "workers": workers,
        "turns": 2 * num_turns,
        "seconds_unbroken": round(whole_s, 2),
        "runs": len(results),
        "killed": len(killed),
        "killed_at_random_times": sum("after " in r["point"] for r in killed),
        "workers_killed": sum(r["point"].startswith("a worker") for r in killed),
        "identical": sum(r["identical"] for r in results),
        "finished_shards_at_kill": sum(r["shards_finished"] for r in killed),
        "finished_made_again": sum(r["finished_made_again"] for r in results),
        "texts_embedded_again": sum(r["texts_again"] for r in results),
        "read_or_reduced_again": sum(r["read_again"] for r in results),
        "left_over": dict(Counter(x for r in results for x in r["left_over"])),
        "points": [r["point"] for r in results],
    }


@contextlib.contextmanager
def _cluster(runner: str, workers: int) -> Iterator[None]:
    """A Ray cluster that outlives the drivers, as in production: workers of a killed driver may end late."""
    if runner != "ray":
        yield
        return
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": workers, "object_store_memory": 100 << 20})
    os.environ["RAY_ADDRESS"] = made.address
    try:
        yield
    finally:
        del os.environ["RAY_ADDRESS"]
        made.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="kills at random times, beside the chosen points")
    parser.add_argument("--turns", type=int, default=1500, help="turns of each of the two logs")
    parser.add_argument("--runs", nargs="+", default=["local:1", "local:2", "ray:2"], help="RUNNER:WORKERS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for each of --runs, about")
    parser.add_argument("--out", type=Path, help="added to what stands there already")
    args = parser.parse_args()
    runs = []
    if args.out is not None and args.out.exists():
        runs = [
            r for r in json.loads(args.out.read_text())["runs"] if f"{r.get('runner')}:{r['workers']}" not in args.runs
        ]
    for run in args.runs:
        runner, _, workers = run.partition(":")
        runs.append(measure(runner, int(workers), args.kills, args.turns, args.seed, args.seconds))
    document = {
        "benchmark": "crash",
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "runs": runs,
    }
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    good = all(
        r["identical"] == r["runs"]
        and not any(r[k] for k in ("finished_made_again", "texts_embedded_again", "read_or_reduced_again", "left_over"))
        for r in runs
    )
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        from magma_pipelines.cli import main as command

        if "ray" in sys.argv:
            join_ray(2)
        sys.exit(command(["build", *sys.argv[2:]]))
    sys.exit(main())

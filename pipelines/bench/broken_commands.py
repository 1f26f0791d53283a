"""Broken logs through `magma-gpu build`, each in a process of its own.

It looks at what a user sees: the exit code, one sentence or none on standard error, no traceback, and in the report of
the build that every turn is accounted for. fuzz_readers.py runs it and keeps its figures.
"""

import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broken_logs import BrokenLog, broken_log
from magma_gpu.config import config_from
from magma_pipelines.build import BuildOptions, build

# Of commands that are forked, one in this many is started as users start it.
STARTED = 25


def run_commands(
    num_logs: int,
    first_seed: int,
    seconds: float,
    before: dict[str, Any] | None = None,
    *,
    workers: int = 1,
    forked: bool = False,
) -> dict[str, Any]:
    """Runs `magma-gpu build` on logs, each in a process of its own, until there were enough or the time is up.

    Args:
        before: the report of a run of the same first seed that was stopped by its time; this one goes on behind it.
        workers: commands that run at a time.
        forked: fork each from this process, which has imported everything, instead of starting Python anew; one
            in STARTED is started all the same.
    """
    report = {"commands": 0, "forked": 0, "first_seed": first_seed, "seconds": 0.0, "crashes": [], "exit_codes": {}}
    if before is not None and before["first_seed"] == first_seed:
        report |= before
    if forked:
        _import_everything()
    codes = collections.Counter[str](report["exit_codes"])
    start, done, ran_s = time.perf_counter(), report["commands"], report["seconds"]
    while done < num_logs and time.perf_counter() - start < seconds:
        batch = range(done, min(done + workers, num_logs))
        with tempfile.TemporaryDirectory() as folder:
            begun = [_begin(first_seed + n, Path(folder), forked and n % STARTED != 0) for n in batch]
            for seed, process in begun:
                log = broken_log(random.Random(seed))  # noqa: S311
                code, error = _end(log, process, Path(folder) / str(seed))
                codes[str(code)] += 1
                if error:
                    report["crashes"].append({"seed": seed, "form": log.form, "faults": log.faults, "error": error})
        report["forked"] += sum(forked and n % STARTED != 0 for n in batch)
        done += len(batch)
    return report | {
        "commands": done,
        "seconds": round(ran_s + time.perf_counter() - start, 1),
        "exit_codes": dict(sorted(codes.items())),
    }


def _import_everything() -> None:
    """Builds a store here, so that a child of this process need not load what a build loads."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log.jsonl"
        log.write_text('{"text": "Ana moved to Porto because the roof leaked."}\n' * 2, encoding="utf-8")
        config = config_from({"embed": {"encoder": "hash"}, "run": {"device": "cpu"}})
        build([str(log)], Path(name) / "store", config, BuildOptions(quiet=True))


def _begin(seed: int, folder: Path, forked: bool) -> tuple[int, "subprocess.Popen[bytes] | int"]:
    """Begins to build a store of a log in a process of its own; returns the seed and the process, or a fork's id."""
    log, here = broken_log(random.Random(seed)), folder / str(seed)  # noqa: S311
    here.mkdir()
    path = here / log.name
    path.write_bytes(log.data)
    arguments = ["build", str(path), "--out", f"{here}/store", "--json", "--device", "cpu", "--quiet"]
    arguments += ["--set", "embed.encoder=hash"]
    if forked:
        return seed, _fork(arguments, here)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "magma_pipelines", *arguments]
    with (here / "out").open("wb") as out, (here / "err").open("wb") as err:
        return seed, subprocess.Popen(command, stdout=out, stderr=err, env=environment)


def _end(log: BrokenLog, process: "subprocess.Popen[bytes] | int", here: Path) -> tuple[int, str]:
    """Waits for a process; returns its exit code, and what went wrong or ""."""
    if isinstance(process, int):
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    else:
        code = process.wait()
    out, err = ((here / name).read_text(encoding="utf-8") for name in ("out", "err"))
    if code not in (0, 1, 2) or "Traceback" in err + out:
        return code, f"exit code {code}: {err[-300:]}"
    # One sentence where nothing could be done, else none.
    if len(err.strip().splitlines()) != (1 if code == 2 else 0):
        return code, f"not one sentence: {err[-300:]}"
    if code == 2:
        return 2, ""
    if not out:
        return code, "it said nothing"
    turns = json.loads(out.splitlines()[-1])["turns"]
    lost = turns["in"] - sum(turns[name] for name in ("new", "unchanged", "duplicates", "rejected"))
    if lost or (not log.faults and turns["in"] != log.num_turns):
        return code, f"turns are lost: {turns}, of a log of {log.num_turns}"
    return code, ""


def _fork(arguments: Sequence[str], here: Path) -> int:
    """Runs the command in a child of this process, its output and errors in files; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code: object = 70
    try:
        from magma_pipelines.cli import main

        for descriptor, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(here / name, os.O_WRONLY | os.O_CREAT), descriptor)
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 (descriptors)
        code = main(list(arguments))
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)

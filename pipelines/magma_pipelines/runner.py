"""Runs the shards of one stage on this machine: in this process, or in worker processes of their own.

A failing shard is tried again in a fresh worker, then given up and reported; the others go on. What a user caused (a
full disk, a missing package) is not tried again.
"""

import concurrent.futures
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from magma_gpu.config import Config
from magma_gpu.errors import ConfigError, MagmaError
from magma_pipelines.worker import ShardDone, ShardTask, ShardWorker


@dataclass(frozen=True, slots=True)
class ShardFailed:
    """A shard that was given up."""

    stage: str
    shard: int
    attempts: int
    error: str
    trace: str


class Runner(Protocol):
    """Runs shards of a stage wherever it likes; yields one outcome a task, in any order."""

    def run(self, root: str, config: Config, tasks: Sequence[ShardTask]) -> Iterator[ShardDone | ShardFailed]: ...


class LocalRunner:
    """`run.num_workers` 1: this process. More: a pool of processes, each with one thread per share of the cores."""

    def run(self, root: str, config: Config, tasks: Sequence[ShardTask]) -> Iterator[ShardDone | ShardFailed]:
        if not tasks:
            return
        workers = min(config.run.num_workers, len(tasks))
        if workers > 1:
            yield from self._pool(root, config, tasks, workers)
            return
        worker: ShardWorker | None = None
        for task in tasks:
            for attempt in range(1, config.run.max_attempts + 1):
                try:
                    if worker is None:
                        worker = ShardWorker(root, config, task.stage)
                    outcome: ShardDone | ShardFailed = worker.run(task)
                except MagmaError:
                    raise
                except Exception as error:
                    worker = None
                    outcome = _failed(task, attempt, error)
                    continue
                break
            yield outcome

    def _pool(
        self, root: str, config: Config, tasks: Sequence[ShardTask], workers: int
    ) -> Iterator[ShardDone | ShardFailed]:
        threads = max(1, (os.cpu_count() or 1) // workers)
        waiting = {(t.shard): (t, 1) for t in tasks}
        while waiting:
            round_ = list(waiting.values())
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(
                workers, context, initializer=_start, initargs=(root, config, tasks[0].stage, threads)
            ) as pool:
                futures = {pool.submit(_run, task): (task, attempt) for task, attempt in round_}
                for future in concurrent.futures.as_completed(futures):
                    task, attempt = futures[future]
                    try:
                        done = future.result()
                    except MagmaError:
                        pool.shutdown(cancel_futures=True)
                        raise
                    except Exception as error:
                        # A broken pool fails every shard in flight: each gets its next try in a fresh pool.
                        if attempt >= config.run.max_attempts:
                            del waiting[task.shard]
                            yield _failed(task, attempt, error)
                        else:
                            waiting[task.shard] = (task, attempt + 1)
                        continue
                    del waiting[task.shard]
                    yield done


def make_runner(config: Config) -> Runner:
    """The runner that a config names.

    Raises:
        ConfigError: Ray was asked for and this release cannot run on it.
    """
    if config.run.runner == "ray":
        raise ConfigError("run.runner 'ray' is not part of this release yet; use --runner local.")
    return LocalRunner()


def _failed(task: ShardTask, attempts: int, error: Exception) -> ShardFailed:
    trace = "".join(traceback.format_exception(error))
    return ShardFailed(task.stage, task.shard, attempts, f"{type(error).__name__}: {error}", trace)


# One worker a process of the pool, made by its initializer.
_worker: Callable[[ShardTask], ShardDone] | None = None


def _start(root: str, config: Config, stage: str, threads: int) -> None:
    global _worker
    import torch

    torch.set_num_threads(threads)
    made: list[ShardWorker] = []

    def run(task: ShardTask) -> ShardDone:
        # Made on the first task, so that an error of construction is an error of a shard and not of the pool.
        if not made:
            made.append(ShardWorker(root, config, stage))
        return made[0].run(task)

    _worker = run


def _run(task: ShardTask) -> ShardDone:
    assert _worker is not None
    return _worker(task)

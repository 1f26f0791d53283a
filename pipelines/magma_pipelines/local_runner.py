"""Runs tasks on this machine: in this process, or in worker processes of their own.

A worker that dies takes only its own task with it. Worker processes end with the driver, however it ends.
"""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from magma_gpu.config import Config
from magma_gpu.errors import MagmaError
from magma_pipelines.runner import Then, WorkerDiedError, enqueue, failed
from magma_pipelines.tasks import Outcome, ShardFailed, Task
from magma_pipelines.worker import Worker


class LocalRunner:
    """`run.num_workers` 1: this process. More: that many processes, each with its share of the cores."""

    def __init__(self) -> None:
        self._pool: _Pool | None = None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = None

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        if config.run.num_workers > 1:
            if self._pool is None or not self._pool.is_for(root, config):
                self.close()
                self._pool = _Pool(root, config)
            yield from self._pool.run(tasks, then)
            return
        worker: Worker | None = None
        waiting = deque(tasks)
        while waiting:
            task = waiting.popleft()
            for attempt in range(1, config.run.max_attempts + 1):
                try:
                    if worker is None:
                        worker = Worker(root, config)
                    outcome: Outcome = worker.run(task)
                except MagmaError:
                    raise
                except Exception as error:
                    worker = None
                    outcome = failed(task, attempt, error)
                    continue
                break
            enqueue(waiting, outcome, then(outcome))
            yield outcome


class _Process:
    """One worker process and the task it is at."""

    def __init__(self, root: str, config: Config, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, root, config, threads), daemon=True)
        # Ctrl-C reaches every process of the terminal, and the driver alone decides: a worker never sees it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()
        self.task: Task | None = None

    def send(self, task: Task) -> None:
        self.task = task
        # A worker that is dead already is noticed when its answer is read.
        try:
            self.pipe.send(task)
        except OSError:
            pass

    def answer(self) -> Outcome | ShardFailed | MagmaError:
        """The outcome of its task; raises WorkerDiedError where there will be none."""
        try:
            answer: Outcome | MagmaError = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10)
            raise WorkerDiedError(f"the worker process ended with code {self.process.exitcode}") from None
        return answer

    def stop(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join(10)


class _Pool:
    def __init__(self, root: str, config: Config) -> None:
        self._root, self._config = root, config
        self._limit = config.run.num_workers
        self._threads = max(1, (os.cpu_count() or 1) // self._limit)
        self._idle: list[_Process] = []

    def is_for(self, root: str, config: Config) -> bool:
        return (root, config) == (self._root, self._config)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().stop()

    def run(self, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        waiting = deque(tasks)
        idle = self._idle
        busy: list[_Process] = []
        attempts: Counter[tuple[str, int]] = Counter()
        try:
            while waiting or busy:
                while waiting and len(busy) < self._limit:
                    task = waiting.popleft()
                    process = idle.pop() if idle else _Process(self._root, self._config, self._threads)
                    attempts[task.stage, task.shard] += 1
                    process.send(task)
                    busy.append(process)
                ready = wait([p.pipe for p in busy])
                for process in [p for p in busy if p.pipe in ready]:
                    busy.remove(process)
                    done = process.task
                    assert done is not None
                    attempt = attempts[done.stage, done.shard]
                    outcome = self._outcome(process, done, attempt)
                    if isinstance(outcome, ShardFailed):
                        process.stop()
                        if attempt < self._config.run.max_attempts:
                            waiting.append(done)
                            continue
                    else:
                        idle.append(process)
                    enqueue(waiting, outcome, then(outcome))
                    yield outcome
        finally:
            for process in busy:
                process.stop()

    def _outcome(self, process: _Process, task: Task, attempt: int) -> Outcome:
        try:
            answer = process.answer()
        except WorkerDiedError as error:
            return failed(task, attempt, error)
        if isinstance(answer, MagmaError):
            raise answer
        if isinstance(answer, ShardFailed):
            return ShardFailed(task.stage, task.shard, attempt, answer.error, answer.trace)
        return answer


def _serve(pipe: "Connection[Any, Any]", root: str, config: Config, threads: int) -> None:
    """What a worker process does: one task after the other, until the driver has gone."""
    # Ended by the end of its pipe, or by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before torch is imported, which a worker that only reads never does.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    worker = Worker(root, config)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Outcome | MagmaError = worker.run(task)
        except MagmaError as error:
            answer = type(error)(str(error))
        except Exception as error:
            answer = failed(task, 1, error)
        try:
            pipe.send(answer)
        except OSError:
            return

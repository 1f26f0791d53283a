"""Runs tasks on a Ray cluster; the only module that imports ray.

Actors take one task at a time, names only, and read and write the store themselves, so OUT and the inputs must lie
where every node sees them. Stages that want the same share of a machine are run by the same actors: on CPUs all of
them, so that no stage holds a CPU for which it has no work.
"""

import dataclasses
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from magma_gpu.config import Config
from magma_gpu.errors import ConfigError, MagmaError, missing_package
from magma_pipelines.jobs import INGEST, JOBS, Share, share_of
from magma_pipelines.runner import Then, WorkerDiedError, enqueue, failed
from magma_pipelines.tasks import Outcome, ShardFailed, Task
from magma_pipelines.worker import Worker

log = logging.getLogger(__name__)

# How long nothing may happen before the log says what is waited for.
_PATIENCE_S = 60.0
# No tensor travels through the object store.
_STORE_BYTES = 100 << 20


class RayRunner:
    """`run.num_workers` actors for each share of a machine that the stages want, as far as the cluster has room."""

    def __init__(self) -> None:
        self._pool: _Actors | None = None
        self._started = False

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        if self._pool is None or not self._pool.is_for(root, config):
            self._stop_actors()
            self._started |= _connect(config.run.num_workers)
            self._pool = _Actors(root, config)
        yield from self._pool.run(tasks, then)

    def close(self) -> None:
        self._stop_actors()
        if self._started:
            _ray().shutdown()
        self._started = False

    def _stop_actors(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = None


def _ray() -> Any:
    # Workers must be started with the environment of this process, not with one that a launcher makes anew.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise missing_package("ray", "ray", "--runner ray") from None
    return ray


def _connect(num_workers: int) -> bool:
    """Joins the cluster of RAY_ADDRESS, or starts Ray on this machine; returns whether this process is to end it."""
    ray = _ray()
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=max(num_workers, os.cpu_count() or 1),
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                **quiet,
            )
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"the cluster of RAY_ADDRESS '{address}'" if address else "Ray on this machine"
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        check = "check it and that RAY_AUTH_MODE is that of the cluster" if address else "check it"
        raise ConfigError(f"No connection to {where} ({reason}); {check}, or use --runner local.") from None
    return True


def run_calls(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], num_workers: int) -> list[Any]:
    """Calls a function on each of some arguments, one CPU a call, and returns what it returned, in order.

    Raises:
        MagmaError: what a call raised.
        ConfigError: no connection to Ray.
    """
    started = _connect(num_workers)
    ray = _ray()
    try:
        remote = ray.remote(function).options(num_cpus=1, max_retries=1)
        made: list[Any] = ray.get([remote.remote(*of) for of in arguments])
        return made
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, MagmaError) else error from None
    finally:
        if started:
            ray.shutdown()


class _RayWorker:
    """What runs inside an actor."""

    def __init__(self, root: str, config: Config) -> None:
        self._worker = Worker(root, config)

    def ready(self) -> bool:
        return True

    def run(self, task: Task) -> Outcome | MagmaError:
        try:
            return self._worker.run(task)
        except MagmaError as error:
            return type(error)(str(error))
        except Exception as error:
            return failed(task, 1, error)


@dataclasses.dataclass(slots=True, eq=False)
class _Actor:
    handle: Any
    share: Share
    task: Task | None = None


class _Actors:
    """The actors of one build and what they are at."""

    def __init__(self, root: str, config: Config) -> None:
        self._ray = _ray()
        self._root, self._config = root, config
        self._uses_gpu = self._has_gpu()
        shares = sorted({self._share(job.stage) for job in (*JOBS, INGEST)})
        self._idle: dict[Share, list[_Actor]] = {share: [] for share in shares}
        self._waiting: dict[Share, deque[Task]] = {share: deque() for share in shares}
        # Answers that are waited for: of a task, or of a new actor that it is ready.
        self._answers: dict[Any, _Actor] = {}
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._failed_starts = 0

    def is_for(self, root: str, config: Config) -> bool:
        return (root, config) == (self._root, self._config)

    def _has_gpu(self) -> bool:
        wanted = self._config.run.device
        there = self._ray.cluster_resources().get("GPU", 0) > 0
        if wanted.startswith("cuda") and not there:
            raise ConfigError(f"run.device '{wanted}' was asked for and the Ray cluster has no GPU; use --device cpu.")
        return bool(there) and wanted != "cpu"

    def _share(self, stage: str) -> Share:
        return share_of(stage, self._config.run, on_gpu=self._uses_gpu)

    def close(self) -> None:
        for actor in [*self._answers.values(), *(a for idle in self._idle.values() for a in idle)]:
            self._kill(actor)
        self._answers.clear()
        for idle in self._idle.values():
            idle.clear()

    def run(self, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        for task in tasks:
            self._waiting[self._share(task.stage)].append(task)
        done = False
        try:
            while any(self._waiting.values()) or any(a.task is not None for a in self._answers.values()):
                self._hand_out()
                ready, _ = self._ray.wait(list(self._answers), num_returns=1, timeout=_PATIENCE_S)
                if not ready:
                    self._say_what_is_missing()
                for ref in ready:
                    actor = self._answers.pop(ref)
                    at, actor.task = actor.task, None
                    if at is None:
                        self._welcome(ref, actor)
                    elif (outcome := self._outcome(ref, actor, at)) is not None:
                        for follows in then(outcome):
                            enqueue(self._waiting[self._share(follows.stage)], outcome, [follows])
                        yield outcome
            done = True
        finally:
            if not done:
                self.close()

    def _hand_out(self) -> None:
        for share, queue in self._waiting.items():
            idle = self._idle[share]
            while queue and idle:
                actor, task = idle.pop(), queue.popleft()
                actor.task = task
                self._attempts[task.stage, task.shard] += 1
                self._answers[actor.handle.run.remote(task)] = actor
            here = [a for a in self._answers.values() if a.share == share]
            starting = sum(a.task is None for a in here)
            room = self._config.run.num_workers - len(here) - len(idle)
            for _ in range(min(room, len(queue) - starting)):
                self._start(share)
            if queue and starting and len(here) == starting:
                # None of its actors has found room: actors without work give theirs up.
                for other, resting in self._idle.items():
                    if other != share and not self._waiting[other]:
                        while resting:
                            self._kill(resting.pop())

    def _start(self, share: Share) -> None:
        run = self._config.run
        # Ray says which of a node's devices an actor may see.
        device = "cpu" if not share.num_gpus else "cuda" if run.device.startswith("cuda") else run.device
        config = dataclasses.replace(self._config, run=dataclasses.replace(run, device=device))
        actor_class = self._ray.remote(_RayWorker).options(
            num_cpus=share.num_cpus, num_gpus=share.num_gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )
        handle = actor_class.remote(self._root, config)
        self._answers[handle.ready.remote()] = _Actor(handle, share)

    def _welcome(self, ref: Any, actor: _Actor) -> None:
        """Takes a new actor in, once it has found room and has started."""
        try:
            self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts > self._config.run.max_attempts * self._config.run.num_workers:
                reason = str(error).strip().splitlines()[-1]
                raise ConfigError(
                    f"Ray starts no worker here ({reason}); check its logs, or use --runner local."
                ) from None
            return
        self._failed_starts = 0
        self._idle[actor.share].append(actor)

    def _outcome(self, ref: Any, actor: _Actor, task: Task) -> Outcome | None:
        """The outcome of a task; None where it is to be tried again, in another actor."""
        attempt = self._attempts[task.stage, task.shard]
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()
            answer = failed(task, attempt, WorkerDiedError(reason[0] if reason else type(error).__name__))
        if isinstance(answer, MagmaError):
            raise answer
        if not isinstance(answer, ShardFailed):
            self._idle[actor.share].append(actor)
            outcome: Outcome = answer
            return outcome
        self._kill(actor)
        if attempt < self._config.run.max_attempts:
            self._waiting[actor.share].append(task)
            return None
        return dataclasses.replace(answer, attempts=attempt)

    def _kill(self, actor: _Actor) -> None:
        try:
            self._ray.kill(actor.handle)
        except (self._ray.exceptions.RayError, ValueError):
            # It is gone already.
            pass

    def _say_what_is_missing(self) -> None:
        starting = Counter(a.share for a in self._answers.values() if a.task is None)
        for share, count in starting.items():
            log.warning(
                "%d workers wait for %g CPUs and %g GPUs each; the cluster has no room for them",
                count,
                share.num_cpus,
                share.num_gpus,
            )

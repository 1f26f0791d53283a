"""What a runner promises, and what every kind of runner does alike; it runs nothing itself.

A failing task is tried again in a fresh worker, then given up and reported; the others go on. What a user caused (a
full disk, a missing package) is not tried again.
"""

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from magma_gpu.config import Config
from magma_pipelines.tasks import Outcome, ShardFailed, Task

# Called once for every outcome, before it is yielded: returns the tasks that can be done now.
Then = Callable[[Outcome], Sequence[Task]]


class Runner(Protocol):
    """Runs tasks wherever it likes; yields one outcome a task, in any order."""

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        """Runs tasks, and those that follow from their outcomes, until none is left.

        Raises:
            MagmaError: a task met what only the user can change.
        """
        ...

    def close(self) -> None:
        """Ends the workers, which otherwise wait for the next call."""
        ...


def enqueue(waiting: deque[Task], outcome: Outcome, tasks: Sequence[Task]) -> None:
    """Queues what follows from an outcome: all shards are ingested first, then each goes on to its end."""
    if outcome.stage == "ingest":
        waiting.extend(tasks)
    else:
        waiting.extendleft(reversed(tasks))


def failed(task: Task, attempts: int, error: Exception) -> ShardFailed:
    """The outcome of a task that was given up because of an error."""
    trace = "".join(traceback.format_exception(error))
    return ShardFailed(task.stage, task.shard, attempts, f"{type(error).__name__}: {error}", trace)


class WorkerDiedError(Exception):
    """A worker process ended without an answer: killed, out of memory, or crashed."""

"""One shard through one stage: read, check, call, check, write. The same on this machine, in a process pool and on Ray.

It takes and returns names and numbers, never tables. Whether a shard needs work at all is decided by the driver.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from magma_gpu.config import Config
from magma_gpu.device import pick_device
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.stages import STAGE_INPUTS, make_stage
from magma_gpu.store import Entry, Store


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard that a stage has to make."""

    stage: str
    shard: int
    # Names the outputs: hash of the stage's fingerprint and of its inputs' bytes.
    key: str
    inputs: dict[str, Entry]
    # The stage's own tables of an earlier generation, for reuse.
    previous: dict[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardDone:
    """What became of a task."""

    stage: str
    shard: int
    outputs: dict[str, Entry]
    rows_in: int
    counts: dict[str, Any]
    seconds: float
    # Of `seconds`, what went into loading the stage's model and modules.
    load_seconds: float


class ShardWorker:
    """Holds one stage with its model and runs shards through it."""

    def __init__(self, root: str, config: Config, stage: str) -> None:
        self.store = Store(root)
        self.stage = make_stage(stage, config, str(pick_device(config.run.device)))
        self._load_seconds = _load_model(self.stage)

    def run(self, task: ShardTask) -> ShardDone:
        """Makes a shard and writes it under its final names."""
        load_seconds, self._load_seconds = self._load_seconds, 0.0
        start = time.perf_counter()
        tables = {name: self.store.read_table(entry, name) for name, entry in task.inputs.items()}
        assert set(tables) == set(STAGE_INPUTS[task.stage])
        previous = {name: self.store.read_table(entry, name) for name, entry in task.previous.items()}
        result = self.stage.run(tables, previous)
        assert set(result.tables) == set(STAGE_TABLES[task.stage])
        outputs = {
            name: self.store.write_table(name, task.shard, task.key, table) for name, table in result.tables.items()
        }
        first = next(iter(tables.values()), pa.table({}))
        seconds = time.perf_counter() - start
        return ShardDone(task.stage, task.shard, outputs, first.num_rows, result.counts, seconds, load_seconds)


def _load_model(stage: Any) -> float:
    """Loads a stage's model before the clock of its first shard starts; returns the seconds it took."""
    start = time.perf_counter()
    if hasattr(stage, "encoder"):
        stage.encoder()
    return time.perf_counter() - start

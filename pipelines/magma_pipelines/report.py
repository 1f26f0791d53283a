"""What a build did, counted as it goes; its JSON is the run's entry in the ledger."""

import json
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from magma_gpu.ingest import IngestCounts
from magma_gpu.manifest import Entry
from magma_gpu.schema import STAGES
from magma_gpu.store import LEDGER, Store
from magma_pipelines.tasks import PieceDone, ShardDone, ShardFailed

_KEPT_RUNS = 20


@dataclass(slots=True)
class StageReport:
    """One stage of one run."""

    shards: int = 0
    # Found finished on the disk, left by a run that did not end.
    shards_adopted: int = 0
    rows_in: int = 0
    rows_out: dict[str, int] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    device: str | None = None
    # Summed over workers.
    seconds: float = 0.0
    load_seconds: float = 0.0
    # From the first task to the last; stages overlap.
    started: float | None = None
    ended: float = 0.0

    def add(self, done: ShardDone) -> None:
        self.shards_adopted += done.counts.get("shards_adopted", 0)
        self.shards += 1 - done.counts.get("shards_adopted", 0)
        self.rows_in += done.rows_in
        self.add_rows(done.outputs)
        sum_into(self.counts, {k: v for k, v in done.counts.items() if k not in ("ingest", "shards_adopted")})
        self.device = done.device
        self.seconds += done.seconds
        self.load_seconds += done.load_seconds
        self.clock(done.seconds + done.load_seconds)

    def add_rows(self, outputs: dict[str, Entry]) -> None:
        sum_into(self.rows_out, {table: entry.rows for table, entry in outputs.items()})

    def clock(self, seconds: float) -> None:
        self.ended = time.perf_counter()
        start = self.ended - seconds
        self.started = start if self.started is None else min(self.started, start)

    def to_json(self) -> dict[str, Any]:
        wall = self.ended - self.started if self.started is not None else 0.0
        return {
            "shards": self.shards,
            "shards_adopted": self.shards_adopted,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            **self.counts,
            "model": self.model,
            "device": self.device,
            "seconds": round(self.seconds, 3),
            "wall_seconds": round(wall, 3),
            "load_seconds": round(self.load_seconds, 3),
        }


@dataclass(slots=True)
class BuildReport:
    """What a build did."""

    ingest: IngestCounts = field(default_factory=IngestCounts)
    # `read` and `ingest`, then the stages of jobs.py.
    stages: dict[str, StageReport] = field(default_factory=dict)
    # By the name of a source, for people; two sources of one name may have two formats.
    formats: dict[str, str] = field(default_factory=dict)
    format_of: dict[Any, str] = field(default_factory=dict)
    failed: list[ShardFailed] = field(default_factory=list)
    skipped_inputs: list[str] = field(default_factory=list)
    # Sentences about what was damaged and is made again.
    repaired: list[str] = field(default_factory=list)
    # What a dry run said about this build.
    estimate: dict[str, Any] | None = None
    runner: str = "local"
    num_workers: int = 1
    changed: bool = False
    seconds: float = 0.0

    def stage(self, name: str) -> StageReport:
        return self.stages.setdefault(name, StageReport())

    def add_piece(self, done: PieceDone) -> None:
        stage = self.stage("read")
        stage.shards += not done.reused
        stage.shards_adopted += done.reused
        stage.rows_in += done.counts["turns_in"]
        stage.seconds += done.seconds
        stage.clock(done.seconds)
        counts = IngestCounts(**done.counts)
        self.ingest.add(counts)

    def add_shard(self, done: ShardDone) -> None:
        self.stage(done.stage).add(done)
        if "ingest" in done.counts:
            self.ingest.add(IngestCounts(**done.counts["ingest"]))

    def to_json(self) -> dict[str, Any]:
        counts = self.ingest
        document = {
            "changed": self.changed,
            "seconds": round(self.seconds, 3),
            "turns": {
                "in": counts.turns_in,
                "new": counts.new,
                "unchanged": counts.unchanged,
                "duplicates": counts.duplicates,
                "rejected": counts.rejected,
            },
            "rejected_by_reason": dict(sorted(counts.by_reason.items())),
            "unreadable_times": counts.unreadable_times,
            "formats": self.formats,
            "unreadable_inputs": self.skipped_inputs,
            "repaired": self.repaired,
            "runner": self.runner,
            "num_workers": self.num_workers,
            "stages": {name: stage.to_json() for name, stage in self.stages.items()},
            "failed": [{"stage": f.stage, "shard": f.shard, "error": f.error} for f in self.failed],
        }
        if self.estimate is not None:
            document["estimate"] = self.estimate
        return document


def sum_into(total: dict[str, Any], counts: dict[str, Any]) -> None:
    """Adds counted things of a shard to those of a run; of what begins with `lowest_` the smaller stays."""
    for name, value in counts.items():
        if name.startswith("lowest_"):
            total[name] = min(total.get(name, value), value)
        elif isinstance(value, int | float):
            total[name] = total.get(name, 0) + value
        elif isinstance(value, dict):
            sum_into(total.setdefault(name, {}), value)
        else:
            total[name] = value


def write_ledger(store: Store, document: dict[str, Any]) -> None:
    """Adds a run to the ledger; the last twenty are kept."""
    runs: list[dict[str, Any]] = []
    if (data := store.read_bytes(LEDGER)) is not None:
        try:
            runs = list(json.loads(data)["runs"])
        except (ValueError, KeyError, TypeError):
            warnings.warn("the ledger was damaged and starts anew", stacklevel=1)
    store.write_bytes(LEDGER, (json.dumps({"runs": [*runs, document][-_KEPT_RUNS:]}, indent=1) + "\n").encode())


def failure_name(stage: str, shard: int) -> str:
    return f"failed/{stage}/shard-{shard:05d}.json"


def record_failure(store: Store, failure: ShardFailed) -> None:
    """Writes down what went wrong with a shard."""
    document = {
        "stage": failure.stage,
        "shard": failure.shard,
        "attempts": failure.attempts,
        "error": failure.error,
        "trace": failure.trace,
    }
    store.write_bytes(failure_name(failure.stage, failure.shard), (json.dumps(document, indent=1) + "\n").encode())


def failure_names(store: Store) -> set[str]:
    """The files in which failures are written down."""
    return {f"failed/{stage}/{name}" for stage in ("read", *STAGES) for name in store.place.names(f"failed/{stage}")}

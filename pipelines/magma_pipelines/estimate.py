"""What a build will take, from a sample of its inputs; what it took in the end stands beside it in the ledger.

The sample is one percent of `jsonl` and `parquet` inputs, read at evenly spaced places; other formats can only be read
from their beginning and are counted whole. Its turns go through every stage in a temporary folder. Linking grows faster
than the number of turns where single memories are large, which a sample cannot show.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from magma_gpu.config import Config
from magma_gpu.ingest import IngestCounts, reduce_shard, spill_rows
from magma_gpu.pieces import Piece, PieceReader, split_source
from magma_gpu.readers.turns import ReadOptions
from magma_gpu.schema import STAGE_TABLES, STAGES, TABLES
from magma_gpu.store import Store, parquet_bytes
from magma_gpu.types import Record, Turn
from magma_pipelines.report import BuildReport

ESTIMATE = "estimate.json"
_SHARE = 0.01
# A sample of a source holds at least this many bytes, in at least this many places where it is large enough.
_MIN_BYTES = 1 << 17
_NUM_PLACES = 8
# No more turns than these go through the stages.
_MAX_TURNS = 1000
_WARM_UP = 16


@dataclass(frozen=True, slots=True)
class _Sample:
    """Turns of one source and how many times as many it has."""

    records: list[Record]
    scale: float
    num_bytes: int
    seconds: float


def estimate_build(
    sources: Sequence[tuple[Any, str]], out: Path, config: Config, until: str, memory_id: str | None
) -> dict[str, Any]:
    """Estimates a build of these sources as if none of it were in the store yet.

    Args:
        sources: each with its format.
        out: where the store is or would be; its disk is looked at, nothing is written.

    Raises:
        InputError: a source cannot be read.
    """
    options = ReadOptions(memory_id=memory_id, date_order=config.ingest.date_order, fields=config.read.columns)
    samples = [_sample(source, format, options) for source, format in sources]
    num_turns = sum(s.scale * sum(isinstance(r, Turn) for r in s.records) for s in samples)
    read_s = sum(s.scale * s.seconds for s in samples)
    records = [r for s in samples for r in s.records]
    measured = _run_stages(_thinned(records), config, until)
    factor = num_turns / max(1, measured.turns)
    seconds = {"read": read_s + factor * measured.spill_seconds}
    seconds |= {stage: factor * s for stage, s in measured.seconds.items()}
    overhead = sum(len(parquet_bytes(t, TABLES[t].empty_table())) for t in measured.num_bytes)
    rows_bytes = sum(measured.num_bytes.values()) - overhead
    total = overhead * config.ingest.num_shards + factor * max(0, rows_bytes)
    workers = config.run.num_workers
    return {
        "turns": round(num_turns),
        "events": round(factor * measured.events),
        "tokens": round(factor * measured.tokens),
        "seconds": round(sum(seconds.values()) / workers + measured.load_seconds, 1),
        "seconds_by_stage": {name: round(s / workers, 2) for name, s in seconds.items()},
        "load_seconds": round(measured.load_seconds, 1),
        "bytes": round(total + factor * measured.spill_bytes),
        "bytes_of_store": round(total),
        "bytes_free": _free_bytes(out),
        "num_workers": workers,
        "sample": {
            "bytes": sum(s.num_bytes for s in samples),
            "turns_read": sum(isinstance(r, Turn) for r in records),
            "turns_through_all_stages": measured.turns,
        },
    }


def _free_bytes(out: Path) -> int | None:
    store = Store(out)
    return store.place.free_bytes() if store.exists() or out.parent == out else _free_bytes(out.absolute().parent)


def _sample(source: Any, format: str, options: ReadOptions) -> _Sample:
    start = time.perf_counter()
    size = source.path.stat().st_size
    wanted = max(int(size * _SHARE), _MIN_BYTES)
    pieces = split_source(source, format, max(1, wanted // _NUM_PLACES))
    if len(pieces) <= _NUM_PLACES:
        return _Sample(_records([Piece(source, format)], options), 1.0, size, time.perf_counter() - start)
    step = len(pieces) / _NUM_PLACES
    chosen = [pieces[int(i * step)] for i in range(_NUM_PLACES)]
    start = time.perf_counter()
    records = _records(chosen, options)
    read = sum((p.last or 0) - p.first for p in chosen) / (pieces[-1].last or 1)
    return _Sample(records, 1 / read, round(size * read), time.perf_counter() - start)


def _records(pieces: Sequence[Piece], options: ReadOptions) -> list[Record]:
    return [r for piece in pieces for r in PieceReader(piece, options).records()]


def _thinned(records: Sequence[Record]) -> list[Record]:
    """Runs of turns from all over, so that sessions stay together as far as that goes."""
    turns = [r for r in records if isinstance(r, Turn)]
    if len(turns) <= _MAX_TURNS:
        return list(turns)
    run = _MAX_TURNS // _NUM_PLACES
    starts = [i * (len(turns) - run) // (_NUM_PLACES - 1) for i in range(_NUM_PLACES)]
    return [t for a in starts for t in turns[a : a + run]]


@dataclass(slots=True)
class _Measured:
    """What a sample took."""

    turns: int
    events: int
    tokens: int
    spill_seconds: float
    spill_bytes: int
    seconds: dict[str, float]
    load_seconds: float
    # By table.
    num_bytes: dict[str, int]


def _run_stages(records: Sequence[Record], config: Config, until: str) -> _Measured:
    from magma_gpu.device import pick_device
    from magma_gpu.stages import make_stage, stage_inputs

    clock = _Clock()
    made = {
        stage: make_stage(stage, config, str(pick_device(config.run.device)))
        for stage in STAGES[1 : STAGES.index(until) + 1]
    }
    one_shard = replace(config.ingest, num_shards=1)

    def run(some: Sequence[Record]) -> tuple[IngestCounts, list[pa.Table], dict[str, pa.Table], dict[str, float], int]:
        clock.lap()
        counts = IngestCounts()
        spilled: dict[str, list[pa.Table]] = {}
        for shards in spill_rows(some, one_shard, counts):
            for kinds in shards.values():
                for kind, table in kinds.items():
                    spilled.setdefault(kind, []).append(table)
        seconds = {"spill": clock.lap()}
        tables = reduce_shard({}, spilled, one_shard, counts)
        seconds["ingest"] = clock.lap()
        tokens, settings = 0, config.as_dict()
        for name, stage in made.items():
            result = stage.run({t: tables[t] for t in stage_inputs(name, settings)}, {})
            seconds[name] = clock.lap()
            tables |= result.tables
            tokens += int(result.counts.get("tokens", 0))
        return counts, [t for parts in spilled.values() for t in parts], tables, seconds, tokens

    # Models are loaded and code is compiled when it is first needed, whatever the number of turns.
    start = time.perf_counter()
    run(records[:_WARM_UP])
    load = time.perf_counter() - start
    counts, spilled, tables, seconds, tokens = run(records)
    spill_seconds = seconds.pop("spill")
    return _Measured(
        turns=counts.turns_in,
        events=tables["events"].num_rows,
        tokens=tokens,
        spill_seconds=spill_seconds,
        spill_bytes=_compressed_bytes(spilled),
        seconds=seconds,
        load_seconds=load,
        num_bytes={name: len(parquet_bytes(name, table)) for name, table in tables.items()},
    )


class _Clock:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        before, self._last = self._last, time.perf_counter()
        return self._last - before


def _compressed_bytes(tables: Sequence[pa.Table]) -> int:
    """What tables take as spilled rows."""
    with tempfile.TemporaryFile() as file:
        for table in tables:
            with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(table)
        return file.tell()


# ------------------------------------------------------------------------------------------------------ the ledger


def save_estimate(store: Store, document: dict[str, Any]) -> None:
    """Leaves an estimate for the next build of this store, which says in its ledger how far off it was."""
    store.write_bytes(ESTIMATE, (json.dumps(document, indent=1) + "\n").encode())


def saved_estimate(store: Store) -> dict[str, Any] | None:
    """The estimate that a dry run left; None where there is none."""
    data = store.read_bytes(ESTIMATE)
    if data is None:
        return None
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.keys() >= _ESTIMATED else None


_ESTIMATED = {"turns", "tokens", "seconds", "bytes", "bytes_of_store"}


def estimated_bytes(store: Store) -> int:
    """The disk space that a dry run for this store asked for; 0 where there was none."""
    document = saved_estimate(store)
    return 0 if document is None else int(document["bytes"])


def compare_estimate(store: Store, report: BuildReport) -> dict[str, Any] | None:
    """A dry run's estimate and what it became; None where there was none.

    Returns:
        For each figure what was estimated, what it was, and by which share that was off (0.1: a tenth too high).
    """
    document = saved_estimate(store)
    if document is None:
        return None
    encoded = report.stage("embed").counts
    became = {
        "turns": report.ingest.turns_in,
        "tokens": int(encoded.get("tokens", 0)),
        "seconds": round(report.seconds, 1),
        "bytes_of_store": _store_bytes(store),
    }
    return {
        name: {
            "estimated": document[name],
            "was": value,
            "off": round(document[name] / value - 1, 3) if value else None,
        }
        for name, value in became.items()
    }


def _store_bytes(store: Store) -> int:
    return sum(sum(store.place.sizes(t).values()) for tables in STAGE_TABLES.values() for t in tables)


def drop_estimate(store: Store) -> None:
    store.remove(ESTIMATE)

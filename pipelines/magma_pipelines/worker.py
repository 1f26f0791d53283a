"""One task at a time: read, check, call, check, write. The same in this process, in a process pool and on Ray.

It takes and returns names and numbers, never tables. Whether a shard needs work at all is decided by the driver.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from magma_gpu.config import Config
from magma_gpu.errors import InputError, StoreError
from magma_gpu.ingest import IngestCounts, reduce_shard, spill_rows
from magma_gpu.pieces import PieceReader, PieceRows, content_hash, join_pieces
from magma_gpu.readers.turns import ReadOptions
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import Entry, Store, parquet_bytes, shard_of, stable_hash
from magma_pipelines.kept import Kept
from magma_pipelines.spill import Spill
from magma_pipelines.tasks import Outcome, PieceDone, PieceTask, ReduceTask, ShardDone, ShardTask, Task


class Worker:
    """Does tasks of every kind; a stage and its model are made when a task first wants them."""

    def __init__(self, root: str, config: Config) -> None:
        self.store = Store(root)
        self.config = config
        self._stages: dict[str, Any] = {}

    def run(self, task: Task) -> Outcome:
        """Does a task and writes its results under their final names."""
        if isinstance(task, PieceTask):
            return self._read(task)
        if isinstance(task, ReduceTask):
            return self._reduce(task)
        return self._stage(task)

    # ---------------------------------------------------------------------------------------------------- ingest

    def _read(self, task: PieceTask) -> PieceDone:
        start = time.perf_counter()
        spill = Spill(self.store)
        content = content_hash(task.piece)
        if (found := spill.find(task.key, content)) is not None:
            return replace(found, shard=task.shard)
        ingest = self.config.ingest
        fields = self.config.read.columns
        options = ReadOptions(memory_id=task.memory_id, date_order=ingest.date_order, fields=fields)
        reader = PieceReader(task.piece, options)
        counts = IngestCounts()
        writer = spill.write(task.key)
        try:
            for shards in spill_rows(reader.records(), ingest, counts):
                for shard, kinds in shards.items():
                    for kind, rows in kinds.items():
                        writer.add(shard, kind, rows)
            if task.piece.is_part:
                for shard, rows in _by_shard(reader.places(), ingest.num_shards).items():
                    writer.add(shard, "places", rows)
            writer.close()
        except InputError as error:
            writer.discard()
            return PieceDone(task.shard, task.key, unreadable=str(error))
        except BaseException:
            writer.discard()
            raise
        done = PieceDone(
            task.shard,
            task.key,
            content,
            reader.num_lines,
            asdict(counts),
            tuple(sorted({s for shards in writer.index.values() for s in shards})),
            needs_whole=reader.needs_whole,
            seconds=time.perf_counter() - start,
        )
        spill.finish(done, writer)
        return done

    def _reduce(self, task: ReduceTask) -> ShardDone:
        start = time.perf_counter()
        spill = Spill(self.store)
        if (found := spill.find_reduced(task)) is not None:
            outputs, rows_in, counts = found
            return ShardDone(task.stage, task.shard, outputs, rows_in, counts | {"shards_adopted": 1}, 0.0, 0.0)
        joined = join_pieces(
            [[PieceRows(p.first_line, spill.read(p.key, task.shard)) for p in pieces] for pieces in task.sources]
        )
        existing = {n: self.store.read_table(e, n) for n, e in task.existing.items() if n not in task.lost}
        others = [self._tables(Store(o.root), o.entries) for o in task.others]
        ingested = IngestCounts()
        if task.lost:
            tables = self._restore(task, existing, joined, ingested)
        else:
            tables = reduce_shard(
                existing, joined, self.config.ingest, ingested, others=others, tombstones=task.tombstones
            )
        outputs = self._write_ingest(task, tables)
        rows_in = sum(t.num_rows for t in joined.get("turns", []))
        counts = {"ingest": asdict(ingested)}
        spill.save_reduced(task, outputs, rows_in, counts)
        return ShardDone(task.stage, task.shard, outputs, rows_in, counts, time.perf_counter() - start, 0.0)

    def _tables(self, store: Store, entries: dict[str, Entry]) -> dict[str, pa.Table]:
        return {name: store.read_table(entry, name) for name, entry in entries.items()}

    def _write_ingest(self, task: ReduceTask, tables: dict[str, pa.Table]) -> dict[str, Entry]:
        """Writes a shard's tables under a name that is the hash of their bytes; unchanged ones are not rewritten."""
        contents = {name: parquet_bytes(name, table) for name, table in tables.items()}
        key = content_key(task.fingerprint, contents)
        if not task.lost and all(
            (e := task.existing.get(n)) is not None and e.file == self.store.file_name(n, task.shard, key)
            for n in tables
        ):
            return dict(task.existing)
        return {
            name: self.store.write_content(name, task.shard, key, content, tables[name].num_rows)
            for name, content in contents.items()
        }

    def _restore(
        self,
        task: ReduceTask,
        sound: dict[str, pa.Table],
        joined: dict[str, list[pa.Table]],
        counts: IngestCounts,
    ) -> dict[str, pa.Table]:
        """Makes damaged tables again, to the byte, and only then adds what is new.

        They follow from the sound ones (numbers of turns, episodes, times), or else from the logs of this build alone.
        """
        ingest, stones = self.config.ingest, task.tombstones
        if not {"events", "sessions"} & set(task.lost):
            made = reduce_shard(sound, {}, ingest, IngestCounts(), tombstones=stones)
            if self._is_as_before(task, made):
                return reduce_shard(made, joined, ingest, counts, tombstones=stones) if joined else made
        made = reduce_shard({}, joined, ingest, counts, tombstones=stones)
        if self._is_as_before(task, made):
            return made
        files = " and ".join(f"'{task.existing[name].file}'" for name in task.lost)
        raise StoreError(
            f"{files} is damaged and the logs given do not make it again as it was: give all logs that shard "
            f"{task.shard} was made from and no others, restore the file, or start anew from the logs given "
            "with --overwrite."
        )

    def _is_as_before(self, task: ReduceTask, tables: dict[str, pa.Table]) -> bool:
        return all(
            hashlib.sha256(parquet_bytes(name, tables[name])).hexdigest() == entry.sha256
            for name, entry in task.existing.items()
        )

    # ---------------------------------------------------------------------------------------------------- stages

    def _stage(self, task: ShardTask) -> ShardDone:
        load_seconds = self._load(task.stage)
        start = time.perf_counter()
        tables = {name: self.store.read_table(entry, name) for name, entry in task.inputs.items()}
        previous: dict[str, list[pa.Table]] = {}
        for other in task.previous:
            for name, table in self._tables(Store(other.root), other.entries).items():
                previous.setdefault(name, []).append(table)
        joined = {name: pa.concat_tables(parts) for name, parts in previous.items()}
        stage, kept = self._stages[task.stage], None
        if hasattr(stage, "keep"):
            kept = Kept(self.store, "extracts", task.shard)
            stage.keep = kept.add
            if (rows := kept.read()) is not None:
                joined["extracts/kept"] = rows
        result = stage.run(tables, joined)
        assert set(result.tables) == set(STAGE_TABLES[task.stage])
        outputs = {
            name: self.store.write_table(name, task.shard, task.key, table) for name, table in result.tables.items()
        }
        if kept is not None:
            kept.clear()
        rows_in = next(iter(tables.values())).num_rows
        seconds = time.perf_counter() - start
        return ShardDone(task.stage, task.shard, outputs, rows_in, result.counts, seconds, load_seconds, self._device())

    def _load(self, name: str) -> float:
        """Makes a stage and loads its model before the clock of its first shard starts; returns the seconds it took."""
        if name in self._stages:
            return 0.0
        from magma_gpu.stages import make_stage

        start = time.perf_counter()
        stage = make_stage(name, self.config, self._device())
        if hasattr(stage, "encoder"):
            stage.encoder()
        self._stages[name] = stage
        return time.perf_counter() - start

    def _device(self) -> str:
        from magma_gpu.device import pick_device

        return str(pick_device(self.config.run.device))


def ingest_key(fingerprint: str, tables: dict[str, pa.Table]) -> str:
    """The name of a shard's ingest tables: a hash of their bytes."""
    return content_key(fingerprint, {name: parquet_bytes(name, table) for name, table in tables.items()})


def content_key(fingerprint: str, contents: Mapping[str, bytes]) -> str:
    """The same of tables that are Parquet already."""
    return stable_hash(fingerprint, *(stable_hash(contents[name].hex()) for name in sorted(contents)))


def _by_shard(rows: pa.Table, num_shards: int) -> dict[int, pa.Table]:
    places: dict[int, list[int]] = {}
    for i, memory in enumerate(rows["memory_id"].to_pylist()):
        places.setdefault(shard_of(memory, num_shards), []).append(i)
    return {shard: rows.take(at) for shard, at in places.items()}

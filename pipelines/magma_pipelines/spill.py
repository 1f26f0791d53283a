"""Rows between map and reduce: one Arrow file a piece and kind, with a record batch for each shard, under OUT/.spill.

A piece counts once its JSON index is there, which is written last. The folder outlives a crash, so that a build that is
started again reads no finished piece and reduces no finished shard twice; a commit removes it.
"""

import json
import os
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from magma_gpu.pieces import PIECE_SCHEMAS
from magma_gpu.store import Entry, Store, stable_hash, write_error
from magma_pipelines.tasks import PieceDone, ReduceTask

SPILL = ".spill"
# Record batches are cut at this many rows of a shard.
_BATCH_ROWS = 65536


class Spill:
    """The spill folder of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ------------------------------------------------------------------ pieces

    def write(self, key: str) -> "PieceWriter":
        return PieceWriter(self._store, key)

    def finish(self, done: PieceDone, writer: "PieceWriter") -> None:
        """Makes a piece count."""
        document = {"done": asdict(done), "files": writer.name, "index": writer.index}
        self._store.write_bytes(f"{SPILL}/{done.key}.json", json.dumps(document).encode())

    def find(self, key: str, content: str | None) -> PieceDone | None:
        """The outcome of a piece that was read before, if the bytes it was read from are the same still."""
        document = self._index(key)
        if document is None or content is None or document["done"]["content"] != content:
            return None
        done = document["done"]
        # Counted again with this build, and no time was spent on it.
        return PieceDone(**{**done, "shards": tuple(done["shards"]), "reused": True, "seconds": 0.0})

    def read(self, key: str, shard: int) -> dict[str, list[pa.Table]]:
        """The rows of a piece for one shard, by kind."""
        document = self._index(key)
        assert document is not None, f"piece {key} is not there"
        rows: dict[str, list[pa.Table]] = {}
        for kind, shards in document["index"].items():
            numbers = shards.get(str(shard))
            if not numbers:
                continue
            name = f"{SPILL}/{document['files']}.{kind}.arrow"
            with self._store.place.open_input(name) as source, ipc.open_file(source) as file:
                batches = [file.get_batch(n) for n in numbers]
                rows[kind] = [pa.Table.from_batches(batches, PIECE_SCHEMAS[kind])]
        return rows

    def _index(self, key: str) -> dict[str, Any] | None:
        data = self._store.read_bytes(f"{SPILL}/{key}.json")
        try:
            document: dict[str, Any] | None = None if data is None else json.loads(data)
        except ValueError:
            return None
        return document

    def has_pieces(self) -> bool:
        """Whether any piece counts."""
        return any(name.endswith(".json") for name in self._store.place.names(SPILL))

    def prune(self, keys: set[str]) -> None:
        """Deletes the pieces of other builds."""
        for name in self._store.place.names(SPILL):
            if name.split(".")[0].split("-")[0] not in keys and not name.startswith("reduced-"):
                self._store.remove(f"{SPILL}/{name}")

    def clear(self) -> None:
        self._store.remove(SPILL)

    # ------------------------------------------------------------------ reduced shards

    def save_reduced(self, task: ReduceTask, outputs: dict[str, Entry], rows: int, counts: dict[str, Any]) -> None:
        """Remembers what became of a shard, so that it is not made twice."""
        document = {
            "existing": {name: e.sha256 for name, e in task.existing.items()},
            "outputs": {name: asdict(e) for name, e in outputs.items()},
            "rows_in": rows,
            "counts": counts,
        }
        self._store.write_bytes(_reduced_name(task), json.dumps(document).encode())

    def find_reduced(self, task: ReduceTask) -> tuple[dict[str, Entry], int, dict[str, Any]] | None:
        """What an unfinished run made of the same rows, if the shard is as it was before that, or as it was made."""
        data = self._store.read_bytes(_reduced_name(task))
        if data is None:
            return None
        try:
            document = json.loads(data)
            outputs = {name: Entry(**e) for name, e in document["outputs"].items()}
            before, rows, counts = document["existing"], document["rows_in"], document["counts"]
        except (ValueError, KeyError, TypeError):
            return None
        now = {name: e.sha256 for name, e in task.existing.items()}
        if now not in (before, {name: e.sha256 for name, e in outputs.items()}):
            return None
        if any(self._store.damage(e, checksum=True) for e in outputs.values()):
            return None
        return outputs, rows, counts


def _reduced_name(task: ReduceTask) -> str:
    # Where the content of a piece cannot be told, no two runs are the same.
    pieces = [[p.key, p.content or os.urandom(8).hex(), str(p.first_line)] for s in task.sources for p in s]
    others = [[o.root, *(e.sha256 for _, e in sorted(o.entries.items()))] for o in task.others]
    known = [task.fingerprint, pieces, others, [list(asdict(t).values()) for t in task.tombstones], list(task.lost)]
    return f"{SPILL}/reduced-{task.shard:05d}-{stable_hash(json.dumps(known))[:16]}.json"


class PieceWriter:
    """Writes the rows of a piece as they come, in bounded memory."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        # Of two attempts at one piece neither writes into the other's files.
        self.name = f"{key}-{os.urandom(4).hex()}"
        self._open: dict[str, tuple[pa.NativeFile, ipc.RecordBatchFileWriter]] = {}
        self._count: dict[str, int] = {}
        self.index: dict[str, dict[int, list[int]]] = {}

    def add(self, shard: int, kind: str, table: pa.Table) -> None:
        """Adds rows of one shard.

        Raises:
            StoreError: the disk is full or the folder cannot be written.
        """
        try:
            writer = self._writer(kind)
            for batch in table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
                writer.write_batch(batch)
                self.index.setdefault(kind, {}).setdefault(shard, []).append(self._count[kind])
                self._count[kind] += 1
        except OSError as error:
            raise write_error(self._store.path(SPILL), error) from error

    def _file(self, kind: str) -> str:
        return f"{SPILL}/{self.name}.{kind}.arrow"

    def _writer(self, kind: str) -> ipc.RecordBatchFileWriter:
        if kind not in self._open:
            sink = self._store.place.open_output(self._file(kind))
            options = ipc.IpcWriteOptions(compression="lz4")
            self._open[kind] = (sink, ipc.new_file(sink, PIECE_SCHEMAS[kind], options=options))
            self._count[kind] = 0
        return self._open[kind][1]

    def close(self) -> None:
        """Closes the files and puts them on the disk."""
        try:
            for kind, (sink, writer) in self._open.items():
                writer.close()
                sink.close()
                self._store.place.settle(self._file(kind))
        except OSError as error:
            raise write_error(self._store.path(SPILL), error) from error

    def discard(self) -> None:
        """Removes what was written; a full disk needs the room."""
        for kind, (sink, _) in self._open.items():
            try:
                sink.close()
            except OSError:
                pass
            self._store.remove(self._file(kind))

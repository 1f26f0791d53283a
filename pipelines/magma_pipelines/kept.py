"""Finished chunks of a shard that a stage is still at, under OUT/.kept: a killed run loses one chunk and no more.

A chunk is a Parquet file, there whole or not at all. Which of its rows still count is for the stage to say: the files
are named by what they hold, not by the run. They go once the shard's own table is written.
"""

import hashlib

import pyarrow as pa

from magma_gpu.errors import StoreError
from magma_gpu.store import Store, parquet_bytes, read_parquet

KEPT = ".kept"


class Kept:
    """The chunks of one table of one shard."""

    def __init__(self, store: Store, table: str, shard: int) -> None:
        self._store, self._table = store, table
        self._start = f"{table.replace('/', '-')}-{shard:05d}-"

    def add(self, rows: pa.Table) -> None:
        """Writes a chunk.

        Raises:
            StoreError: the disk is full or the folder cannot be written.
        """
        content = parquet_bytes(self._table, rows)
        name = hashlib.sha256(content).hexdigest()[:16]
        self._store.write_bytes(f"{KEPT}/{self._start}{name}.parquet", content)

    def read(self) -> pa.Table | None:
        """All rows that were kept; None where there are none. A file that cannot be read counts as none."""
        found = []
        for name in self._names():
            try:
                content = self._store.read_bytes(f"{KEPT}/{name}")
                if content is not None:
                    found.append(read_parquet(content))
            except (StoreError, OSError, pa.ArrowException):
                self._store.remove(f"{KEPT}/{name}")
        return pa.concat_tables(found) if found else None

    def clear(self) -> None:
        """Removes the chunks of this shard."""
        for name in self._names():
            self._store.remove(f"{KEPT}/{name}")

    def _names(self) -> list[str]:
        return [n for n in self._store.place.names(KEPT) if n.startswith(self._start) and n.endswith(".parquet")]

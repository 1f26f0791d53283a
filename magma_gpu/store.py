"""A store on disk: immutable Parquet files, and a manifest that names those that count.

It writes and reads whole files and knows no stage. A file's name holds the hash of what it was made from, so a late
retry cannot replace another generation; readers follow `manifest.json` alone, which is swapped last. A build in
progress keeps its own list in `building.json`: what it names is used again after a crash.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from magma_gpu.errors import StoreError
from magma_gpu.manifest import Entry as Entry
from magma_gpu.manifest import Manifest as Manifest
from magma_gpu.manifest import NewerStoreError as NewerStoreError
from magma_gpu.manifest import Tombstone as Tombstone
from magma_gpu.places import place
from magma_gpu.places import write_error as write_error
from magma_gpu.schema import STAGE_TABLES, TABLES, vectors_schema

MANIFEST = "manifest.json"
BUILDING = "building.json"
LEDGER = "ledger.json"
# One memory opens without its whole shard.
ROW_GROUP = 4096

_SHARD_FILE = re.compile(r"shard-(\d{5,})-([0-9a-f]{12})\.parquet")


class Store:
    """A folder or a prefix of an object store that holds a store, or will."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.place = place(root)

    @property
    def where(self) -> str:
        """The folder or URL, as another process is told."""
        return self.place.where

    # ------------------------------------------------------------------ files

    def path(self, name: str) -> Path:
        """Where a file lies in a store that is a folder; in messages, of any store."""
        return self.root / PurePosixPath(name)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file so that it is there whole or not at all.

        Raises:
            StoreError: the disk is full or the folder cannot be written.
        """
        self.place.write(name, data)

    def read_bytes(self, name: str) -> bytes | None:
        """Reads a small file; None where there is none."""
        return self.place.read(name)

    def exists(self, name: str = "") -> bool:
        """Whether there is a file, or (without a name) anything at all."""
        return self.place.exists(name)

    def remove(self, name: str) -> None:
        """Removes a file, or a folder and what is in it; no error where there is none."""
        self.place.remove(name)

    # --------------------------------------------------------------- manifest

    def manifest(self) -> Manifest | None:
        """The manifest that readers follow; None where nothing was committed yet."""
        return self._manifest(MANIFEST)

    def building(self) -> Manifest | None:
        """The list of a build that has not been committed; None where there is none."""
        return self._manifest(BUILDING)

    def _manifest(self, name: str) -> Manifest | None:
        data = self.read_bytes(name)
        return None if data is None else Manifest.from_json(data, str(self.path(name)))

    def open(self) -> Manifest:
        """The manifest of a store that must be there.

        Raises:
            StoreError: there is no store here, or none that was finished.
        """
        manifest = self.manifest()
        if manifest is None:
            if not self.exists():
                raise StoreError(
                    f"There is no store at '{self.root}'; make one with: magma-gpu build INPUT --out {self.root}."
                )
            if self.exists(BUILDING) or not self.has_files():
                raise StoreError(
                    f"'{self.root}' holds no finished store (no {MANIFEST}); run the build again to finish it."
                )
            raise StoreError(
                f"'{self.root}' holds shard files and no {MANIFEST}, so what counts cannot be told; "
                "run the build of its logs again to make it anew from the files, or restore it."
            )
        return manifest

    def save_building(self, manifest: Manifest) -> None:
        self.write_bytes(BUILDING, manifest.to_json())

    def drop_building(self) -> None:
        self.remove(BUILDING)

    def commit(self, manifest: Manifest) -> None:
        """Makes a manifest the one that counts, then removes what it no longer names; only for who holds the lock."""
        self.write_bytes(MANIFEST, manifest.to_json())
        self.drop_building()
        self.sweep(manifest.files())

    def sweep(self, keep: set[str]) -> int:
        """Deletes Parquet files in table folders that are not in `keep`, and what is half-written; returns how many.

        Half-written is what a worker left that was killed, whose shard another one then made.
        """
        gone = [f for table in TABLES for f in self.shard_files(table) if f not in keep]
        for file in gone:
            self.remove(file)
        self.remove_temporary()
        return len(gone)

    def remove_temporary(self) -> None:
        """Deletes what killed writers left half-written; only for who holds the lock."""
        for folder in ("", *TABLES, *(f"failed/{stage}" for stage in STAGE_TABLES)):
            for name in self.place.names(folder):
                if name.startswith(".") and name.endswith(".tmp"):
                    self.remove(f"{folder}/{name}" if folder else name)

    def has_files(self) -> bool:
        """Whether there are shards of any table, counted or not."""
        return any(self.shard_files(table) for table in TABLES)

    def shard_files(self, table: str) -> list[str]:
        """The Parquet files of a table, counted or not."""
        names = self.place.names(table)
        return [f"{table}/{n}" for n in names if n.startswith("shard-") and n.endswith(".parquet")]

    def keys(self, table: str) -> dict[int, list[str]]:
        """The keys under which there are files of a table, counted or not, by shard."""
        found: dict[int, list[str]] = {}
        for name in self.place.names(table):
            if match := _SHARD_FILE.fullmatch(name):
                found.setdefault(int(match[1]), []).append(match[2])
        return found

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the store against a second build, where it lies in a folder.

        Raises:
            StoreError: another build holds it, or the folder cannot be written.
        """
        with self.place.lock():
            yield

    # ----------------------------------------------------------------- tables

    def file_name(self, table: str, shard: int, key: str) -> str:
        return f"{table}/shard-{shard:05d}-{key[:12]}.parquet"

    def write_table(self, table: str, shard: int, key: str, data: pa.Table) -> Entry:
        """Writes one shard of a table under the name that `key` gives."""
        return self.write_content(table, shard, key, parquet_bytes(table, data), data.num_rows)

    def write_content(self, table: str, shard: int, key: str, content: bytes, num_rows: int) -> Entry:
        """Writes one shard of a table that is Parquet already (`parquet_bytes`) under the name that `key` gives."""
        name = self.file_name(table, shard, key)
        self.write_bytes(name, content)
        return Entry(name, num_rows, hashlib.sha256(content).hexdigest())

    def find_table(self, table: str, shard: int, key: str) -> Entry | None:
        """The entry of a file that an earlier, unfinished run left under this key; None if absent or damaged.

        Every row is decoded: there is no checksum yet that it could be held against.
        """
        name = self.file_name(table, shard, key)
        try:
            content = self.read_bytes(name)
            if content is None:
                return None
            rows = read_parquet(content).num_rows
        except (StoreError, OSError, pa.ArrowException):
            return None
        return Entry(name, rows, hashlib.sha256(content).hexdigest())

    def damage(self, entry: Entry, *, checksum: bool) -> str | None:
        """What is wrong with a file that counts, as the end of a sentence about it; None where nothing is.

        Args:
            checksum: read all of it; else only whether it is there with a Parquet file's end.
        """
        try:
            with self.place.open_input(entry.file) as file:
                if checksum:
                    digest = hashlib.sha256()
                    while block := file.read(1 << 20):
                        digest.update(block)
                    return None if digest.hexdigest() == entry.sha256 else "has other bytes than the manifest says"
                size = file.size()
                file.seek(max(0, size - 8))
                end = file.read(8)
            whole = size >= 12 and end.endswith(b"PAR1") and int.from_bytes(end[:4], "little") <= size - 12
            return None if whole else "is cut"
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read ({error.strerror or error})"

    def read_table(
        self,
        entry: Entry | None,
        table: str,
        *,
        memory_id: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Reads one file of a table, or only the row groups that may hold one memory.

        A missing entry reads as a table without rows.

        Raises:
            StoreError: the file is missing or damaged.
        """
        if entry is None:
            schema = TABLES[table]
            return (schema if columns is None else pa.schema([schema.field(c) for c in columns])).empty_table()
        path = self.path(entry.file)
        try:
            with self.place.open_input(entry.file) as source, pq.ParquetFile(source) as file:
                if memory_id is None:
                    return file.read(columns=columns)
                groups = _groups_of(file.metadata, memory_id)
                wanted = None if columns is None else list(dict.fromkeys([*columns, "memory_id"]))
                data = file.read_row_groups(groups, columns=wanted)
                return data.filter(pc.equal(data["memory_id"], memory_id))
        except FileNotFoundError:
            raise StoreError(f"'{path}' is named by the manifest and missing; run build again to repair it.") from None
        except (OSError, pa.ArrowException) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StoreError(f"'{path}' is damaged ({first}); run build again to repair it.") from None


def read_parquet(data: bytes) -> pa.Table:
    """The table that the bytes of a Parquet file hold.

    Raises:
        pyarrow.ArrowException, OSError: they hold none.
    """
    # In this thread alone: a thread of Arrow that lets go of Python's bytes while the interpreter ends aborts the
    # whole process.
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        return file.read(use_threads=False)


def parquet_bytes(table: str, data: pa.Table) -> bytes:
    """The bytes of a Parquet file for a table; a function of its rows alone."""
    schema = TABLES[table]
    if table == "vectors" and pa.types.is_fixed_size_list(data.schema.field("vector").type):
        schema = vectors_schema(data.schema.field("vector").type.list_size)
    data = data.select(schema.names).cast(schema).combine_chunks()
    sink = pa.BufferOutputStream()
    floats = table == "vectors"
    pq.write_table(
        data,
        sink,
        row_group_size=ROW_GROUP,
        compression="none" if floats else "zstd",
        use_dictionary=["memory_id"] if floats else True,
        write_page_index=False,
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _groups_of(metadata: pq.FileMetaData, memory_id: str) -> list[int]:
    at = metadata.schema.names.index("memory_id") if "memory_id" in metadata.schema.names else -1
    groups = []
    for g in range(metadata.num_row_groups):
        stats = metadata.row_group(g).column(at).statistics if at >= 0 else None
        if stats is None or not stats.has_min_max or stats.min <= memory_id <= stats.max:
            groups.append(g)
    return groups


def stable_hash(*parts: str) -> str:
    """128 bits in hex of some strings; the same on every machine, and no two lists of strings run together."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def shard_of(memory_id: str, num_shards: int) -> int:
    """The shard of a memory; with half as many shards it is the same number modulo that many."""
    return int(stable_hash(memory_id)[:8], 16) % num_shards

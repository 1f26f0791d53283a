"""A store on disk: immutable Parquet files, and a manifest that names those that count.

It writes and reads whole files and knows no stage. A file's name holds the hash of what it was made from, so a late
retry cannot replace another generation; readers follow `manifest.json` alone, which is swapped last. A build in
progress keeps its own list in `building.json`: what it names is used again after a crash.
"""

import contextlib
import errno
import hashlib
import os
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
from magma_gpu.schema import TABLES, vectors_schema

MANIFEST = "manifest.json"
BUILDING = "building.json"
LEDGER = "ledger.json"
LOCK = ".lock"
# One memory opens without its whole shard.
ROW_GROUP = 4096


class Store:
    """A folder that holds a store, or will."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    # ------------------------------------------------------------------ files

    def path(self, name: str) -> Path:
        return self.root / PurePosixPath(name)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file so that it is there whole or not at all.

        Raises:
            StoreError: the disk is full or the folder cannot be written.
        """
        target = self.path(name)
        # Unique over machines too: workers of two nodes may write the same shard at the same time.
        temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            _sync_folder(target.parent)
        except OSError as error:
            raise write_error(target, error) from error

    def read_bytes(self, name: str) -> bytes | None:
        """Reads a small file; None where there is none."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise StoreError(f"'{self.root}' is a file; --out wants a folder.") from None
        except OSError as error:
            raise StoreError(f"'{self.path(name)}' cannot be read: {error.strerror}.") from None

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
            if not self.root.is_dir():
                raise StoreError(
                    f"There is no store at '{self.root}'; make one with: magma-gpu build INPUT --out {self.root}."
                )
            if self.path(BUILDING).exists() or not self.has_files():
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
        self.path(BUILDING).unlink(missing_ok=True)

    def commit(self, manifest: Manifest) -> None:
        """Makes a manifest the one that counts, then removes what it no longer names."""
        self.write_bytes(MANIFEST, manifest.to_json())
        self.drop_building()
        self.sweep(manifest.files())

    def sweep(self, keep: set[str]) -> int:
        """Deletes Parquet files in table folders that are not in `keep`; returns how many."""
        removed = 0
        for table in TABLES:
            for file in self._shard_files(table):
                if f"{table}/{file.name}" not in keep:
                    file.unlink(missing_ok=True)
                    removed += 1
        return removed

    def remove_temporary(self) -> None:
        """Deletes what killed writers left half-written; only for who holds the lock."""
        for folder in (".", *TABLES, *(str(p.relative_to(self.root)) for p in self.root.glob("failed/*"))):
            for file in self.path(folder).glob(".*.tmp"):
                file.unlink(missing_ok=True)

    def has_files(self) -> bool:
        """Whether there are shards of any table, counted or not."""
        return any(True for table in TABLES for _ in self._shard_files(table))

    def _shard_files(self, table: str) -> list[Path]:
        folder = self.path(table)
        return sorted(folder.glob("shard-*.parquet")) if folder.is_dir() else []

    def keys(self, table: str, shard: int) -> list[str]:
        """The keys under which there are files of a shard, counted or not."""
        start = f"shard-{shard:05d}-"
        return [f.stem.removeprefix(start) for f in self._shard_files(table) if f.name.startswith(start)]

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the store against a second build; released by the system when the process dies.

        Raises:
            StoreError: another build holds it, or the folder cannot be written.
        """
        import fcntl

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = self.path(LOCK).open("a+")
        except OSError as error:
            raise write_error(self.root, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"Another build is writing to '{self.root}'; wait for it to end, or use another --out."
                ) from None
            yield

    # ----------------------------------------------------------------- tables

    def file_name(self, table: str, shard: int, key: str) -> str:
        return f"{table}/shard-{shard:05d}-{key[:12]}.parquet"

    def write_table(self, table: str, shard: int, key: str, data: pa.Table) -> Entry:
        """Writes one shard of a table under the name that `key` gives."""
        content = parquet_bytes(table, data)
        name = self.file_name(table, shard, key)
        self.write_bytes(name, content)
        return Entry(name, data.num_rows, hashlib.sha256(content).hexdigest())

    def find_table(self, table: str, shard: int, key: str) -> Entry | None:
        """The entry of a file that an earlier, unfinished run left under this key; None if absent or damaged.

        Every row is decoded: there is no checksum yet that it could be held against.
        """
        name = self.file_name(table, shard, key)
        try:
            content = self.path(name).read_bytes()
            rows = pq.read_table(pa.BufferReader(content)).num_rows
        except (OSError, pa.ArrowException):
            return None
        return Entry(name, rows, hashlib.sha256(content).hexdigest())

    def damage(self, entry: Entry, *, checksum: bool) -> str | None:
        """What is wrong with a file that counts, as the end of a sentence about it; None where nothing is.

        Args:
            checksum: read all of it; else only whether it is there with a Parquet file's end.
        """
        path = self.path(entry.file)
        try:
            if checksum:
                with path.open("rb") as file:
                    got = hashlib.file_digest(file, "sha256").hexdigest()
                return None if got == entry.sha256 else "has other bytes than the manifest says"
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 8))
                end = file.read(8)
            whole = size >= 12 and end.endswith(b"PAR1") and int.from_bytes(end[:4], "little") <= size - 12
            return None if whole else "is cut"
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read ({error.strerror})"

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
            with pq.ParquetFile(path) as file:
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


def write_error(path: Path, error: OSError) -> StoreError:
    """One sentence for a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(
            f"No space is left for '{path}'; what was finished is kept: free some space and run it again."
        )
    reason = error.strerror or str(error)
    return StoreError(f"'{path}' cannot be written ({reason}); choose an --out that can be.")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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

"""What a store holds, as one immutable document: `manifest.json`, and `building.json` of a build in progress.

It opens no table. A file that no manifest names does not count, whatever it holds. `stale` names tables that nobody may
read as results: a stage takes finished work over from them when it makes its tables again.
"""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from magma_gpu.errors import StoreError
from magma_gpu.schema import FORMAT_VERSION, TABLES


@dataclass(frozen=True, slots=True)
class Entry:
    """One Parquet file that counts."""

    file: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, order=True)
class Tombstone:
    """What was forgotten and stays out: a memory, one of its sessions, or one turn (by the id of its first event)."""

    memory_id: str
    session_id: str = ""
    event_id: str = ""


# tables[name][shard]
Tables = dict[str, dict[int, Entry]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a store holds; replaced as a whole, never edited in place."""

    config: dict[str, dict[str, Any]]
    fingerprints: dict[str, str]
    # What a stage's model is, in words, for messages: {"embed": {"model": ..., "dim": ...}}.
    models: dict[str, dict[str, Any]]
    num_shards: int
    tables: Tables = field(default_factory=dict)
    # Tables of a shard whose inputs have changed since; only the stage that made them looks at them.
    stale: Tables = field(default_factory=dict)
    tombstones: tuple[Tombstone, ...] = ()

    def entry(self, table: str, shard: int) -> Entry | None:
        return self.tables.get(table, {}).get(shard)

    def stale_entry(self, table: str, shard: int) -> Entry | None:
        return self.stale.get(table, {}).get(shard)

    def with_entries(self, shard: int, entries: dict[str, Entry | None]) -> "Manifest":
        """Returns a copy with some of a shard's entries set (or removed, where None)."""
        return replace(self, tables=_changed(self.tables, shard, entries))

    def with_stale(self, shard: int, entries: dict[str, Entry | None]) -> "Manifest":
        """Returns a copy with some of a shard's stale entries set (or removed, where None)."""
        return replace(self, stale=_changed(self.stale, shard, entries))

    def files(self) -> set[str]:
        return {e.file for tables in (self.tables, self.stale) for shards in tables.values() for e in shards.values()}

    def to_json(self) -> bytes:
        document: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "config": self.config,
            "fingerprints": self.fingerprints,
            "models": self.models,
            "num_shards": self.num_shards,
            "tables": _tables_document(self.tables),
        }
        if stale := _tables_document(self.stale):
            document["stale"] = stale
        if self.tombstones:
            document["tombstones"] = [
                {"memory_id": t.memory_id, "session_id": t.session_id, "event_id": t.event_id}
                for t in sorted(set(self.tombstones))
            ]
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @staticmethod
    def from_json(data: bytes, where: str) -> "Manifest":
        """Reads a manifest.

        Raises:
            NewerStoreError: a newer release wrote it.
            StoreError: it is damaged, or no manifest.
        """
        try:
            document = json.loads(data)
            version = document["format_version"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"'{where}' is damaged or not a manifest of a memory store ({error}); run the build of its logs again "
                "to make it anew from the files, restore it, or use another --out."
            ) from None
        if version != FORMAT_VERSION:
            raise NewerStoreError(
                f"'{where}' has format version {version} and this release reads {FORMAT_VERSION}: "
                f"use the release that wrote it, or another --out."
            )
        try:
            return Manifest(
                config=document["config"],
                fingerprints=document["fingerprints"],
                models=document["models"],
                num_shards=document["num_shards"],
                tables=_tables(document["tables"]),
                stale=_tables(document.get("stale", {})),
                tombstones=tuple(Tombstone(**t) for t in document.get("tombstones", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"'{where}' is damaged (at {error}); run the build of its logs again to make it anew from the files, "
                "restore it, or use another --out."
            ) from None


class NewerStoreError(StoreError):
    """A store that another release wrote; nothing in it is touched."""


def _changed(tables: Tables, shard: int, entries: dict[str, Entry | None]) -> Tables:
    tables = dict(tables)
    for table, entry in entries.items():
        of_table = dict(tables.get(table, {}))
        if entry is None:
            of_table.pop(shard, None)
        else:
            of_table[shard] = entry
        tables[table] = of_table
    return tables


def _tables_document(tables: Tables) -> dict[str, Any]:
    # A table without a file is left out, so that the bytes do not tell by which way a store came to be.
    return {
        table: {
            f"{shard:05d}": {"file": e.file, "rows": e.rows, "sha256": e.sha256} for shard, e in sorted(shards.items())
        }
        for table, shards in sorted(tables.items())
        if shards
    }


def _tables(document: dict[str, Any]) -> Tables:
    return {
        table: {int(shard): _entry(table, int(shard), e) for shard, e in shards.items()}
        for table, shards in document.items()
    }


def _entry(table: str, shard: int, document: dict[str, Any]) -> Entry:
    # A manifest may come from elsewhere: nothing outside the folders of tables is opened or removed.
    folder, _, name = document["file"].rpartition("/")
    if folder not in TABLES or not re.fullmatch(r"shard-\d{5,}-[0-9a-f]{12}\.parquet", name):
        raise ValueError(f"the file name {document['file']!r} of {table}, shard {shard}")
    return Entry(document["file"], document["rows"], document["sha256"])

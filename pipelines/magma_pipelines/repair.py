"""What a build starts from when a store was interrupted or damaged, and what it refuses to start from.

Tables of later stages are made again from the ingest tables. Ingest tables are the only copy of the turns here: a build
never goes on without one that it cannot bring back to the byte. Nothing is written but the removal of damaged files.
"""

import concurrent.futures
import logging
from dataclasses import dataclass, field, replace

from magma_gpu.errors import StoreError
from magma_gpu.manifest import NewerStoreError
from magma_gpu.schema import STAGE_TABLES, TABLES
from magma_gpu.stages import stage_inputs
from magma_gpu.store import Entry, Manifest, Store, stable_hash
from magma_pipelines.jobs import JOBS
from magma_pipelines.worker import ingest_key

log = logging.getLogger(__name__)

_READERS = 8


@dataclass(slots=True)
class Base:
    """What a build starts from."""

    # What readers see now; None where there is nothing, or nothing that can be read.
    committed: Manifest | None
    manifest: Manifest
    # Ingest tables by shard that are damaged.
    lost: dict[int, tuple[str, ...]] = field(default_factory=dict)
    repaired: list[str] = field(default_factory=list)


def load_base(store: Store, wanted: Manifest, *, overwrite: bool, checksum: bool) -> Base:
    """Decides what a build of the settings of `wanted` starts from.

    An unfinished build of the same settings, else what is committed, else nothing.

    Raises:
        StoreError: the store was made with other settings, by a newer release, or what it holds cannot be told.
    """
    repaired: list[str] = []
    committed = _readable(store, "manifest", repaired)
    building = _readable(store, "building", repaired)
    if building is not None and building.fingerprints == wanted.fingerprints:
        base = check_files(store, Base(committed, building, repaired=list(repaired)), checksum=checksum)
        # What is damaged of an unfinished build is made again from what was there before it.
        if not base.lost or committed is None or committed.fingerprints != wanted.fingerprints:
            return _fresh_if(base, wanted, overwrite)
    if committed is None:
        if not store.has_files() or building is not None:
            return Base(None, wanted, repaired=repaired)
        if (found := _recover(store, wanted)) is not None:
            return Base(None, found, repaired=[*repaired, "manifest.json was made anew from the files that are there"])
        if overwrite:
            return Base(None, wanted, repaired=repaired)
        raise StoreError(
            f"'{store.root}' holds shard files and no manifest.json, and which of them count cannot be told: restore "
            "it, use another --out, or start anew from the logs given with --overwrite."
        )
    stones = committed.tombstones
    changed = [s for s in STAGE_TABLES if committed.fingerprints.get(s) != wanted.fingerprints[s]]
    if changed and not overwrite:
        raise StoreError(
            f"'{store.root}' was built with {difference(committed, wanted)}: use its setting, "
            "another --out, or --overwrite to rebuild."
        )
    if "ingest" in changed:
        return Base(committed, replace(wanted, tombstones=stones), repaired=repaired)
    keep = {t for s in STAGE_TABLES if s not in changed for t in STAGE_TABLES[s]}
    manifest = replace(
        wanted,
        tables={t: shards for t, shards in committed.tables.items() if t in keep},
        stale={t: shards for t, shards in committed.stale.items() if t in keep},
        tombstones=stones,
    )
    base = check_files(store, Base(committed, manifest, repaired=repaired), checksum=checksum)
    return _fresh_if(base, wanted, overwrite)


def _fresh_if(base: Base, wanted: Manifest, overwrite: bool) -> Base:
    """With --overwrite, lost turns are no reason to stop: the logs given are all there is then."""
    if not base.lost or not overwrite:
        return base
    return Base(base.committed, replace(wanted, tombstones=base.manifest.tombstones), repaired=base.repaired)


def _readable(store: Store, which: str, repaired: list[str]) -> Manifest | None:
    try:
        return store.manifest() if which == "manifest" else store.building()
    except NewerStoreError:
        raise
    except StoreError as error:
        log.warning("%s", error)
        repaired.append(f"{which}.json was damaged")
        return None


def difference(old: Manifest, new: Manifest) -> str:
    """The first setting that differs, both values named."""
    for stage, section in new.config.items():
        for key, value in section.items():
            was = old.config.get(stage, {}).get(key)
            if was != value:
                return f"{stage}.{key} = {was!r} and this build wants {value!r}"
    for stage, model in new.models.items():
        for key, value in model.items():
            was = old.models.get(stage, {}).get(key)
            if was != value:
                return f"{stage} {key} {was!r} and this build has {value!r}"
    return "another version of this program"


def check_files(store: Store, base: Base, *, checksum: bool) -> Base:
    """Checks every file that the base names; drops those of later stages that are damaged, lists those of ingest."""
    manifest = base.manifest
    entries = [(t, s, e) for t, shards in manifest.tables.items() for s, e in shards.items()]
    stale = [(t, s, e) for t, shards in manifest.stale.items() for s, e in shards.items()]
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(lambda tse: store.damage(tse[2], checksum=checksum), [*entries, *stale]))
    stage_of = {t: s for s, tables in STAGE_TABLES.items() for t in tables}
    lost: dict[int, list[str]] = {}
    for (table, shard, entry), damage in zip(entries, found, strict=False):
        if damage is None:
            continue
        base.repaired.append(f"'{entry.file}' {damage}; made again")
        if stage_of[table] == "ingest":
            lost.setdefault(shard, []).append(table)
        else:
            # Not left there, so that nothing takes it for finished work.
            store.remove(entry.file)
            manifest = manifest.with_entries(shard, dict.fromkeys(STAGE_TABLES[stage_of[table]]))
    for (table, shard, _), damage in zip(stale, found[len(entries) :], strict=True):
        if damage is not None:
            manifest = manifest.with_stale(shard, {table: None})
    for shard in range(manifest.num_shards):
        # A shard that was begun has all of its ingest tables, or has lost some.
        has = [t for t in STAGE_TABLES["ingest"] if manifest.entry(t, shard) is not None]
        assert len(has) in (0, len(STAGE_TABLES["ingest"])), (shard, has)
    return Base(base.committed, manifest, {s: tuple(t) for s, t in lost.items()}, base.repaired)


def _recover(store: Store, wanted: Manifest) -> Manifest | None:
    """The manifest of the files that are there; None where they do not say it unmistakably.

    A file's name is the hash of what it was made from and with which settings, so a set of files shows by itself that
    it belongs together. Of each shard exactly one such set must be there.
    """
    manifest = wanted
    there = {f for table in TABLES for f in store.shard_files(table)}
    keys = store.keys("events")
    for shard in range(wanted.num_shards):
        sets = [_ingested(store, wanted, shard, key, there) for key in keys.get(shard, ())]
        found = [entries for entries in sets if entries is not None]
        if len(found) != 1:
            return None
        manifest = manifest.with_entries(shard, dict(found[0]))
        for job in JOBS:
            needed = stage_inputs(job.stage, wanted.config)
            inputs = {t: e for t in needed if (e := manifest.entry(t, shard)) is not None}
            if len(inputs) < len(needed):
                continue
            shas = (inputs[t].sha256 for t in needed)
            key = stable_hash(wanted.fingerprints[job.stage], *shas)
            made = _found(store, job.stage, shard, key, there)
            if len(made) == len(STAGE_TABLES[job.stage]):
                manifest = manifest.with_entries(shard, dict(made))
    return manifest


def _found(store: Store, stage: str, shard: int, key: str, there: set[str]) -> dict[str, Entry]:
    tables = [t for t in STAGE_TABLES[stage] if store.file_name(t, shard, key) in there]
    return {t: e for t in tables if (e := store.find_table(t, shard, key)) is not None}


def _ingested(store: Store, wanted: Manifest, shard: int, key: str, there: set[str]) -> dict[str, Entry] | None:
    entries = _found(store, "ingest", shard, key, there)
    if len(entries) < len(STAGE_TABLES["ingest"]):
        return None
    contents = {t: store.read_table(e, t) for t, e in entries.items()}
    same = ingest_key(wanted.fingerprints["ingest"], contents)[: len(key)] == key
    return entries if same else None

"""Splits or joins the shards of a store: the same rows in other files, the same files that a build would have made.

No stage runs again: every table lists memory after memory, and a memory's rows do not depend on which others lie in its
shard. Readers follow the old files until the new ones are all there.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from magma_gpu.config import Config
from magma_gpu.errors import StoreError
from magma_gpu.ingest import distinct_rejected
from magma_gpu.schema import STAGE_TABLES, TABLES
from magma_gpu.stages import stage_inputs
from magma_gpu.store import Entry, Manifest, Store, parquet_bytes, shard_of, stable_hash
from magma_pipelines.build import wanted_manifest
from magma_pipelines.jobs import JOBS
from magma_pipelines.opened import opened
from magma_pipelines.report import write_ledger
from magma_pipelines.worker import content_key


def reshard(path: Path, run: Config, num_shards: int) -> dict[str, Any]:
    """Gives a store another number of shards.

    Raises:
        ConfigError: the number is no power of two.
        StoreError: the store cannot be used, or a build of it is unfinished.
    """
    with opened(path, run) as here:
        store, old = here.store, here.base.manifest
        if here.base.committed is None or old.to_json() != here.base.committed.to_json():
            raise StoreError(f"A build of '{path}' is unfinished; run it again to finish it, then reshard.")
        config = replace(here.config, ingest=replace(here.config.ingest, num_shards=num_shards))
        new = replace(wanted_manifest(config), tombstones=old.tombstones)
        for shard in range(num_shards):
            new = new.with_entries(shard, dict(_write_shard(store, old, new, shard)))
        if new.num_shards != old.num_shards:
            store.commit(new)
        document = {"resharded": {"from": old.num_shards, "to": num_shards}}
        write_ledger(store, document)
    return document


def _write_shard(store: Store, old: Manifest, new: Manifest, shard: int) -> dict[str, Entry]:
    common = min(old.num_shards, new.num_shards)
    sources = [s for s in range(old.num_shards) if s % common == shard % common]
    made: dict[str, Entry] = {}
    tables = {t: _select(store, old, new, sources, shard, t) for t in STAGE_TABLES["ingest"]}
    contents = {t: parquet_bytes(t, table) for t, table in tables.items()}
    key = content_key(new.fingerprints["ingest"], contents)
    made |= {t: store.write_content(t, shard, key, content, tables[t].num_rows) for t, content in contents.items()}
    for job in JOBS:
        outputs = STAGE_TABLES[job.stage]
        # A stage that an old shard lacks is lacking in the new ones that come from it.
        if any(old.entry(t, s) is None for t in outputs for s in sources):
            continue
        inputs = stage_inputs(job.stage, new.config)
        key = stable_hash(new.fingerprints[job.stage], *(made[t].sha256 for t in inputs))
        for table in outputs:
            made[table] = store.write_table(table, shard, key, _select(store, old, new, sources, shard, table))
    return made


def _select(store: Store, old: Manifest, new: Manifest, sources: list[int], shard: int, name: str) -> pa.Table:
    """The rows of a table that belong to a new shard, in the order that a build gives them."""
    table = pa.concat_tables([store.read_table(old.entry(name, s), name) for s in sources])
    if name == "rejected":
        where = [m or s for m, s in zip(table["memory_id"].to_pylist(), table["source"].to_pylist(), strict=True)]
        rows = [i for i, at in enumerate(where) if shard_of(at, new.num_shards) == shard]
        return distinct_rejected([table.take(pa.array(rows, pa.int64()))])
    assert "memory_id" in TABLES[name].names
    memories = table["memory_id"].to_pylist()
    belongs = {m: shard_of(m, new.num_shards) == shard for m in set(memories)}
    rows = sorted((i for i, m in enumerate(memories) if belongs[m]), key=lambda i: memories[i])
    return table.take(pa.array(rows, pa.int64()))

"""Takes a memory, a session or a turn out of a store, as if it had never been read.

Its shard is put together again without it and goes through every stage again, with what is left reused; afterwards no
file holds it. A tombstone in the manifest keeps it out of later builds of the same logs. Where a log does not number
its turns itself, the place of a forgotten turn stays empty: `seq` of the turns after it does not move up.
"""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from magma_gpu.config import Config
from magma_gpu.errors import InputError
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import Manifest, Store, Tombstone, shard_of
from magma_pipelines.build import BuildOptions, BuildReport, finish
from magma_pipelines.kept import KEPT
from magma_pipelines.opened import entries_of, last_stage, opened
from magma_pipelines.pick_runner import pick_runner
from magma_pipelines.repair import Base
from magma_pipelines.report import failure_name, failure_names, write_ledger
from magma_pipelines.runner import Runner
from magma_pipelines.tasks import ReduceTask


def forget(
    path: Path,
    run: Config,
    memory_id: str,
    session_id: str | None = None,
    event_id: str | None = None,
    *,
    quiet: bool = False,
    runner: Runner | None = None,
) -> dict[str, Any]:
    """Forgets; returns what went, by table and number of rows.

    Args:
        event_id: an event; the whole turn that it is a part of goes.

    Raises:
        InputError: there is no such memory, session or event.
        StoreError: the store cannot be used.
    """
    if runner is None:
        with contextlib.closing(pick_runner(run)) as made:
            return forget(path, run, memory_id, session_id, event_id, quiet=quiet, runner=made)
    with opened(path, run) as here:
        store, manifest = here.store, here.base.manifest
        shard = shard_of(memory_id, manifest.num_shards)
        stone = _tombstone(store, manifest, shard, memory_id, session_id, event_id)
        before = _rows(manifest, shard)
        # What is kept for reuse would outlive what is forgotten.
        kept = {t: None for tables in STAGE_TABLES.values() for t in tables}
        manifest = replace(manifest.with_stale(shard, dict(kept)), tombstones=(*manifest.tombstones, stone))
        task = ReduceTask(
            shard,
            manifest.fingerprints["ingest"],
            entries_of(manifest, "ingest", shard),
            tombstones=manifest.tombstones,
        )
        report = BuildReport(runner=run.run.runner, num_workers=run.run.num_workers)
        options = BuildOptions(until=last_stage(manifest), quiet=quiet)
        # What a killed build kept of any shard says what was said, too.
        store.remove(KEPT)
        base = Base(here.base.committed, manifest)
        after = finish(store, base, [task], here.config, options, runner, report)
        # A failure may quote what it failed on; one of this very run is of what stays.
        new = {failure_name(f.stage, f.shard) for f in report.failed}
        for name in sorted(failure_names(store) & {failure_name(stage, shard) for stage in STAGE_TABLES} - new):
            store.remove(name)
        left = _rows(after, shard)
        document = {
            "forgot": {"memory_id": memory_id, "session_id": session_id, "event_id": event_id},
            "rows": {t: before[t] - left.get(t, 0) for t in before if before[t] != left.get(t, 0)},
            "failed": [{"stage": f.stage, "shard": f.shard, "error": f.error} for f in report.failed],
        }
        write_ledger(store, report.to_json() | document)
    return document


def _tombstone(
    store: Store, manifest: Manifest, shard: int, memory_id: str, session_id: str | None, event_id: str | None
) -> Tombstone:
    memories = store.read_table(manifest.entry("memories", shard), "memories", memory_id=memory_id)
    if memories.num_rows == 0:
        raise InputError(f"'{store.root}' holds no memory '{memory_id}'; `magma-gpu memories` lists them.")
    events = store.read_table(manifest.entry("events", shard), "events", memory_id=memory_id)
    if session_id is not None:
        events = events.filter(pc.equal(events["session_id"], session_id))
        if events.num_rows == 0:
            raise InputError(f"Memory '{memory_id}' holds no session '{session_id}'.")
    if event_id is None:
        return Tombstone(memory_id, session_id or "")
    first = ""
    for event, part in zip(events["event_id"].to_pylist(), events["part"].to_pylist(), strict=True):
        first = event if part == 0 else first
        if event == event_id:
            return Tombstone(memory_id, session_id or "", first)
    where = f"Session '{session_id}' of memory '{memory_id}'" if session_id is not None else f"Memory '{memory_id}'"
    raise InputError(f"{where} holds no event '{event_id}'.")


def _rows(manifest: Manifest, shard: int) -> dict[str, int]:
    return {
        t: e.rows for tables in STAGE_TABLES.values() for t in tables if (e := manifest.entry(t, shard)) is not None
    }

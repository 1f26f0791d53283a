"""Stores of the same settings into one, as if their logs had been built together; and the slow path of one store.

Vectors and extracts are taken over from the stores that are merged; edges are made again, because a memory may have
turns in several of them.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from magma_gpu.config import Config
from magma_gpu.errors import StoreError
from magma_gpu.store import Manifest, Store
from magma_pipelines.build import BuildOptions, BuildReport, begin, finish, held, wanted_manifest
from magma_pipelines.opened import entries_of, last_stage, opened, store_config
from magma_pipelines.pick_runner import pick_runner
from magma_pipelines.repair import difference, load_base
from magma_pipelines.report import write_ledger
from magma_pipelines.runner import Runner
from magma_pipelines.tasks import OtherShard, ReduceTask


def merge(
    paths: Sequence[Path], out: Path, run: Config, *, quiet: bool = False, runner: Runner | None = None
) -> BuildReport:
    """Makes the store `out` of others, which stay as they are.

    Raises:
        StoreError: their settings differ, one cannot be read, or there is a store at `out`.
    """
    if runner is None:
        with contextlib.closing(pick_runner(run)) as made:
            return merge(paths, out, run, quiet=quiet, runner=made)
    others = [(Store(p), Store(p).open()) for p in dict.fromkeys(paths)]
    first = others[0][1]
    for store, manifest in others[1:]:
        if manifest.fingerprints != first.fingerprints:
            raise StoreError(
                f"'{others[0][0].root}' was built with {difference(first, manifest)} in '{store.root}': stores of "
                "different settings cannot be merged."
            )
    config = store_config(first, run, others[0][0].root)
    made_store = Store(out)
    if made_store.manifest() is not None:
        raise StoreError(f"'{out}' is a store already and merge makes a new one; use another --out.")
    report = BuildReport(runner=run.run.runner, num_workers=run.run.num_workers)
    with held(made_store):
        base = load_base(made_store, wanted_manifest(config), overwrite=False, checksum=True)
        stones = tuple(sorted({t for _, m in others for t in m.tombstones}))
        base.manifest = replace(base.manifest, tombstones=stones)
        begin(made_store, base)
        reduces = [_task(base.manifest, shard, others) for shard in range(first.num_shards)]
        todo = [t for t in reduces if base.manifest.entry("events", t.shard) is None]
        options = BuildOptions(until=last_stage(*(m for _, m in others)), quiet=quiet)
        finish(made_store, base, todo, config, options, runner, report, others)
        write_ledger(made_store, report.to_json() | {"merged": [str(s.root) for s, _ in others]})
    return report


def _task(manifest: Manifest, shard: int, others: Sequence[tuple[Store, Manifest]]) -> ReduceTask:
    parts = tuple(OtherShard(s.where, entries_of(m, "ingest", shard)) for s, m in others)
    return ReduceTask(shard, manifest.fingerprints["ingest"], others=parts, tombstones=manifest.tombstones)


def extract(
    path: Path, run: Config, *, retry_failed: bool = False, quiet: bool = False, runner: Runner | None = None
) -> BuildReport:
    """Runs every stage that a shard of a store lacks, and no other.

    Args:
        retry_failed: extract again what has failed windows; the others of these shards are taken over.

    Raises:
        StoreError: the store cannot be used.
    """
    if runner is None:
        with contextlib.closing(pick_runner(run)) as made:
            return extract(path, run, retry_failed=retry_failed, quiet=quiet, runner=made)
    report = BuildReport(runner=run.run.runner, num_workers=run.run.num_workers)
    with opened(path, run) as here:
        manifest = here.base.manifest
        redo = set()
        if retry_failed:
            redo = {("extract", s) for s in range(manifest.num_shards) if _has_failed(here.store, manifest, s)}
        finish(here.store, here.base, [], here.config, BuildOptions(quiet=quiet), runner, report, redo=redo)
        if report.changed:
            write_ledger(here.store, report.to_json())
    return report


def _has_failed(store: Store, manifest: Manifest, shard: int) -> bool:
    table = store.read_table(manifest.entry("extracts", shard), "extracts", columns=["status"])
    return "failed" in table["status"].to_pylist()

"""A build from inputs to a committed store: what is done already, what is to do, and the one commit at the end.

Nothing that readers follow changes before the end. After a crash the next build goes on from `building.json` and from
the complete files that are there; it redoes no finished shard.
"""

import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from magma_gpu.config import BUILD_SECTIONS, Config
from magma_gpu.errors import InputError, StoreError
from magma_gpu.ingest import IngestCounts, reduce_shard, spill_rows
from magma_gpu.readers import detect_format, find_sources, read_source
from magma_gpu.schema import STAGE_TABLES, STAGES
from magma_gpu.store import LEDGER, Entry, Manifest, Store, parquet_bytes, stable_hash, write_error
from magma_gpu.types import Record
from magma_pipelines.jobs import JOBS
from magma_pipelines.progress import bar
from magma_pipelines.runner import Runner, ShardFailed, make_runner
from magma_pipelines.worker import ShardTask


@dataclass(slots=True)
class BuildReport:
    """What a build did; its JSON is the run's ledger."""

    ingest: IngestCounts = field(default_factory=IngestCounts)
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    failed: list[ShardFailed] = field(default_factory=list)
    skipped_inputs: list[str] = field(default_factory=list)
    changed: bool = False
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        counts = self.ingest
        return {
            "changed": self.changed,
            "seconds": round(self.seconds, 3),
            "turns": {
                "in": counts.turns_in,
                "new": counts.new,
                "unchanged": counts.unchanged,
                "duplicates": counts.duplicates,
                "rejected": counts.rejected,
            },
            "rejected_by_reason": dict(sorted(counts.by_reason.items())),
            "unreadable_times": counts.unreadable_times,
            "formats": self.formats,
            "unreadable_inputs": self.skipped_inputs,
            "stages": self.stages,
            "failed": [{"stage": f.stage, "shard": f.shard, "error": f.error} for f in self.failed],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    format: str = "auto"
    memory_id: str | None = None
    until: str = "resolve"
    overwrite: bool = False
    quiet: bool = False


def build(
    inputs: Sequence[str], out: str | Path, config: Config, options: BuildOptions, runner: Runner | None = None
) -> BuildReport:
    """Builds or extends the store at `out` from inputs.

    Args:
        runner: who runs the shards; None for the one that the config names.

    Raises:
        InputError: an input is missing, or none can be read.
        StoreError: the store was made with other settings, is locked, or cannot be written.
    """
    start = time.perf_counter()
    runner = runner or make_runner(config)
    sources = find_sources(inputs)
    store = Store(out)
    report = BuildReport()
    if not store.root.exists():
        # Nothing is left behind when no input can be read.
        _check_formats(sources, options, report)
    with store.lock():
        remove_leftovers(store)
        committed = store.manifest()
        wanted = _wanted(config)
        base = _base(store, committed, wanted, config, overwrite=options.overwrite)
        manifest = _ingest(store, base, sources, config, options, report)
        for job in JOBS[: STAGES.index(options.until)]:
            manifest = _run_stage(store, job.stage, base, manifest, config, runner, options, report)
        _commit(store, committed, manifest, report)
        report.seconds = time.perf_counter() - start
        if report.changed or store.read_bytes(LEDGER) is None:
            _write_ledger(store, report)
    return report


def _wanted(config: Config) -> Manifest:
    """The manifest of an empty store of this config."""
    from magma_gpu.stages import stage_fingerprints, stage_models

    return Manifest(
        config={k: v for k, v in config.as_dict().items() if k in BUILD_SECTIONS},
        fingerprints=stage_fingerprints(config),
        models=stage_models(config),
        num_shards=config.ingest.num_shards,
    )


def _base(
    store: Store, committed: Manifest | None, wanted: Manifest, config: Config, *, overwrite: bool
) -> Manifest:
    """What the build starts from: an unfinished one of the same settings, else what is committed, else nothing."""
    building = store.building()
    if building is not None and building.fingerprints == wanted.fingerprints:
        return building
    if committed is None:
        return wanted
    changed = [s for s in STAGES if committed.fingerprints.get(s) != wanted.fingerprints[s]]
    if changed and not overwrite:
        raise StoreError(
            f"'{store.root}' was built with {_difference(committed, wanted)}: use its setting, "
            "another --out, or --overwrite to rebuild."
        )
    if "ingest" in changed:
        return wanted
    kept = {t: committed.tables.get(t, {}) for s in STAGES if s not in changed for t in STAGE_TABLES[s]}
    return Manifest(wanted.config, wanted.fingerprints, wanted.models, wanted.num_shards, kept)


def _difference(old: Manifest, new: Manifest) -> str:
    """The first setting that differs, both values named."""
    for stage in BUILD_SECTIONS:
        for key, value in new.config[stage].items():
            was = old.config.get(stage, {}).get(key)
            if was != value:
                return f"{stage}.{key} = {was!r} and this build wants {value!r}"
    for stage, model in new.models.items():
        for key, value in model.items():
            was = old.models.get(stage, {}).get(key)
            if was != value:
                return f"{stage} {key} {was!r} and this build has {value!r}"
    return "another version of this program"


# ---------------------------------------------------------------------------------------------------------- ingest


def _check_formats(sources: Sequence[Any], options: BuildOptions, report: BuildReport) -> None:
    for source in sources:
        _format_of(source, options, report, len(sources))
    if len(report.skipped_inputs) == len(sources):
        raise InputError(report.skipped_inputs[0])


def _format_of(source: Any, options: BuildOptions, report: BuildReport, num_sources: int) -> str | None:
    if source.name in report.formats:
        return report.formats[source.name]
    try:
        chosen: str = detect_format(source) if options.format == "auto" else options.format
    except InputError as error:
        # One file of many that cannot be read is reported and makes the exit code 1; a single one is an error.
        if num_sources == 1:
            raise
        if str(error) not in report.skipped_inputs:
            report.skipped_inputs.append(str(error))
        return None
    report.formats[source.name] = chosen
    return chosen


def _ingest(
    store: Store,
    base: Manifest,
    sources: Sequence[Any],
    config: Config,
    options: BuildOptions,
    report: BuildReport,
) -> Manifest:
    start = time.perf_counter()
    _check_formats(sources, options, report)
    manifest = base
    rows_out = 0
    with tempfile.TemporaryDirectory(prefix=".spill-", dir=store.root, ignore_cleanup_errors=True) as folder:
        spill = _Spill(Path(folder))
        for source in bar(sources, "read", len(sources), quiet=options.quiet, unit="file"):
            chosen = _format_of(source, options, report, len(sources))
            if chosen is None:
                continue
            records = _records(source, chosen, config, options, report, len(sources))
            for rows in spill_rows(records, config.ingest, report.ingest):
                spill.add(rows)
        if len(report.skipped_inputs) == len(sources):
            raise InputError(report.skipped_inputs[0])
        shards = range(config.ingest.num_shards)
        todo = [s for s in shards if s in spill.shards or manifest.entry("events", s) is None]
        for shard in bar(todo, "ingest", len(todo), quiet=options.quiet):
            existing = {
                t: store.read_table(entry, t)
                for t in STAGE_TABLES["ingest"]
                if (entry := manifest.entry(t, shard)) is not None
            }
            tables = reduce_shard(existing, spill.read(shard), config.ingest, report.ingest)
            rows_out += tables["events"].num_rows
            manifest = manifest.with_entries(shard, _write_ingest(store, manifest, shard, tables))
    assert report.ingest.balanced(), report.ingest
    if manifest != base or not store.path("manifest.json").exists():
        store.save_building(manifest)
    report.stages["ingest"] = {
        "shards": len(todo),
        "rows_in": report.ingest.turns_in,
        "rows_out": rows_out,
        "seconds": round(time.perf_counter() - start, 3),
    }
    return manifest


def _records(
    source: Any, chosen: str, config: Config, options: BuildOptions, report: BuildReport, num_sources: int
) -> Iterator[Record]:
    try:
        yield from read_source(source, chosen, memory_id=options.memory_id, date_order=config.ingest.date_order)
    except InputError as error:
        if num_sources == 1:
            raise
        report.skipped_inputs.append(str(error))


def _write_ingest(store: Store, manifest: Manifest, shard: int, tables: dict[str, pa.Table]) -> dict[str, Entry | None]:
    """Writes a shard's ingest tables under a name that is the hash of their bytes; unchanged ones are not rewritten."""
    contents = {name: parquet_bytes(name, table) for name, table in tables.items()}
    hashes = {name: stable_hash(content.hex()) for name, content in contents.items()}
    key = stable_hash(manifest.fingerprints["ingest"], *(hashes[name] for name in sorted(hashes)))
    if all((e := manifest.entry(n, shard)) is not None and e.file == store.file_name(n, shard, key) for n in tables):
        return {}
    return {name: store.write_table(name, shard, key, table) for name, table in tables.items()}


class _Spill:
    """Rows by shard and kind, in files of one folder that goes away with the ingest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards: set[int] = set()
        self._files: dict[tuple[int, str], list[Path]] = {}
        self._count = 0

    def add(self, rows: dict[int, dict[str, pa.Table]]) -> None:
        for shard, kinds in rows.items():
            self.shards.add(shard)
            for kind, table in kinds.items():
                path = self.folder / f"{self._count:08d}.arrow"
                self._count += 1
                try:
                    with ipc.new_file(str(path), table.schema) as writer:
                        writer.write_table(table)
                except OSError as error:
                    raise write_error(path, error) from error
                self._files.setdefault((shard, kind), []).append(path)

    def read(self, shard: int) -> dict[str, list[pa.Table]]:
        result: dict[str, list[pa.Table]] = {}
        for (of_shard, kind), paths in self._files.items():
            if of_shard == shard:
                result[kind] = [ipc.open_file(pa.memory_map(str(p))).read_all() for p in paths]
        return result


# ------------------------------------------------------------------------------------------------------ other stages


def _run_stage(
    store: Store,
    stage: str,
    base: Manifest,
    manifest: Manifest,
    config: Config,
    runner: Runner,
    options: BuildOptions,
    report: BuildReport,
) -> Manifest:
    start = time.perf_counter()
    from magma_gpu.stages import STAGE_INPUTS

    broken = {f.shard for f in report.failed}
    tasks: list[ShardTask] = []
    adopted = 0
    for shard in range(config.ingest.num_shards):
        if shard in broken:
            continue
        inputs = {t: e for t in STAGE_INPUTS[stage] if (e := manifest.entry(t, shard)) is not None}
        if len(inputs) < len(STAGE_INPUTS[stage]):
            continue
        key = stable_hash(manifest.fingerprints[stage], *(inputs[t].sha256 for t in STAGE_INPUTS[stage]))
        present = {t: manifest.entry(t, shard) for t in STAGE_TABLES[stage]}
        if all(e is not None and e.file == store.file_name(t, shard, key) for t, e in present.items()):
            continue
        found = {t: store.find_table(t, shard, key) for t in STAGE_TABLES[stage]}
        if all(found.values()):
            adopted += 1
            manifest = manifest.with_entries(shard, found)
            continue
        previous = {t: e for t in STAGE_TABLES[stage] if (e := base.entry(t, shard)) is not None}
        manifest = manifest.with_entries(shard, dict.fromkeys(STAGE_TABLES[stage], None))
        tasks.append(ShardTask(stage, shard, key, inputs, previous))
    counts: dict[str, Any] = {}
    rows_in, load, work = 0, 0.0, 0.0
    outcomes = runner.run(str(store.root), config, tasks)
    for outcome in bar(outcomes, stage, len(tasks), quiet=options.quiet):
        if isinstance(outcome, ShardFailed):
            report.failed.append(outcome)
            _record_failure(store, outcome)
            continue
        manifest = manifest.with_entries(outcome.shard, dict(outcome.outputs))
        _forget_failure(store, stage, outcome.shard)
        rows_in += outcome.rows_in
        load += outcome.load_seconds
        work += outcome.seconds
        _sum_into(counts, outcome.counts)
    if tasks or adopted:
        store.save_building(manifest)
    wall = time.perf_counter() - start - load
    report.stages[stage] = {
        "shards": len(tasks),
        "shards_adopted": adopted,
        "rows_in": rows_in,
        "rows_out": {
            t: sum(manifest.tables[t][k.shard].rows for k in tasks if k.shard in manifest.tables.get(t, {}))
            for t in STAGE_TABLES[stage]
        },
        **counts,
        "model": manifest.models.get(stage),
        "seconds": round(min(wall, work) if config.run.num_workers == 1 else wall, 3),
        "load_seconds": round(load, 3),
    }
    return manifest


def _sum_into(total: dict[str, Any], counts: dict[str, Any]) -> None:
    for name, value in counts.items():
        if name.startswith("lowest_"):
            total[name] = min(total.get(name, value), value)
        elif isinstance(value, int | float):
            total[name] = total.get(name, 0) + value
        elif isinstance(value, dict):
            _sum_into(total.setdefault(name, {}), value)
        else:
            total[name] = value


def _failure_name(stage: str, shard: int) -> str:
    return f"failed/{stage}/shard-{shard:05d}.json"


def _record_failure(store: Store, failure: ShardFailed) -> None:
    document = {
        "stage": failure.stage,
        "shard": failure.shard,
        "attempts": failure.attempts,
        "error": failure.error,
        "trace": failure.trace,
    }
    store.write_bytes(_failure_name(failure.stage, failure.shard), (json.dumps(document, indent=1) + "\n").encode())


def _forget_failure(store: Store, stage: str, shard: int) -> None:
    store.path(_failure_name(stage, shard)).unlink(missing_ok=True)


def _commit(store: Store, committed: Manifest | None, manifest: Manifest, report: BuildReport) -> None:
    if committed is not None and manifest == committed:
        store.path("building.json").unlink(missing_ok=True)
        return
    report.changed = True
    if not report.failed:
        store.commit(manifest)
        return
    # Readers keep the older generation of a shard that failed; the next build goes on from the newer one.
    readable = manifest
    if committed is not None and committed.fingerprints == manifest.fingerprints:
        for shard in {f.shard for f in report.failed}:
            if committed.entry("events", shard) is not None:
                older = {t: committed.entry(t, shard) for tables in STAGE_TABLES.values() for t in tables}
                readable = readable.with_entries(shard, older)
    store.write_bytes("manifest.json", readable.to_json())
    store.save_building(manifest)
    store.sweep(readable.files() | manifest.files())


def _write_ledger(store: Store, report: BuildReport) -> None:
    """Adds this run to the ledger; the last twenty are kept."""
    runs: list[dict[str, Any]] = []
    if (data := store.read_bytes(LEDGER)) is not None:
        try:
            runs = json.loads(data)["runs"]
        except (ValueError, KeyError, TypeError):
            warnings.warn("the ledger was damaged and starts anew", stacklevel=1)
    store.write_bytes(LEDGER, (json.dumps({"runs": [*runs, report.to_json()][-20:]}, indent=1) + "\n").encode())


def remove_leftovers(store: Store) -> None:
    """Deletes spill folders of builds that were killed."""
    for folder in store.root.glob(".spill-*"):
        shutil.rmtree(folder, ignore_errors=True)

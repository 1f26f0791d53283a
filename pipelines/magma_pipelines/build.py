"""A build from inputs to a committed store: what is done already, what is to do, and the one commit at the end.

Nothing that readers follow changes before the end. After a crash the next build goes on from `building.json`, from the
spilled rows and from the complete files that are there; it redoes no finished shard, and ends in the same bytes.
"""

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from magma_gpu.config import BUILD_SECTIONS, Config
from magma_gpu.errors import InputError, StoreError
from magma_gpu.pieces import PIECE_BYTES, Piece, split_source
from magma_gpu.readers import detect_format, find_sources
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import BUILDING, LEDGER, MANIFEST, Manifest, NewerStoreError, Store, stable_hash
from magma_pipelines.estimate import compare_estimate, drop_estimate
from magma_pipelines.pick_runner import pick_runner
from magma_pipelines.progress import progress
from magma_pipelines.repair import Base, load_base
from magma_pipelines.report import BuildReport as BuildReport
from magma_pipelines.report import write_ledger
from magma_pipelines.runner import Runner
from magma_pipelines.schedule import Plan
from magma_pipelines.space import check_space
from magma_pipelines.spill import Spill
from magma_pipelines.tasks import Outcome, PieceDone, PieceTask, ReduceTask, ShardFailed, SpilledPiece, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    format: str = "auto"
    memory_id: str | None = None
    until: str = "resolve"
    overwrite: bool = False
    quiet: bool = False
    # Read every file of the store once and compare its checksum; else only look at its end.
    checksum: bool = True
    # Large jsonl files are read in pieces of about this size.
    piece_bytes: int = PIECE_BYTES


def build(
    inputs: Sequence[str],
    out: str | Path,
    config: Config,
    options: BuildOptions,
    runner: Runner | None = None,
) -> BuildReport:
    """Builds or extends the store at `out` from inputs.

    Args:
        runner: who runs the tasks; None for the one that the config names.

    Raises:
        InputError: an input is missing, or none can be read.
        StoreError: the store was made with other settings, is locked, damaged beyond what the inputs can make again, or
            cannot be written.
    """
    if runner is None:
        with contextlib.closing(pick_runner(config)) as made:
            return build(inputs, out, config, options, made)
    start = time.perf_counter()
    sources = find_sources(inputs)
    store = Store(out)
    report = BuildReport(runner=config.run.runner, num_workers=config.run.num_workers)
    if not store.exists():
        # Nothing is left behind when no input can be read.
        _check_formats(sources, config, options, report)
    with held(store):
        base = load_base(store, wanted_manifest(config), overwrite=options.overwrite, checksum=options.checksum)
        report.repaired = base.repaired
        begin(store, base)
        pieces = _Reading(store, sources, config, options, runner, report, base).read()
        reduces = _reduce_tasks(base, pieces)
        finish(store, base, reduces, config, options, runner, report)
        report.seconds = time.perf_counter() - start
        if report.changed or store.read_bytes(LEDGER) is None:
            report.estimate = compare_estimate(store, report)
            write_ledger(store, report.to_json())
            drop_estimate(store)
    return report


def dry_run(inputs: Sequence[str], out: str | Path, config: Config, options: BuildOptions) -> dict[str, Any]:
    """Estimates a build; builds nothing, and leaves the estimate at `out` for the ledger of the build itself.

    Raises:
        InputError: an input is missing, or none can be read.
    """
    from magma_pipelines.estimate import estimate_build, save_estimate

    sources = find_sources(inputs)
    report = BuildReport()
    _check_formats(sources, config, options, report)
    known = [(s, report.format_of[s]) for s in sources if s in report.format_of]
    document = estimate_build(known, Path(out), config, options.until, options.memory_id)
    save_estimate(Store(out), document)
    return document


def wanted_manifest(config: Config) -> Manifest:
    """The manifest of an empty store of this config."""
    from magma_gpu.stages import stage_fingerprints, stage_models

    return Manifest(
        config={k: v for k, v in config.as_dict().items() if k in BUILD_SECTIONS},
        fingerprints=stage_fingerprints(config),
        models=stage_models(config),
        num_shards=config.ingest.num_shards,
    )


@contextlib.contextmanager
def held(store: Store) -> Iterator[None]:
    """Locks a store for a build; one that comes to nothing leaves no trace of a store that was not there before.

    Raises:
        StoreError: another build holds it, or the folder cannot be written.
    """
    was_there = store.exists()
    with store.lock():
        new = not was_there or not (store.exists(MANIFEST) or store.exists(BUILDING) or store.has_files())
        store.remove_temporary()
        try:
            yield
        except BaseException:
            if new and not store.has_files() and not Spill(store).has_pieces():
                Spill(store).clear()
                store.drop_building()
                if not was_there:
                    store.place.drop_empty()
            raise


def begin(store: Store, base: Base) -> None:
    """Marks a first build as begun, so that what it leaves when it is killed is not taken for a damaged store."""
    if base.committed is None:
        store.save_building(base.manifest)


def finish(
    store: Store,
    base: Base,
    reduces: Sequence[ReduceTask],
    config: Config,
    options: BuildOptions,
    runner: Runner,
    report: BuildReport,
    others: Sequence[tuple[Store, Manifest]] = (),
    redo: Collection[tuple[str, int]] = (),
) -> Manifest:
    """Runs the reduces and every stage that a shard lacks, then commits.

    Args:
        others: stores whose vectors and extracts may be taken over.
        redo: (stage, shard) to be made again although they are there.
    """
    plan = Plan(store, base.manifest, options.until, report, reduces, others, redo)
    tasks = plan.first_tasks()
    with progress("build", plan.num_steps(), quiet=options.quiet, unit="shard") as shown:
        for outcome in runner.run(store.where, config, tasks, plan.then):
            shown.add(outcome)
    plan.save()
    for stage, made in report.stages.items():
        made.model = plan.manifest.models.get(stage, {}).get("model")
    _commit(store, base.committed, plan.manifest, report)
    return plan.manifest


# ---------------------------------------------------------------------------------------------------------- ingest


def _check_formats(sources: Sequence[Any], config: Config, options: BuildOptions, report: BuildReport) -> None:
    for source in sources:
        _format_of(source, config, options, report, len(sources))
    if len(report.skipped_inputs) == len(sources):
        raise InputError(report.skipped_inputs[0])


def _format_of(source: Any, config: Config, options: BuildOptions, report: BuildReport, num_sources: int) -> str | None:
    if source in report.format_of:
        return report.format_of[source]
    try:
        chosen: str = options.format
        if chosen == "auto":
            chosen = detect_format(source, config.read.columns)
    except InputError as error:
        # One file of many that cannot be read is reported and makes the exit code 1; a single one is an error.
        if num_sources == 1:
            raise
        if str(error) not in report.skipped_inputs:
            report.skipped_inputs.append(str(error))
        return None
    report.format_of[source] = chosen
    known = report.formats.get(source.name, "")
    report.formats[source.name] = ", ".join(dict.fromkeys([*filter(None, known.split(", ")), chosen]))
    return chosen


# The pieces of a source and what became of them, in their order.
_ReadSource = list[PieceDone]


class _Reading:
    """The map: every source in pieces, spilled by shard."""

    def __init__(
        self,
        store: Store,
        sources: Sequence[Any],
        config: Config,
        options: BuildOptions,
        runner: Runner,
        report: BuildReport,
        base: Base,
    ) -> None:
        self._store, self._sources, self._config, self._options = store, sources, config, options
        self._runner, self._report = runner, report
        self._fingerprint = base.manifest.fingerprints["ingest"]
        self._count = 0

    def read(self) -> list[_ReadSource]:
        """Reads all sources; one that cannot be read is left out as a whole and reported.

        Raises:
            InputError: none can be read.
            StoreError: there is no room for what they say.
        """
        _check_formats(self._sources, self._config, self._options, self._report)
        planned: list[list[PieceTask]] = []
        for source in self._sources:
            chosen = _format_of(source, self._config, self._options, self._report, len(self._sources))
            if chosen is not None:
                planned.append([self._task(p) for p in split_source(source, chosen, self._options.piece_bytes)])
        check_space(self._store, [p.piece for pieces in planned for p in pieces], self._config, self._options.until)
        Spill(self._store).prune({t.key for pieces in planned for t in pieces})
        done = self._run([t for pieces in planned for t in pieces])
        again = [pieces for pieces in planned if any(done[t.key].needs_whole for t in pieces)]
        whole = {id(pieces): self._task(Piece(pieces[0].piece.source, pieces[0].piece.format)) for pieces in again}
        done |= self._run(list(whole.values()))
        read = [[done[t.key] for t in ([whole[id(pieces)]] if id(pieces) in whole else pieces)] for pieces in planned]
        return [pieces for pieces in read if self._is_read(pieces)]

    def _task(self, piece: Piece) -> PieceTask:
        # A worker may have another working directory.
        source = replace(piece.source, path=piece.source.path.absolute())
        place = [source.name, str(source.path), source.member or "", str(piece.first), str(piece.last)]
        key = stable_hash(
            self._fingerprint, piece.format, self._options.memory_id or "", self._config.read.fields, *place
        )
        self._count += 1
        return PieceTask(self._count, replace(piece, source=source), key, self._options.memory_id)

    def _run(self, tasks: Sequence[PieceTask]) -> dict[str, PieceDone]:
        by_number = {t.shard: t for t in tasks}
        done: dict[str, PieceDone] = {}
        if not tasks:
            return done
        with progress("read", len(tasks), quiet=self._options.quiet, unit="piece") as shown:
            for outcome in self._runner.run(self._store.where, self._config, tasks, _nothing_more):
                shown.add(outcome)
                if isinstance(outcome, ShardFailed):
                    name = by_number[outcome.shard].piece.source.name
                    sentence = f"'{name}' could not be read in {outcome.attempts} tries ({outcome.error}); report it."
                    outcome = PieceDone(outcome.shard, by_number[outcome.shard].key, unreadable=sentence)
                assert isinstance(outcome, PieceDone)
                done[outcome.key] = outcome
        return done

    def _is_read(self, pieces: _ReadSource) -> bool:
        wrong = next((p.unreadable for p in pieces if p.unreadable), None)
        if wrong is None:
            for piece in pieces:
                self._report.add_piece(piece)
            return True
        if wrong not in self._report.skipped_inputs:
            self._report.skipped_inputs.append(wrong)
        if len(self._report.skipped_inputs) == len(self._sources):
            raise InputError(self._report.skipped_inputs[0])
        return False


def _nothing_more(_: Outcome) -> Sequence[Task]:
    return ()


def _reduce_tasks(base: Base, sources: Sequence[_ReadSource]) -> list[ReduceTask]:
    """A task for every shard that has new rows, lost a table, or was never made."""
    by_shard: dict[int, list[tuple[SpilledPiece, ...]]] = {}
    for pieces in sources:
        of_source: dict[int, list[SpilledPiece]] = {}
        line = 0
        for piece in pieces:
            spilled_piece = SpilledPiece(piece.key, piece.content, line)
            for shard in piece.shards:
                of_source.setdefault(shard, []).append(spilled_piece)
            line += piece.num_lines
        for shard, spilled in of_source.items():
            by_shard.setdefault(shard, []).append(tuple(spilled))
    manifest = base.manifest
    tasks = []
    for shard in range(manifest.num_shards):
        existing = {t: e for t in STAGE_TABLES["ingest"] if (e := manifest.entry(t, shard)) is not None}
        if shard in by_shard or shard in base.lost or not existing:
            tasks.append(
                ReduceTask(
                    shard,
                    manifest.fingerprints["ingest"],
                    existing,
                    tuple(by_shard.get(shard, ())),
                    tombstones=manifest.tombstones,
                    lost=base.lost.get(shard, ()),
                )
            )
    return tasks


# ---------------------------------------------------------------------------------------------------------- commit


def _commit(store: Store, committed: Manifest | None, manifest: Manifest, report: BuildReport) -> None:
    _check_alone(store, committed)
    unchanged = committed is not None and manifest.to_json() == committed.to_json()
    report.changed = not unchanged or bool(report.repaired)
    if not report.failed:
        if unchanged:
            store.drop_building()
            store.sweep(manifest.files())
        else:
            store.commit(manifest)
        Spill(store).clear()
        return
    # Readers keep the older generation of a shard that failed; the next build goes on from the newer one.
    readable = manifest
    if committed is not None and committed.fingerprints == manifest.fingerprints:
        for shard in {f.shard for f in report.failed}:
            if committed.entry("events", shard) is not None:
                older = {t: committed.entry(t, shard) for tables in STAGE_TABLES.values() for t in tables}
                readable = readable.with_entries(shard, older)
    store.write_bytes(MANIFEST, readable.to_json())
    store.save_building(manifest)
    store.sweep(readable.files() | manifest.files())


def _check_alone(store: Store, committed: Manifest | None) -> None:
    """Where a place has no lock: what another build has committed meanwhile is not thrown away.

    Raises:
        StoreError: the manifest is not the one that this build began with.
    """
    try:
        now = store.manifest()
    except NewerStoreError:
        raise
    except StoreError:
        # It was damaged before, and is made anew.
        now = None
    if (now and now.to_json()) != (committed and committed.to_json()):
        raise StoreError(
            f"Another build has committed to '{store.root}' while this one ran, which has no lock there: run this "
            "build again, and one at a time."
        )

"""Which stage a shard needs next, and the manifest as it grows; it runs nothing.

A shard goes on to its next stage as soon as the tables that stage reads are there, whatever the other shards are at.
`building.json` is written only once every shard is ingested: a build that was killed before that has no effect,
whichever logs come next.
"""

import time
from collections.abc import Collection, Iterator, Sequence

from magma_gpu.schema import STAGE_TABLES, STAGES
from magma_gpu.stages import stage_inputs
from magma_gpu.store import Entry, Manifest, Store, stable_hash
from magma_pipelines.jobs import JOBS
from magma_pipelines.report import BuildReport, failure_name, failure_names, record_failure
from magma_pipelines.tasks import OtherShard, Outcome, PieceDone, ReduceTask, ShardFailed, ShardTask, Task

# Seconds between two writes of building.json, and how many times longer than a write the wait is at least.
_SAVE_EVERY_S = 1.0
_SAVE_SHARE = 20


class Plan:
    """The shards of a build on their way through the stages."""

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        until: str,
        report: BuildReport,
        reduces: Sequence[ReduceTask],
        others: Sequence[tuple[Store, Manifest]] = (),
        redo: Collection[tuple[str, int]] = (),
    ) -> None:
        self.manifest = manifest
        self._store = store
        self._report = report
        self._others = others
        self._redo = set(redo)
        self._last = STAGES.index(until)
        self._reduces = list(reduces)
        self._ingesting = {t.shard for t in reduces}
        self._running: set[tuple[str, int]] = set()
        self._broken: set[int] = set()
        # Looked up once: a folder with many files may lie on the other end of a network.
        later = [stage for stage in STAGES if stage != "ingest"]
        self._left = {f for stage in later for t in STAGE_TABLES[stage] for f in store.shard_files(t)}
        self._failures = failure_names(store)
        self._saved = manifest
        self._save_after = time.perf_counter() + _SAVE_EVERY_S

    def first_tasks(self) -> list[Task]:
        """What can be done at once."""
        waiting = self._ingesting
        ready = [t for s in range(self.manifest.num_shards) if s not in waiting for t in self._next(s)]
        return [*self._reduces, *ready]

    def num_steps(self) -> int:
        """An upper bound of the tasks that are still to come, for a progress bar."""
        return len(self._ingesting) + self._last * self.manifest.num_shards

    def then(self, outcome: Outcome) -> Sequence[Task]:
        """Takes an outcome in and returns the tasks that can be done now."""
        assert not isinstance(outcome, PieceDone)
        shard = outcome.shard
        self._ingesting.discard(shard)
        self._running.discard((outcome.stage, shard))
        if isinstance(outcome, ShardFailed):
            self._broken.add(shard)
            self._report.failed.append(outcome)
            record_failure(self._store, outcome)
            return ()
        self._report.add_shard(outcome)
        if (name := failure_name(outcome.stage, shard)) in self._failures:
            self._store.remove(name)
        self._set(shard, outcome.stage, outcome.outputs)
        ready = list(self._next(shard))
        self._save()
        return ready

    def _next(self, shard: int) -> Iterator[ShardTask]:
        if shard in self._broken:
            return
        for number, job in enumerate(JOBS, 1):
            stage = job.stage
            if (stage, shard) in self._running:
                continue
            wanted = stage_inputs(stage, self.manifest.config)
            inputs = {t: e for t in wanted if (e := self.manifest.entry(t, shard)) is not None}
            if len(inputs) < len(wanted):
                self._outdate(stage, shard, keep=job.reuses)
                continue
            key = stable_hash(self.manifest.fingerprints[stage], *(inputs[t].sha256 for t in wanted))
            names = {t: self._store.file_name(t, shard, key) for t in STAGE_TABLES[stage]}
            redo = (stage, shard) in self._redo
            present = all((e := self.manifest.entry(t, shard)) is not None and e.file == n for t, n in names.items())
            if present and not redo:
                continue
            self._outdate(stage, shard, keep=job.reuses)
            if number > self._last:
                continue
            self._redo.discard((stage, shard))
            if not redo and (found := self._finished(shard, key, names)):
                self._set(shard, stage, found)
                self._report.stage(stage).shards_adopted += 1
                continue
            self._running.add((stage, shard))
            yield ShardTask(stage, shard, key, inputs, tuple(self._previous(stage, shard)))

    def _finished(self, shard: int, key: str, names: dict[str, str]) -> dict[str, Entry]:
        """What a run that did not end has made of a shard under these names; nothing unless all of it is sound."""
        if not self._left.issuperset(names.values()):
            return {}
        found = {t: e for t in names if (e := self._store.find_table(t, shard, key)) is not None}
        return found if len(found) == len(names) else {}

    def _set(self, shard: int, stage: str, entries: dict[str, Entry]) -> None:
        self.manifest = self.manifest.with_entries(shard, dict(entries))
        if any(self.manifest.stale_entry(t, shard) for t in STAGE_TABLES[stage]):
            self.manifest = self.manifest.with_stale(shard, dict.fromkeys(STAGE_TABLES[stage]))

    def _outdate(self, stage: str, shard: int, *, keep: bool) -> None:
        """Takes tables that no longer fit their inputs out of sight; those of which work is reused are kept aside."""
        present = {t: e for t in STAGE_TABLES[stage] if (e := self.manifest.entry(t, shard)) is not None}
        if not present:
            return
        self.manifest = self.manifest.with_entries(shard, dict.fromkeys(present))
        if keep:
            self.manifest = self.manifest.with_stale(shard, dict(present))

    def _previous(self, stage: str, shard: int) -> Iterator[OtherShard]:
        stale = {t: e for t in STAGE_TABLES[stage] if (e := self.manifest.stale_entry(t, shard)) is not None}
        if stale:
            yield OtherShard(self._store.where, stale)
        for store, manifest in self._others:
            entries = {t: e for t in STAGE_TABLES[stage] if (e := manifest.entry(t, shard)) is not None}
            if entries:
                yield OtherShard(store.where, entries)

    def _save(self) -> None:
        now = time.perf_counter()
        if now < self._save_after:
            return
        self.save()
        self._save_after = time.perf_counter() + max(_SAVE_EVERY_S, _SAVE_SHARE * (time.perf_counter() - now))

    def save(self) -> None:
        """Writes down how far the build is, so that the next one goes on from there."""
        if self.manifest is not self._saved and not self._ingesting:
            self._store.save_building(self.manifest)
            self._saved = self.manifest

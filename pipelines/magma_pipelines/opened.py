"""An existing store opened for work without inputs: its own settings, and what there is of every shard.

How the work is run (device, runner, workers) comes from the caller; what decides bytes comes from the store alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from magma_gpu.config import BUILD_SECTIONS, Config, config_from
from magma_gpu.errors import StoreError
from magma_gpu.schema import STAGE_TABLES, STAGES
from magma_gpu.store import Entry, Manifest, Store
from magma_pipelines.build import wanted_manifest
from magma_pipelines.repair import Base, difference, load_base


@dataclass(frozen=True, slots=True)
class Opened:
    """A locked store."""

    store: Store
    config: Config
    base: Base


def store_config(manifest: Manifest, run: Config, where: object) -> Config:
    """The settings that a store was built with, and those of `run` for how to run.

    Raises:
        StoreError: this release makes other bytes of these settings.
    """
    config = replace(config_from({s: manifest.config[s] for s in BUILD_SECTIONS}), run=run.run, search=run.search)
    wanted = wanted_manifest(config)
    if wanted.fingerprints != manifest.fingerprints:
        raise StoreError(
            f"'{where}' was built with {difference(manifest, wanted)}: use the release and the model that made it, "
            "or build it again with --overwrite."
        )
    return config


@contextmanager
def opened(path: Path, run: Config) -> Iterator[Opened]:
    """Locks a store for work on what it holds.

    Raises:
        StoreError: there is none, another build holds it, or turns in it are damaged.
    """
    store = Store(path)
    # A missing store is not made by looking for it.
    store.open()
    with store.lock():
        store.remove_temporary()
        config = store_config(store.open(), run, path)
        base = load_base(store, wanted_manifest(config), overwrite=False, checksum=True)
        if base.lost:
            tables = sorted({t for lost in base.lost.values() for t in lost})
            raise StoreError(
                f"{' and '.join(tables)} of '{path}' are damaged; run the build of its logs again to repair them first."
            )
        yield Opened(store, config, base)


def last_stage(*manifests: Manifest) -> str:
    """The last stage that any shard has been through."""
    return [s for s in STAGES if any(m.tables.get(t) for m in manifests for t in STAGE_TABLES[s])][-1]


def entries_of(manifest: Manifest, stage: str, shard: int) -> dict[str, Entry]:
    """What a shard has of a stage's tables."""
    return {t: e for t in STAGE_TABLES[stage] if (e := manifest.entry(t, shard)) is not None}

"""What a store holds and what its last runs did, from the manifest and the ledger alone."""

import json
from pathlib import Path
from typing import Any

from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import BUILDING, LEDGER, MANIFEST, Manifest, Store


def status(path: Path) -> dict[str, Any]:
    """The document of `magma-gpu status`.

    Raises:
        StoreError: there is no store, finished or not.
    """
    store = Store(path)
    building = store.building()
    manifest = store.manifest() or building or store.open()
    memories = manifest.tables.get("memories", {})
    turns = sum(
        n or 0
        for e in memories.values()
        for n in store.read_table(e, "memories", columns=["num_turns"])["num_turns"].to_pylist()
    )
    return {
        "store": str(path),
        "finished": store.exists(MANIFEST),
        "building": store.exists(BUILDING),
        "shards": manifest.num_shards,
        "memories": sum(e.rows for e in memories.values()),
        "turns": turns,
        "stages": [_stage(store, manifest, stage) for stage in STAGE_TABLES],
        "last_run": _last_run(store),
    }


def _stage(store: Store, manifest: Manifest, stage: str) -> dict[str, Any]:
    tables = STAGE_TABLES[stage]
    done = sum(all(manifest.entry(t, s) is not None for t in tables) for s in range(manifest.num_shards))
    names = store.place.names(f"failed/{stage}")
    failed = [n.removesuffix(".json") for n in names if n.startswith("shard-") and n.endswith(".json")]
    return {
        "stage": stage,
        "done": done,
        "missing": manifest.num_shards - done,
        "failed": len(failed),
        "failed_shards": failed,
        "rows": sum(e.rows for t in tables[-1:] for e in manifest.tables.get(t, {}).values())
        if stage != "ingest"
        else sum(e.rows for e in manifest.tables.get("events", {}).values()),
        "tables": {t: sum(e.rows for e in manifest.tables.get(t, {}).values()) for t in tables},
        "model": manifest.models.get(stage, {}).get("model"),
    }


def _last_run(store: Store) -> dict[str, Any] | None:
    data = store.read_bytes(LEDGER)
    if data is None:
        return None
    try:
        run: dict[str, Any] = json.loads(data)["runs"][-1]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return run

"""What a build will take, from a sample of its inputs; what it took in the end stands beside it in the ledger."""

import json
from typing import Any

from magma_gpu.store import Store
from magma_pipelines.report import BuildReport

ESTIMATE = "estimate.json"


def saved_estimate(store: Store) -> dict[str, Any] | None:
    data = store.read_bytes(ESTIMATE)
    if data is None:
        return None
    try:
        document: dict[str, Any] = json.loads(data)
    except ValueError:
        return None
    return document


def estimated_bytes(store: Store) -> int:
    """The disk space that a dry run for this store asked for; 0 where there was none."""
    document = saved_estimate(store)
    return 0 if document is None else int(document["bytes"])


def compare_estimate(store: Store, report: BuildReport) -> dict[str, Any] | None:
    """A dry run's estimate and how far off it was, as shares of what it became; None where there was none."""
    document = saved_estimate(store)
    if document is None:
        return None
    return document


def drop_estimate(store: Store) -> None:
    store.path(ESTIMATE).unlink(missing_ok=True)

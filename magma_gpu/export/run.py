"""One export from a store to a new folder."""

from collections.abc import Callable
from pathlib import Path

from magma_gpu.errors import InputError
from magma_gpu.export.folder import check_new, new_folder
from magma_gpu.export.readme import write_readme
from magma_gpu.export.report import ExportCounts, ExportReport
from magma_gpu.export.select import Selection, select
from magma_gpu.store import Store

FORMATS = ("parquet", "hetero", "graphml", "neo4j-csv")


def export_store(
    store: str | Path,
    format_: str,
    out: str | Path,
    *,
    memory_id: str | None = None,
    since: str | None = None,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> ExportReport:
    """Writes a store's graphs in another form.

    Args:
        format_: one of FORMATS.
        out: a folder that does not exist yet, or an empty one.
        memory_id: None for all memories.
        since: a time in any common form; only what was said at or after it, and what belongs to that.
        told: hears how many memories are written, and of how many.

    Raises:
        InputError: the format, the memory or the time is not known.
        StoreError: there is no finished store, or `out` holds something or cannot be written.
    """
    if format_ not in FORMATS:
        raise InputError(f"--to must be one of {', '.join(FORMATS)} (got '{format_}').")
    out = Path(out)
    selection = select(Store(store), memory_id, since, told)
    check_new(out)
    with new_folder(out) as folder:
        counts = _writer(format_)(selection, folder)
        write_readme(folder, format_, selection, counts)
        sizes = [f.stat().st_size for f in folder.rglob("*") if f.is_file()]
    return ExportReport(
        format=format_,
        path=str(out),
        memories=counts.memories,
        nodes={t: counts.nodes[t] for t in ("event", "episode", "entity")},
        edges={t: counts.edges[t] for t in ("temporal", "semantic", "causal", "entity", "episode")},
        files=len(sizes),
        bytes=sum(sizes),
    )


def _writer(format_: str) -> Callable[[Selection, Path], ExportCounts]:
    # Only the graphs need torch.
    if format_ == "hetero":
        from magma_gpu.export.hetero import write_hetero

        return write_hetero
    if format_ == "graphml":
        from magma_gpu.export.graphml import write_graphml

        return write_graphml
    if format_ == "neo4j-csv":
        from magma_gpu.export.neo4j import write_neo4j

        return write_neo4j
    from magma_gpu.export.parquet import write_parquet

    return write_parquet

"""A store in forms that other tools read: Parquet, PyG graphs, GraphML, CSV for Neo4j."""

from typing import TYPE_CHECKING, Any

from magma_gpu.export.run import FORMATS, export_store

if TYPE_CHECKING:
    from magma_gpu.export.dataset import MemoryGraphs, QuerySubgraphs, Seeded, loader, seeds_of
    from magma_gpu.export.hetero import load_hetero

__all__ = [
    "FORMATS",
    "MemoryGraphs",
    "QuerySubgraphs",
    "Seeded",
    "export_store",
    "load_hetero",
    "loader",
    "seeds_of",
]


def __getattr__(name: str) -> Any:
    # These need torch; an export of tables must not pay for it.
    if name == "load_hetero":
        from magma_gpu.export.hetero import load_hetero

        return load_hetero
    if name in __all__:
        from magma_gpu.export import dataset

        return getattr(dataset, name)
    raise AttributeError(f"module 'magma_gpu.export' has no attribute {name!r}")

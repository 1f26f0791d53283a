"""Graphs for training: one safetensors file a memory, read back as PyG's HeteroData; nothing is ever unpickled.

Names of nodes stand in the file's header as one JSON text. A file is exactly what `MemoryGraph.to_hetero` gives, every
node and edge type present.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from magma_gpu.errors import InputError, StoreError
from magma_gpu.export.report import ExportCounts
from magma_gpu.export.select import Selection
from magma_gpu.graph import NODE_TYPES, TRIPLES, build_graph
from magma_gpu.store import stable_hash

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

INDEX = "index.parquet"
_FORMAT = "magma-gpu hetero"
_VERSION = 1
_INDEX_SCHEMA = pa.schema(
    [
        pa.field("memory_id", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        *(pa.field(f"num_{t}", pa.int64(), nullable=False) for t in NODE_TYPES),
        *(pa.field(f"num_{t}_edges", pa.int64(), nullable=False) for t in TRIPLES),
    ]
)
# Rows of the index held before they are written.
_INDEX_BATCH = 10_000


def write_hetero(selection: Selection, folder: Path) -> ExportCounts:
    """Writes `graphs/` and `index.parquet`, which says which file is whose and how large.

    Raises:
        StoreError: a shard has no vectors yet.
    """
    counts = ExportCounts()
    tables = (
        "memories",
        "events",
        "vectors",
        "episodes",
        "entities",
        *(f"edges/{t}" for t in TRIPLES if t != "episode"),
    )
    for shard in range(selection.manifest.num_shards):
        has = {t: selection.manifest.entry(t, shard) is not None for t in ("events", "vectors")}
        if has["events"] and not has["vectors"]:
            raise StoreError(
                f"'{selection.store.root}' has no vectors for shard {shard} yet; run: magma-gpu build ... --until link."
            )
    with pq.ParquetWriter(folder / INDEX, _INDEX_SCHEMA, compression="zstd") as index:
        waiting: list[dict[str, Any]] = []
        for memory_id, rows in selection.memories(tables):
            data = build_graph(memory_id, rows).to_hetero()
            key = stable_hash(memory_id)
            name = f"graphs/{key[:2]}/{key}.safetensors"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            save_hetero(data, folder / name)
            row = {"memory_id": memory_id, "file": name}
            for node_type in NODE_TYPES:
                row[f"num_{node_type}"] = data[node_type].num_nodes
                counts.nodes[node_type] += data[node_type].num_nodes
            for edge_type, triple in TRIPLES.items():
                row[f"num_{edge_type}_edges"] = data[triple].edge_index.shape[1]
                counts.edges[edge_type] += data[triple].edge_index.shape[1]
            counts.memories += 1
            waiting.append(row)
            if len(waiting) == _INDEX_BATCH:
                index.write_table(pa.Table.from_pylist(waiting, _INDEX_SCHEMA))
                waiting.clear()
        index.write_table(pa.Table.from_pylist(waiting, _INDEX_SCHEMA))
    return counts


def save_hetero(data: "HeteroData", path: Path) -> None:
    """Writes one graph that `MemoryGraph.to_hetero` made."""
    from safetensors.torch import save_file

    tensors = {"event.time": data["event"].time}
    for node_type in NODE_TYPES:
        tensors[f"{node_type}.x"] = data[node_type].x
    for name, triple in TRIPLES.items():
        tensors[f"{name}.edge_index"] = data[triple].edge_index
        tensors[f"{name}.edge_attr"] = data[triple].edge_attr
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "memory_id": data["memory_id"],
        "node_id": {t: data[t].node_id for t in NODE_TYPES},
    }
    # One key: the order of several is not fixed, and equal graphs shall be equal files.
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        path,
        metadata={"magma": json.dumps(head, ensure_ascii=False)},
    )


def load_hetero(path: str | Path) -> "HeteroData":
    """Reads one graph of a `hetero` export.

    Args:
        path: a file under `graphs/`, or an export that holds one memory.

    Returns:
        what `MemoryGraph.to_hetero` gave; `graph.from_hetero` makes a `MemoryGraph` of it.

    Raises:
        InputError: there is no such file, or it is none of ours: a pickle, a cut or a changed file.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if path.is_dir():
        path = _only_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            head = json.loads((file.metadata() or {}).get("magma", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except FileNotFoundError:
        raise InputError(f"There is no graph at '{path}'.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"'{path}' is no graph of a hetero export ({error}); files of other formats, pickles above all, "
            "are not loaded."
        ) from None
    return _assemble(path, head, tensors)


def _only_file(folder: Path) -> Path:
    index = read_index(folder)
    if index.num_rows != 1:
        raise InputError(
            f"'{folder}' holds {index.num_rows} graphs; give the file of one, or use MemoryGraphs('{folder}')."
        )
    return folder / str(index["file"][0].as_py())


def read_index(folder: Path) -> pa.Table:
    """Which memory is in which file of an export.

    Raises:
        InputError: the folder holds no hetero export.
    """
    try:
        index = pq.read_table(folder / INDEX)
    except FileNotFoundError:
        raise InputError(f"'{folder}' is no hetero export (no {INDEX}).") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"'{folder / INDEX}' cannot be read ({str(error).splitlines()[0]}).") from None
    if not set(_INDEX_SCHEMA.names) <= set(index.column_names):
        raise InputError(f"'{folder / INDEX}' is not the index of a hetero export.")
    return index


def _assemble(path: Path, head: Any, tensors: dict[str, Any]) -> "HeteroData":
    from torch_geometric.data import HeteroData

    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise InputError(f"'{path}' is no graph of a hetero export (its header is another's).")
    if head.get("version") != _VERSION:
        raise InputError(
            f"'{path}' has version {head.get('version')} and this release reads {_VERSION}: export it again."
        )
    try:
        data = HeteroData()
        data["memory_id"] = head["memory_id"]
        sizes = {}
        for node_type in NODE_TYPES:
            ids = head["node_id"][node_type]
            sizes[node_type] = len(ids)
            data[node_type].x = tensors[f"{node_type}.x"]
            data[node_type].num_nodes = len(ids)
            data[node_type].node_id = ids
            if len(data[node_type].x) != len(ids):
                raise ValueError(f"{len(ids)} names for {len(data[node_type].x)} {node_type} nodes")
        data["event"].time = tensors["event.time"]
        for name, triple in TRIPLES.items():
            edges = tensors[f"{name}.edge_index"]
            for end, side in ((0, triple[0]), (1, triple[2])):
                if edges.shape[1] and not 0 <= int(edges[end].min()) <= int(edges[end].max()) < sizes[side]:
                    raise ValueError(f"a {name} edge leaves the graph")
            data[triple].edge_index = edges
            data[triple].edge_attr = tensors[f"{name}.edge_attr"]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"'{path}' is damaged ({error}); export it again.") from None
    return data

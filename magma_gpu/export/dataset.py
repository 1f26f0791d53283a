"""Torch datasets over a `hetero` export: whole memories, and the part of a memory around a question.

Nothing compiled is needed: subgraphs are cut with torch alone, not with pyg-lib or torch-sparse. Every item carries
every node and edge type, so batches do not depend on which item comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from magma_gpu.errors import InputError
from magma_gpu.export.hetero import load_hetero, read_index
from magma_gpu.graph import NODE_TYPES, TRIPLES

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData
    from torch_geometric.loader import DataLoader

    from magma_gpu.results import Result


class MemoryGraphs(Dataset["HeteroData"]):
    """Every graph of an export, in the order of its index; read when it is asked for."""

    def __init__(self, folder: str | Path) -> None:
        """Opens an export.

        Raises:
            InputError: the folder holds no hetero export.
        """
        self.folder = Path(folder)
        index = read_index(self.folder)
        self.memory_ids: list[str] = index["memory_id"].to_pylist()
        self._files: list[str] = index["file"].to_pylist()
        self._place = {memory_id: i for i, memory_id in enumerate(self.memory_ids)}

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> "HeteroData":
        return load_hetero(self.folder / self._files[index])

    def of(self, memory_id: str) -> "HeteroData":
        """The graph of one memory.

        Raises:
            InputError: the export holds no such memory.
        """
        if memory_id not in self._place:
            raise InputError(f"The export '{self.folder}' holds no memory '{memory_id}'.")
        return self[self._place[memory_id]]


@dataclass(frozen=True, slots=True, eq=False)
class Seeded:
    """A question and where its subgraph starts.

    Attributes:
        seeds: event ids; those that the graph lacks are left out.
        targets: event ids that hold the answer, where known.
        query_D: the question's vector, where known.
    """

    memory_id: str
    query_id: str
    seeds: tuple[str, ...]
    targets: tuple[str, ...] = ()
    query_D: Tensor | None = None


def seeds_of(results: Sequence["Result"], num_seeds: int = 10) -> list[Seeded]:
    """Starts the subgraph of each question at its best evidence."""
    return [Seeded(r.memory_id, r.query_id, tuple(e.event_id for e in r.evidence[:num_seeds])) for r in results]


class QuerySubgraphs(Dataset["HeteroData"]):
    """For each question the nodes near its seeds, with all edges among them.

    An item is a HeteroData as `MemoryGraphs` gives it, cut down, and with: `hop` of every node (0 for a seed), `y` of
    every event (1.0 for a target), `query_id`, and `query_x` [1, D] where the question has a vector.
    """

    def __init__(
        self, graphs: MemoryGraphs, questions: Sequence[Seeded], *, num_hops: int = 2, max_nodes: int = 200
    ) -> None:
        """Args:
        num_hops: steps from a seed, along edges of any type in either direction.
        max_nodes: of more, the nearest are kept; those of one hop in the order event, episode, entity.
        """
        self.graphs = graphs
        self.questions = list(questions)
        self.num_hops = num_hops
        self.max_nodes = max_nodes

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, index: int) -> "HeteroData":
        question = self.questions[index]
        return cut(self.graphs.of(question.memory_id), question, self.num_hops, self.max_nodes)


def cut(data: "HeteroData", question: Seeded, num_hops: int, max_nodes: int) -> "HeteroData":
    """The part of a graph around a question's seeds; see `QuerySubgraphs`."""
    sizes = [len(data[t].node_id) for t in NODE_TYPES]
    first = dict(zip(NODE_TYPES, (0, sizes[0], sizes[0] + sizes[1]), strict=True))
    number = {event_id: i for i, event_id in enumerate(data["event"].node_id)}
    hop_N = torch.full((sum(sizes),), -1, dtype=torch.int64)
    hop_N[[number[s] for s in question.seeds if s in number]] = 0
    ends = [
        torch.stack([data[t].edge_index[0] + first[t[0]], data[t].edge_index[1] + first[t[2]]])
        for t in TRIPLES.values()
    ]
    edge_index = torch.cat([*ends, *(e.flip(0) for e in ends)], dim=1)
    for hop in range(1, num_hops + 1):
        near = edge_index[1][hop_N[edge_index[0]] == hop - 1]
        hop_N[near[hop_N[near] < 0]] = hop
    reached = (hop_N >= 0).nonzero().squeeze(1)
    # Stable: among nodes of one hop the smaller number stays.
    kept = reached[torch.argsort(hop_N[reached], stable=True)[:max_nodes]].sort().values
    subset = {}
    for node_type, size in zip(NODE_TYPES, sizes, strict=True):
        inside = (kept >= first[node_type]) & (kept < first[node_type] + size)
        subset[node_type] = kept[inside] - first[node_type]
    return _part(data, subset, hop_N, first, question)


def _part(
    data: "HeteroData", subset: dict[str, Tensor], hop_N: Tensor, first: dict[str, int], question: Seeded
) -> "HeteroData":
    from torch_geometric.data import HeteroData
    from torch_geometric.utils import bipartite_subgraph

    part = HeteroData()
    part["memory_id"] = data["memory_id"]
    part["query_id"] = question.query_id
    if question.query_D is not None:
        part["query_x"] = question.query_D[None, :]
    for node_type, nodes in subset.items():
        part[node_type].x = data[node_type].x[nodes]
        part[node_type].num_nodes = len(nodes)
        part[node_type].node_id = [data[node_type].node_id[i] for i in nodes.tolist()]
        part[node_type].hop = hop_N[nodes + first[node_type]]
    part["event"].time = data["event"].time[subset["event"]]
    targets = set(question.targets)
    part["event"].y = torch.tensor([float(i in targets) for i in part["event"].node_id], dtype=torch.float32)
    for triple in TRIPLES.values():
        edge_index, edge_attr = bipartite_subgraph(
            (subset[triple[0]], subset[triple[2]]),
            data[triple].edge_index,
            data[triple].edge_attr,
            relabel_nodes=True,
            size=(data[triple[0]].num_nodes, data[triple[2]].num_nodes),
        )
        part[triple].edge_index = edge_index
        part[triple].edge_attr = edge_attr
    return part


def loader(dataset: Dataset["HeteroData"], batch_size: int, **options: Any) -> "DataLoader":
    """Batches of graphs as disjoint unions: PyG's own loader, which needs nothing compiled.

    Args:
        options: as of `torch.utils.data.DataLoader`: `shuffle`, `generator`, `num_workers`, ...
    """
    from torch_geometric.loader import DataLoader

    return DataLoader(dataset, batch_size=batch_size, **options)

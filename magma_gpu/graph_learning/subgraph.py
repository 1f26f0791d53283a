"""The candidates of questions as graphs: who is joined to whom, what is known of each, which hold the evidence.

Nodes are the candidates of one question, in the order `smooth` ranks them; edges are those of the memory that join
two of them, one relation a way of walking. Many questions are flat tensors: a batch of them is cut out in one go and
is what PyG's `Batch` would make of the single graphs. Whole memories as graphs are in `magma_gpu.export`.

Q questions, C candidates, N candidates of all questions, F features, E edges.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from magma_gpu.errors import InputError
from magma_gpu.features import NAMES, RankerView
from magma_gpu.graph import TYPE_CODE
from magma_gpu.memory_index import MemoryIndex

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

# A message goes from the turn that the name says to the candidate: `previous` from the turn before it, `cause` from
# what caused it. Semantic and entity edges go both ways.
RELATIONS = ("previous", "next", "previous2", "next2", "semantic", "entity", "cause", "effect")
# Which edge type of the memory a relation walks; what shares an entity is two steps apart and counts as one here.
EDGE_TYPE_OF = {
    **dict.fromkeys(("previous", "next", "previous2", "next2"), "temporal"),
    "semantic": "semantic",
    "entity": "entity",
    **dict.fromkeys(("cause", "effect"), "causal"),
}
_OFFSET = {"previous": -1, "next": 1, "previous2": -2, "next2": 2}
_FORMAT = "magma-gpu query graphs 1"

Edges = dict[str, tuple[Tensor, Tensor]]


def triple(relation: str) -> tuple[str, str, str]:
    """The edge type of a relation in a HeteroData."""
    return ("event", relation, "event")


def edges_among(
    index: MemoryIndex, view: RankerView, chosen_QC: npt.NDArray[np.int64]
) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """Edges that join two candidates of one question, by relation.

    Args:
        chosen_QC: event numbers, -1 where there is none.

    Returns:
        ends [2, E] (from, to) in the numbering of `chosen_QC` read row by row, sorted by the second; and weights, of
        which those that reach one candidate sum to 1 at most.
    """
    at = np.flatnonzero(chosen_QC.reshape(-1) >= 0)
    event = chosen_QC.reshape(-1)[at]
    question = at // max(1, chosen_QC.shape[1])
    # Where an event stands among a question's candidates.
    place = np.full((len(chosen_QC), index.num_events + 1), -1, dtype=np.int64)
    place[question, event] = at
    made = {}
    for relation in RELATIONS:
        if relation in _OFFSET:
            near = view.offset_E[_OFFSET[relation]][event]
            source = place[question, near]
            kept = (near >= 0) & (source >= 0)
            ends, weight = np.stack([source[kept], at[kept]]), np.ones(int(kept.sum()), dtype=np.float32)
        else:
            matrix = _matrix(index, view, relation)
            degree = np.diff(matrix.indptr)[event]
            total = int(degree.sum())
            first = np.repeat(matrix.indptr[event] - np.cumsum(degree) + degree, degree)
            entry = first + np.arange(total)
            target, asked = np.repeat(at, degree), np.repeat(question, degree)
            source = place[asked, matrix.indices[entry]]
            kept = source >= 0
            ends = np.stack([source[kept], target[kept]])
            weight = np.abs(matrix.data[entry][kept]).astype(np.float32)
            sums = np.bincount(ends[1], weights=weight, minlength=chosen_QC.size)
            weight = (weight / np.maximum(sums, 1.0)[ends[1]]).astype(np.float32)
        made[relation] = (ends, weight)
    return made


def _matrix(index: MemoryIndex, view: RankerView, relation: str) -> sp.csr_matrix:
    """[to, from] with weights."""
    if relation in ("semantic", "entity"):
        return view.near[relation]
    graph = index.graph
    of_type = np.flatnonzero(graph.type_E.numpy() == TYPE_CODE["causal"])
    cause, effect = graph.src_E.numpy()[of_type], graph.dst_E.numpy()[of_type]
    ends = (effect, cause) if relation == "cause" else (cause, effect)
    shape = (index.num_events, index.num_events)
    return sp.csr_matrix((graph.weight_E.numpy()[of_type], ends), shape=shape, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class QueryGraphs:
    """The graphs of Q questions.

    Attributes:
        x_NF: float32 features of candidates in the order of `features.NAMES`, question after question.
        y_N: float32, 1 where a candidate holds evidence.
        event_N: int64, its number in its memory.
        ptr_Q: int64 [Q + 1], first candidate of each question.
        weight_Q: float32, what a question counts in a fit.
        edge_index: for each relation int64 [2, E], numbers within the question; edge_weight: float32 [E].
        edge_ptr: for each relation int64 [Q + 1].
    """

    x_NF: Tensor
    y_N: Tensor
    event_N: Tensor
    ptr_Q: Tensor
    weight_Q: Tensor
    edge_index: dict[str, Tensor]
    edge_weight: dict[str, Tensor]
    edge_ptr: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.ptr_Q) - 1

    def to(self, device: torch.device | str) -> "QueryGraphs":
        """The same graphs with their tensors on a device."""
        flat = [getattr(self, n).to(device) for n in self.__slots__[:5]]
        return QueryGraphs(*flat, *({r: t.to(device) for r, t in getattr(self, n).items()} for n in self.__slots__[5:]))

    def sizes(self) -> Tensor:
        """Candidates of each question, int64 [Q]."""
        return self.ptr_Q[1:] - self.ptr_Q[:-1]

    def positives(self) -> Tensor:
        """Candidates that hold evidence, of each question, float32 [Q]."""
        total = torch.cat([torch.zeros(1, dtype=torch.float64), self.y_N.double().cumsum(0)])
        return (total[self.ptr_Q[1:]] - total[self.ptr_Q[:-1]]).float()

    def nodes(self, rows: Tensor) -> Tensor:
        """Numbers of the candidates of some questions, int64."""
        return _spans(self.ptr_Q, rows)[0]

    def batch(self, rows: Sequence[int] | Tensor) -> "HeteroData":
        """The disjoint union of some questions' graphs: what `Batch.from_data_list` makes of them, without their list.

        Returns:
            node type `event` with `x`, `y`, `event`, `batch` (the question's place in `rows`) and `ptr`; `weight` [Q];
            every relation with `edge_index` and `edge_attr`.
        """
        from torch_geometric.data import HeteroData

        rows = torch.as_tensor(rows, dtype=torch.int64, device=self.ptr_Q.device)
        node, question, ptr = _spans(self.ptr_Q, rows)
        data = HeteroData()
        data["event"].x, data["event"].y, data["event"].event = self.x_NF[node], self.y_N[node], self.event_N[node]
        data["event"].num_nodes = len(node)
        data["event"].batch, data["event"].ptr = question, ptr
        data["weight"] = self.weight_Q[rows]
        for relation in RELATIONS:
            edge, of, _ = _spans(self.edge_ptr[relation], rows)
            data[triple(relation)].edge_index = self.edge_index[relation][:, edge] + ptr[of]
            data[triple(relation)].edge_attr = self.edge_weight[relation][edge]
        return data

    def graph(self, row: int) -> "HeteroData":
        """One question's graph as a HeteroData of its own, to be put into any loader of PyG."""
        data = self.batch([row])
        del data["event"].batch, data["event"].ptr
        return data

    def take(self, rows: Sequence[int] | Tensor) -> "QueryGraphs":
        """Some of the questions, in the order given."""
        rows = torch.as_tensor(rows, dtype=torch.int64, device=self.ptr_Q.device)
        node, _, ptr = _spans(self.ptr_Q, rows)
        index, weight, edge_ptr = {}, {}, {}
        for relation in RELATIONS:
            edge, _, edge_ptr[relation] = _spans(self.edge_ptr[relation], rows)
            index[relation], weight[relation] = self.edge_index[relation][:, edge], self.edge_weight[relation][edge]
        return QueryGraphs(
            self.x_NF[node], self.y_N[node], self.event_N[node], ptr, self.weight_Q[rows], index, weight, edge_ptr
        )

    def head(self, count: int) -> "QueryGraphs":
        """The first candidates of every question alone, and the edges among them."""
        sizes = self.sizes()
        ptr = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.clamp(max=count).cumsum(0)])
        number = torch.arange(int(self.ptr_Q[-1])) - torch.repeat_interleave(self.ptr_Q[:-1], sizes)
        node = torch.nonzero(number < count).squeeze(1)
        index, weight, edge_ptr = {}, {}, {}
        for relation in RELATIONS:
            kept = (self.edge_index[relation] < count).all(dim=0)
            index[relation], weight[relation] = self.edge_index[relation][:, kept], self.edge_weight[relation][kept]
            before = torch.cat([torch.zeros(1, dtype=torch.int64), kept.long().cumsum(0)])
            edge_ptr[relation] = before[self.edge_ptr[relation]]
        x, y, event = self.x_NF[node], self.y_N[node], self.event_N[node]
        return QueryGraphs(x, y, event, ptr, self.weight_Q, index, weight, edge_ptr)


def _spans(ptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What belongs to some rows of a pointer array: the items, which of the rows each is of, and the new pointers."""
    length = ptr[rows + 1] - ptr[rows]
    new = torch.cat([length.new_zeros(1), length.cumsum(0)])
    of = torch.repeat_interleave(torch.arange(len(rows), device=ptr.device), length)
    return torch.arange(int(new[-1]), device=ptr.device) + (ptr[rows] - new[:-1])[of], of, new


def query_graphs(
    index: MemoryIndex,
    view: RankerView,
    chosen_QC: npt.NDArray[np.int64],
    x_QCF: npt.NDArray[np.float32],
    label_QC: npt.NDArray[np.float32],
    weight: float = 1.0,
) -> QueryGraphs:
    """The graphs of questions to one memory, from `search.candidate_features` and labels."""
    count = chosen_QC.shape[1]
    valid = chosen_QC >= 0
    sizes = valid.sum(axis=1)
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    edge_index, edge_weight, edge_ptr = {}, {}, {}
    for relation, (ends, weights) in edges_among(index, view, chosen_QC).items():
        question = ends[1] // max(1, count)
        # Candidates fill a row from its start, so the place in the row is the number within the question.
        edge_index[relation] = torch.from_numpy(ends - question * count)
        edge_weight[relation] = torch.from_numpy(weights)
        counts = np.bincount(question, minlength=len(chosen_QC))
        edge_ptr[relation] = torch.from_numpy(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))
    return QueryGraphs(
        torch.from_numpy(x_QCF[valid]),
        torch.from_numpy(label_QC[valid]),
        torch.from_numpy(chosen_QC[valid]),
        torch.from_numpy(ptr),
        torch.full((len(chosen_QC),), weight),
        edge_index,
        edge_weight,
        edge_ptr,
    )


def join(parts: Sequence[QueryGraphs]) -> QueryGraphs:
    """Graphs of several memories, in order."""
    return QueryGraphs(
        torch.cat([p.x_NF for p in parts]),
        torch.cat([p.y_N for p in parts]),
        torch.cat([p.event_N for p in parts]),
        _joined([p.ptr_Q for p in parts]),
        torch.cat([p.weight_Q for p in parts]),
        {r: torch.cat([p.edge_index[r] for p in parts], dim=1) for r in RELATIONS},
        {r: torch.cat([p.edge_weight[r] for p in parts]) for r in RELATIONS},
        {r: _joined([p.edge_ptr[r] for p in parts]) for r in RELATIONS},
    )


def _joined(ptrs: Sequence[Tensor]) -> Tensor:
    made, last = [torch.zeros(1, dtype=torch.int64)], 0
    for ptr in ptrs:
        made.append(ptr[1:] + last)
        last += int(ptr[-1])
    return torch.cat(made)


def save_graphs(graphs: QueryGraphs, path: Path) -> None:
    """Writes graphs as safetensors; equal graphs are equal files."""
    from safetensors.torch import save_file

    tensors = {n: getattr(graphs, n) for n in ("x_NF", "y_N", "event_N", "ptr_Q", "weight_Q")}
    for name in ("edge_index", "edge_weight", "edge_ptr"):
        tensors |= {f"{name}.{r}": t for r, t in getattr(graphs, name).items()}
    head = json.dumps({"format": _FORMAT, "features": NAMES, "relations": RELATIONS})
    save_file({n: t.contiguous() for n, t in tensors.items()}, str(path), metadata={"magma": head})


def load_graphs(path: Path) -> QueryGraphs:
    """Reads graphs; nothing is unpickled.

    Raises:
        InputError: there is no such file, or it is none of this release's.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            head = json.loads((file.metadata() or {}).get("magma", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"The query graphs '{path}' cannot be read ({error}).") from None
    wanted = {"format": _FORMAT, "features": list(NAMES), "relations": list(RELATIONS)}
    if head != wanted:
        raise InputError(f"'{path}' holds no query graphs of this release (other features or relations); make it anew.")
    return QueryGraphs(
        *(tensors[n] for n in ("x_NF", "y_N", "event_N", "ptr_Q", "weight_Q")),
        *({r: tensors[f"{name}.{r}"] for r in RELATIONS} for name in ("edge_index", "edge_weight", "edge_ptr")),
    )

"""One memory's tables as a graph of tensors, many graphs as one disjoint union, and both ways to PyG's HeteroData.

Nodes are numbered events first (by position), then episodes (by first position), then entities (by id). Edge types are
int32, never uint8: torch reads a uint8 index as a mask.

N nodes, E edges, D embedding, M memories.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from magma_gpu.columns import vectors_of
from magma_gpu.types import EDGE_TYPES

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

NODE_TYPES = ("event", "episode", "entity")
TYPE_CODE = {name: code for code, name in enumerate(EDGE_TYPES)}
# How an edge type stands in HeteroData: (source node type, relation, target node type).
TRIPLES = {
    "temporal": ("event", "temporal", "event"),
    "semantic": ("event", "semantic", "event"),
    "causal": ("event", "causal", "event"),
    "entity": ("event", "entity", "entity"),
    "episode": ("event", "episode", "episode"),
}
NO_TIME = -(1 << 63)
# More than there are edge types, in both directions.
_KINDS = 16
assert 2 * len(EDGE_TYPES) <= _KINDS


@dataclass(frozen=True, slots=True)
class MemoryGraph:
    """One memory.

    Attributes:
        event_ids, episode_ids, entity_ids: what the nodes are, in node order.
        x_ND: float32, unit rows; an episode or entity has the unit mean of its events; zeros where unknown.
        time_N: int64 [events], UTC microseconds of saying; NO_TIME where unknown.
        src_E, dst_E: int64 node numbers, sorted by (src, dst, type).
        type_E: int32, index into EDGE_TYPES.
        weight_E: float32 in [0, 1].
    """

    memory_id: str
    event_ids: tuple[str, ...]
    episode_ids: tuple[str, ...]
    entity_ids: tuple[str, ...]
    x_ND: Tensor
    time_N: Tensor
    src_E: Tensor
    dst_E: Tensor
    type_E: Tensor
    weight_E: Tensor

    @property
    def num_nodes(self) -> int:
        return len(self.event_ids) + len(self.episode_ids) + len(self.entity_ids)

    def first_node(self, node_type: str) -> int:
        """The number of the first node of a type."""
        sizes = (len(self.event_ids), len(self.episode_ids), len(self.entity_ids))
        return sum(sizes[: NODE_TYPES.index(node_type)])

    def node_id(self, node: int) -> str:
        for ids in (self.event_ids, self.episode_ids, self.entity_ids):
            if node < len(ids):
                return ids[node]
            node -= len(ids)
        raise IndexError(f"node {node} of {self.num_nodes}")

    def to_hetero(self) -> "HeteroData":
        """Returns the graph as HeteroData; every node and edge type is present, empty ones too."""
        from torch_geometric.data import HeteroData

        data = HeteroData()
        data["memory_id"] = self.memory_id
        first = 0
        for node_type, ids in zip(NODE_TYPES, (self.event_ids, self.episode_ids, self.entity_ids), strict=True):
            data[node_type].x = self.x_ND[first : first + len(ids)]
            data[node_type].num_nodes = len(ids)
            data[node_type].node_id = list(ids)
            first += len(ids)
        data["event"].time = self.time_N
        for name, (source, relation, target) in TRIPLES.items():
            of_type = self.type_E == TYPE_CODE[name]
            edge_index = torch.stack([self.src_E[of_type], self.dst_E[of_type] - self.first_node(target)])
            data[source, relation, target].edge_index = edge_index
            data[source, relation, target].edge_attr = self.weight_E[of_type]
        return data


def from_hetero(data: "HeteroData") -> MemoryGraph:
    """The inverse of `MemoryGraph.to_hetero`."""
    events, episodes, entities = (tuple(data[t].node_id) for t in NODE_TYPES)
    offset = {"event": 0, "episode": len(events), "entity": len(events) + len(episodes)}
    src, dst, kind, weight = [], [], [], []
    for name, (source, relation, target) in TRIPLES.items():
        store = data[source, relation, target]
        src.append(store.edge_index[0])
        dst.append(store.edge_index[1] + offset[target])
        kind.append(torch.full((store.edge_index.shape[1],), TYPE_CODE[name], dtype=torch.int32))
        weight.append(store.edge_attr)
    return _sorted_graph(
        data["memory_id"],
        events,
        episodes,
        entities,
        torch.cat([data[t].x for t in NODE_TYPES]),
        data["event"].time,
        torch.cat(src),
        torch.cat(dst),
        torch.cat(kind),
        torch.cat(weight),
    )


def _sorted_graph(
    memory_id: str,
    event_ids: tuple[str, ...],
    episode_ids: tuple[str, ...],
    entity_ids: tuple[str, ...],
    x_ND: Tensor,
    time_N: Tensor,
    src_E: Tensor,
    dst_E: Tensor,
    type_E: Tensor,
    weight_E: Tensor,
) -> MemoryGraph:
    by = _by_arc(src_E, dst_E, type_E, len(x_ND))
    return MemoryGraph(
        memory_id,
        event_ids,
        episode_ids,
        entity_ids,
        x_ND,
        time_N,
        src_E[by],
        dst_E[by],
        type_E[by],
        weight_E[by],
    )


def _by_arc(tail_E: Tensor, head_E: Tensor, kind_E: Tensor, num_nodes: int) -> Tensor:
    """The order of edges by (tail, head, kind), equal ones as they stand; on the device of the tensors."""
    # One key sorts faster than three; it fits for memories of up to half a billion nodes.
    assert num_nodes < 1 << 29
    key = (tail_E * num_nodes + head_E) * _KINDS + kind_E
    return torch.argsort(key, stable=True)


def build_graph(memory_id: str, tables: dict[str, pa.Table]) -> MemoryGraph:
    """Makes the graph of one memory from its rows.

    Args:
        tables: rows of this memory alone: events, vectors (the same rows in the same order), episodes, entities and
            the four edge tables. Absent or empty ones give no edges of their type; edges that name an unknown node
            are an error of the store, found by `verify`, and an assertion here.
    """
    events = tables["events"]
    event_ids = tuple(events["event_id"].to_pylist())
    num_events = len(event_ids)
    episodes = tables.get("episodes")
    episode_ids = tuple(episodes["episode_id"].to_pylist()) if episodes is not None else ()
    entity_ids = tuple(tables["entities"]["entity_id"].to_pylist()) if "entities" in tables else ()
    num_nodes = num_events + len(episode_ids) + len(entity_ids)
    ids = [events["event_id"]]
    ids += [episodes["episode_id"]] if episodes is not None else []
    ids += [tables["entities"]["entity_id"]] if "entities" in tables else []
    nodes = pa.concat_arrays(
        [c.cast(pa.string()) for column in ids for c in column.chunks] or [pa.array([], pa.string())]
    )
    src: list[np.ndarray] = []
    dst: list[np.ndarray] = []
    kind: list[np.ndarray] = []
    weight: list[np.ndarray] = []
    for name in ("temporal", "semantic", "causal", "entity"):
        table = tables.get(f"edges/{name}")
        if table is None or table.num_rows == 0:
            continue
        for ends, column in ((src, "src"), (dst, "dst")):
            found = pc.index_in(table[column].cast(pa.string()), value_set=nodes)
            assert not found.null_count, f"an edge of {memory_id!r} in {name} names a node that is not there"
            ends.append(found.to_numpy().astype(np.int64))
        kind.append(np.full(table.num_rows, TYPE_CODE[name], dtype=np.int32))
        weight.append(table["weight"].to_numpy().astype(np.float32))
    if episodes is not None and episodes.num_rows:
        member, owner = _members(events, episodes)
        src.append(member)
        dst.append(owner + num_events)
        kind.append(np.full(len(member), TYPE_CODE["episode"], dtype=np.int32))
        weight.append(np.ones(len(member), dtype=np.float32))
    src_E = np.concatenate(src) if src else np.empty(0, np.int64)
    dst_E = np.concatenate(dst) if dst else np.empty(0, np.int64)
    type_E = np.concatenate(kind) if kind else np.empty(0, np.int32)
    weight_E = np.concatenate(weight) if weight else np.empty(0, np.float32)
    x = vectors_of(tables["vectors"]) if "vectors" in tables else np.zeros((num_events, 0), np.float32)
    assert len(x) == num_events, f"{len(x)} vectors for {num_events} events of {memory_id!r}"
    above = _unit_means(x, src_E, dst_E, num_events, num_nodes - num_events)
    times = events["time"].cast(pa.int64()).fill_null(NO_TIME).to_numpy()
    return _sorted_graph(
        memory_id,
        event_ids,
        episode_ids,
        entity_ids,
        torch.from_numpy(np.concatenate([x, above])),
        torch.from_numpy(times.copy()),
        torch.from_numpy(src_E),
        torch.from_numpy(dst_E),
        torch.from_numpy(type_E),
        torch.from_numpy(weight_E),
    )


def _members(events: pa.Table, episodes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Which event belongs to which episode: the session is the same and the position lies inside."""
    # A session's number above, the position below: one sorted list of where episodes start.
    names = episodes["session_id"].combine_chunks()
    first = episodes["first"].to_numpy().astype(np.int64)
    starts = (pc.index_in(names, value_set=names.unique()).to_numpy().astype(np.int64) << 32) + first
    by = np.argsort(starts, kind="stable")
    session = pc.index_in(events["session_id"], value_set=names.unique())
    assert not session.null_count, "a session has no episodes"
    at = (session.to_numpy().astype(np.int64) << 32) + events["position"].to_numpy()
    return np.arange(len(at), dtype=np.int64), by[np.searchsorted(starts[by], at, side="right") - 1]


def _unit_means(x: np.ndarray, src: np.ndarray, dst: np.ndarray, num_events: int, num_above: int) -> np.ndarray:
    """Unit mean vectors of episodes and entities over the events that point to them, summed in float64."""
    total = np.zeros((num_above, x.shape[1]), dtype=np.float64)
    member = dst >= num_events
    by = np.lexsort((src[member], dst[member]))
    np.add.at(total, dst[member][by] - num_events, x[src[member][by]].astype(np.float64))
    norm = np.sqrt((total * total).sum(axis=1, keepdims=True))
    means: np.ndarray = np.divide(total, norm, out=np.zeros_like(total), where=norm > 1e-12).astype(np.float32)
    return means


@dataclass(frozen=True, slots=True)
class GraphBatch:
    """Many memories as one graph whose parts are not joined; what a traversal walks.

    Every stored edge stands here once in each direction. `relation` is 2 x edge type, plus 1 against its direction.

    Attributes:
        node_ptr_M: int64 [M + 1], first node of each memory.
        indptr: int64 [N + 1]; dst: int64; relation: int32.
    """

    node_ptr_M: Tensor
    indptr: Tensor
    dst: Tensor
    relation: Tensor

    @staticmethod
    def of(graphs: Sequence[MemoryGraph]) -> "GraphBatch":
        sizes = torch.tensor([0, *(g.num_nodes for g in graphs)], dtype=torch.int64)
        ptr = sizes.cumsum(0)
        if not graphs:
            empty = torch.empty(0, dtype=torch.int64)
            return GraphBatch(ptr, torch.zeros(1, dtype=torch.int64), empty, empty.to(torch.int32))
        device = graphs[0].src_E.device
        num_nodes = int(ptr[-1])
        ptr = ptr.to(device)
        shift = ptr[:-1].repeat_interleave(torch.tensor([len(g.src_E) for g in graphs], device=device))
        src = torch.cat([g.src_E for g in graphs]) + shift
        dst = torch.cat([g.dst_E for g in graphs]) + shift
        kind = torch.cat([g.type_E for g in graphs]) * 2
        tail, head = torch.cat([src, dst]), torch.cat([dst, src])
        relation = torch.cat([kind, kind + 1])
        by = _by_arc(tail, head, relation, num_nodes)
        indptr = torch.zeros(num_nodes + 1, dtype=torch.int64, device=device)
        torch.cumsum(torch.bincount(tail, minlength=num_nodes), 0, out=indptr[1:])
        return GraphBatch(ptr, indptr, head[by], relation[by])

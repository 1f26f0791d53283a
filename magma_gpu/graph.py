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
    by = torch.from_numpy(np.lexsort((type_E.numpy(), dst_E.numpy(), src_E.numpy())))
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
    number = {node: n for n, node in enumerate((*event_ids, *episode_ids, *entity_ids))}
    src, dst, kind, weight = [], [], [], []
    for name in ("temporal", "semantic", "causal", "entity"):
        table = tables.get(f"edges/{name}")
        if table is None or table.num_rows == 0:
            continue
        src.append(np.array([number[i] for i in table["src"].to_pylist()], dtype=np.int64))
        dst.append(np.array([number[i] for i in table["dst"].to_pylist()], dtype=np.int64))
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
    above = _unit_means(x, src_E, dst_E, num_events, len(number) - num_events)
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
    sessions = events["session_id"].to_pylist()
    by_session: dict[str, list[tuple[int, int]]] = {}
    for row, (session, first) in enumerate(
        zip(episodes["session_id"].to_pylist(), episodes["first"].to_pylist(), strict=True)
    ):
        by_session.setdefault(session, []).append((first, row))
    starts = {s: (np.array([f for f, _ in sorted(v)]), [r for _, r in sorted(v)]) for s, v in by_session.items()}
    owner = np.empty(len(sessions), dtype=np.int64)
    positions = events["position"].to_numpy()
    for i, session in enumerate(sessions):
        firsts, rows = starts[session]
        owner[i] = rows[int(np.searchsorted(firsts, positions[i], side="right")) - 1]
    return np.arange(len(sessions), dtype=np.int64), owner


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
        sizes = np.array([g.num_nodes for g in graphs], dtype=np.int64)
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        if not graphs:
            empty = torch.empty(0, dtype=torch.int64)
            return GraphBatch(torch.from_numpy(ptr), torch.zeros(1, dtype=torch.int64), empty, empty.to(torch.int32))
        src = np.concatenate([g.src_E.numpy() + p for g, p in zip(graphs, ptr, strict=False)])
        dst = np.concatenate([g.dst_E.numpy() + p for g, p in zip(graphs, ptr, strict=False)])
        kind = np.concatenate([g.type_E.numpy() for g in graphs])
        tail = np.concatenate([src, dst])
        head = np.concatenate([dst, src])
        relation = np.concatenate([kind * 2, kind * 2 + 1]).astype(np.int32)
        by = np.lexsort((relation, head, tail))
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(tail, minlength=ptr[-1]))])
        return GraphBatch(
            torch.from_numpy(ptr),
            torch.from_numpy(indptr),
            torch.from_numpy(head[by]),
            torch.from_numpy(relation[by]),
        )

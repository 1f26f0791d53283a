"""What a fitted network makes of each relation: how far its messages move ratings, by what the question wants."""

import numpy as np
import torch

from magma_gpu.graph_learning.model import INTENT_COLUMNS, GraphRanker
from magma_gpu.graph_learning.subgraph import QueryGraphs, triple
from magma_gpu.graph_learning.training import score
from magma_gpu.policy import PHI
from magma_gpu.types import EDGE_TYPES, INTENTS


def moved(model: GraphRanker, graphs: QueryGraphs) -> dict[str, list[float | None]]:
    """How far a relation's messages move a rating that hears any, mean of absolute differences.

    Returns:
        by relation, one number an intent (the likeliest of a question); None where no candidate of such a question
        hears anything along the relation.
    """
    whole = score(model, graphs)
    question_N = torch.repeat_interleave(torch.arange(len(graphs)), graphs.sizes())
    wants_N = graphs.x_NF[:, list(INTENT_COLUMNS)].argmax(dim=1)
    made: dict[str, list[float | None]] = {}
    for relation in model.relations:
        parts, hears = [], []
        for first in range(0, len(graphs), 64):
            data = graphs.batch(range(first, min(first + 64, len(graphs))))
            edges = data[triple(relation)]
            hears.append(torch.bincount(edges.edge_index[1], minlength=data["event"].num_nodes) > 0)
            edges.edge_index, edges.edge_attr = edges.edge_index[:, :0], edges.edge_attr[:0]
            parts.append(model.score_batch(data))
        assert len(question_N) == sum(len(p) for p in parts)
        gap, heard = (whole - torch.cat(parts)).abs(), torch.cat(hears)
        of_intent = [gap[heard & (wants_N == i)] for i in range(len(INTENTS))]
        made[relation] = [float(g.mean()) if len(g) else None for g in of_intent]
    return made


def agreement(weights: dict[str, list[float]], edge_type_of: dict[str, str]) -> dict[str, float | bool]:
    """How learned weights stand to the paper's table of traversal weights (`policy.PHI`).

    Args:
        weights: by relation, one an intent (why, when, entity, open).
        edge_type_of: the edge type a relation walks; relations of one type are averaged.

    Returns:
        the rank correlation over why, when and entity by the edge types that both have, logarithms of ours with the
        table, each type above its mean over intents; and for each type whether both give it most to the same intent.
    """
    types = [t for t in EDGE_TYPES if t in set(edge_type_of.values())]
    ours = np.array([np.mean([weights[r][:3] for r in weights if edge_type_of[r] == t], axis=0) for t in types])
    paper = np.array([PHI[:3, EDGE_TYPES.index(t)] for t in types])
    made: dict[str, float | bool] = {
        f"{t}: most for the same intent": bool(ours[i].argmax() == paper[i].argmax()) for i, t in enumerate(types)
    }
    # Equation 5 takes the exponential of the table.
    above = [(m - m.mean(axis=1, keepdims=True)).round(6).reshape(-1) for m in (np.log(ours), paper)]
    return {"rank_correlation": round(float(np.corrcoef(_ranks(above[0]), _ranks(above[1]))[0, 1]), 3)} | made


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, ties at their mean."""
    distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    assert len(distinct)
    last = np.cumsum(counts) - 1
    mean: np.ndarray = (last - (counts - 1) / 2)[inverse]
    return mean


# The paper's Table 5: traversal weights by edge type, over its intents.
TABLE_5 = {"temporal": (0.5, 4.0), "causal": (3.0, 5.0), "entity": (2.5, 6.0)}


def shift_into_ranges(weights: dict[str, list[float]], edge_type_of: dict[str, str]) -> tuple[float, float]:
    """What may be added to the logarithms of learned weights so that all lie in the paper's ranges: least and most.

    Equation 5 takes the exponential of the table, so a constant changes no order. The least is above the most where
    nothing fits. Intents why, when and entity; edge types that the table names.
    """
    least, most = -np.inf, np.inf
    for relation, values in weights.items():
        if (of := TABLE_5.get(edge_type_of[relation])) is not None:
            logs = np.log(values[:3])
            least, most = max(least, of[0] - float(logs.min())), min(most, of[1] - float(logs.max()))
    return least, most

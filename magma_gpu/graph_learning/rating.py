"""Rates the candidates of questions to one memory with a graph ranker: what policy `gnn` adds to the search.

Questions go through one by one, so that every sum has the shape it has when a question is asked alone.

Q questions, C candidates, F features.
"""

import numpy as np
import numpy.typing as npt
import torch

from magma_gpu.features import RankerView
from magma_gpu.graph_learning.model import GraphRanker
from magma_gpu.graph_learning.subgraph import RELATIONS, query_graphs
from magma_gpu.memory_index import MemoryIndex


def rate(
    model: GraphRanker,
    index: MemoryIndex,
    view: RankerView,
    chosen_QC: npt.NDArray[np.int64],
    x_QCF: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Ratings and probabilities of holding evidence, both [Q, C]; -inf and 0 where a question has no such candidate."""
    graphs = query_graphs(index, view, chosen_QC, x_QCF, np.zeros(chosen_QC.shape, dtype=np.float32))
    rated = np.full(chosen_QC.shape, -np.inf)
    probability = np.zeros(chosen_QC.shape)
    ptr = graphs.ptr_Q.tolist()
    edge_ptr = {r: graphs.edge_ptr[r].tolist() for r in RELATIONS}
    question_N = torch.zeros(chosen_QC.shape[1], dtype=torch.int64)
    with torch.inference_mode():
        for q in range(len(chosen_QC)):
            x = graphs.x_NF[ptr[q] : ptr[q + 1]]
            if not len(x):
                continue
            edges = {
                r: (
                    graphs.edge_index[r][:, edge_ptr[r][q] : edge_ptr[r][q + 1]],
                    graphs.edge_weight[r][edge_ptr[r][q] : edge_ptr[r][q + 1]],
                )
                for r in model.relations
            }
            rating = model.score(x, question_N[: len(x)], 1, edges)
            rated[q, : len(x)] = rating.numpy()
            probability[q, : len(x)] = model.probability(rating, question_N[: len(x)], 1).numpy()
    return rated, probability

"""Recall of ratings over the candidates of questions: what the cards of policies and the benchmark report."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from magma_gpu.graph_learning.subgraph import QueryGraphs

BUDGETS = (5, 10, 20, 50)


def found(
    rating_N: torch.Tensor, graphs: QueryGraphs, wanted_Q: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.float64]]:
    """Recall and all-found of each question at each budget."""
    made = {f"{kind}@{k}": np.zeros(len(graphs)) for k in BUDGETS for kind in ("recall", "all")}
    ptr = graphs.ptr_Q.tolist()
    for q, wanted in enumerate(wanted_Q.tolist()):
        of = slice(ptr[q], ptr[q + 1])
        hit = graphs.y_N[of][torch.argsort(-rating_N[of], stable=True)].cumsum(0).tolist()
        for k in BUDGETS:
            share = min(hit[min(k, len(hit)) - 1] / wanted, 1.0) if hit else 0.0
            made[f"recall@{k}"][q], made[f"all@{k}"][q] = share, float(share >= 1.0)
    return made


def means(rating_N: torch.Tensor, graphs: QueryGraphs, wanted_Q: npt.NDArray[np.int64]) -> dict[str, Any]:
    rows = found(rating_N, graphs, wanted_Q)
    return {"n": len(graphs)} | {name: round(float(values.mean()), 4) for name, values in rows.items()}

"""Fits graph rankers: listwise, deterministic by seed, from nothing or from weights that exist.

The candidates that hold evidence share the probability of a softmax over a question's candidates. A fit that starts
from weights (after self-supervision, or a user's feedback) keeps their scaling and is pulled back to them.

Q questions, N candidates, F features.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from magma_gpu.graph_learning.model import INTENT_COLUMNS, UNUSED, GraphRanker, WalkNet, edges_of, log_softmax
from magma_gpu.graph_learning.subgraph import RELATIONS, Edges, QueryGraphs

# Questions scored at once; more only fill the cache.
_SCORED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """How a ranker is fitted. `hidden`, `layers` and `relations` are of the network and ignored with a start."""

    seeds: tuple[int, ...] = (0, 1)
    epochs: int = 10
    # Questions a step.
    batch: int = 64
    rate: float = 3e-3
    # Pull of the weights to zero, or to those of the start.
    decay: float = 1e-3
    dropout: float = 0.3
    # Of each question the first so many candidates are learned from; 0 for all.
    num_candidates: int = 0
    # Share of the edges that a step does not see.
    edge_dropout: float = 0.0
    relations: tuple[str, ...] = RELATIONS
    hidden: int = 16
    layers: int = 1


def fit(
    graphs: QueryGraphs,
    columns: Sequence[int],
    config: FitConfig | None = None,
    start: GraphRanker | None = None,
    device: torch.device | str = "cpu",
) -> GraphRanker:
    """Fits a ranker; the same data and seeds give the same weights on the same machine. It is returned on the CPU.

    Args:
        columns: features that are used; with a start they are its own.
        start: weights to go on from, one member of it a member of the result.
    """
    config = config or FitConfig()
    if config.num_candidates:
        graphs = graphs.head(config.num_candidates)
    graphs = graphs.take(torch.nonzero(graphs.positives() > 0).squeeze(1)).to(device)
    if start is None:
        model = GraphRanker([], graphs.x_NF.shape[1])
        model.mean, model.scale = _scaling(graphs.x_NF, columns)
    else:
        model = copy.deepcopy(start).float().requires_grad_(True)
        model.calibration = start.calibration.double().clone()
    model = model.to(device)
    x_NF = model.standardised(graphs.x_NF) if len(graphs) else graphs.x_NF
    members: list[WalkNet] = []
    for number, seed in enumerate(config.seeds if start is None else range(len(model.members))):
        torch.manual_seed(seed)
        if start is None:
            member = WalkNet(graphs.x_NF.shape[1], config.relations, config.hidden, config.layers)
        else:
            member = model.networks()[number]
        _train(member.to(device), graphs, x_NF, config, seed, pulled=start is not None)
        members.append(member)
    model.members = torch.nn.ModuleList(members)
    return model.cpu().eval()


def _scaling(x_NF: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Mean and spread of each feature; one that is not used is constant after scaling."""
    used = torch.zeros(x_NF.shape[1], dtype=torch.bool, device=x_NF.device)
    used[list(columns)] = True
    spread = x_NF.std(dim=0) + 1e-3
    return x_NF.mean(dim=0), torch.where(used, spread, torch.full_like(spread, UNUSED))


def _train(member: WalkNet, graphs: QueryGraphs, x_NF: Tensor, config: FitConfig, seed: int, *, pulled: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    began = [p.detach().clone() for p in member.parameters()]
    optimizer = torch.optim.AdamW(member.parameters(), lr=config.rate, weight_decay=0.0 if pulled else config.decay)
    steps = config.epochs * -(-len(graphs) // config.batch)
    if not steps:
        return
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.rate, total_steps=steps)
    intent_NI = graphs.x_NF[:, list(INTENT_COLUMNS)]
    seen = QueryGraphs(
        torch.cat([x_NF, intent_NI], dim=1),
        *(getattr(graphs, n) for n in QueryGraphs.__slots__[1:]),
    )
    for _ in range(config.epochs):
        order = torch.randperm(len(graphs), generator=generator)
        for first in range(0, len(graphs), config.batch):
            loss = _loss(member, seen, order[first : first + config.batch], config, generator)
            if pulled:
                loss = loss + config.decay * sum(
                    ((p - b) ** 2).sum() for p, b in zip(member.parameters(), began, strict=True)
                )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()


def _loss(member: WalkNet, graphs: QueryGraphs, rows: Tensor, config: FitConfig, generator: torch.Generator) -> Tensor:
    data = graphs.batch(rows)
    x_NF, y_N, question_N = data["event"].x, data["event"].y, data["event"].batch
    edges = _thinned(edges_of(data), config.edge_dropout, generator)
    width = x_NF.shape[1] - len(INTENT_COLUMNS)
    rating = member(x_NF[:, :width], x_NF[:, width:], question_N, len(rows), edges, config.dropout)
    share = log_softmax(rating, question_N, len(rows))
    held = torch.zeros_like(data["weight"]).index_add_(0, question_N, y_N)
    weight = data["weight"]
    loss: Tensor = -(share * y_N * (weight / held)[question_N]).sum() / weight.sum()
    return loss


def _thinned(edges: Edges, share: float, generator: torch.Generator) -> Edges:
    if not share:
        return edges
    made = {}
    for relation, (ends, weight) in edges.items():
        kept = (torch.rand(len(weight), generator=generator) >= share).to(weight.device)
        made[relation] = (ends[:, kept], weight[kept])
    return made


def score(model: GraphRanker, graphs: QueryGraphs) -> Tensor:
    """Ratings of all candidates, float32 [N]."""
    made = [
        model.score_batch(graphs.batch(range(first, min(first + _SCORED, len(graphs)))))
        for first in range(0, len(graphs), _SCORED)
    ]
    return torch.cat(made) if made else torch.zeros(0)


def score_held_out(
    graphs: QueryGraphs,
    group_Q: npt.NDArray[np.generic],
    columns: Sequence[int],
    config: FitConfig | None = None,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Ratings of every candidate by a ranker fitted on the questions of the other groups, float32 [N]."""
    made = torch.zeros(len(graphs.x_NF))
    for group in np.unique(group_Q):
        others = graphs.take(torch.from_numpy(np.flatnonzero(group_Q != group)))
        model = fit(others, columns, config, device=device)
        asked = torch.from_numpy(np.flatnonzero(group_Q == group))
        made[graphs.nodes(asked)] = score(model, graphs.take(asked))
    return made


def calibrate(rating_N: Tensor, graphs: QueryGraphs) -> Tensor:
    """Slope and offset of the log odds that make labels most likely, float64 [2], from held-out ratings."""
    share, y = _shares(rating_N, graphs)
    weights = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(weights[0] * share + weights[1], y)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach()


def calibration_error(rating_N: Tensor, graphs: QueryGraphs, calibration: Tensor) -> dict[str, float]:
    """Of the probabilities of each question's ten best candidates: Brier score and expected error in ten bins."""
    share, y = _shares(rating_N, graphs)
    p = torch.sigmoid(calibration[0] * share + calibration[1])
    best = torch.cat(
        [
            first + torch.argsort(-rating_N[first:last], stable=True)[:10]
            for first, last in zip(graphs.ptr_Q[:-1].tolist(), graphs.ptr_Q[1:].tolist(), strict=True)
        ]
    )
    said, held = p[best].numpy(), y[best].numpy()
    bins = np.minimum((said * 10).astype(int), 9)
    gaps = [abs(said[bins == b].mean() - held[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return {
        "n": len(said),
        "brier": round(float(((said - held) ** 2).mean()), 4),
        "expected_calibration_error": round(float(sum(gaps)), 4),
    }


def _shares(rating_N: Tensor, graphs: QueryGraphs) -> tuple[Tensor, Tensor]:
    question = torch.repeat_interleave(torch.arange(len(graphs)), graphs.sizes())
    return log_softmax(rating_N.double(), question, len(graphs)), graphs.y_N.double()

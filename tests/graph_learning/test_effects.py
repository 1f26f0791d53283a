"""What is said of a fitted network: how far relations move ratings, and how it stands to the paper's table."""

import math

import torch

from magma_gpu.features import NAMES
from magma_gpu.graph_learning.effects import agreement, moved, shift_into_ranges
from magma_gpu.graph_learning.model import GraphRanker, WalkNet
from magma_gpu.graph_learning.subgraph import EDGE_TYPE_OF, RELATIONS, QueryGraphs
from magma_gpu.policy import PHI


def test_only_what_is_heard_moves() -> None:
    """Two questions of two candidates; in the first, a `why`, one hears the other along `next`."""
    torch.manual_seed(0)
    net = WalkNet(len(NAMES))
    torch.nn.init.ones_(net.moved[0].weight)
    x = torch.zeros(4, len(NAMES))
    x[:2, NAMES.index("intent:why")] = 1.0
    x[2:, NAMES.index("intent:when")] = 1.0
    none = torch.zeros(2, 0, dtype=torch.int64)
    graphs = QueryGraphs(
        x,
        torch.zeros(4),
        torch.arange(4),
        torch.tensor([0, 2, 4]),
        torch.ones(2),
        dict.fromkeys(RELATIONS, none) | {"next": torch.tensor([[1], [0]])},
        dict.fromkeys(RELATIONS, torch.zeros(0)) | {"next": torch.ones(1)},
        dict.fromkeys(RELATIONS, torch.zeros(3, dtype=torch.int64)) | {"next": torch.tensor([0, 1, 1])},
    )
    made = moved(GraphRanker([net]), graphs)
    assert made["next"][0] is not None
    assert made["next"][0] > 0
    assert made["next"][1:] == [None, None, None]
    assert made["semantic"] == [None] * 4


def like_the_paper() -> dict[str, list[float]]:
    column = {"temporal": 0, "semantic": 1, "causal": 2, "entity": 3}
    return {r: [math.exp(v) for v in PHI[:, column[EDGE_TYPE_OF[r]]]] for r in RELATIONS}


def test_agreement_of_the_paper_with_itself() -> None:
    made = agreement(like_the_paper(), EDGE_TYPE_OF)
    assert made["rank_correlation"] == 1.0
    assert all(v for name, v in made.items() if "same intent" in name)
    turned = {r: [v[1], v[0], v[2], v[3]] for r, v in like_the_paper().items()}
    assert agreement(turned, EDGE_TYPE_OF)["rank_correlation"] < 0.9
    assert not agreement(turned, EDGE_TYPE_OF)["temporal: most for the same intent"]


def test_a_constant_that_moves_weights_into_the_ranges() -> None:
    # Temporal weights may be 0.5 to 4, causal 3 to 5, entity 2.5 to 6: with all alike, 3 to 4 is left.
    low, high = shift_into_ranges({r: [math.e] * 4 for r in RELATIONS}, EDGE_TYPE_OF)
    assert (round(low, 9), round(high, 9)) == (2.0, 3.0)
    wide = {r: [1.0, math.exp(4.0), 1.0, 1.0] for r in RELATIONS}
    low, high = shift_into_ranges(wide, EDGE_TYPE_OF)
    assert low > high

"""The network: a first rating of every candidate, then messages along the edges that join them, then a second rating.

The first rating is the learned ranker's network. A message is what a neighbour's hidden units and its own first rating
say, by a convolution of PyG's an edge relation; how much a relation counts is a gate that the question's intent opens.
What a candidate hears moves its rating by the difference it makes: with no edges the rating stays what it was.

Q questions, N candidates of all questions, F features, H hidden, R relations, I intents.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from magma_gpu.features import NAMES
from magma_gpu.graph_learning.subgraph import RELATIONS, Edges, triple
from magma_gpu.types import INTENTS

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

_FIRST, _SECOND = 64, 32
_CLAMP = 5.0
# The scale of a feature that is not used.
UNUSED = 1e12
INTENT_COLUMNS = tuple(NAMES.index(f"intent:{name}") for name in INTENTS)
# A gate is the exponential of so many times its weight, as the paper's equation 5 weighs edges; it starts at 1.
GATE_SCALE = 4.0
# A rating is heard as its share of the question's best one, at three temperatures.
_HEARD = (1.0, 2.0, 4.0)


class WalkNet(nn.Module):
    """One member: rates the candidates of any number of questions at once.

    Attributes:
        relations: those that carry messages; none makes it the plain ranker's network.
    """

    def __init__(self, num_features: int, relations: Sequence[str] = RELATIONS, hidden: int = 16, layers: int = 1):
        from torch_geometric.nn import GraphConv, HeteroConv

        super().__init__()
        self.relations = tuple(relations)
        self.hidden = hidden
        self.first, self.second = nn.Linear(num_features, _FIRST), nn.Linear(_FIRST, _SECOND)
        self.wide, self.rate = nn.Linear(num_features, 1, bias=False), nn.Linear(_SECOND, 1, bias=False)
        self.say, self.own = nn.ModuleList(), nn.ModuleList()
        self.hear, self.moved = nn.ModuleList(), nn.ModuleList()
        self.gate = nn.ParameterList()
        for layer in range(layers if self.relations else 0):
            width = (hidden if layer else _SECOND) + len(_HEARD)
            convs = {triple(r): GraphConv(hidden, hidden, aggr="add", bias=False) for r in self.relations}
            self.say.append(nn.Linear(width, hidden))
            self.own.append(nn.Linear(width, hidden))
            self.hear.append(HeteroConv(convs, aggr=None))
            self.moved.append(nn.Linear(hidden, 1, bias=False))
            self.gate.append(nn.Parameter(torch.empty(len(INTENTS), len(self.relations))))
        self.reset()

    def reset(self) -> None:
        """Draws new weights from torch's generator; the second rating starts as the first."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=(2.0 / module.in_features) ** 0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.ParameterList):
                for gate in module:
                    nn.init.zeros_(gate)
        for linear in (self.wide, *self.moved):
            nn.init.zeros_(linear.weight)

    def forward(
        self, x_NF: Tensor, intent_NI: Tensor, question_N: Tensor, count: int, edges: Edges, dropout: float = 0.0
    ) -> Tensor:
        """Ratings [N].

        Args:
            x_NF: standardised features.
            question_N: which question a candidate is of, 0 ... count - 1.
            edges: for each relation its ends [2, E] (from, to) and weights [E].
        """

        def drop(h: Tensor) -> Tensor:
            return nn.functional.dropout(h, dropout, training=dropout > 0)

        h_NH = drop(torch.relu(self.second(drop(torch.relu(self.first(x_NF))))))
        rating_N: Tensor = (self.rate(h_NH) + self.wide(x_NF)).squeeze(1)
        # A relation without edges says nothing: leaving it out changes no sum.
        told = [n for n, r in enumerate(self.relations) if edges[r][0].shape[1]]
        if not told:
            return rating_N
        ends = {triple(self.relations[n]): edges[self.relations[n]][0] for n in told}
        weights = {triple(self.relations[n]): edges[self.relations[n]][1] for n in told}
        layers = zip(self.say, self.own, self.hear, self.moved, self.gate, strict=True)
        for say, own, hear, moved, gate in layers:
            known = torch.cat([h_NH, heard(rating_N, question_N, count)], dim=1)
            # Without the second of the pair a convolution hears the neighbours alone, not the candidate itself.
            heard_NRH = hear({"event": (say(known), None)}, ends, edge_weight_dict=weights)["event"]
            before = own(known)
            open_NR = torch.exp(GATE_SCALE * (intent_NI @ gate[:, told]))
            after = before + (heard_NRH * open_NR[:, :, None]).sum(dim=1)
            h_NH = drop(torch.relu(after))
            rating_N = rating_N + moved(h_NH - torch.relu(before)).squeeze(1)
        return rating_N


def heard(rating_N: Tensor, question_N: Tensor, count: int) -> Tensor:
    """How near each rating is to the best of its question, [N, 3] in (0, 1]."""
    from torch_geometric.utils import scatter

    best = scatter(rating_N, question_N, dim_size=count, reduce="max")[question_N]
    below = (rating_N - best).clamp(min=-12.0)
    return torch.stack([torch.exp(below / t) for t in _HEARD], dim=1)


class GraphRanker(nn.Module):
    """Members averaged over standardised features, with a calibration of what they say to probabilities."""

    mean: Tensor
    scale: Tensor
    calibration: Tensor

    def __init__(self, members: Sequence[WalkNet], num_features: int = len(NAMES)) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("scale", torch.ones(num_features))
        # Slope and offset of the log odds, see `probability`.
        self.register_buffer("calibration", torch.tensor([1.0, 0.0], dtype=torch.float64))

    @property
    def relations(self) -> tuple[str, ...]:
        return self.networks()[0].relations

    def networks(self) -> list[WalkNet]:
        return [m for m in self.members if isinstance(m, WalkNet)]

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def standardised(self, x_NF: Tensor) -> Tensor:
        standard: Tensor = ((x_NF - self.mean) / self.scale).clamp_(-_CLAMP, _CLAMP)
        return standard * (self.scale < UNUSED / 2)

    def score(self, x_NF: Tensor, question_N: Tensor, count: int, edges: Edges) -> Tensor:
        """Mean ratings, float32 [N]."""
        with torch.inference_mode():
            x = x_NF.to(self.mean.dtype)
            intent = x[:, list(INTENT_COLUMNS)]
            edges = {r: (ends, weight.to(x.dtype)) for r, (ends, weight) in edges.items()}
            x = self.standardised(x)
            total = torch.zeros_like(x[:, 0])
            for member in self.members:
                total = total + member(x, intent, question_N, count, edges)
            return (total / max(1, len(self.members))).float()

    def score_batch(self, data: "HeteroData") -> Tensor:
        """`score` of a batch that `QueryGraphs.batch` made."""
        return self.score(data["event"].x, data["event"].batch, len(data["event"].ptr) - 1, edges_of(data))

    def probability(self, rating_N: Tensor, question_N: Tensor, count: int) -> Tensor:
        """How likely a candidate holds evidence, float64 [N]: its share of a softmax, its log odds fitted."""
        share = log_softmax(rating_N.double(), question_N, count)
        return torch.sigmoid(self.calibration[0].double() * share + self.calibration[1].double())


def edges_of(data: "HeteroData") -> Edges:
    """Ends and weights of every relation of a batch."""
    return {r: (data[triple(r)].edge_index, data[triple(r)].edge_attr) for r in RELATIONS}


def log_softmax(rating_N: Tensor, question_N: Tensor, count: int) -> Tensor:
    """Log of a softmax over the candidates of each question, [N]."""
    from torch_geometric.utils import scatter

    best = scatter(rating_N.detach(), question_N, dim_size=count, reduce="max")
    below: Tensor = rating_N - best[question_N]
    total: Tensor = scatter(torch.exp(below), question_N, dim_size=count, reduce="sum")
    return below - torch.log(total)[question_N]

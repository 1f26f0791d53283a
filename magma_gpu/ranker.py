"""A small learned ranker: features of candidate events in, one score each out.

Some equal networks (a linear part and two hidden layers) fitted with different seeds, averaged. It is fitted listwise:
the events that hold the evidence share the probability of a softmax over a question's candidates.

Q questions, C candidates, F features, M members, H hidden.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from magma_gpu.errors import StoreError
from magma_gpu.features import NAMES

WEIGHTS = Path(__file__).parent / "weights" / "ranker.safetensors"
_HIDDEN = (64, 32)
_CLAMP = 5.0
# The scale of a feature that is not used.
_UNUSED = 1e12


class Ranker(nn.Module):
    """M averaged networks over standardised features."""

    mean: Tensor
    scale: Tensor

    def __init__(self, num_features: int, num_members: int) -> None:
        super().__init__()
        first, second = _HIDDEN

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(num_members, *shape))

        self.w1_MFH, self.b1_MH = weight(num_features, first), weight(first)
        self.w2_MHH, self.b2_MH = weight(first, second), weight(second)
        self.w3_MH, self.wide_MF = weight(second), weight(num_features)
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("scale", torch.ones(num_features))

    def reset(self, generator: torch.Generator) -> None:
        """Draws new weights."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                fan_in = parameter.shape[1]
                bound = 0.0 if name.startswith(("b", "wide")) else (2.0 / fan_in) ** 0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * bound)

    def forward(self, x_QCF: Tensor, dropout: float = 0.0) -> Tensor:
        """Scores [M, Q, C], one set a member."""
        x = ((x_QCF - self.mean) / self.scale).clamp(-_CLAMP, _CLAMP)
        hidden = torch.relu(torch.einsum("qcf,mfh->mqch", x, self.w1_MFH) + self.b1_MH[:, None, None, :])
        hidden = nn.functional.dropout(hidden, dropout, training=dropout > 0)
        hidden = torch.relu(torch.einsum("mqch,mhk->mqck", hidden, self.w2_MHH) + self.b2_MH[:, None, None, :])
        hidden = nn.functional.dropout(hidden, dropout, training=dropout > 0)
        return torch.einsum("mqch,mh->mqc", hidden, self.w3_MH) + torch.einsum("qcf,mf->mqc", x, self.wide_MF)

    def score(self, x_QCF: npt.NDArray[np.float32], valid_QC: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        """Mean scores float32 [Q, C]; 0 where a candidate is not valid.

        Questions go through one by one, so that the shape of every product, and with it every bit, is that of a
        question asked alone.
        """
        out = np.zeros(valid_QC.shape, dtype=np.float32)
        if not out.size:
            return out
        used = torch.nonzero(self.scale < _UNUSED).ravel()
        members, _, first = self.w1_MFH.shape
        candidates = int(x_QCF.shape[1])
        with torch.inference_mode():
            w1 = self.w1_MFH[:, used].permute(1, 0, 2).reshape(len(used), members * first).contiguous()
            b1, w3 = self.b1_MH.reshape(-1), self.w3_MH / members
            wide, mean, scale = self.wide_MF[:, used].mean(0), self.mean[used], self.scale[used]
            rows = torch.empty(candidates, len(used))
            hidden = torch.empty(candidates, members * first)
            for q in range(len(out)):
                torch.index_select(torch.from_numpy(x_QCF[q]), 1, used, out=rows)
                rows.sub_(mean).div_(scale).clamp_(-_CLAMP, _CLAMP)
                torch.addmm(b1, rows, w1, out=hidden).relu_()
                total = rows @ wide
                for m in range(members):
                    deep = torch.addmm(self.b2_MH[m], hidden[:, m * first : (m + 1) * first], self.w2_MHH[m]).relu_()
                    total += deep @ w3[m]
                out[q] = total.numpy()
        out[~valid_QC] = 0.0
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Labelled candidates of Q questions.

    Attributes:
        x_QCF: features; label_QC: 1 where an event holds evidence; valid_QC: 0 past a question's last candidate.
        weight_Q: what a question counts.
    """

    x_QCF: npt.NDArray[np.float32]
    label_QC: npt.NDArray[np.float32]
    valid_QC: npt.NDArray[np.bool_]
    weight_Q: npt.NDArray[np.float32]

    def take(self, rows: npt.NDArray[np.int64]) -> "Examples":
        return Examples(self.x_QCF[rows], self.label_QC[rows], self.valid_QC[rows], self.weight_Q[rows])


def join(parts: Sequence[Examples]) -> Examples:
    """Examples of several memories, in order."""
    return Examples(*(np.concatenate([getattr(p, f) for p in parts]) for f in Examples.__slots__))


def fit(
    examples: Examples,
    columns: Sequence[int],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    epochs: int = 10,
    batch: int = 64,
    rate: float = 3e-3,
    decay: float = 1e-3,
    dropout: float = 0.3,
) -> Ranker:
    """Fits a ranker; the same data and seeds give the same weights on the same machine.

    Args:
        columns: features that are used; the others get weight zero.
    """
    has = np.flatnonzero(examples.label_QC.sum(axis=1) > 0)
    x = torch.from_numpy(examples.x_QCF[has])
    label = torch.from_numpy(examples.label_QC[has])
    valid = torch.from_numpy(examples.valid_QC[has])
    weight = torch.from_numpy(examples.weight_Q[has])
    target = label / label.sum(dim=1, keepdim=True)
    used = torch.zeros(x.shape[2])
    used[list(columns)] = 1.0
    members = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        model = Ranker(x.shape[2], 1)
        model.reset(generator)
        model.mean = x[valid].mean(dim=0)
        model.scale = x[valid].std(dim=0) + 1e-3
        # An unused feature is constant after scaling.
        model.scale = torch.where(used > 0, model.scale, torch.full_like(model.scale, _UNUSED))
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
        steps = epochs * -(-len(has) // batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
        for _ in range(epochs):
            order = torch.randperm(len(has), generator=generator)
            for first in range(0, len(has), batch):
                rows = order[first : first + batch]
                score = model(x[rows], dropout)[0].masked_fill(~valid[rows], -1e9)
                losses = -(target[rows] * torch.log_softmax(score, dim=1)).sum(dim=1)
                loss = (losses * weight[rows]).sum() / weight[rows].sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
        members.append(model)
    whole = Ranker(x.shape[2], len(members))
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            parameter.copy_(torch.cat([dict(m.named_parameters())[name] for m in members]))
    whole.mean, whole.scale = members[0].mean, members[0].scale
    return whole.eval()


def save(ranker: Ranker, card: dict[str, Any], path: Path = WEIGHTS) -> None:
    """Writes weights (float32) and, beside them, the card."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.float().contiguous() for name, tensor in ranker.state_dict().items()}
    save_file(tensors, str(path), metadata={"features": json.dumps(NAMES)})
    path.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def load(path: Path = WEIGHTS) -> Ranker:
    """Reads weights.

    Raises:
        StoreError: the file is missing, or was fitted for other features.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            names = tuple(json.loads(file.metadata()["features"]))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise StoreError(
            f"The ranker weights '{path}' cannot be read ({error}); run: magma-gpu train ranker."
        ) from None
    if names != NAMES:
        raise StoreError(f"The ranker weights '{path}' were fitted for other features; run: magma-gpu train ranker.")
    ranker = Ranker(len(NAMES), state["w1_MFH"].shape[0])
    ranker.load_state_dict(state)
    return ranker.eval()

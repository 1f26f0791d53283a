"""Weights of a graph ranker as a file, and the card that says what they were fitted on and what they scored.

The file is safetensors: tensors, and in its header the shape of the network and the features it reads. A card is JSON
beside it and names the file's digest, so that a card cannot pass for that of other weights.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from magma_gpu.errors import StoreError
from magma_gpu.features import NAMES
from magma_gpu.graph_learning.model import GATE_SCALE, GraphRanker, WalkNet
from magma_gpu.graph_learning.subgraph import RELATIONS
from magma_gpu.types import INTENTS

WEIGHTS = Path(__file__).parents[1] / "weights" / "gnn.safetensors"
# Where a store keeps the weights that its users' feedback made.
OF_STORE = Path("policy") / "gnn.safetensors"
_FORMAT = "magma-gpu graph ranker 1"


def digest(path: Path) -> str:
    """The sha256 of a file of weights."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def save_policy(model: GraphRanker, card: dict[str, Any], path: Path = WEIGHTS) -> dict[str, Any]:
    """Writes weights (float32) and, beside them, the card with their digest; returns the card."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    member = model.networks()[0]
    head = {
        "format": _FORMAT,
        "features": NAMES,
        "relations": member.relations,
        "members": len(model.members),
        "hidden": member.hidden,
        "layers": len(member.hear),
    }
    tensors = {n: t.double() if n == "calibration" else t.float() for n, t in model.state_dict().items()}
    temporary = path.with_name(f".{path.name}.tmp")
    # One key: the order of several is not fixed, and equal weights shall be equal files.
    save_file({n: t.contiguous() for n, t in tensors.items()}, str(temporary), metadata={"magma": json.dumps(head)})
    temporary.replace(path)
    card = card | {
        "fingerprint": digest(path),
        "parameters": model.num_parameters(),
        "calibration": {"slope": float(model.calibration[0]), "offset": float(model.calibration[1])},
    }
    path.with_suffix(".json").write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return card


def load_policy(path: Path = WEIGHTS) -> GraphRanker:
    """Reads weights, ready to score.

    Raises:
        StoreError: the file is missing or damaged, or was fitted for other features or relations.
    """
    from safetensors import SafetensorError, safe_open

    again = "run: magma-gpu train policy."
    try:
        with safe_open(str(path), framework="pt") as file:
            head = json.loads((file.metadata() or {}).get("magma", "null"))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError, ValueError) as error:
        raise StoreError(f"The policy weights '{path}' cannot be read ({error}); {again}") from None
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise StoreError(f"'{path}' holds no policy weights of this release; {again}")
    if head["features"] != list(NAMES) or not set(head["relations"]) <= set(RELATIONS):
        raise StoreError(f"The policy weights '{path}' were fitted for other features or relations; {again}")
    members = [
        WalkNet(len(NAMES), head["relations"], hidden=head["hidden"], layers=head["layers"])
        for _ in range(head["members"])
    ]
    model = GraphRanker(members)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise StoreError(f"The policy weights '{path}' are damaged ({str(error).splitlines()[0]}); {again}") from None
    return model.eval().requires_grad_(False)


def _weight_name(relation: str) -> str:
    return f"hear.0.convs.<event___{relation}___event>.lin_rel.weight"


def edge_weights(model: GraphRanker) -> dict[str, list[float]]:
    """How much each relation counts for a question of one intent (why, when, entity, open), by relation.

    The gate of the first layer times the size of what the relation's convolution makes of a message; mean over members.
    """
    made: dict[str, list[float]] = {}
    for place, relation in enumerate(model.relations):
        total = torch.zeros(len(INTENTS), dtype=torch.float64)
        for member in model.networks():
            size = dict(member.named_parameters())[_weight_name(relation)].detach().double().norm()
            total += torch.exp(GATE_SCALE * member.gate[0][:, place].detach().double()) * size
        made[relation] = (total / len(model.members)).tolist()
    return made

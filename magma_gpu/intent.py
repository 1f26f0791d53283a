"""What a question wants: probabilities over why, when, entity and open, by a small linear model.

It reads the question's vector and a few features of its words. Two sets of weights are shipped: with the vector, for
the encoder they were fitted with, and by words alone, for any other. `train` makes both again from the questions in
`magma_gpu/training`, none of which come from a benchmark.

Q questions, D embedding, F word features, I intents (in the order of `types.INTENTS`).
"""

import functools
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from magma_gpu.errors import StoreError
from magma_gpu.store import stable_hash
from magma_gpu.types import INTENTS

WEIGHTS = Path(__file__).parent / "weights" / "intent.safetensors"
QUESTIONS = Path(__file__).parent / "training" / "intent_questions.jsonl"

# Word forms that carry an intent wherever they stand; one feature each.
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bwhy\b",
        r"\bhow come\b",
        r"\b(reasons?|causes?|caused|motiv\w+|purpose|because|led|leads|made|makes|explains?)\b",
        r"\bwhat (is|was|are|were) \w+( \w+)? for\b",
        r"\bwhat for\b|\bfor what\b|\bwhat (made|makes|led|drove|caused|prompted|motivated)\b",
        r"\bwhen\b",
        r"\b(at )?what time\b",
        r"\b(what|which|in which) (year|month|day|date|week|weekday|season|decade|century|hour|age|era|period)\b",
        r"\bhow long\b|\bhow many (years?|months?|weeks?|days?|hours?|minutes?)\b",
        r"\bhow (often|soon|recently|old)\b|\bsince when\b|\bhow much time\b",
        r"\b(date|dates|year|years|month|months|week|weeks|days?|birthday|ago|last|next|since|until|before|after)\b",
        r"\bwho\b|\bwhom\b|\bwhose\b",
        r"\bwhere\b|\bwhich (city|country|place|town|state|street|school)\b",
        r"\bwhat (city|country|place|town|state|street|school|river|island|continent)\b",
        r"\bwhat('s| is| was| are| were) the names?\b|\bname (a|the|some|of|one|two|three)\b|\bnamed\b|\bcalled\b",
        r"\bwhat (kind|kinds|type|types|sort|sorts|brand|colou?r|breed|genre|model) of\b",
        r"\bwhich\b",
        r"^(what|which) [a-z]+s? (is|are|was|were|did|does|do|has|have|had|can|could|would|will)\b",
        r"^what (is|are|was|were|'s)\b|^what's\b",
        r"\bwhat (is|are) (a|an)\b",
        r"\b(mean|means|meaning|definition|define|stand for|stands for|abbreviation|acronym|origin|difference)\b",
        r"^how (do|does|did|can|could|is|are|was|were|would|should|to)\b",
        r"\bhow (many|much|far|tall|big|large|high|fast|deep|wide|heavy|hot|cold)\b",
        r"\b(number|population|percentage|average|cost|price|temperature|length|height|weight|distance|speed)\b",
        r"^(is|are|was|were|do|does|did|can|could|would|will|should|has|have|had|may|might)\b",
        r"\b(would|could|should|might|likely|probably|if)\b",
        r"\b(opinion|think|feel|feels|felt|recommend|suggest|advice|describe|summari\w+|tell me|explain)\b",
        r"\b(happen|happened|happens|like)\b",
        r"\bwhat (did|does|do|has|have|had)\b",
        r"\bwho (is|was|are|were)\b",
    )
)
_HASHED = 1024
NUM_FEATURES = len(_FORMS) + _HASHED
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")


def word_features(questions: Sequence[str]) -> npt.NDArray[np.float64]:
    """Features of the words of Q questions, [Q, F]: the forms above, and hashed words and pairs at the start."""
    out = np.zeros((len(questions), NUM_FEATURES))
    for row, question in enumerate(questions):
        text = unicodedata.normalize("NFKC", question).lower().replace("\u2019", "'").strip()
        for column, form in enumerate(_FORMS):
            out[row, column] = bool(form.search(text))
        words = _WORD.findall(text)
        start = ["^", *words[:4]]
        marks = [" ".join(p) for p in zip(start, start[1:], strict=False)] + [
            " ".join(start[:3]),
            " ".join(start[:4]),
        ]
        for mark in {*marks, *(w for w in words if w in _FUNCTION_WORDS)}:
            out[row, len(_FORMS) + _column(mark)] = 1.0
    return out


@functools.lru_cache(maxsize=1 << 16)
def _column(mark: str) -> int:
    return int(stable_hash(mark)[:8], 16) % _HASHED


_FUNCTION_WORDS = frozenset(
    "who whom whose what which when where why how many much long often far is are was were do does did can could would "
    "should will may might has have had name kind type way for by at in on of to from with about between".split()
)


class IntentModel(nn.Module):
    """Logits of the four intents from a question's vector and word features; one linear map, calibrated."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim + NUM_FEATURES, len(INTENTS), dtype=torch.float64)
        self.register_buffer("temperature", torch.ones((), dtype=torch.float64))

    def forward(self, x_QD: Tensor, words_QF: Tensor) -> Tensor:
        logits: Tensor = self.linear(torch.cat([x_QD, words_QF], dim=1)) / self.temperature
        return logits


@dataclass(frozen=True, slots=True)
class IntentClassifier:
    """Both sets of weights, and which encoder the first one is for."""

    with_vector: IntentModel
    words_only: IntentModel
    encoder: str

    def probabilities(
        self, questions: Sequence[str], query_QD: npt.NDArray[np.float32] | None, encoder: str
    ) -> npt.NDArray[np.float64]:
        """Probabilities [Q, I], rounded to six digits so that batches do not show.

        Args:
            query_QD: unit rows from the encoder whose identity is `encoder`; None to go by words alone.
        """
        words = torch.from_numpy(word_features(questions))
        if query_QD is not None and encoder == self.encoder:
            model, x = self.with_vector, torch.from_numpy(query_QD.astype(np.float64))
        else:
            model, x = self.words_only, torch.zeros((len(questions), 0), dtype=torch.float64)
        with torch.inference_mode():
            made: npt.NDArray[np.float64] = torch.softmax(model(x, words), dim=1).numpy()
        return made.round(6)


def load_classifier(path: Path = WEIGHTS) -> IntentClassifier:
    """Loads the shipped weights.

    Raises:
        StoreError: the weights do not fit this code.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            meta = file.metadata()
            models = {}
            for name in ("with_vector", "words_only"):
                state = {k: file.get_tensor(f"{name}.{k}") for k in ("linear.weight", "linear.bias", "temperature")}
                models[name] = IntentModel(state["linear.weight"].shape[1] - NUM_FEATURES)
                models[name].load_state_dict(state)
                models[name].eval()
    except (OSError, SafetensorError, RuntimeError, KeyError) as error:
        raise StoreError(
            f"The intent weights '{path.name}' do not fit this version ({error}); run: magma-gpu train intent."
        ) from None
    return IntentClassifier(models["with_vector"], models["words_only"], meta["encoder"])


def read_questions(path: Path = QUESTIONS) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Questions and their intents as indices, from JSONL with `question` and `intent`."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return [r["question"] for r in rows], np.array([INTENTS.index(r["intent"]) for r in rows], dtype=np.int64)


def fit(x_QD: Tensor, words_QF: Tensor, intent_Q: Tensor, *, l2: float = 5e-4, balance: bool = True) -> IntentModel:
    """Fits one model by L-BFGS; the same data give the same weights.

    Args:
        l2: weight of the squared weights beside the mean loss.
        balance: weigh every intent the same.
    """
    model = IntentModel(x_QD.shape[1])
    nn.init.zeros_(model.linear.weight)
    nn.init.zeros_(model.linear.bias)
    counts = torch.bincount(intent_Q, minlength=len(INTENTS)).clamp(min=1).double()
    weight = (counts.sum() / (len(INTENTS) * counts)).sqrt() if balance else torch.ones(len(INTENTS)).double()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=300, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x_QD, words_QF), intent_Q, weight=weight)
        loss = loss + l2 * (model.linear.weight**2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return model


def calibrate(logits_QI: Tensor, intent_Q: Tensor) -> float:
    """The temperature that makes held-out probabilities most likely."""
    grid = torch.logspace(-1.0, 0.7, 60, dtype=torch.float64)
    losses = [float(nn.functional.cross_entropy(logits_QI / t, intent_Q)) for t in grid]
    return float(grid[int(np.argmin(losses))])


def train(
    questions: Sequence[str],
    intent_Q: npt.NDArray[np.int64],
    query_QD: npt.NDArray[np.float32],
    *,
    l2: float = 5e-4,
    folds: int = 5,
) -> tuple[dict[str, IntentModel], dict[str, Any]]:
    """Fits both models, calibrates each on folds that it was not fitted on, and scores them there."""
    words = torch.from_numpy(word_features(questions))
    target = torch.from_numpy(intent_Q)
    fold = torch.tensor([int(stable_hash(q)[:8], 16) % folds for q in questions])
    models: dict[str, IntentModel] = {}
    scores: dict[str, Any] = {}
    for name, x in (
        ("with_vector", torch.from_numpy(query_QD.astype(np.float64))),
        ("words_only", torch.zeros((len(questions), 0), dtype=torch.float64)),
    ):
        held = torch.zeros((len(questions), len(INTENTS)), dtype=torch.float64)
        for f in range(folds):
            model = fit(x[fold != f], words[fold != f], target[fold != f], l2=l2)
            with torch.no_grad():
                held[fold == f] = model(x[fold == f], words[fold == f])
        temperature = calibrate(held, target)
        models[name] = fit(x, words, target, l2=l2)
        models[name].temperature = torch.tensor(temperature, dtype=torch.float64)
        scores[name] = {
            "folds": folds,
            "temperature": temperature,
            **report(torch.softmax(held / temperature, 1).numpy(), intent_Q),
        }
    return models, scores


def report(p_QI: npt.NDArray[np.float64], intent_Q: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Accuracy, F1 of each intent and expected calibration error (ten bins of confidence)."""
    chosen = p_QI.argmax(axis=1)
    f1 = {}
    for i, name in enumerate(INTENTS):
        hit = int(((chosen == i) & (intent_Q == i)).sum())
        of = int((chosen == i).sum() + (intent_Q == i).sum())
        f1[name] = round(2 * hit / of, 4) if of else None
    confidence = p_QI.max(axis=1)
    right = chosen == intent_Q
    bins = np.minimum((confidence * 10).astype(int), 9)
    gaps = [abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return {
        "n": len(intent_Q),
        "accuracy": round(float(right.mean()), 4),
        "f1": f1,
        "expected_calibration_error": round(float(sum(gaps)), 4),
    }


def save(models: dict[str, IntentModel], encoder: str, path: Path = WEIGHTS) -> None:
    """Writes both models into one safetensors file."""
    from safetensors.torch import save_file

    tensors = {f"{name}.{k}": v.contiguous() for name, m in models.items() for k, v in m.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(path), metadata={"encoder": encoder})

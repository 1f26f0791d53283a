"""Fits the small models that the library ships and writes them with a card of their scores."""

import json
from pathlib import Path
from typing import Any

from magma_gpu import intent
from magma_gpu.config import Config
from magma_gpu.device import pick_device
from magma_gpu.embed import load_encoder
from magma_gpu.errors import InputError


def train_intent(config: Config, questions: Path | None, out: Path | None) -> dict[str, Any]:
    """Fits the intent classifier; returns its card.

    Raises:
        InputError: the questions cannot be read.
    """
    source = questions or intent.QUESTIONS
    try:
        texts, target = intent.read_questions(source)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"'{source}' must be JSONL with question and intent ({error}).") from None
    encoder = load_encoder(config.embed, str(pick_device(config.run.device)), config.run)
    models, scores = intent.train(texts, target, encoder.encode(texts).x_ND)
    path = out or intent.WEIGHTS
    intent.save(models, str(encoder.identity.get("sha256")), path)
    card = {
        "model": "linear over the question's vector and its word features",
        "data": f"{source.name}: {len(texts)} questions written for this project",
        "protocol": "5 folds by a hash of the question; calibrated and scored on what a fold was not fitted on",
        "encoder": encoder.identity,
        "scores": scores,
    }
    path.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return card

"""The learned ranker and its features."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from magma_gpu import ranker
from magma_gpu.config import Config, SearchConfig
from magma_gpu.errors import StoreError
from magma_gpu.features import NAMES, STYLE, STYLE_COLUMNS
from magma_gpu.memory import Memory
from magma_gpu.ranker import Examples, Ranker, fit, join


def toy(seed: int = 0, questions: int = 48, candidates: int = 9) -> Examples:
    """The evidence is the candidate with the largest first feature; the second is its opposite, the rest is noise."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(questions, candidates, len(NAMES))).astype(np.float32)
    x[:, :, 1] = -x[:, :, 0]
    label = np.zeros((questions, candidates), np.float32)
    label[np.arange(questions), x[:, :, 0].argmax(axis=1)] = 1.0
    valid = np.ones((questions, candidates), dtype=bool)
    return Examples(x, label, valid, np.ones(questions, np.float32))


def hits(model: Ranker, made: Examples) -> float:
    best = model.score(made.x_QCF, made.valid_QC).argmax(axis=1)
    return float(made.label_QC[np.arange(len(best)), best].mean())


def test_it_learns_what_can_be_learned() -> None:
    torch.set_num_threads(1)
    model = fit(toy(questions=128), [0, 5, 9], seeds=(0, 1), epochs=60, batch=16)
    assert hits(model, toy(seed=1)) > 0.9
    # Without the features that tell, it guesses.
    blind = fit(toy(), [5, 9], seeds=(0,), epochs=60, batch=16)
    assert hits(blind, toy(seed=1)) < 0.4


def test_the_same_seeds_give_the_same_weights() -> None:
    a, b, c = (fit(toy(), [0], seeds=(s,), epochs=2) for s in (0, 0, 1))
    assert torch.equal(a.w1_MFH, b.w1_MFH)
    assert not torch.equal(a.w1_MFH, c.w1_MFH)


def test_scores_by_hand() -> None:
    """One member whose hidden part is zero: the score is the linear part of the standardised, clamped features."""
    model = Ranker(len(NAMES), 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.wide_MF[0, 0], model.wide_MF[0, 2] = 2.0, -1.0
    model.mean[0], model.scale[0] = 1.0, 2.0
    x = np.zeros((1, 3, len(NAMES)), np.float32)
    x[0, 0, 0], x[0, 1, 2], x[0, 2, 0] = 5.0, 3.0, 1e6
    # (5 - 1) / 2 * 2 = 4; (0 - 1) / 2 * 2 - 3 = -4; clamped at 5, so 10.
    assert model.score(x, np.ones((1, 3), bool)).tolist() == [[4.0, -4.0, 10.0]]
    assert model.score(x, np.array([[True, False, True]])).tolist() == [[4.0, 0.0, 10.0]]
    assert model.score(x[:0], np.ones((0, 3), bool)).shape == (0, 3)


def test_a_question_scores_the_same_alone_and_in_a_batch() -> None:
    model = fit(toy(), range(len(NAMES)), epochs=1)
    made = toy(seed=3, questions=700)
    together = model.score(made.x_QCF, made.valid_QC)
    for q in (0, 1, 350, 699):
        assert model.score(made.x_QCF[q : q + 1], made.valid_QC[q : q + 1]).tobytes() == together[q : q + 1].tobytes()


def test_unused_features_change_nothing() -> None:
    model = fit(toy(), [0, 1], epochs=1)
    made = toy(seed=2)
    changed = made.x_QCF.copy()
    changed[:, :, 2:] = 1e9
    assert np.array_equal(model.score(changed, made.valid_QC), model.score(made.x_QCF, made.valid_QC))


def test_a_question_without_evidence_teaches_nothing() -> None:
    made = toy()
    none = Examples(made.x_QCF, np.zeros_like(made.label_QC), made.valid_QC, made.weight_Q)
    assert torch.equal(fit(join([made, none]), [0], epochs=1).w1_MFH, fit(made, [0], epochs=1).w1_MFH)


def test_weights_are_saved_and_refused_when_they_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(toy(), [0], epochs=1)
    path = tmp_path / "ranker.safetensors"
    ranker.save(model, {"data": "toy"}, path)
    again = ranker.load(path)
    made = toy(seed=4)
    assert np.array_equal(again.score(made.x_QCF, made.valid_QC), model.score(made.x_QCF, made.valid_QC))
    assert json.loads(path.with_suffix(".json").read_text()) == {"data": "toy"}
    monkeypatch.setattr(ranker, "NAMES", (*NAMES[:-1], "another"))
    with pytest.raises(StoreError, match="other features"):
        ranker.load(path)
    path.write_bytes(b"junk")
    with pytest.raises(StoreError, match="cannot be read"):
        ranker.load(path)


def test_names() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert [NAMES[i] for i in STYLE_COLUMNS] == [f"style:{s}" for s in STYLE]


def test_shipped_weights_use_no_feature_of_style() -> None:
    model = ranker.load()
    assert bool((model.scale[list(STYLE_COLUMNS)] >= 1e12).all())


def test_learned_search_over_the_examples(examples_store: Path) -> None:
    memory = Memory.open(examples_store, Config(search=SearchConfig(policy="learned", k=8)))
    questions = ["Why did Ana move to Porto?", "Which instruments has Ana taken up?", "xyzzy"]
    together = memory.query(questions, "ana")
    for question, result in zip(questions, together, strict=True):
        alone = memory.query([question], "ana")[0]
        assert alone.evidence == result.evidence
        assert alone.context == result.context
    scores = [e.score for e in together[0].evidence]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert len(scores) == 8
    # Past the candidates the rest of what was found follows.
    memory.config = dataclasses.replace(
        memory.config, search=SearchConfig(policy="learned", k=30, num_candidates=5, context_tokens=16)
    )
    few = memory.query(questions[:1], "ana")[0].evidence
    assert len(few) == 30
    assert len({e.event_id for e in few}) == 30

from pathlib import Path

import numpy as np
import pytest

from magma_gpu import intent
from magma_gpu.errors import StoreError
from magma_gpu.intent import load_classifier, read_questions, report, save, train, word_features
from magma_gpu.types import INTENTS

QUESTIONS = [
    "Why did Ana move?",
    "When did Ana move?",
    "Who moved to Porto?",
    "What does Ana think of it?",
    "",
    "\u6f22\u5b57",
    "WHY DID ANA MOVE?",
]


def test_features_do_not_look_at_other_questions() -> None:
    together = word_features(QUESTIONS)
    assert together.shape == (7, intent.NUM_FEATURES)
    assert set(np.unique(together)) == {0.0, 1.0}
    for row, question in enumerate(QUESTIONS):
        assert np.array_equal(word_features([question])[0], together[row])
    assert np.array_equal(together[0], together[6])
    assert not np.array_equal(together[0], together[1])
    assert word_features([]).shape == (0, intent.NUM_FEATURES)


def test_the_shipped_weights_know_plain_questions() -> None:
    classifier = load_classifier()
    made = classifier.probabilities(QUESTIONS[:3], None, "")
    assert [INTENTS[i] for i in made.argmax(axis=1)] == ["why", "when", "entity"]
    assert made.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-5)


def test_a_question_has_the_same_probabilities_alone() -> None:
    classifier = load_classifier()
    draw = np.random.default_rng(0).standard_normal((7, 384))
    x = (draw / np.linalg.norm(draw, axis=1, keepdims=True)).astype(np.float32)
    for vectors, encoder in ((None, ""), (x, classifier.encoder)):
        together = classifier.probabilities(QUESTIONS, vectors, encoder)
        for row, question in enumerate(QUESTIONS):
            alone = classifier.probabilities([question], None if vectors is None else vectors[row : row + 1], encoder)
            assert np.array_equal(alone[0], together[row])


def test_vectors_of_another_encoder_are_not_used() -> None:
    classifier = load_classifier()
    x = np.ones((7, 64), np.float32) / 8
    made = classifier.probabilities(QUESTIONS, x, "another encoder")
    assert np.array_equal(made, classifier.probabilities(QUESTIONS, None, ""))


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    for name, data in (("none", None), ("bad", b"not weights")):
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(StoreError, match="do not fit this version") as caught:
            load_classifier(path)
        assert "\n" not in str(caught.value)


def test_training_gives_the_same_weights_twice_and_learns(tmp_path: Path) -> None:
    texts = [f"{word} did number {i} happen?" for i in range(6) for word in ("why", "when", "who", "how")]
    target = np.array([0, 1, 2, 3] * 6)
    x = np.eye(24, 8, dtype=np.float32)
    first, scores = train(texts, target, x, folds=2)
    again, same = train(texts, target, x, folds=2)
    assert scores == same
    assert scores["words_only"]["n"] == 24
    assert scores["words_only"]["accuracy"] == 1.0
    save(first, "enc", tmp_path / "a.safetensors")
    save(again, "enc", tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    loaded = load_classifier(tmp_path / "a.safetensors")
    assert loaded.encoder == "enc"
    made = loaded.probabilities(["when did it happen?", "who did it?"], None, "")
    assert [INTENTS[i] for i in made.argmax(axis=1)] == ["when", "entity"]


def test_a_report_by_hand() -> None:
    p = np.array([[0.9, 0.1, 0, 0], [0.8, 0.2, 0, 0], [0.1, 0.6, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])
    made = report(p, np.array([0, 1, 1, 3]))
    assert (made["n"], made["accuracy"]) == (4, 0.5)
    # why: one hit of three chosen and one meant; open was never chosen.
    assert made["f1"] == {"why": 0.5, "when": pytest.approx(0.6667), "entity": None, "open": 0.0}
    assert made["expected_calibration_error"] == pytest.approx((0.1 + 0.8 + 0.4 + 0.25) / 4)


def test_the_training_questions_are_balanced_enough_and_distinct() -> None:
    texts, target = read_questions()
    assert len(set(texts)) == len(texts)
    assert np.bincount(target, minlength=4).min() >= 50

"""Words of a question against words of events, with vectors that are written down."""

import numpy as np
import pytest

from magma_gpu.config import EmbedConfig
from magma_gpu.word_match import VIEWS, WordIndex
from magma_gpu.word_vectors import WordVectors, load_word_vectors


class TwoMeanings(WordVectors):
    """kids and children mean the same to 0.8, cats something else."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.dim = 2
        self.known = {"kids": (1.0, 0.0), "children": (0.8, 0.6), "cats": (0.0, -1.0)}

    def of(self, words):
        return np.array([self.known.get(w, (0.0, 0.0)) for w in words], dtype=np.float32).reshape(len(words), 2)


def index(texts, vectors=None):
    number = np.arange(len(texts))
    after = np.where(number + 1 < len(texts), number + 1, -1)
    return WordIndex.of(texts, number - 1, after, vectors or TwoMeanings())


def test_a_word_is_met_by_its_nearest_word():
    scores = index(["our children sleep", "two cats", "kids everywhere", "rain"]).scores([["kids"]])
    near = (0.8 - 0.25) / 0.75
    assert scores["words"][0] == pytest.approx([near, 0, 1, 0], abs=1e-3)
    # Every event is also met by what its neighbours say.
    assert scores["words_window"][0] == pytest.approx([near, 1, 1, 1], abs=1e-3)
    assert scores["topic"][0] == pytest.approx([0.8, 0, 1, 0], abs=1e-3)


def test_words_that_few_events_come_near_count_most():
    scores = index(["kids rain", "rain", "rain", "rain"]).scores([["kids", "rain"]])["words"][0]
    rarity = np.log1p(4 / np.array([1, 4]))
    assert scores == pytest.approx([1, *[rarity[1] / rarity.sum()] * 3], abs=1e-5)


def test_a_sentence_has_to_hold_all_words_itself():
    scores = index(["Kids. Rain.", "kids rain", "", "x"]).scores([["kids", "rain"]])
    assert scores["words"][0].tolist() == [1, 1, 0, 0]
    assert scores["words_sentence"][0, 0] == pytest.approx(0.5)
    assert scores["words_sentence"][0, 1] == 1


def test_without_vectors_words_are_like_themselves_alone():
    scores = index(["kids play", "children play"], WordVectors(None, None)).scores([["kids"]])
    assert scores["words"].tolist() == [[1, 0]]
    assert not scores["topic"].any()


@pytest.mark.parametrize("texts", [[], ["", ""], ["the of and"]])
def test_nothing_to_match(texts):
    scores = index(texts).scores([["kids"], []])
    assert set(scores) == set(VIEWS)
    assert all(s.shape == (2, len(texts)) and not s.any() for s in scores.values())


def test_a_question_scores_the_same_alone_and_in_a_batch():
    draw = np.random.default_rng(0)
    names = [f"w{i}" for i in range(300)]
    table = dict(zip(names, draw.normal(size=(300, 16)) + 0.5, strict=True))

    class Drawn(WordVectors):
        def of(self, words):
            x = np.array([table[w] for w in words], dtype=np.float32).reshape(len(words), 16)
            return x / np.linalg.norm(x, axis=1, keepdims=True)

    texts = [" ".join(draw.choice(names, 12)) + ". " + " ".join(draw.choice(names, 5)) for _ in range(80)]
    questions = [list(draw.choice(names, draw.integers(1, 9))) for _ in range(50)]
    made = index(texts, Drawn(None, None))
    together = made.scores(questions)
    for q, question in enumerate(questions):
        alone = made.scores([question])
        for name in VIEWS:
            assert np.array_equal(alone[name][0], together[name][q]), (name, q)


def test_the_encoder_has_a_table_of_words():
    vectors = load_word_vectors(EmbedConfig())
    kids, children, quantum, nothing = vectors.of(["kids", "children", "quantum", ""])
    assert kids @ children > 0.5
    assert abs(kids @ quantum) < 0.25
    assert not nothing.any()
    assert np.linalg.norm(kids) == pytest.approx(1, abs=1e-5)


def test_other_encoders_have_none():
    assert load_word_vectors(EmbedConfig(encoder="hash")).of(["kids"]).shape == (1, 0)

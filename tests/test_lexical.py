import math

import numpy as np
import pytest

from magma_gpu.lexical import STOP_WORDS, Analyzer, LexicalIndex


def bm25(tf: int, length: int, mean: float, df: int, num: int) -> float:
    """The form of Lucene, written out: k1 1.5, b 0.75."""
    idf = math.log(1 + (num - df + 0.5) / (df + 0.5))
    return idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * length / mean))


def test_values_by_hand() -> None:
    index = LexicalIndex([["cat", "cat", "dog"], ["dog"], ["bird", "fish"]])
    made = index.scores([["cat"], ["dog", "bird"], ["dog", "dog"]])
    assert made.dtype == np.float32
    cat, dog, bird = bm25(2, 3, 2, 1, 3), [bm25(1, 3, 2, 2, 3), bm25(1, 1, 2, 2, 3)], bm25(1, 2, 2, 1, 3)
    assert made.tolist() == [
        pytest.approx([cat, 0, 0]),
        pytest.approx([dog[0], dog[1], bird]),
        pytest.approx([2 * dog[0], 2 * dog[1], 0]),
    ]


def test_texts_and_questions_without_terms() -> None:
    index = LexicalIndex([[], ["cat"], []])
    assert index.scores([["cat"]]).tolist() == [[0, pytest.approx(bm25(1, 1, 1 / 3, 1, 3)), 0]]
    assert index.scores([[], ["unknown"]]).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert index.scores([]).shape == (0, 3)
    assert LexicalIndex([[], []]).scores([["cat"], []]).tolist() == [[0, 0], [0, 0]]
    assert LexicalIndex([]).scores([["cat"]]).shape == (1, 0)


def test_a_question_has_the_same_scores_alone() -> None:
    draw = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    texts = [list(draw.choice(words, draw.integers(0, 9))) for _ in range(40)]
    questions = [list(draw.choice([*words, "unknown"], draw.integers(0, 6))) for _ in range(20)]
    index = LexicalIndex(texts)
    together = index.scores(questions)
    for row, question in enumerate(questions):
        assert index.scores([question])[0].tobytes() == together[row].tobytes()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The dogs were running to Porto", ["dog", "run", "porto"]),
        ("", []),
        ("!? ...", []),
        ("the and of", []),
        # Not a stop word: it turns the meaning round.
        ("not", ["not"]),
        ("CAF\u00c9 cafe\u0301", ["caf\u00e9", "caf\u00e9"]),
        ("\ufb01ona STRASSE Stra\u00dfe", ["fiona", "strass", "strass"]),
        (
            "\u6771\u4eac\u30bf\u30ef\u30fc",
            [
                "\u6771",
                "\u4eac",
                "\u30bf",
                "\u30ef",
                "\u30fc",
                "\u6771\u4eac",
                "\u4eac\u30bf",
                "\u30bf\u30ef",
                "\u30ef\u30fc",
            ],
        ),
        ("\ud55c\uad6d 2023", ["\ud55c", "\uad6d", "\ud55c\uad6d", "2023"]),
        ("8 May 2023", ["8", "may", "2023"]),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert Analyzer().terms(text) == terms


def test_stop_words_are_lower_case_and_hold_no_month() -> None:
    assert all(w == w.casefold() for w in STOP_WORDS)
    assert not STOP_WORDS & {"may", "march", "not", "no", "never"}


def test_one_text_in_another_script_is_found_by_its_characters() -> None:
    analyzer = Analyzer()
    index = LexicalIndex(
        [analyzer.terms(t) for t in ["\u6211\u4eca\u5929\u53bb\u6771\u4eac", "\u5929\u6c14\u5f88\u597d", "hello"]]
    )
    made = index.scores([analyzer.terms("\u6771\u4eac")])[0]
    assert made[0] > 0
    assert made[1:].tolist() == [0, 0]


def test_building_an_index_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    import logging

    logging.basicConfig(level=logging.WARNING)
    LexicalIndex([["a"], []])
    assert capfd.readouterr() == ("", "")

"""Retrieval and token metrics against values worked out by hand."""

import json
import math
from pathlib import Path

import pytest

from magma_gpu.evaluate.equal import equal_answers
from magma_gpu.evaluate.metrics import (
    REFUSAL,
    answer_metrics,
    bleu1,
    exact,
    f1,
    is_refusal,
    locomo_score,
    retrieval_metrics,
    token_recall,
)


def test_retrieval_of_a_toy_ranking() -> None:
    ranked = ["t9", "t2", "t2", "t7", "t1", "t8", "t5", "t3"]
    got = retrieval_metrics(ranked, ["t2", "t3", "t4"], "turn")
    # Without the repetition t2 is second, t3 seventh and t4 absent.
    assert got["turn_recall@5"] == pytest.approx(1 / 3)
    assert got["turn_recall@10"] == pytest.approx(2 / 3)
    assert (got["turn_any@5"], got["turn_all@5"], got["turn_all@50"]) == (1.0, 0.0, 0.0)
    assert got["turn_mrr"] == 0.5
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert got["turn_ndcg@5"] == pytest.approx((1 / math.log2(3)) / ideal)
    assert got["turn_ndcg@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(8)) / ideal)


def test_a_perfect_ranking_has_one_everywhere() -> None:
    got = retrieval_metrics(["a", "b"], ["b", "a"], "session")
    assert set(got.values()) == {1.0}
    assert len(got) == 4 * 4 + 1


def test_nothing_found_is_zero_and_no_evidence_is_none() -> None:
    assert set(retrieval_metrics([], ["a"], "turn").values()) == {0.0}
    assert set(retrieval_metrics(["a"], [], "turn").values()) == {None}


def test_recall_in_a_token_budget_stops_at_what_does_not_fit() -> None:
    got = token_recall(["a", "b", "c"], [100, 500, 10], ["a", "c"])
    assert got["recall@125tok"] == 0.5
    assert got["recall@500tok"] == 0.5
    assert got["recall@1000tok"] == 1.0
    assert token_recall(["a"], [1], [])["recall@125tok"] is None


def test_f1_rewards_a_negation_and_punishes_a_synonym() -> None:
    # The two failures that the paper's Appendix F shows, in sentences of our own.
    assert f1("The parts are not compatible", "Parts are compatible") == pytest.approx(0.857, abs=5e-4)
    assert f1("Sarah fixed the old boat", "John fixed the old boat") == pytest.approx(0.75)
    assert f1("glad", "happy") == 0.0
    assert bleu1("glad", "happy") == 0.0


def test_f1_ignores_case_punctuation_and_articles() -> None:
    assert f1("An apple, the BIG one!", "apple big one") == 1.0
    assert exact("The apple.", "apple") == 1.0
    assert f1("", "apple") == 0.0
    assert f1("the", "a") == 1.0


def test_bleu1_by_hand() -> None:
    # 2 of 4 words, clipped: "red" counts once; no brevity penalty.
    assert bleu1("red red big car", "big red bus") == pytest.approx(0.5)
    # All 2 words right, and 2 against 4: exp(1 - 2).
    assert bleu1("big red", "big red sea bus") == pytest.approx(math.exp(-1))


def test_bleu1_equals_another_implementation() -> None:
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    from magma_gpu.evaluate.metrics import normalized_tokens

    pairs = [
        ("the blue pot on the stove", "a blue pot"),
        ("she moved to Porto in May to run the bakery", "She moved to run her family's bakery"),
        ("yes", "yes, in 2022"),
        ("one two two three three three", "three two one two"),
    ]
    for said, wanted in pairs:
        theirs = bleu.sentence_bleu([normalized_tokens(wanted)], normalized_tokens(said), weights=(1.0,))
        assert bleu1(said, wanted) == pytest.approx(theirs, abs=1e-12)


def test_locomo_score_goes_by_category() -> None:
    assert locomo_score("Running fast", "she runs fast", "4") == pytest.approx(0.8)
    # "and" is dropped and words are stemmed.
    assert locomo_score("cats and dogs", "cat dog", "2") == 1.0
    # Each part of the gold takes its best part of the answer: 1 and 0.
    assert locomo_score("a dog, tea", "dog, cat", "1") == pytest.approx(0.5)
    assert locomo_score("likely yes", "Likely yes; since it went well", "3") == 1.0
    assert locomo_score("Something else. Not mentioned, though.", None, "5") == 1.0
    assert locomo_score("It was in May", "In June", "5") == 0.0
    assert locomo_score("x", None, "4") is None


@pytest.mark.parametrize(
    ("answer", "refuses"),
    [
        (REFUSAL, True),
        ("No information available.", True),
        ("I don\u2019t know.", True),
        ("The conversation does not mention it.", True),
        ("", True),
        ("No.", False),
        ("She did not go.", False),
        ("He has no idea why she left, but it was in May.", False),
    ],
)
def test_refusals(answer: str, refuses: bool) -> None:
    assert is_refusal(answer) is refuses


def test_a_constant_refusal_earns_all_of_the_unanswerable_and_shows_as_false_abstention() -> None:
    right = answer_metrics(REFUSAL, None, "5", answerable=False, same=None, locomo=True)
    assert right["abstention"] == 1.0
    assert right["locomo_score"] == 1.0
    assert right["false_abstention"] is None
    assert right["f1"] is None
    wrong = answer_metrics(REFUSAL, "a blue pot", "1", answerable=True, same=0.0, locomo=True)
    assert wrong["abstention"] is None
    assert wrong["false_abstention"] == 1.0
    assert wrong["f1"] == 0.0
    assert wrong["locomo_score"] == 0.0


def test_dates_numbers_and_lists_are_equal_as_what_they_are() -> None:
    same = [
        ("May 7, 2023", "7 May 2023"),
        ("21 days", "3 weeks"),
        ("12 months", "one year"),
        ("$300", "300"),
        ("cat and dog", "a dog, a cat"),
        ("in 2022", "2022"),
        ("Four times", "4 times"),
        ("1,200", "1200"),
    ]
    different = [
        ("some kitchen item", "the blue pot"),
        ("May 2023", "7 May 2023"),
        ("8 May 2023", "7 May 2023"),
        ("3 dogs", "3 cats"),
        ("20 days", "3 weeks"),
        ("a dog", "a dog, a cat"),
        ("", "7 May 2023"),
        ("glad", "happy"),
    ]
    assert equal_answers([a for a, _ in same], [g for _, g in same]) == [True] * len(same)
    assert equal_answers([a for a, _ in different], [g for _, g in different]) == [False] * len(different)


def test_the_shared_case_of_scores(cases_folder: Path) -> None:
    lines = (cases_folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    case = next(c for c in map(json.loads, lines) if c["id"] == "C45")
    answers = case["input"]["answers"]
    refusals = [a["pred"] for a in answers if a["q"].startswith("cat")]
    assert refusals
    assert all(is_refusal(r) for r in refusals)
    assert [locomo_score(r, "gold", c) for r, c in zip(refusals, ("5", "1"), strict=True)] == [1.0, 0.0]
    graded = [a for a in answers if "gold" in a]
    got = equal_answers([a["pred"] for a in graded], [str(a["gold"]) for a in graded])
    assert dict(zip([a["q"] for a in graded], got, strict=True)) == {a["q"]: a["q"] != "vague" for a in graded}

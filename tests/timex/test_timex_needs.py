"""What rules need: exact sets, no match without them, and no expression in a text that is passed over unread."""

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.timex import english_words
from magma_gpu.timex.english import english
from magma_gpu.timex.grammar import Context, Grammar
from magma_gpu.timex.needs import needs
from magma_gpu.timex.tagger import words_of

AT = datetime(2023, 5, 20, 14, 30)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[ab][c]", ["ab", "c"]),
        ("[a]?[b]", ["b"]),
        ("([a])*[b]+", ["b"]),
        ("(?:[a]|[bc])[d]", ["abc", "d"]),
        ("(?:[a]|[b]?)[d]", ["d"]),
        ("(?<=[a])[b](?=[c]|$)", ["a", "b"]),
        ("(?<![a])([b])(?![c])", ["b"]),
        ("[a]{0,3}[b]{1,2}", ["b"]),
        ("[^a][b]", ["b"]),
        ("a[b]", ["a", "b"]),
        ("^[b]$", ["b"]),
    ],
)
def test_needs_are_what_every_match_holds(pattern: str, expected: list[str]) -> None:
    assert needs(pattern) == [frozenset(e) for e in expected]


def test_a_rule_is_tried_once_its_class_is_made_by_an_earlier_one() -> None:
    grammar = Grammar()
    grammar.add("b", "<a>", lambda _: 1)
    grammar.add("c", "<b>", lambda _, *__: 2)
    grammar.add("b", "<d>", lambda _: 3)
    code = grammar.classes.code
    assert grammar.reachable([code("a")]) == {code("a"), code("b"), code("c")}
    assert grammar.reachable([code("d")]) == {code("d"), code("b"), code("c")}
    assert bin(grammar.possible([code("b")])).count("1") == 1


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_rule_matches_where_it_is_not_possible(data: st.DataObject) -> None:
    grammar = english()._grammar
    some = data.draw(st.sampled_from(grammar.rules)).pattern.pattern
    members = sorted({c for need in needs(some) for c in need}) or ["x"]
    codes = "".join(data.draw(st.lists(st.sampled_from([*members, "x"]), min_size=1, max_size=8)))
    possible = grammar.possible(set(codes))
    for k, rule in enumerate(grammar.rules):
        if rule.pattern.search(codes):
            assert possible >> k & 1


def test_without_a_trigger_nothing_that_is_shown_can_be_made() -> None:
    reader = english()
    code = reader._grammar.classes.code
    held_back = english_words.TRIGGERS | english_words.NUMBERS
    names = {name for name, _ in english_words.lexicon().values()} - held_back
    marks = "x ampm stop dot comma dash slash lpar rpar quote money lt gt eq plus percent at".split()
    reached = reader._grammar.reachable([code(n) for n in (*names, *marks)])
    assert not reached & set(reader._shown)


LEXICON = english_words.lexicon()
QUIET = sorted(w for w, (name, _) in LEXICON.items() if name not in english_words.TRIGGERS)
NUMBERS = sorted(w for w, (name, _) in LEXICON.items() if name in english_words.NUMBERS)


@given(st.lists(st.one_of(st.sampled_from(QUIET), st.sampled_from(NUMBERS), st.sampled_from([",", ".", "-", "p.m."]))))
@settings(max_examples=500, deadline=None)
def test_a_text_that_is_passed_over_has_no_expression(words: list[str]) -> None:
    text = " ".join(words)
    if english().silent(text, words_of(text)):
        assert english().spans(text, Context(text, AT)) == []


def test_most_texts_are_passed_over_and_times_are_not() -> None:
    def silent(text: str) -> bool:
        return english().silent(text, words_of(text))

    assert silent("that is one of the best things i have ever heard")
    assert not silent("see you at seven")
    assert not silent("half past one")
    assert not silent("in 1998")
    assert not silent("¾ hour")
    assert not silent("last week")

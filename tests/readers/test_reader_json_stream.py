"""Reading JSON documents item by item, and closing those that are cut."""

import io
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.readers import json_stream
from magma_gpu.readers.json_stream import Broken, head_value, iter_items

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


class Dribble(io.StringIO):
    """Gives three characters at a time, so that every token is cut somewhere."""

    def read(self, size=-1):
        return super().read(3)


def items(text, **options):
    return list(iter_items(Dribble(text), **options))


@settings(max_examples=100, deadline=None)
@given(st.lists(JSON, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_array_elements_in_any_chunks(values, ascii_, indent):
    assert items(json.dumps(values, ensure_ascii=ascii_, indent=indent)) == values


@pytest.mark.parametrize("number", ["12", "-1.25", "1e5", "1.5E+3", "12345678901234567890"])
def test_numbers_are_not_cut(number):
    assert items(f"[{number},{number}]") == [json.loads(number)] * 2
    assert items(number) == [json.loads(number)]


def test_documents_one_after_the_other():
    assert items('{"a": 1}\n{"a": 2} [3, 4]') == [{"a": 1}, {"a": 2}, 3, 4]


def test_inner_arrays_and_objects_without_them():
    inner = (("chats", "list"), ("rows",))
    text = '{"x": 1, "chats": {"about": "y", "list": [1, 2]}, "rows": [3]}'
    assert items(text, inner=inner) == [1, 2, 3]
    assert items('{"x": 1, "chats": {"about": {"list": [1]}}}', inner=inner) == [
        {"x": 1, "chats": {"about": {"list": [1]}}}
    ]


def test_nan_is_read():
    assert math.isnan(items("[NaN, Infinity]")[0])


@pytest.mark.parametrize("text", ["[1, 2", "[1, 2,", "[1, 2 x", "[1, 2, ]", '[1, 2, "abc', "[1, 2, {]}, 4]", "[1, 2]]"])
def test_a_broken_document_ends_with_one_broken(text):
    found = items(text)
    assert found[:2] == [1, 2]
    assert isinstance(found[-1], Broken)
    assert (found[-1].reason, found[-1].is_rest, len(found)) == ("broken JSON", True, 3)


def test_line_of_the_break():
    assert items("[1,\n\n2,\n x]")[-1].line == 4


def test_too_deep_and_too_large_cost_one_item(monkeypatch):
    deep = "[" * 5000 + '"]"' + "]" * 5000
    found = items(f"[1, {deep}, 2]")
    assert (found[0], found[1].reason, found[1].is_rest, found[2]) == (1, "nested too deep", False, 2)
    monkeypatch.setattr(json_stream, "MAX_ITEM_CHARS", 50)
    found = items('[1, {"a": "%s", "b": ["}"]}, 2]' % ("x" * 500))
    assert (found[0], found[1].reason, found[1].is_rest, found[2]) == (1, "item too large", False, 2)


def test_a_cut_item_is_closed_after_its_last_whole_turn():
    text = '[{"id": 1, "turns": [{"t": "a"}, {"t": "b", "parts": [1]}, {"t": "c'
    *whole, broken = items(text, turn_depth=2)
    assert whole == [{"id": 1, "turns": [{"t": "a"}, {"t": "b", "parts": [1]}]}]
    assert broken.is_rest
    assert len(items('[{"id": 1, "turns": [{"t": "a', turn_depth=2)) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2], "b": {"c": "x', {"a": [1, 2], "b": {}}),
        ('{"a": 1, "b', {"a": 1}),
        ('[{"a": "x\\"]"}, {"b": 12', [{"a": 'x"]'}, {}]),
        ('{"a": 1} {"b": 2}', {"a": 1}),
        ("[", []),
        ("[}", None),
        ("hello", None),
        ("", None),
    ],
)
def test_head_of_a_document(text, value):
    assert head_value(text) == value


@settings(max_examples=100, deadline=None)
@given(st.lists(JSON, min_size=1, max_size=4), st.data())
def test_head_of_any_cut_document_is_a_value(values, data):
    text = json.dumps(values)
    cut = text[: data.draw(st.integers(1, len(text)))]
    assert isinstance(head_value(cut), list)

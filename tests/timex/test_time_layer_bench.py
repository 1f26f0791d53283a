"""The scorer of the time layer's measurement: gold answers read by hand-checked value, and what counts as right."""

import importlib.util
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "pipelines/bench"


def load(name: str) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


specs = load("time_layer_specs")
locomo = load("time_layer_locomo")


@pytest.mark.parametrize(
    ("gold", "start", "days"),
    [
        ("7 May 2023", "2023-05-07", 1),
        ("23January, 2022", "2022-01-23", 1),
        ("February 24, 2023", "2023-02-24", 1),
        ("January, 2023", "2023-01-01", 31),
        ("2022", "2022-01-01", 365),
        ("Since 2016", "2016-01-01", 366),
        ("The sunday before 25 May 2023", "2023-05-21", 1),
        ("The week before 9 June 2023", "2023-05-29", 7),
        ("The week of 23 August 2023", "2023-08-21", 7),
        ("The weekend before 17 July 2023", "2023-07-15", 2),
        ("The weekend after 3June, 2022.", "2022-06-04", 2),
        ("first weekend of August 2023", "2023-08-05", 2),
        ("The summer of 2022", "2022-06-01", 92),
    ],
)
def test_a_gold_answer_is_an_interval(gold: str, start: str, days: int) -> None:
    first = datetime.fromisoformat(start)
    assert locomo.gold_interval(gold) == (first, first + timedelta(days=days))


@pytest.mark.parametrize("gold", ["4 years", "her mother", "A few years ago", "13 August", "two weeks"])
def test_other_golds_are_left_out(gold: str) -> None:
    assert locomo.gold_interval(gold) is None


def one(text: str, type_: str, timex: str, values: list[dict[str, str]], found: tuple[str, str, str]) -> dict:
    """Scores one text with one gold that spans all of it."""
    gold = specs.Gold(0, len(text), specs.KINDS[type_], type_, timex, tuple(values))
    where, start, end = found
    first = text.index(where)
    hit = specs.Found(first, first + len(where), datetime.fromisoformat(start), datetime.fromisoformat(end))
    return specs.score([specs.Spec(text, 0, (gold,), 0)], [[hit]])


def test_any_of_several_values_is_right_and_others_are_wrong() -> None:
    values = [{"value": "2016-10-02"}, {"value": "2017-10-02"}]
    right = one("2 Oct", "date", "XXXX-10-02", values, ("2 Oct", "2017-10-02", "2017-10-03"))
    wrong = one("2 Oct", "date", "XXXX-10-02", values, ("2 Oct", "2018-10-02", "2018-10-03"))
    long = one("2 Oct", "date", "XXXX-10-02", values, ("2 Oct", "2017-10-02", "2017-10-09"))
    assert [r["value"] for r in (right, wrong, long)] == [1.0, 0.0, 0.0]


def test_a_range_may_include_its_last_unit_and_the_strict_figure_says_so() -> None:
    values = [{"start": "2014-01-01", "end": "2018-01-01"}]
    timex = "(2014-01-01,2018-01-01,P4Y)"
    ours = one("2014 to 2018", "daterange", timex, values, ("2014 to 2018", "2014-01-01", "2019-01-01"))
    theirs = one("2014 to 2018", "daterange", timex, values, ("2014 to 2018", "2014-01-01", "2018-01-01"))
    wrong = one("2014 to 2018", "daterange", timex, values, ("2014 to 2018", "2014-01-01", "2020-01-01"))
    assert [(r["value"], r["value_strict"]) for r in (ours, theirs, wrong)] == [(1.0, 0.0), (1.0, 1.0), (0.0, 0.0)]


def test_spans_are_scored_by_overlap_and_exactly() -> None:
    partly = one("on 2 Oct", "date", "", [{"value": "2016-10-02"}], ("2 Oct", "2016-10-02", "2016-10-03"))
    assert (partly["span_f1"], partly["exact_f1"]) == (1.0, 0.0)
    nothing = specs.score([specs.Spec("no time", 0, (), 0)], [[]])
    assert (nothing["negatives"], nothing["negatives_clean"]) == (1, 1)

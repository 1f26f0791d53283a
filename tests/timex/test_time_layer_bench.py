"""The scorer of the time layer's measurement: gold answers read by hand-checked value, and what counts as right."""

import importlib.util
import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from magma_gpu.timex import tag

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
sample = load("time_layer_sample")


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
        ("13 August", "2021-08-13", 1),
        ("August", "2021-08-01", 31),
        ("end of October 2023", "2023-10-21", 11),
        ("a few days before November 22, 2023", "2023-11-17", 5),
        ("between 26 March and 20 April 2023", "2023-03-26", 26),
        ("On the night of October 30 to 31, 2022", "2022-10-30", 2),
        ("November 5-6, 2022", "2022-11-05", 2),
        ("Between November 4-7, 2022 (not known for sure)", "2022-11-04", 4),
        ("Ask about Jim. Jim did it with his dogs on July 21, 2022.", "2022-07-21", 1),
    ],
)
def test_a_gold_answer_is_an_interval(gold: str, start: str, days: int) -> None:
    first = datetime.fromisoformat(start)
    assert locomo.gold_intervals(gold, 2021) == ((first, first + timedelta(days=days)),)


def test_a_gold_that_leaves_a_choice_accepts_either_interval() -> None:
    golds = locomo.gold_intervals("Either March 3-9 (one week) or March 9-15 (another).", 2021)
    assert [(f"{a:%m-%d}", f"{b:%m-%d}") for a, b in golds] == [("03-03", "03-10"), ("03-09", "03-16")]


@pytest.mark.parametrize(
    "gold", ["4 years", "her mother", "A few years ago", "two weeks", "9 days (July 11 to July 20)", "31 June 2023"]
)
def test_other_golds_are_left_out(gold: str) -> None:
    assert locomo.gold_intervals(gold, 2021) == ()


def test_a_gold_without_a_year_needs_one() -> None:
    assert locomo.gold_intervals("13 August") == locomo.gold_intervals("August") == ()


@pytest.mark.parametrize(
    ("start", "end", "rank"),
    [
        ("2023-05-01", "2023-05-08", 4),
        ("2023-05-02", "2023-05-03", 3),
        ("2023-05-04", "2023-05-11", 2),
        ("2023-05-01", "2023-06-01", 1),
        ("2023-05-05", "2023-05-12", 0),
        ("0001-01-01", "2023-05-08", 0),
    ],
)
def test_a_value_agrees_with_a_gold_week_by_rank(start: str, end: str, rank: int) -> None:
    gold = (datetime(2023, 5, 1), datetime(2023, 5, 8))
    assert locomo._agreement((datetime.fromisoformat(start), datetime.fromisoformat(end)), gold) == rank


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


def test_labels_of_the_sample_hold_places_and_intervals_but_no_text() -> None:
    labels = json.loads((BENCH.parents[1] / "docs/results/time_layer_sample.json").read_text(encoding="utf-8"))[
        "labels"
    ]
    assert len(labels) == len({json.dumps(row[:-1]) for row in labels}) == sample.SIZE
    for _, turn, first, last, start, end, kind, label in labels:
        assert re.fullmatch(r"D\d+:\d+", turn)
        assert first < last
        assert datetime.fromisoformat(start) < datetime.fromisoformat(end)
        assert kind in ("date", "time", "range", "duration", "recurring")
        assert label in sample.MEANING


def test_a_label_of_what_is_found_no_more_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    span = tag(["we met yesterday"], [0])[0][0]
    monkeypatch.setattr(sample, "found_spans", lambda _: iter([("c", "D1:1", "we met yesterday", 0, span)]))
    here = sample.key("c", "D1:1", span)
    labels = [[*here, "right"], [*here[:-1], "range", "junk"]]
    counted = sample.summary(Path(), labels)
    assert (counted["read"], counted["right"], counted["junk"], counted["found_no_more"]) == (1, 1, 0, 1)

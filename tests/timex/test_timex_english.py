"""English expressions against the text's own time: every form by its interval, the cases, and what must stay empty."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.stamps import parse_stamps
from magma_gpu.timex import tag
from magma_gpu.types import TimeSpan

SHARED = Path(__file__).resolve().parents[3] / "shared"
SATURDAY = "2023-05-20T14:30:00Z"


def moment(stamp: str) -> int:
    time = parse_stamps([stamp], assumed_zone="UTC", date_order="")[0].time
    assert time is not None
    return time


def spans(text: str, reference: str | None = SATURDAY) -> list[TimeSpan]:
    return tag([text], [None if reference is None else moment(reference)])[0]


def show(span: TimeSpan) -> str:
    start, end = (datetime(1970, 1, 1) + timedelta(microseconds=t) for t in (span.start, span.end))
    if start.time() == end.time() == datetime.min.time():
        last = end - timedelta(days=1)
        return f"{start:%Y-%m-%d}" if last <= start else f"{start:%Y-%m-%d}..{last:%Y-%m-%d}"
    return f"{start:%Y-%m-%dT%H:%M}..{end:%Y-%m-%dT%H:%M}"


def meaning(text: str, reference: str | None = SATURDAY) -> list[str]:
    return [show(s) for s in spans(text, reference)]


@pytest.mark.parametrize(
    ("text", "expected", "grain"),
    [
        ("last Friday", "2023-05-19", "day"),
        ("last Saturday", "2023-05-13", "day"),
        ("next Saturday", "2023-05-27", "day"),
        ("next Monday", "2023-05-22", "day"),
        ("this Friday", "2023-05-19", "day"),
        ("this past Friday", "2023-05-19", "day"),
        ("the week before", "2023-05-08..2023-05-14", "week"),
        ("last week", "2023-05-08..2023-05-14", "week"),
        ("next week", "2023-05-22..2023-05-28", "week"),
        ("two weekends ago", "2023-05-06..2023-05-07", "weekend"),
        ("last weekend", "2023-05-13..2023-05-14", "weekend"),
        ("this weekend", "2023-05-20..2023-05-21", "weekend"),
        ("in three days", "2023-05-23", "day"),
        ("the day before yesterday", "2023-05-18", "day"),
        ("the day after tomorrow", "2023-05-22", "day"),
        ("two weeks ago", "2023-05-06", "day"),
        ("three months ago", "2023-02-01..2023-02-28", "month"),
        ("four years ago", "2019-01-01..2019-12-31", "year"),
        ("the week before last", "2023-05-01..2023-05-07", "week"),
        ("half a year ago", "2022-11-01..2022-11-30", "month"),
        ("a year and a half ago", "2021-11-01..2021-11-30", "month"),
        ("a couple of days ago", "2023-05-18", "day"),
        ("the Sunday before 25 May 2023", "2023-05-21", "day"),
        ("the week before 9 June 2023", "2023-05-29..2023-06-04", "week"),
        ("the weekend of 15 July 2023", "2023-07-15..2023-07-16", "weekend"),
        ("next month", "2023-06-01..2023-06-30", "month"),
        ("August last year", "2022-08-01..2022-08-31", "month"),
        ("last summer", "2022-06-01..2022-08-31", "season"),
        ("the summer of 2022", "2022-06-01..2022-08-31", "season"),
        ("on the 15th", "2023-05-15", "day"),
        ("on the 25th", "2023-04-25", "day"),
        ("7 May", "2023-05-07", "day"),
        ("May 29th", "2022-05-29", "day"),
        ("May 29th, 2023", "2023-05-29", "day"),
        ("twenty-ninth of May 2023", "2023-05-29", "day"),
        ("5/29/2023", "2023-05-29", "day"),
        ("29.05.2023", "2023-05-29", "day"),
        ("in nineteen ninety-six", "1996-01-01..1996-12-31", "year"),
        ("in the 1990s", "1990-01-01..1999-12-31", "decade"),
        ("Q3 2022", "2022-07-01..2022-09-30", "quarter"),
        ("first week of August 2023", "2023-07-31..2023-08-06", "week"),
        ("the last Friday of April 2023", "2023-04-28", "day"),
        ("early August 2022", "2022-08-01..2022-08-09", "month"),
        ("Christmas 2022", "2022-12-25", "day"),
        ("last Thanksgiving", "2022-11-24", "day"),
        ("from 3 to 5 May 2023", "2023-05-03..2023-05-05", "day"),
        ("between May and July 2022", "2022-05-01..2022-07-31", "month"),
        ("yesterday at 5pm", "2023-05-19T17:00..2023-05-19T18:00", "hour"),
        ("tomorrow morning", "2023-05-21T08:00..2023-05-21T12:00", "part_of_day"),
        ("last night", "2023-05-19T20:00..2023-05-20T00:00", "part_of_day"),
        ("Monday from 3 to 5", "2023-05-15T15:00..2023-05-15T17:00", "hour"),
        ("we will meet on Monday at 3:30 pm", "2023-05-22T15:30..2023-05-22T15:31", "minute"),
    ],
)
def test_an_expression_has_its_interval_and_grain(text: str, expected: str, grain: str) -> None:
    found = spans(text)
    assert [(show(s), s.grain) for s in found] == [(expected, grain)]
    assert found[0].text == text[found[0].first : found[0].last]


def test_durations_ranges_and_repetition_have_their_kind() -> None:
    assert [(s.kind, s.end - s.start) for s in spans("it took 3 hours")] == [("duration", 3 * 3600 * 10**6)]
    assert [(s.kind, show(s)) for s in spans("for three years now")] == [
        ("duration", "2020-01-01T00:00..2023-05-20T14:30")
    ]
    assert [s.kind for s in spans("we run every Monday")] == ["recurring"]
    assert [(s.kind, show(s)) for s in spans("over the past two weeks")] == [("range", "2023-05-06..2023-05-19")]
    assert [s.kind for s in spans("on 7 May 2023")] == ["date"]


@pytest.mark.parametrize(
    "text",
    [
        "you may not!",
        "Yes. May I ask why?",
        "Good morning Paul",
        "I have twenty-one coins in my pocket",
        "the screen has a 4:3 aspect ratio",
        "schedule me a 1:1 meeting",
        "ABC-12345-A1B2C3 is yet to be submitted",
        "deliver 2000 pieces of toys",
        "he is 25 years old and sat in the sun",
        "the second time we march, one day at a time",
        "room 12 on the 15th floor",
        "",
    ],
)
def test_what_is_no_time_has_no_span(text: str) -> None:
    assert spans(text) == []


def test_without_a_reference_only_what_needs_none() -> None:
    text = "We met yesterday, on Friday, last week, in July, and on 7 May 2023, for two hours."
    assert meaning(text, None) == ["2023-05-07"]
    assert meaning("in the 1990s and in June 2022", None) == ["1990-01-01..1999-12-31", "2022-06-01..2022-06-30"]


def test_tense_decides_where_a_bare_weekday_lies() -> None:
    assert meaning("I saw her on Tuesday.") == ["2023-05-16"]
    assert meaning("I will see her on Tuesday.") == ["2023-05-23"]
    assert meaning("I saw her on Tuesday. I will call.") == ["2023-05-16"]


@pytest.mark.parametrize(
    "text", ["viime tiistaina", "na semana passada", "в прошлый вторник", "الأسبوع الماضي", "i går kväll"]
)
def test_other_languages_give_nothing(text: str) -> None:
    assert spans(text) == []
    assert meaning(text + " 2023-05-07") == ["2023-05-07"]


def test_case_c19_relative_words_hang_on_the_message() -> None:
    first = _case("C19")["input"]["conversation"][0]
    assert meaning(first["text"], first["timestamp"]) == ["2021-02-28", "2021-03-08..2021-03-14"]


def test_case_c20_spoken_forms() -> None:
    case = _case("C20")
    expected = {
        "the week before": "2023-05-08..2023-05-14",
        "two weekends ago": "2023-05-06..2023-05-07",
        "last weekend": "2023-05-13..2023-05-14",
        "three months ago": "2023-02-01..2023-02-28",
        "the week before last": "2023-05-01..2023-05-07",
        "half a year ago": "2022-11-01..2022-11-30",
        "next month": "2023-06-01..2023-06-30",
    }
    for text in case["input"]["cases"]:
        want = expected.get(text, case["expected"][text][:10])
        assert meaning(text) == [want], text
    assert meaning("next month", "2023-01-31") == ["2023-02-01..2023-02-28"]
    assert meaning("last year", "2024-02-29") == ["2023-01-01..2023-12-31"]


def test_case_c23_year_edge() -> None:
    assert _case("C23")["input"]["anchor"].startswith("2025-01-01T08:00:00Z")
    at = "2025-01-01T08:00:00Z"
    assert meaning("Sunday at noon", at)[0].startswith("2024-12-29T12:00")
    assert meaning("last December", at) == ["2024-12-01..2024-12-31"]
    assert meaning("two days ago", at) == ["2024-12-30"]
    assert meaning("on the 31st", at) == ["2024-12-31"]
    assert meaning("Feb 29", at) == ["2024-02-29"]


def _case(name: str) -> dict:
    path = SHARED / "cases/cases.jsonl"
    if not path.exists():
        pytest.skip("the shared cases are not beside the checkout")
    return next(c for c in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if c["id"] == name)


@given(st.datetimes(datetime(2, 1, 1), datetime(9990, 1, 1)), st.sampled_from(["last {}", "next {}", "this {}"]))
@settings(max_examples=150, deadline=None)
def test_weekday_directions(at: datetime, form: str) -> None:
    for dow, name in enumerate(("Monday", "Thursday", "Sunday")):
        dow = (0, 3, 6)[dow]
        (span,) = spans(form.format(name), at.isoformat())
        day = datetime(1970, 1, 1) + timedelta(microseconds=span.start)
        today = datetime(at.year, at.month, at.day)
        assert day.weekday() == dow
        if form.startswith("last"):
            assert 1 <= (today - day).days <= 7
        elif form.startswith("next"):
            assert (day - timedelta(days=dow)) == today - timedelta(days=today.weekday() - 7)
        else:
            assert (day - timedelta(days=dow)) == today - timedelta(days=today.weekday())


GRAINS = "second minute hour part_of_day day weekend week month season quarter year decade century".split()
WORDS = (
    "last next this the a first two 3 15th 2023 may May june Monday sun week month year day days ago before after "
    "between and from to until since in on at of for now today yesterday morning night every half past noon 5pm "
    "earlier later hour minute sec fortnight weekdays workdays semester nights oh ish latter single every x 22/04 "
    "1h30 ½ decades ending prior "
    "10:30 - , . christmas summer weekend end q1 1/2 31.12. 30 feb hundred thousand quarter 99 24 0"
).split()


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
@settings(max_examples=400, deadline=None)
def test_any_mix_of_words_gives_ordered_spans_in_range(words: list[str], at: datetime) -> None:
    text = " ".join(words)
    found = tag([text], [moment(at.isoformat())])[0]
    last = 0
    for span in found:
        assert last <= span.first < span.last <= len(text)
        assert span.start < span.end
        assert span.text == text[span.first : span.last]
        assert span.grain in GRAINS
        assert span.kind in ("date", "time", "range", "duration", "recurring")
        last = span.last


def test_the_same_text_is_tagged_alike_alone_and_in_a_batch() -> None:
    texts = ["last Friday", "nothing here", "İstanbul on 7 May 2023", "in July"]
    times = [moment(SATURDAY), None, None, moment("2021-01-01")]
    assert tag(texts, times) == [tag([t], [r])[0] for t, r in zip(texts, times, strict=True)]

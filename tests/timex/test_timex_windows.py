"""Windows of questions: the interval a question names, open sides, and questions that name none."""

from datetime import datetime, timedelta

import pytest

from magma_gpu.timex import windows
from magma_gpu.timex.intervals import EPOCH, OPEN_END, OPEN_START, micros

AT = micros(datetime(2023, 5, 20, 14, 30))


def show(question: str, reference: int | None = AT) -> tuple[str, str] | None:
    window = windows([question], [reference])[0]
    if window is None:
        return None
    start, end = (EPOCH + timedelta(microseconds=t) for t in window)
    return (
        "open" if start == OPEN_START else f"{start:%Y-%m-%d}",
        "open" if end == OPEN_END else f"{end:%Y-%m-%d}",
    )


@pytest.mark.parametrize(
    ("question", "window"),
    [
        ("When did Ana go hiking in May 2023?", ("2023-05-01", "2023-06-01")),
        ("What happened on 7 May 2023?", ("2023-05-07", "2023-05-08")),
        ("What did I do last week?", ("2023-05-08", "2023-05-15")),
        ("What was said before June 2023?", ("open", "2023-06-01")),
        ("What happened after 5 June 2023?", ("2023-06-06", "open")),
        ("What happened between 3 and 10 May?", ("2023-05-03", "2023-05-11")),
        ("What did they do from 2019 to 2021?", ("2019-01-01", "2022-01-01")),
        ("How long did the trip in July 2022 take?", ("2022-07-01", "2022-08-01")),
        ("What will she do in July?", ("2022-07-01", "2022-08-01")),
        ("Who called on Friday?", ("2023-05-19", "2023-05-20")),
        ("What did she do the day after Christmas 2022?", ("2022-12-26", "2022-12-27")),
        ("What did he buy in June or in August 2022?", ("2022-06-01", "2022-09-01")),
        # Of a state all that was said up to the day counts.
        ("How many pets did she have as of March 2023?", ("open", "2023-04-01")),
        # What is vague is widened.
        ("What did he do a few days before 8 May?", ("2023-05-03", "2023-05-08")),
        ("What did she do two weeks ago?", ("2023-05-03", "2023-05-10")),
        ("What did she do a week ago today?", ("2023-05-13", "2023-05-14")),
        ("What happened around 3 May?", ("2023-04-30", "2023-05-07")),
        ("What happened in the days after 3 May?", ("2023-05-04", "2023-05-11")),
        ("Where was he in the week before 8 May 2023?", ("2023-05-01", "2023-05-08")),
        ("How long has it been since 3 May 2023?", ("2023-05-03", "2023-05-20")),
        ("How many days passed between 5 May and 9 May 2023?", ("2023-05-05", "2023-05-10")),
        ("What was said on or before 3 May?", ("open", "2023-05-04")),
        ("What was sent at 2023-05-03T10:00:00?", ("2023-05-03", "2023-05-03")),
    ],
)
def test_a_question_has_its_window(question: str, window: tuple[str, str]) -> None:
    assert show(question) == window


@pytest.mark.parametrize(
    "question",
    [
        "How long have they been married?",
        "How many times a week does she run?",
        "Which came first?",
        "What are you doing now?",
        "How old is she?",
        "When may I go?",
        "What took two hours?",
        "Which city was she in before travelling to Rome?",
        "When did he try Cyberpunk 2077?",
        "",
    ],
)
def test_no_window_where_no_time_is_named(question: str) -> None:
    assert show(question) is None


def test_without_a_reference_only_absolute_windows() -> None:
    assert show("What happened in July?", None) is None
    assert show("What happened last week?", None) is None
    assert show("What happened in July 2022?", None) == ("2022-07-01", "2022-08-01")


def test_a_widened_window_stays_in_the_calendar() -> None:
    first, last = micros(OPEN_START), micros(OPEN_END)
    near_start, near_end = micros(datetime(1, 1, 16)), micros(datetime(9999, 12, 16))
    (early,) = windows(["What happened two weeks ago?"], [near_start])
    (late,) = windows(["What happens two weeks later?"], [near_end])
    assert early is not None
    assert late is not None
    assert first <= early[0] < early[1] <= last
    assert first <= late[0] < late[1] <= last


def test_windows_fit_a_timestamp_column() -> None:
    assert windows(["before 2000", "after 2000"], [None, None]) == [
        (micros(OPEN_START), micros(datetime(2000, 1, 1))),
        (micros(datetime(2001, 1, 1)), micros(OPEN_END)),
    ]

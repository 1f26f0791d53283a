"""English forms by kind: how dates, times of day, amounts, ranges and repetition are written and said."""

from datetime import datetime, timedelta

import pytest

from magma_gpu.timex import tag
from magma_gpu.timex.intervals import EPOCH, micros

# A Saturday.
AT = datetime(2023, 5, 20, 14, 30)


def show(text: str) -> list[str]:
    found = []
    for span in tag([text], [micros(AT)])[0]:
        start, end = (EPOCH + timedelta(microseconds=t) for t in (span.start, span.end))
        if span.kind == "duration":
            found.append(str(end - start))
        elif start.time() == end.time() == datetime.min.time():
            last = end - timedelta(days=1)
            found.append(f"{start:%Y-%m-%d}" if last <= start else f"{start:%Y-%m-%d}..{last:%Y-%m-%d}")
        else:
            found.append(f"{start:%Y-%m-%dT%H:%M}..{end:%H:%M}")
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Written dates.
        ("January 2,2019", "2019-01-02"),
        ("on 31 Dec. 1994 we met", "1994-12-31"),
        ("born on 31-Dec-94", "1994-12-31"),
        ("02.Jan.2019", "2019-01-02"),
        ("Dec 31, '94", "1994-12-31"),
        ("we met on 22/04", "2023-04-22"),
        ("Monday (May 1)", "2023-05-01"),
        ("sat 5 jan", "2023-01-05"),
        ("see you on wed.", "2023-05-17"),
        ("from 5 May - 7 June", "2023-05-05..2023-06-07"),
        ("from 10/1-11/2/2017", "2017-10-01..2017-11-02"),
        ("the 1st and 2nd of May", "2023-05-01..2023-05-02"),
        ("May-July 2022", "2022-05-01..2022-07-31"),
        ("2019-21", "2019-01-01..2021-12-31"),
        # Counted from other dates.
        ("three days prior to Christmas", "2022-12-22"),
        ("a week ago Monday", "2023-05-08"),
        ("two weeks ago on Monday", "2023-05-01"),
        ("Monday two weeks ago", "2023-05-01"),
        ("two years ago today", "2021-05-20"),
        ("a year ago in May", "2022-05-01..2022-05-31"),
        ("this time last year", "2022-05-01..2022-05-31"),
        ("this day last year", "2022-05-20"),
        ("two days prior", "2023-05-18"),
        ("a week earlier", "2023-05-13"),
        ("in five days from today", "2023-05-25"),
        ("two months from today on Tuesday", "2023-07-25"),
        ("the Friday before last", "2023-05-12"),
        ("the Monday after", "2023-05-22"),
        ("the second Monday after Christmas 2022", "2023-01-02"),
        ("the second last day of April 2023", "2023-04-29"),
        ("the 15th of the month", "2023-05-15"),
        ("next month on the 15th", "2023-06-15"),
        ("the last Friday of the month", "2023-05-26"),
        ("last year's Christmas", "2022-12-25"),
        ("the summer before last", "2021-06-01..2021-08-31"),
        ("the previous day", "2023-05-19"),
        # Ranges.
        ("the latter half of 2020", "2020-07-01..2020-12-31"),
        ("the first half of the year", "2023-01-01..2023-06-30"),
        ("in the coming weeks", "2023-05-21..2023-06-10"),
        ("in recent months", "2023-02-20..2023-05-19"),
        ("the week ending June 5", "2022-05-30..2022-06-05"),
        ("week of June 5", "2022-05-30..2022-06-05"),
        ("the month of April", "2023-04-01..2023-04-30"),
        ("Memorial Day weekend 2022", "2022-05-28..2022-05-30"),
        ("the days before 9 May", "2023-05-02..2023-05-08"),
        ("winter 2021/22", "2021-12-01..2022-02-28"),
        ("in the mid-nineties", "1993-05-02T08:00..16:00"),
        ("beginning in May", "2023-05-01..2023-05-31"),
        # Holidays.
        ("Maundy Thursday", "2023-04-06"),
        ("St. Patrick's Day", "2023-03-17"),
        ("Martin Luther King Jr. Day", "2023-01-16"),
        ("Election Day 2022", "2022-11-08"),
        # Times of day.
        ("at 20 to 9", "2023-05-20T08:40..08:41"),
        ("at 5 minutes before 9", "2023-05-20T08:55..08:56"),
        ("two hours before noon", "2023-05-20T10:00..10:01"),
        ("at seven oh five", "2023-05-20T07:05..07:06"),
        ("at 7ish", "2023-05-20T07:00..08:00"),
        ("at 0730", "2023-05-20T07:30..07:31"),
        ("at 1600 hours", "2023-05-20T16:00..16:01"),
        ("come at 7.", "2023-05-20T07:00..08:00"),
        ("at 11 last night", "2023-05-19T23:00..00:00"),
        ("at 10 on the 5th", "2023-05-05T10:00..11:00"),
        ("early tomorrow morning", "2023-05-21T08:00..10:00"),
        ("midnight tonight", "2023-05-21T00:00..01:00"),
        ("in the mid-afternoon", "2023-05-20T13:00..15:00"),
        ("lunch time", "2023-05-20T11:00..13:00"),
        ("How about Monday at 5?", "2023-05-22T17:00..18:00"),
        ("at 2023-05-05T10:30:00Z", "2023-05-05T10:30..10:30"),
        ("ontem, 2023-05-05T10:30Z", "2023-05-05T10:30..10:31"),
        ("at 2023-05-05T01:30+02:00", "2023-05-04T23:30..23:31"),
        # Amounts.
        ("for 2 1/2 hours", "2:30:00"),
        ("for 2½ hours", "2:30:00"),
        ("for 1h 30m", "1:30:00"),
        ("for one and three quarter hours", "1:45:00"),
        ("for a quarter hour", "0:15:00"),
        ("for .5 hours", "0:30:00"),
        ("for half a dozen days", "6 days, 0:00:00"),
        ("for a hundred and twenty days", "120 days, 0:00:00"),
        ("for 1 day, 2 hours, 3 minutes and 4 seconds", "1 day, 2:03:04"),
        ("for two consecutive weeks", "14 days, 0:00:00"),
        ("for 30+ minutes", "0:30:00"),
        ("it took a day", "1 day, 0:00:00"),
        ("I read it in 3 hours", "3:00:00"),
        ("for half the year", "182 days, 12:00:00"),
        ("between 2 and 4 weeks", "21 days, 0:00:00"),
        ("offline for the hour", "1:00:00"),
    ],
)
def test_a_form_has_its_interval(text: str, expected: str) -> None:
    assert show(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "twice daily",
        "every single day",
        "every second week",
        "the first Monday of every month",
        "every Monday and Friday",
        "every day at 9 am",
        "Monday mornings",
        "3x a week",
        "40 hours a week",
        "every summer",
    ],
)
def test_what_happens_again_is_one_recurring_expression(text: str) -> None:
    assert [(s.text, s.kind) for s in tag([text], [micros(AT)])[0]] == [(text, "recurring")]


@pytest.mark.parametrize(
    "text",
    [
        "my palm is red",
        "open 24/7, with a 22/7 share",
        "he sat 5 times and we may 5",
        "Cyberpunk 2077 is a game",
        "the reference 2015-32",
        "a late-night show of 5m dollars",
        "the goods cost 3m and a 12,345 fee",
        "a pair of shoes for a second opinion",
    ],
)
def test_lookalikes_have_no_expression(text: str) -> None:
    assert show(text) == []


def test_a_weekend_that_is_told_of_is_the_last_one() -> None:
    monday = micros(datetime(2022, 11, 7, 20))

    def start(text: str) -> str:
        return f"{EPOCH + timedelta(microseconds=tag([text], [monday])[0][0].start):%m-%d}"

    assert start("I had a super fun weekend - I worked.") == "11-05"
    assert start("I saw her last weekend") == "11-05"
    assert start("Any plans for the weekend?") == "11-12"
    assert start("I was not there that weekend.") == "11-12"

"""Calendar arithmetic of time expressions: units, partial dates and the intervals they stand for.

It knows no language. What a reader would not guess: everything is naive UTC, weeks start on Monday, and a partial
date (a day and month without a year, a weekday alone) stays partial until the rules have taken all they can from the
words around it; then it becomes the nearest one before the text's own time, or after it in a sentence about the
future.
"""

import calendar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

EPOCH = datetime(1970, 1, 1)
# What an open side of an interval is: the first and the last moment that a timestamp column shows.
OPEN_START = datetime(1, 1, 1)
OPEN_END = datetime(9999, 12, 31, 23, 59, 59, 999999)
MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)

# Nominal lengths in seconds, for durations that have no place in time.
SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "weekday": 86_400,
    "weekend": 2 * 86_400,
    "week": 7 * 86_400,
    "fortnight": 14 * 86_400,
    "month": 30 * 86_400,
    "season": 90 * 86_400,
    "quarter": 90 * 86_400,
    "year": 365 * 86_400,
    "decade": 3650 * 86_400,
    "century": 36_500 * 86_400,
}
MONTHS_OF = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
# First month of each season (northern, meteorological).
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}


@dataclass(frozen=True, slots=True)
class Span:
    """A resolved interval, end exclusive."""

    start: datetime
    end: datetime
    grain: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cal:
    """A date of which some fields are not said; months and days from 1, weekdays from Monday = 0."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    dow: int | None = None
    # Which way to look for what is not said: -1 past, 1 future, 0 as the sentence does.
    way: int = 0


@dataclass(frozen=True, slots=True)
class Qty:
    """An amount of time: pairs of unit and number."""

    parts: tuple[tuple[str, float], ...]
    # "a week" rather than "one week" or "two weeks".
    article: bool = False

    def seconds(self) -> float:
        return sum(SECONDS[unit] * amount for unit, amount in self.parts)


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day in seconds from midnight; the end may lie on the next day."""

    start: int
    end: int
    grain: str
    # Written on a dial of twelve hours without saying which half.
    loose: bool = False


Value = Span | Cal | Qty | Clock | int | float | str | None


def months_after(year: int, month: int, num_months: int) -> datetime:
    """Returns the first day of a month that lies `num_months` after another."""
    index = year * 12 + month - 1 + num_months
    return datetime(index // 12, index % 12 + 1, 1)


def shift(moment: datetime, unit: str, amount: float) -> datetime:
    """Moves a moment by calendar units; the day is cut to the length of the month it lands in.

    Raises:
        ValueError, OverflowError: the result is outside years 1 to 9999.
    """
    if unit in MONTHS_OF:
        num = MONTHS_OF[unit] * amount
        whole = int(num // 1)
        first = months_after(moment.year, moment.month, whole)
        day = min(moment.day, calendar.monthrange(first.year, first.month)[1])
        moved = moment.replace(year=first.year, month=first.month, day=day)
        return moved + timedelta(days=round((num - whole) * 30))
    return moment + timedelta(seconds=SECONDS[unit] * amount)


def shift_all(moment: datetime, qty: Qty, sign: int) -> datetime:
    """Moves a moment by every part of an amount."""
    for unit, amount in qty.parts:
        moment = shift(moment, unit, sign * amount)
    return moment


def day_of(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)


def unit_start(moment: datetime, unit: str) -> datetime:
    """Returns the start of the unit that a moment lies in."""
    day = day_of(moment)
    if unit == "hour":
        return day + timedelta(hours=moment.hour)
    if unit == "minute":
        return day + timedelta(hours=moment.hour, minutes=moment.minute)
    if unit == "second":
        return moment.replace(microsecond=0)
    if unit in ("week", "fortnight"):
        return day - timedelta(days=day.weekday())
    if unit == "weekend":
        return day - timedelta(days=day.weekday() - 5)
    if unit == "month":
        return day.replace(day=1)
    if unit == "quarter":
        return datetime(day.year, (day.month - 1) // 3 * 3 + 1, 1)
    if unit == "year":
        return datetime(day.year, 1, 1)
    if unit == "decade":
        return datetime(max(1, day.year // 10 * 10), 1, 1)
    if unit == "century":
        return datetime(max(1, day.year // 100 * 100), 1, 1)
    return day


def unit_span(moment: datetime, unit: str, steps: int = 0) -> Span:
    """Returns the unit that a moment lies in, or the one that many steps later."""
    start = unit_start(moment, unit)
    if steps:
        start = start + timedelta(days=7 * steps) if unit == "weekend" else shift(start, unit, steps)
    grain = "week" if unit == "fortnight" else unit
    return Span(start, shift(start, unit, 1), grain, kind_of(grain))


def kind_of(grain: str) -> str:
    if grain == "day":
        return "date"
    return "time" if grain in ("second", "minute", "hour") else "range"


def day_span(day: datetime) -> Span:
    return Span(day, day + DAY, "day", "date")


def weekday_span(moment: datetime, dow: int, weeks: int) -> Span:
    """Returns a weekday of the week that a moment lies in, or of one so many weeks later."""
    return day_span(unit_start(moment, "week") + timedelta(days=dow + 7 * weeks))


def weekday_near(moment: datetime, dow: int, way: int) -> Span:
    """Returns the nearest weekday strictly before (way -1) or at or after (way 1) a moment's day."""
    day = day_of(moment)
    if way < 0:
        return day_span(day - timedelta(days=(day.weekday() - dow - 1) % 7 + 1))
    return day_span(day + timedelta(days=(dow - day.weekday()) % 7))


def season_span(year: int, name: str) -> Span:
    """Returns the season that starts in a year."""
    start = datetime(year, SEASONS[name], 1)
    return Span(start, shift(start, "month", 3), "season", "range")


def season_near(moment: datetime, name: str, way: int) -> Span:
    """Returns the nearest season that has begun (way -1) or is not over (way 1)."""
    spans = [season_span(moment.year + k, name) for k in (-1, 0, 1)]
    if way < 0:
        return [s for s in spans if s.start <= moment][-1]
    return next(s for s in spans if s.end > moment)


def ago(moment: datetime, qty: Qty, sign: int) -> Span:
    """Returns what lies an amount of time before (sign -1) or after a moment.

    The grain is what the amount's smallest unit can tell: `three months ago` is a month, `two weeks ago` a day.
    """
    unit, amount = qty.parts[-1]
    if unit == "weekend" and amount == int(amount):
        # The weekend to come in this week is the first of those after.
        ahead = sign > 0 and moment.weekday() < 5
        return unit_span(moment, "weekend", sign * int(amount) - ahead)
    at = shift_all(moment, qty, sign)
    if unit in ("hour", "minute", "second"):
        # The amount is exact, so the moment is not cut to the unit.
        return Span(at, at + timedelta(seconds=SECONDS[unit]), unit, "time")
    if len(qty.parts) == 1:
        if unit == "month" or (unit == "year" and amount != int(amount)):
            return unit_span(at, "month")
        if unit in ("year", "decade", "century"):
            return unit_span(at, "year")
        if unit == "quarter":
            return unit_span(at, "quarter")
    return day_span(day_of(at))


def complete(cal: Cal, ref: datetime | None, way: int) -> Span | None:
    """Resolves a date; what is not said is looked for before (way -1) or after the reference.

    Returns:
        The interval, or None for a date that does not exist or needs a reference that is not there.
    """
    year, month, day = cal.year, cal.month, cal.day
    way = cal.way or way
    if year is not None:
        if month is None:
            return Span(datetime(year, 1, 1), datetime(year + 1, 1, 1), "year", "range")
        if day is None:
            return unit_span(datetime(year, month, 1), "month")
        return day_span(datetime(year, month, day)) if _is_date(year, month, day) else None
    if ref is None:
        return None
    if month is not None and day is not None:
        years = range(ref.year, ref.year - 9, -1) if way < 0 else range(ref.year, ref.year + 9)
        days = (datetime(y, month, day) for y in years if _is_date(y, month, day))
        return _nearest(days, ref, way)
    if month is not None:
        if way < 0:
            return unit_span(datetime(ref.year - (month > ref.month), month, 1), "month")
        return unit_span(datetime(ref.year + (month < ref.month), month, 1), "month")
    if day is not None:
        firsts = (months_after(ref.year, ref.month, k if way > 0 else -k) for k in range(60))
        days = (f.replace(day=day) for f in firsts if _is_date(f.year, f.month, day))
        if cal.dow is not None:
            days = (d for d in days if d.weekday() == cal.dow)
        return _nearest(days, ref, way)
    if cal.dow is not None:
        return weekday_near(ref, cal.dow, way)
    return None


def _nearest(days: "object", ref: datetime, way: int) -> Span | None:
    today = day_of(ref)
    for day in days:  # type: ignore[attr-defined]
        if (day <= today) if way < 0 else (day >= today):
            return day_span(day)
    return None


def _is_date(year: int, month: int, day: int) -> bool:
    return 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


def with_clock(span: Span, clock: Clock) -> Span:
    """Returns a time of day on the first day of an interval."""
    day = day_of(span.start)
    kind = "range" if clock.grain == "part_of_day" or clock.grain == "range" else "time"
    grain = "hour" if clock.grain == "range" else clock.grain
    return Span(day + timedelta(seconds=clock.start), day + timedelta(seconds=clock.end), grain, kind)


def part_of(span: Span, which: str) -> Span:
    """Returns the beginning, middle or end of an interval."""
    start, end = span.start, span.end
    if span.grain == "year":
        cuts = (start, datetime(start.year, 5, 1), datetime(start.year, 9, 1), end)
    elif span.grain == "month":
        cuts = (start, start + 9 * DAY, start + 20 * DAY, end)
    elif span.grain == "week":
        cuts = (start, start + 2 * DAY, start + 5 * DAY, end)
    else:
        third = (end - start) / 3
        cuts = (start, start + third, end - third, end)
    at = ("begin", "middle", "end").index(which)
    return replace(span, start=cuts[at], end=cuts[at + 1], kind="range")


def with_part(span: Span, part: tuple[int, int, str]) -> Span:
    """Returns a part of the first day of an interval."""
    return with_clock(span, Clock(part[0] * 3600, part[1] * 3600, "part_of_day"))


def weekend_near(day: datetime) -> Span:
    """Returns the weekend that a day makes long or lies nearest to."""
    dow = day.weekday()
    if dow > 1:
        return unit_span(day, "weekend")
    span = unit_span(day, "weekend", -1)
    return replace(span, end=span.end + DAY) if dow == 0 else span


def nth_unit(base: Span, which: int, count: int, unit: str) -> Span | None:
    """Returns units of an interval, from the nth on or (which -1) the last ones; None where that means nothing."""
    if unit in ("week", "weekend"):
        # The weeks whose Thursday, and the weekends whose Saturday, lies in the interval.
        middle = timedelta(days=3 if unit == "week" else 0)
        if which > 0:
            first = unit_span(base.start - middle, unit)
            if first.start + middle < base.start:
                first = unit_span(first.start, unit, 1)
            start = first.start + timedelta(days=7 * (which - 1))
        else:
            start = unit_span(base.end - DAY, unit).start
            if start + middle >= base.end:
                start -= 7 * DAY
            start -= timedelta(days=7 * (count - 1))
        end = start + timedelta(days=7 * count if unit == "week" else 7 * (count - 1) + 2)
        return Span(start, end, unit, "range")
    if unit not in ("day", "month", "quarter", "year") or base.grain == unit:
        return None
    start = shift(base.start, unit, which - 1) if which > 0 else shift(base.end, unit, -count)
    return Span(start, shift(start, unit, count), unit, "date" if unit == "day" and count == 1 else "range")


def micros(moment: datetime) -> int:
    """Returns microseconds since 1970 of a naive UTC moment."""
    return (moment - EPOCH) // MICROSECOND

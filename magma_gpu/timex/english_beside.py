"""English rules for units and weekdays that stand beside another date: "the week before", "first Friday of", "end of".

What a reader would not guess: the first week of a month is the first whose Thursday lies in it, and "early", "mid" and
"late" cut a year into thirds, a month at its 10th and 21st day and a week at Thursday.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from magma_gpu.timex.english_relative import named_day, nth_of, resolved
from magma_gpu.timex.grammar import Context, Grammar, text_of
from magma_gpu.timex.holidays import nth_weekday
from magma_gpu.timex.intervals import (
    DAY,
    Cal,
    Clock,
    Qty,
    Span,
    day_of,
    day_span,
    nth_unit,
    part_of,
    shift_all,
    unit_span,
    unit_start,
    weekday_near,
    weekend_near,
    with_clock,
)

_END_OF_DAY = Clock(86_399, 86_400, "second")


def add_beside(g: Grammar) -> None:
    """Adds what is counted from, before, after or inside another date."""
    add = g.add
    # Units and weekdays beside a date.
    add("A", "<the><unit>(?:<of|starting|edge>)<the>?(<A|month|season|holiday>)", _unit_of)
    add("A", "<the>?(<unit>)<before|after>(<A|holiday|month|dow>)", _unit_beside)
    add("R", "<the>(<units>)<before|after>(<A|holiday|month>)", _units_beside)
    add("A", "<the>?(<ord>)?(<dow>)(<before|after>)(<A|holiday|month>)", _weekday_beside)
    add("A", "<the>(<dow>)<before|after>(?=$|<stop|comma|and|when|pron>)", _weekday_aside)
    add("A", "<the>?(<ord>)<last>(<unit|dow>)<of|in><the>?(<A|month|unit>)", _nth_last)
    add("A", "(<A|holiday>)(<unit>)(?!<s>)", _weekend_of)
    add(
        "A",
        "<the>?(<ord|last>)(<cnt>)?(<unit|units|dow|part>)<of|in><the>?(<A|month|season|unit|y>)",
        nth_of,
    )
    add("A", "<the>?(<ord|last>)(<cnt>)?(<unit|units>)<of|in><the><unit>", _nth_of_this)
    add("A", "(<edge>)<of><the>?(<A|month|season|unit|y>)", _edge_of)
    add("A", "(<edge>)<of>(<A>)", _edge_of)
    add("A", "<the>?<eod>", lambda c: with_clock(day_span(c.ref), _END_OF_DAY) if c.ref else None)
    add("A", "(<early|mid|late>)<dash|in>?<the>?(<A|month|season|y>)", _edge_of)
    add("A", "(<earlier|later>)<in>?<the>?(<A|unit|deictic|month>)", _half_of)
    add("A", "<the>(<unit>)<before|after>(?=$|<stop|comma|and|when|pron>)", _unit_aside)
    add("A", "<unit><of>?(<y>)", lambda c, y: Cal(y) if text_of(c).startswith("year") else None)


def _unit_of(c: Context, a: Any) -> Span | None:
    unit = c.tokens[1].value
    how = c.text[c.tokens[2].first : c.tokens[2].last]
    start = resolved(c, a).start
    if unit == "week" and how != "of":
        return Span(start, start + 7 * DAY, "week", "range")
    if unit == "weekend":
        return weekend_near(start)
    return unit_span(start, unit) if unit == "week" else None


def _weekend_of(c: Context, a: Any, unit: str) -> Span | None:
    return weekend_near(resolved(c, a).start) if unit == "weekend" else None


def _unit_beside(c: Context, unit: str, a: Any) -> Span | None:
    base = named_day(c, a)
    step = -1 if "before" in text_of(c) else 1
    if unit == "weekend":
        near = unit_span(base.start, "weekend")
        if step < 0:
            return near if near.end <= base.start else unit_span(base.start, "weekend", -1)
        return near if near.start >= base.end else unit_span(base.start, "weekend", 1)
    if unit == "day":
        return day_span(day_of(base.start) - DAY if step < 0 else base.end)
    if unit in ("week", "month", "year"):
        return unit_span(base.start, unit, step)
    return None


def _units_beside(c: Context, unit: str, a: Any) -> Span | None:
    """Reads "the days before 9 June": a week of days, else three of the unit."""
    if unit not in ("day", "week", "month", "year"):
        return None
    base = resolved(c, a)
    qty = Qty(((unit, 7 if unit == "day" else 3),))
    if "before" in text_of(c):
        return Span(shift_all(base.start, qty, -1), base.start, unit, "range")
    return Span(base.end, shift_all(base.end, qty, 1), unit, "range")


def _weekday_beside(c: Context, num: int | None, dow: int, _: Any, a: Any) -> Span:
    base = resolved(c, a)
    weeks = timedelta(days=7 * ((num or 1) - 1))
    if "before" in text_of(c):
        return day_span(weekday_near(base.start, dow, -1).start - weeks)
    return day_span(weekday_near(base.end, dow, 1).start + weeks)


def _weekday_aside(c: Context, dow: int) -> Span | None:
    if c.ref is None:
        return None
    return weekday_near(c.ref, dow, -1) if text_of(c).endswith("before") else weekday_near(c.ref + DAY, dow, 1)


def _nth_last(c: Context, num: int, unit: Any, a: Any) -> Span | None:
    base = resolved(c, a)
    if isinstance(unit, int):
        return day_span(nth_weekday(base.start.year, base.start.month, unit, -num))
    span = nth_unit(base, -1, num, unit)
    return nth_unit(replace(span, grain=base.grain), 1, 1, unit) if span and unit in ("day", "week", "month") else None


def _nth_of_this(c: Context, num: Any, count: float | None, unit: str) -> Span | None:
    whole = c.tokens[-1].value
    if c.ref is None or whole not in ("month", "year", "quarter"):
        return None
    return nth_unit(unit_span(c.ref, whole), -1 if num is None else int(num), int(count or 1), unit)


def _edge_of(c: Context, which: str, a: Any) -> Span | None:
    unit = a if isinstance(a, str) else ""
    if unit in ("hour", "minute", "second"):
        return None
    base = resolved(c, a)
    if base.grain == "day":
        return with_clock(base, _END_OF_DAY) if which == "end" else None
    if base.grain == "week" and which != "middle":
        half = base.start + 3 * DAY
        return replace(base, end=half) if which == "begin" else replace(base, start=half)
    return part_of(base, which)


def _half_of(c: Context, _: Any, a: Any) -> Span | None:
    base = resolved(c, a)
    early = "earlier" in text_of(c)
    if early and base.grain == "year" and c.ref is not None and base.start < day_of(c.ref) < base.end:
        return replace(base, end=day_of(c.ref), kind="range")
    if base.grain == "day":
        middle = base.start + DAY / 2
    elif base.grain == "week":
        middle = base.start + 3 * DAY
    elif base.grain == "month":
        middle = base.start + 15 * DAY
    elif base.grain == "year":
        middle = datetime(base.start.year, 7, 1)
    else:
        return None
    kind = "range"
    return replace(base, end=middle, kind=kind) if early else replace(base, start=middle, kind=kind)


def _unit_aside(c: Context, unit: str) -> Span | None:
    if c.ref is None or unit not in ("day", "week", "weekend", "month", "year"):
        return None
    return unit_span(unit_start(c.ref, unit), unit, -1 if text_of(c).endswith("before") else 1)

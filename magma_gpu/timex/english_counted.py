"""English rules for dates that lie an amount of time from another date, or beside one that is only named by its turn.

What a reader would not guess: "a week ago Monday" is the Monday a week before the last one, while "two weeks ago on
Monday" is that of the week two weeks ago; and "this time last year" is the month a year before the text's time.
"""

from datetime import timedelta
from typing import Any

from magma_gpu.timex.english_relative import resolved
from magma_gpu.timex.grammar import Context, Grammar, text_of
from magma_gpu.timex.intervals import (
    DAY,
    Qty,
    Span,
    ago,
    day_of,
    day_span,
    season_span,
    shift_all,
    unit_span,
    weekday_near,
    weekday_span,
    weekend_near,
    with_part,
)

_LONG = ("week", "fortnight", "month", "year", "decade")


def add_counted(g: Grammar) -> None:
    """Adds amounts before and after other dates."""
    add = g.add
    # From here on "prior to" is "before".
    add("before", "<prior><to>", lambda _: True)
    add("A", "(<Q>)<ago><on|in>?(<A|dow|month>)", _ago_from)
    add("A", "(<dow>)<comma>?(<Q>)(?:<ago>|<from><now>)", _weekday_then)
    add("A", "(<dow>)<in>(<Q>)(?!<s>)", _weekday_then)
    add("A", "<this|same><unit>(<A>)", _this_day_of)
    add("A", "<A>(<A>)", lambda c, a: _this_day_of(c, a) if text_of(c).startswith("today") else None)
    add("A", "<this><timeword>(<A>)", _this_time)
    add("A", "(<A>)<about><this><timeword>", _this_time)
    add("A", "<the>?(<dow>)<before><last>", lambda c, w: _weekday_before_last(c, w))
    add("A", "<the>?(<season>)<before><last>", _season_before_last)
    add("A", "<the>(<part>)<before><last>", _night_before_last)
    add("A", "<the>(<prev>)(<unit>)", lambda c, _, u: _previous_day(c, u))
    add("A", "<the>(<unit>)<following>(?=$|<stop|comma>)", lambda c, u: _next_unit(c, u))
    add("A", "(?<=<on>)<this>(?:<dateword>|<unit>)(?=$|<stop|comma|in>)", _this_day)
    add("A", "(<Q>)<earlier|prior>(?=$|<stop|comma>)", lambda c, q: ago(c.ref, q, -1) if c.ref else None)
    add("R", "(?<=<in|over|during|within|for>)<the>?<past|last|next>(<units>)", _some_units)
    add("R", "(?<=<in|over|during>)<the>?<recent>(<units>)", lambda c, u: _some(c, u, -1))
    add("R", "<the>?(<unit>)<ending>(?:<on>)?<the>?(<A>)", _ending)
    add("A", "<the>?<unit><of><the>?(<A>)", _week_of_day)
    add("A", "<the>?(<unit>)<of>(<A|month>)", _named_unit)


def _ago_from(c: Context, qty: Qty, a: Any) -> Span | None:
    unit = qty.parts[-1][0]
    if c.ref is None or unit not in _LONG:
        return None
    last = c.tokens[-1]
    word = c.text[last.first : last.last]
    on = c.text[c.tokens[-2].first : c.tokens[-2].last] in ("on", "in")
    if isinstance(a, int):
        if word[:3] in ("mon", "tue", "wed", "thu", "fri", "sat", "sun"):
            if unit not in ("week", "fortnight"):
                return None
            if on:
                return weekday_span(shift_all(c.ref, qty, -1), a, 0)
            return day_span(shift_all(weekday_near(c.ref, a, -1).start, qty, -1))
        if unit != "year" or not on:
            return None
        return unit_span(shift_all(c.ref, qty, -1).replace(day=1, month=a), "month")
    if not isinstance(a, Span) or on or a.kind not in ("date", "range"):
        return None
    if a.grain == "day":
        return day_span(day_of(shift_all(a.start, qty, -1)))
    start = shift_all(a.start + (a.end - a.start) / 2, qty, -1)
    return unit_span(start, a.grain) if a.grain in ("week", "month", "weekend") else None


def _this_time(c: Context, a: Any) -> Span | None:
    words = text_of(c)
    unit = a.grain if isinstance(a, Span) else ""
    if c.ref is None or unit not in ("week", "month", "year") or ("last" in words) == ("next" in words):
        return None
    at = shift_all(c.ref, Qty(((unit, 1),)), -1 if "last" in words else 1)
    return day_span(day_of(at)) if unit == "week" else unit_span(at, "week" if unit == "month" else "month")


def _weekday_then(c: Context, dow: int, qty: Qty) -> Span | None:
    """Reads "Monday two weeks ago"."""
    if c.ref is None or qty.parts[-1][0] not in ("week", "fortnight"):
        return None
    return weekday_span(shift_all(c.ref, qty, -1 if text_of(c).endswith("ago") else 1), dow, 0)


def _this_day_of(c: Context, a: Any) -> Span | None:
    """Reads "this day last year" and "today next week"."""
    words = text_of(c).split()
    if c.ref is None or not isinstance(a, Span) or a.grain not in ("week", "month", "year"):
        return None
    if ("day" not in words and "today" not in words) or words[-2] not in ("last", "next"):
        return None
    return day_span(day_of(shift_all(c.ref, Qty(((a.grain, 1),)), -1 if words[-2] == "last" else 1)))


def _weekday_before_last(c: Context, dow: int) -> Span | None:
    return day_span(weekday_near(c.ref, dow, -1).start - 7 * DAY) if c.ref else None


def _season_before_last(c: Context, name: str) -> Span | None:
    if c.ref is None:
        return None
    over = [s for k in (-2, -1, 0) if (s := season_span(c.ref.year + k, name)).end <= c.ref]
    return season_span(over[-1].start.year - 1, name)


def _night_before_last(c: Context, part: tuple[int, int, str]) -> Span | None:
    return with_part(day_span(day_of(c.ref) - 2 * DAY), part) if c.ref else None


def _previous_day(c: Context, unit: str) -> Span | None:
    return day_span(day_of(c.ref) - DAY) if c.ref and unit == "day" else None


def _next_unit(c: Context, unit: str) -> Span | None:
    return unit_span(c.ref, unit, 1) if c.ref and unit in ("day", "week", "weekend", "month", "year") else None


def _this_day(c: Context) -> Span | None:
    return day_span(day_of(c.ref)) if c.ref and text_of(c).endswith(("day", "date")) else None


def _some_units(c: Context, unit: str) -> Span | None:
    return _some(c, unit, -1 if text_of(c).removeprefix("the ").startswith(("last", "past")) else 1)


def _some(c: Context, unit: str, step: int) -> Span | None:
    """Of "in the coming weeks" three is meant as much as any other number."""
    if c.ref is None or unit not in ("day", "week", "month", "year"):
        return None
    start = day_of(c.ref) + (DAY if step > 0 else timedelta(0))
    end = shift_all(start, Qty(((unit, 3),)), step)
    return Span(min(start, end), max(start, end), unit, "range")


def _ending(c: Context, unit: str, a: Any) -> Span | None:
    span = c.fix(a)
    if span is None or span.grain != "day" or unit not in ("week", "month"):
        return None
    return Span(shift_all(span.end, Qty(((unit, 1),)), -1), span.end, "day", "range")


def _week_of_day(c: Context, a: Any) -> Span | None:
    unit = next(t.value for t in c.tokens[:2] if t.value is not None)
    span = c.fix(a)
    if span is None or span.grain != "day" or unit not in ("week", "weekend"):
        return None
    return unit_span(span.start, "week") if unit == "week" else weekend_near(span.start)


def _named_unit(c: Context, unit: str, a: Any) -> Span | None:
    span = resolved(c, a)
    return span if unit == "month" and span.grain == "month" and span.kind == "range" else None

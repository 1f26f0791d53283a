"""English rules for dates that hang on the text's own time or on another date.

What a reader would not guess: `last Friday` is the nearest Friday strictly before the text's day, `this Friday` the
one of its week, `next Friday` the one of the week after and `previous Friday` the one of the week before; weeks start
on Monday.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from magma_gpu.timex.english_dates import step_of
from magma_gpu.timex.grammar import Context, Grammar, text_of
from magma_gpu.timex.holidays import holiday_near, nth_weekday
from magma_gpu.timex.intervals import (
    DAY,
    SECONDS,
    Cal,
    Clock,
    Qty,
    Span,
    ago,
    day_of,
    day_span,
    nth_unit,
    part_of,
    season_near,
    season_span,
    shift_all,
    unit_span,
    weekday_near,
    weekday_span,
    with_clock,
    with_part,
)

_NOT_SINCE = re.compile(r"(?:n['’]t|\bnever|\bnot|\bfirst|\bbest|\bworst|\btime|\bhaven|\bhasn)\b[^.!?]*$")
# "He said that it starts in two weeks."
_REPORTED = re.compile(
    r"\b(?:said|told|heard|learn\w*|announced|decided|agreed|promised|asked|planned|booked|scheduled|signed|found|"
    r"due|start\w*|begins?|is|are|has|have|to|who|that|if|when|hadn|not|never|first|best|worst|time|t)\b"
)
_END_OF_DAY = Clock(86_399, 86_400, "second")


def add_relative(g: Grammar) -> None:
    """Adds dates that hang on the text's own time."""
    add = g.add
    add("A", "(<deictic>)", lambda c, k: day_span(day_of(c.ref) + k * DAY) if c.ref else None)
    add("A", "(?<!<ord>)<the>?(<ord|last>)(<Q>)<of|in><the>?(<A|month|season|y>)", _nth_amount)
    add("A", "(?<!<ord>)<the>?(<ord|last>)(<cnt>)?(<unit|units|dow>)<of|in><the>?(<A|month|season|y>)", nth_of)
    add("A", "<this>?(<last|past|prev|next|this|following>)<work>?(<unit|workweek>)", _relative_unit)
    add("A", "<the>(<following|next>)(<unit>)", _relative_unit)
    add("A", "(?<=<for>)<the>(<unit>)(?=$|<stop|comma>)", _for_the)
    add("A", "(<A|month>)<of|in|comma>?(<A>)", _inside_of)
    add("A", "(<A>)<comma>?<on>(<A>)", lambda c, a, b: _inside_of(c, b, a))
    add("A", "<the>?(<ordd|ordw>)<of><the>(<unit>)", _day_of_this)
    add("A", "<the>?(<unit>)<after>(<next>)", lambda c, u, _: unit_span(c.ref, u, 2) if c.ref else None)
    add("A", "<the>?(<unit>)<before>(<last>)", lambda c, u, _: unit_span(c.ref, u, -2) if c.ref else None)
    add("R", "(?<!<modal|to>)<these|this>?(<stp>)<only>?(<Q>)", _rolling)
    add("R", "(<cnt>)(<stp>)(<units>)", lambda c, n, _, u: _roll(c, Qty(((u, n),)), step_of(c, -2)))
    add("A", "(<A>)<the>?(<ordd>)(?!<x|unit|units>)", lambda c, a, d: _day_of_month(c, d, a))
    add("A", "<this>?<next>(<dow>)", _coming)
    add("A", "<this><past|last>(<dow>)", lambda c, w: weekday_near(c.ref, w, -1) if c.ref else None)
    add("A", "(<dow>)<after><next>", _after_next)
    add("A", "(<stp>)(<dow>)(?!<of|in><the>?<every|unit>)", _weekday_step)
    add("A", "(<stp>)(<month>)(?!<d|ord>)", _month_step)
    add("A", "<this>?(<stp>)(<season>)", _season_step)
    add("A", "<the><other><unit>", _other_day)
    add("A", "(<stp>)(<A>)", _step_date)
    add(
        "A",
        "<tonight>",
        lambda c: with_clock(day_span(c.ref), Clock(72_000, 86_400, "part_of_day")) if c.ref else None,
    )
    add("A", "(<stp>)<early|late>?(<part>)", _relative_part)
    add("A", "(<A>)(?:<on>|<s>)?(<dow>)(?!<A>)", _weekday_in)
    add("A", "<on>?(<dow>)<of|in|from>?<the>?(<A>)", lambda c, w, a: _weekday_in(c, a, w))
    add("A", "<the>?(<ordd|ordw|d>)<unit>?<of|in>?<the>?(<A>)", _day_of_month)
    add("A", "(<A>)<s>(<ordd|ordw>)(?!<unit|units|x>)", lambda c, a, d: _day_of_month(c, d, a))
    add("A", "(<A>)<s>(<ord>)(<unit>)", lambda c, a, n, u: nth_unit(resolved(c, a), int(n), 1, u))


def add_amounts(g: Grammar) -> None:
    """Adds amounts of time from a date."""
    add = g.add
    add("R", "(<Q>)<comma>?<starting>(?:<from|on>)?(<A|month|dow>)", _amount_from)
    add("R", "<for>(<Q>)<comma>?<from>(<A|month|dow>)", _amount_from)
    add("R", "(<Q>)<now>", _until_now)
    add("A", "(<Q>)<ago>", lambda c, q: ago(c.ref, q, -1) if c.ref else None)
    add("A", "(<cnt>)(<dow|dows>)(?:<ago|back>)", _weekdays_ago)
    add("A", "(<cnt>)(<dow|dows>)(?:<later>|<from><now>)", _weekdays_ahead)
    add("A", "<a>?(<unit>)<from>(<A|dow>)", _week_from)
    add("R", "<from>(<A>)<for>(<Q>)", lambda c, a, q: _amount_from(c, q, a) if _is_day(c, a) else None)
    add("R", "<the>?<rest><of><the>?(<A|unit>)", _rest_of)
    add("A", "<the>?(<endof>)", lambda c, u: part_of(unit_span(c.ref, u), "end") if c.ref else None)
    add("A", "(<Q>)(?:<later|hence>|<from><now>)(?!<stp|A>)", lambda c, q: ago(c.ref, q, 1) if c.ref else None)
    add("A", "(<Q>)<after>(?=$|<stop|comma>)", lambda c, q: ago(c.ref, q, 1) if c.ref else None)
    add("A", "(<Q>)(?:<back|earlier>)(?=$|<stop|comma|and|when|pron|rpar>)", _back)
    add("A", "<in>?(<Q>)(<before|after|from>)(<A|month|dow|now|holiday>)(?:<on>(<dow>))?", _amount_relative)
    add("A", "<in>(<Q>)<since|of>(?:<the>?<unit>)?(<A|y>)", lambda c, q, a: ago(resolved(c, a).start, q, 1))
    add("R", "<in>(?:<less><than>|<at><least>?)(<Q>)", _within)
    add("A", "<in>(?:<more><than>|<over>)?<about|only|a>?(<Q>)(?:<s|quote>?<timeword>)?(?:<on>(<dow>))?", _in_amount)


def _relative_unit(c: Context, _: Any, unit: str | None) -> Span | None:
    if c.ref is None:
        return None
    work = unit is None or (len(c.tokens) > 2 and unit == "week" and "work" in text_of(c))
    step = step_of(c, -2 if not work or unit is None else -3)
    if text_of(c).startswith("this past") or text_of(c).startswith("past"):
        if unit not in ("weekend", "night", None):
            return _roll(c, Qty(((str(unit), 1),)), -1)
        step = -1
    if unit == "day":
        return day_span(day_of(c.ref) + step * DAY) if step > 0 and "the" in text_of(c) else None
    if unit in ("hour", "minute", "second", "fortnight") or unit == "weekday":
        return _roll(c, Qty(((unit, 1),)), step) if step and unit != "weekday" else None
    span = unit_span(c.ref, unit or "week", step)
    return replace(span, end=span.start + 5 * DAY) if work else span


def _rolling(c: Context, _: Any, qty: Qty) -> Span | None:
    k = next(k for k, t in enumerate(c.tokens) if t.value is qty) - 1
    while c.text[c.tokens[k].first : c.tokens[k].last] == "only":
        k -= 1
    return _roll(c, qty, step_of(c, k))


def _for_the(c: Context, unit: str) -> Span | None:
    """Resolves the end of "I am away for the week"."""
    return unit_span(c.ref, unit) if c.ref and unit in ("day", "week", "weekend", "month", "year") else None


def _roll(c: Context, qty: Qty, step: int) -> Span | None:
    """Returns the stretch of an amount that ends or starts at the text's time."""
    if c.ref is None or step == 0:
        return None
    unit, num = qty.parts[-1]
    if unit in ("quarter", "decade", "century", "weekend") and num == int(num):
        near, far = unit_span(c.ref, unit, step), unit_span(c.ref, unit, step * int(num))
        first, last = (far, near) if step < 0 else (near, far)
        return Span(first.start, last.end, first.grain, "range")
    if unit in ("hour", "minute", "second"):
        start = c.ref
    else:
        # Whole days: up to yesterday, or from tomorrow.
        start = day_of(c.ref) + (DAY if step > 0 else timedelta(0))
    end = shift_all(start, qty, step)
    return Span(min(start, end), max(start, end), "day" if unit == "fortnight" else unit, "range")


def _weekday_step(c: Context, _: Any, dow: int) -> Span | None:
    if c.ref is None:
        return None
    step = step_of(c)
    if step == 0:
        return weekday_span(c.ref, dow, 0)
    if text_of(c).startswith(("previous", "preceding")):
        return weekday_span(c.ref, dow, -1)
    return weekday_near(c.ref, dow, -1) if step < 0 else weekday_span(c.ref, dow, 1)


def _coming(c: Context, dow: int) -> Span | None:
    return weekday_near(c.ref + DAY, dow, 1) if c.ref and "coming" in text_of(c) else None


def _month_step(c: Context, _: Any, month: int) -> Span | None:
    if c.ref is None:
        return None
    step = step_of(c)
    year = c.ref.year
    if step < 0:
        year -= month >= c.ref.month
    elif step > 0:
        year += month <= c.ref.month
    return unit_span(datetime(year, month, 1), "month")


def _season_step(c: Context, _: Any, name: str) -> Span | None:
    if c.ref is None:
        return None
    step = step_of(c, -2)
    if step == 0:
        return season_span(c.ref.year, name)
    if step > 0:
        return season_near(season_near(c.ref, name, 1).end if _inside(c.ref, name) else c.ref, name, 1)
    begun = season_near(c.ref, name, -1)
    return begun if begun.end <= c.ref else season_span(begun.start.year - 1, name)


def _inside(moment: datetime, name: str) -> bool:
    return season_near(moment, name, 1).start <= moment


def _other_day(c: Context) -> Span | None:
    if c.ref is None or not text_of(c).endswith("day"):
        return None
    today = day_of(c.ref)
    return Span(today - 7 * DAY, today, "week", "range")


def _step_date(c: Context, _: Any, a: Any) -> Any:
    if not isinstance(a, Cal) or a.year or not a.day:
        return None
    step = step_of(c)
    if step == 0 and c.ref is not None and a.month:
        return replace(a, year=c.ref.year)
    return replace(a, way=step)


def _relative_part(c: Context, _: Any, part: tuple[int, int, str]) -> Span | None:
    if c.ref is None:
        return None
    return with_part(day_span(day_of(c.ref) + step_of(c) * DAY), part)


def _weekday_in(_: Context, a: Any, dow: int) -> Span | None:
    span = a if isinstance(a, Span) else None
    return weekday_span(span.start, dow, 0) if span and span.grain == "week" and span.kind == "range" else None


def resolved(c: Context, value: Any) -> Span:
    """Resolves a date, a holiday's name, a month or a season, or refuses the match."""
    if isinstance(value, str) and c.ref is not None:
        if value in ("spring", "summer", "autumn", "winter"):
            return season_near(c.ref, value, c.way())
        if value in ("day", "week", "month", "year", "quarter", "decade", "weekend", "century"):
            return unit_span(c.ref, value)
        if value in SECONDS:
            raise ValueError("no unit that a calendar has one of at a time")
        return holiday_near(value, c.ref, c.way())
    if isinstance(value, int):
        value = Cal(month=value) if value <= 12 else Cal(year=value)
    span = c.fix(value)
    if span is None:
        raise ValueError("no such date")
    return span


def named_day(c: Context, value: Any, k: int = -1) -> Span:
    """As `_at`, where a token may also be a weekday alone."""
    token = c.tokens[k]
    if isinstance(value, int) and c.text[token.first : token.first + 2] in (
        "mo",
        "tu",
        "we",
        "th",
        "fr",
        "sa",
        "su",
    ):
        return resolved(c, Cal(dow=value))
    if value is None and c.ref is not None:
        return Span(c.ref, c.ref, "second", "time")
    return resolved(c, value)


def _amount_from(c: Context, qty: Qty, a: Any) -> Span:
    start = named_day(c, a).start
    return Span(start, shift_all(start, qty, 1), "day", "range")


def _until_now(c: Context, qty: Qty) -> Span | None:
    """Of "for three years now" only the year of its start is known."""
    if c.ref is None:
        return None
    span = ago(c.ref, qty, -1)
    return Span(span.start, c.ref, span.grain, "duration")


def _weekdays_ago(c: Context, num: float, dow: int) -> Span | None:
    return day_span(weekday_near(c.ref, dow, -1).start - timedelta(days=7 * (int(num) - 1))) if c.ref else None


def _weekdays_ahead(c: Context, num: float, dow: int) -> Span | None:
    return day_span(weekday_near(c.ref + DAY, dow, 1).start + timedelta(days=7 * (int(num) - 1))) if c.ref else None


def _week_from(c: Context, unit: str, a: Any) -> Span | None:
    return day_span(day_of(named_day(c, a).start) + 7 * DAY) if unit == "week" else None


def _is_day(c: Context, a: Any) -> bool:
    span = c.fix(a)
    return span is not None and span.grain == "day" and span.kind == "date"


def _rest_of(c: Context, a: Any) -> Span | None:
    if c.ref is None:
        return None
    span = resolved(c, a)
    start = day_of(c.ref) + DAY if span.grain != "day" else c.ref
    return Span(start, span.end, span.grain, "range") if span.start <= c.ref and start < span.end else None


def _day_of_month(_: Context, day: int, a: Any) -> Cal | None:
    """Joins "the 20th" and "of next month"."""
    if not isinstance(a, Span) or a.grain != "month" or a.kind != "range" or not 1 <= day <= 31:
        return None
    return Cal(a.start.year, a.start.month, day)


def _day_of_this(c: Context, day: int, unit: str) -> Cal | None:
    """Reads "the 15th of the month"."""
    return Cal(c.ref.year, c.ref.month, day) if c.ref and unit == "month" and 1 <= day <= 31 else None


def _within(c: Context, qty: Qty) -> Span | None:
    return Span(c.ref, shift_all(c.ref, qty, 1), qty.parts[-1][0], "range") if c.ref else None


def _after_next(c: Context, dow: int) -> Span | None:
    return day_span(weekday_near(c.ref + DAY, dow, 1).start + 7 * DAY) if c.ref else None


def _back(c: Context, qty: Qty) -> Span | None:
    return ago(c.ref, qty, -1) if c.ref and not qty.article else None


def _amount_relative(c: Context, qty: Qty, _: Any, a: Any, dow: int | None) -> Span | None:
    k = 1 + (c.tokens[0].value is not qty)
    base = named_day(c, a, k + 1)
    word = c.text[c.tokens[k].first : c.tokens[k].last]
    if base.grain not in ("day", "hour", "minute", "second", "part_of_day") and word == "from":
        return None
    sign = -1 if word.startswith(("before", "prior")) else 1
    at = shift_all(base.start, qty, sign)
    span = day_span(day_of(at)) if base.grain == "day" and at == day_of(at) else ago(base.start, qty, sign)
    return span if dow is None else _on_weekday(span, qty, dow)


def _on_weekday(span: Span, qty: Qty, dow: int) -> Span:
    """Of an amount of days or weeks the weekday of that week, of any longer one the nearest from there on."""
    if qty.parts[-1][0] in ("day", "week", "fortnight"):
        return weekday_span(span.start, dow, 0)
    return weekday_near(span.start, dow, 1)


def _in_amount(c: Context, qty: Qty, dow: int | None) -> Span | None:
    if c.ref is None or (qty.article and qty.parts[0][0] in ("day", "night")):
        return None
    if c.tokens[1].value == 1 and not text_of(c).startswith("in another"):
        # "In a 48-hour challenge".
        return None
    if _took(c):
        length = timedelta(seconds=qty.seconds())
        return Span(c.ref - length, c.ref, qty.parts[-1][0], "duration") if length else None
    if _NOT_SINCE.search(c.text, max(0, c.at - 48), c.at):
        # "the first time in three years", "we have not met in a month"
        return Span(shift_all(c.ref, qty, -1), c.ref, qty.parts[-1][0], "range")
    span = ago(c.ref, qty, 1)
    return span if dow is None else _on_weekday(span, qty, dow)


def _took(c: Context) -> bool:
    """Says whether "in two days" is how long something took: the sentence has only told of the past up to there."""
    start = max((e for e in c.ends if e <= c.at), default=0)
    return c.told() and not _REPORTED.search(c.text, start, c.at)


def _nth_amount(c: Context, num: Any, qty: Qty, a: Any) -> Span | None:
    unit, count = qty.parts[0]
    return nth_unit(resolved(c, a), -1 if num is None else int(num), int(count), unit) if len(qty.parts) == 1 else None


def _inside_of(_: Context, a: Any, b: Any) -> Cal | None:
    """Joins "the 21st" with "this month", and "August" or "5 May" with "last year"."""
    if not isinstance(b, Span) or b.kind != "range":
        return None
    a = Cal(month=a) if isinstance(a, int) else a
    if not isinstance(a, Cal) or a.year:
        return None
    if b.grain == "month" and a.day and not a.month:
        return replace(a, year=b.start.year, month=b.start.month)
    if b.grain == "year" and a.month and b.end - b.start > 364 * DAY and b.start.month == 1:
        return replace(a, year=b.start.year)
    return None


def nth_of(c: Context, num: Any, count: float | None, unit: Any, a: Any) -> Span | None:
    """Returns the nth, or the last, weekday or unit of an interval."""
    if c.text[c.tokens[-1].first : c.tokens[-1].last] in ("day", "week", "hour", "life"):
        return None
    base = resolved(c, a)
    which = -1 if num is None else int(num)
    if which == 0 or abs(which) > 60:
        return None
    if isinstance(unit, int):
        day = nth_weekday(base.start.year, base.start.month, unit, which)
        return day_span(day) if base.start <= day < base.end else None
    if not isinstance(unit, str):
        return None
    return nth_unit(base, which, int(count or 1), unit)

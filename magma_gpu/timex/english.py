"""English rules for amounts of time and for dates.

Times of day, ranges and repetition are in `english_ranges`. What a reader would not guess: `last Friday` is the
nearest Friday strictly before the text's day, `this Friday` the one of its week and `next Friday` the one of the
week after.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from magma_gpu.timex.grammar import Context, Grammar, merge
from magma_gpu.timex.holidays import holiday, holiday_near, nth_weekday
from magma_gpu.timex.intervals import (
    DAY,
    Cal,
    Clock,
    Qty,
    Span,
    ago,
    day_of,
    day_span,
    part_of,
    season_near,
    season_span,
    shift,
    shift_all,
    unit_span,
    unit_start,
    weekday_near,
    weekday_span,
    with_clock,
)

# The classes that a rule about "last, this, next" takes, and the steps they mean.
_STEPS = {"last": -1, "past": -1, "prev": -1, "this": 0, "these": 0, "next": 1, "following": 1}
_END_OF_DAY = Clock(86_399, 86_400, "second")


def add_numbers(g: Grammar) -> None:
    """Adds months that are also words, years, and amounts of time."""
    c = g.classes
    c.union("cnt", "d dn dec wn frac d4 few couple several dozen")
    c.union("ord", "ordd ordw")
    c.union("anyunit", "unit units weekends ordw fall")
    c.union("stp", "last past prev this these next following")
    g.add("month", "(<may>)(?=<dash|slash|comma|dot|stop>?<d|ordd|ordw|d4|wn>)", lambda _, v: v)
    g.add("month", "(?<=<in|of|since|until|by|next|last|early|mid|late|during|between|d|ordd|ordw>)(<may>)", _same)
    g.add("month", "(?<=<month><to|dash|and|or|until|through|slash>)(<may>)", _same)
    g.add("y", "(?<!<money>)(<d4>)(?!<units|percent|ampm>)", _year)
    g.add("y", "(<wn>)<dash>?(<wn>)", lambda _, a, b: a * 100 + b if 13 <= a <= 20 and 10 <= b <= 99 else None)
    g.add("y", "(<wn>)(?!<unit|units>)", lambda _, v: v if 1100 <= v <= 2100 and v % 1000 != 0 or v == 2000 else None)
    g.add("A", "<the>?<quote>?(<d>)(?:<unit>)", _decade)
    g.add("A", "<the>?<quote>?(<d4|y>)<unit|x>", _decade)
    g.add("A", "<the>?(<decades>)", lambda _, v: _years(1900 + v, 10) if v >= 20 else None)
    # Amounts.
    g.add("Q", "<a><unit><of><a>(<unit>)", lambda x, u: _fraction(x, u, 0.25))
    g.add("Q", "(<cnt|a>)<and><a>?(<half|unit>)(<unit|units>)", lambda _, n, h, u: Qty(((u, n + _part(h)),)))
    g.add("Q", "<a>?<half><a>?(<unit>)", lambda _, u: Qty(((u, 0.5),)))
    g.add("Q", "(<cnt|a>)(<unit|units>)<and><a>?(<half>)", lambda _, n, u, h: Qty(((u, n + 0.5),)))
    g.add("Q", "(<cnt|a>)(<unit>)<and><a>(<unit>)(?!<ago|later>)", _and_a_quarter)
    g.add("Q", "(<cnt>)(?:<or|to|dash>)(<cnt>)(<units>)", lambda _, a, b, u: Qty(((u, (a + b) / 2),)))
    g.add("C", "(?<=<at>)(<wn>)(<cnt>)<units>", _at_hour_minutes)
    g.add("Q", "<a>(<couple|few|several|dozen>)<of>?(<anyunit>)", _amount)
    g.add("Q", "(<cnt>)<dash>?<of>?(<anyunit>)", _amount)
    g.add("Q", "<a>?(<cnt>)(<part|parts>)", lambda _, n, p: Qty((("day", n),)) if p[2] == "night" else None)
    g.add("Q", "(<wn>)<and>(<Q>)", _tens_and)
    g.add("Q", "<a>(<unit>)", lambda _, u: Qty(((u, 1),), article=True) if u != "quarter" else None)
    g.add("Q", "(<Q>)(?:<comma>?<and>|<comma>)?(<Q>)(?:(?:<comma>?<and>|<comma>)?(<Q>))?", _joined)
    g.add("x", "(<Q>)<dash>?<old>", lambda *_: True)


def _same(_: Context, value: Any) -> Any:
    return value


def _part(half: Any) -> float:
    return 0.25 if half == "quarter" else 0.5


def _year(c: Context, value: int) -> int | None:
    return value if 1000 <= value <= 2999 and c.tokens[0].last - c.tokens[0].first == 4 else None


def _years(first: int, num: int) -> Span:
    grain = {10: "decade", 100: "century"}[num]
    return Span(datetime(first, 1, 1), datetime(first + num, 1, 1), grain, "range")


def _decade(c: Context, value: int) -> Span | None:
    last, number = c.tokens[-1], c.tokens[-2]
    if c.text[last.first : last.last] != "s" or number.last != last.first or value % 10:
        return None
    if value >= 1000:
        return _years(value, 10)
    marked = len(c.tokens) > 2 or c.text[max(0, c.at - 4) : c.at].strip() in ("in", "mid", "rly", "ate")
    if not marked or value < 20:
        return None
    return _years(1900 + value, 10)


def _fraction(c: Context, unit: str, part: float) -> Qty | None:
    return Qty(((unit, part),)) if c.text[c.tokens[1].first : c.tokens[1].last] == "quarter" else None


def _and_a_quarter(_: Context, num: float, unit: str, part: str) -> Qty | None:
    return Qty(((unit, num + 0.25),)) if part == "quarter" and unit != "quarter" else None


def _amount(c: Context, num: float, unit: Any) -> Qty | None:
    last = c.tokens[-1]
    word = c.text[last.first : last.last]
    if word == "second":
        unit = "second"
    elif not isinstance(unit, str) or unit == "autumn":
        return None
    one_day = num == 1 and unit in ("day", "night", "time") and c.text[c.at : c.at + 3] == "one"
    return Qty(((unit, num),), article=one_day)


def _tens_and(_: Context, tens: int, qty: Qty) -> Qty | None:
    # "twenty and four hours"
    (unit, num), *rest = qty.parts
    return Qty(((unit, tens + num), *rest)) if tens % 10 == 0 and 20 <= tens <= 90 and num < 10 else None


def _joined(_: Context, a: Qty, b: Qty, more: Qty | None) -> Qty | None:
    units = [q.parts[-1][0] for q in (a, b, more) if q is not None]
    if len(set(units)) < len(units) or (a.article and b.article):
        return None
    return merge(q for q in (a, b, more) if q is not None)


def _at_hour_minutes(c: Context, hour: float, minute: float) -> Clock | None:
    last = c.tokens[-1]
    if not c.text[last.first : last.last].startswith("minute") or not 1 <= hour <= 12 or not 0 <= minute < 60:
        return None
    start = int(hour) * 3600 + int(minute) * 60
    return Clock(start, start + 60, "minute", loose=True)


def add_dates(g: Grammar) -> None:
    """Adds dates that a calendar names: days, months, years, weekdays, holidays."""
    g.classes.union("dn31", "d ordd ordw wn")
    add = g.add
    add("A", "(<y>)<dash|slash>(<month>)<dash|slash>(<d>)", lambda _, y, m, d: Cal(y, m, d))
    add("A", "(<month>)<dash>(<y>)<dash>(<d>)", lambda _, m, y, d: Cal(y, m, d))
    add("A", "(<d>)<dash>(<y>)<dash>(<month>)", lambda _, d, y, m: Cal(y, m, d))
    add("A", "(<y>)(<d>)(<d>)(?!<unit|units|ampm>)", lambda _, y, m, d: Cal(y, m, d) if m <= 12 else None)
    add("A", "(<date>)", _same)
    add("A", "(<month>)<dot|stop|slash|dash>?<the>?(<d|ordd|ordw|wn>)(?!<ampm>)", _month_day)
    add("A", "(<ord>)(<unit>)<of>(<month>)", lambda c, d, u, m: _month_day(c, m, d) if u == "day" else None)
    add("A", "(?<!<money>)<the>?(<dn31>)(?:<dot|stop|dash|slash>|<of>)?(<month>)", lambda _, d, m: _month_day(_, m, d))
    add("A", "(<md>)", _same)
    add("A", "<dow>?(<A>)(<hm>)<ampm>?(<y>)", _asctime)
    add("A", "(<A>)<comma|dash>?<of|in>?(<y>)(?!<units>)", _add_year)
    add("A", "(<A>)<of>?<quote>?(<d>)(?!<d|ampm|dash>)", _add_short_year)
    add("A", "(<month>)(?:<comma|dash|slash|of|stop>|<of><the>)?(?:<unit>)?(<y>)", lambda _, m, y: Cal(y, m))
    add("A", "(<month>)(?:<of>|<of>?<quote>)(<d>)", lambda _, m, d: Cal(_century(d), m) if d > 12 else None)
    add("A", "(<y>)<dash|slash>?(<month>)", lambda _, y, m: Cal(y, m))
    # The short year of the rule above would else take the day that ends a range: November 19-20.
    add("A", "<the>?(<dow>)<comma|stop>?<the>?(<A>)", _weekday_date)
    add("A", "(<A>)<comma>?<lpar>(<dow>)<rpar>", lambda _, a, w: a if isinstance(a, Cal) and a.day else None)
    add("A", "(<dow>)<comma>?<the>?(<ordd|ordw>)(?!<unit|dow>)", lambda _, w, d: Cal(day=d, dow=w) if d < 32 else None)
    add("A", "(<dow>)(<d>)(?!<ampm|dash|to|unit|units|percent|x>)", _weekday_number)
    add("A", "(?<=<on|by|until|since|around|about>)(<the><ordd>)(?!<x|unit|dow>)", _the_nth)
    add("A", "(<the><ordd>)(?=$|<stop|comma|at|between|from|to|and|or|stp|rpar|pron|until>)", _the_nth)
    # Holidays.
    add("holiday", "<holiday><eve>", lambda c: "christmas eve" if "as " in _text(c) else None)
    add("holiday", "<new><unit><s>?<eve>", lambda _: "new year eve")
    add("holiday", "<new><unit><s>?<unit>?(?!<x>)", lambda c: "new year" if "week" not in _text(c) else None)
    add("holiday", "<intl>?(<namer>)<quote|s>?<unit>", lambda c, v: v if _text(c).endswith("day") else None)
    add("holiday", "(<person>)<quote|s>?<unit>", lambda c, v: v if _text(c).endswith("day") else None)
    add("holiday", "<st>?(<saint>)<quote|s>?<unit>?", lambda _, v: v)
    add("holiday", "<black|cyber><dow>", lambda c: {"b": "black friday", "c": "cyber monday"}[_text(c)[0]])
    add("holiday", "<good><dow>", lambda c: "good friday" if _text(c).endswith("friday") else None)
    add("holiday", "<boxing><unit>", lambda _: "boxing day")
    add("A", "(<holiday>)<unit>?<comma|of|in>?(<y>)", lambda _, h, y: holiday(h, y))
    add("A", "<stp>(<holiday>)", _holiday_step)
    # Seasons, quarters, halves, numbered weeks, centuries.
    add("season", "(?<=<the|this|last|next|past|late|early|mid|in>)(<fall>)", _same)
    add("season", "(<fall>)(?=<of>?<y>)", _same)
    add("A", "(<season>)<of|in>?(<y>)", lambda _, s, y: season_span(y, s))
    add("A", "(<y>)<dash|comma|slash>?(<q|hword>)(<d>)", lambda c, y, _, n: _short_quarter(c, None, n, y))
    add("A", "<the>?(<q|hword>)(<d>)(?:<of|dash|slash|in>?(<y>))?", _short_quarter)
    add("A", "(?<!<stp>)(<unit>)(<d>)(?:<of|in|comma>?(<y>))?(?!<unit|units|ampm>)", _numbered_week)
    add("A", "(?:<the>(?=<ord><unit>))?(<ordd|ordw>)(<unit>)(?!<of>)", _nth_century)
    add("A", "<fiscal>?<unit>?<fiscal><unit>(<y>)", lambda _, y: Cal(y))
    add("A", "<fyshort>(<y|d>)", lambda _, y: Cal(y if y > 99 else _century(y)))
    add("A", "<stp><fiscal><unit>", lambda c: _unit_step(c, "year") if _text(c).endswith("year") else None)


def _text(c: Context) -> str:
    return c.text[c.tokens[0].first : c.tokens[-1].last]


def _month_day(_: Context, month: int, day: int) -> Cal | None:
    return Cal(None, month, day) if 1 <= day <= 31 else None


def _century(year: int) -> int:
    return year + (2000 if year < 50 else 1900)


def _asctime(c: Context, a: Any, clock: Clock, year: int) -> Span | None:
    if not isinstance(a, Cal) or a.year or not a.day:
        return None
    span = c.fix(replace(a, year=year))
    return with_clock(span, clock) if span else None


def _add_year(c: Context, a: Any, year: int) -> Cal | None:
    if c.tokens[-2].last - c.tokens[-2].first == 1 and c.text[c.tokens[-2].first] == "-" and " " in _text(c):
        # "May 5 - 2019" is no date.
        return None
    return replace(a, year=year) if isinstance(a, Cal) and a.month and not a.year else None


def _add_short_year(c: Context, a: Any, year: int) -> Cal | None:
    if len(c.tokens) == 2 or year < 10:
        return None
    return _add_year(c, a, _century(year))


def _weekday_date(_: Context, dow: int, a: Any) -> Cal | None:
    return a if isinstance(a, Cal) and a.day and a.dow is None else None


def _weekday_number(_: Context, dow: int, day: int) -> Cal | None:
    return Cal(day=day, dow=dow) if 12 < day < 32 else None


def _the_nth(_: Context, values: list[Any]) -> Cal | None:
    return Cal(day=values[1]) if 1 <= values[1] <= 31 else None


def _holiday_step(c: Context, name: str) -> Span | None:
    if c.ref is None:
        return None
    step = _step(c)
    if step == 0:
        return holiday(name, c.ref.year)
    return holiday_near(name, day_of(c.ref) - DAY if step < 0 else c.ref + DAY, step)


def _step(c: Context, k: int = 0) -> int:
    """Returns the direction that the word of a match's token means."""
    word = c.text[c.tokens[k].first : c.tokens[k].last]
    if word in ("last", "past", "previous", "preceding"):
        return -1
    return 0 if word in ("this", "these", "current") else 1


def _short_quarter(c: Context, _: Any, num: int, year: int | None = None) -> Span | None:
    half = "h" in _text(c)
    if not 1 <= num <= (2 if half else 4) or (year is None and (half or c.ref is None)):
        return None
    months = 6 if half else 3
    start = datetime(year or (c.ref.year if c.ref else 1), (num - 1) * months + 1, 1)
    return Span(start, shift(start, "month", months), "quarter", "range")


def _numbered_week(c: Context, unit: str, num: int, year: int | None) -> Span | None:
    if unit != "week" or not 1 <= num <= 53 or (year is None and c.ref is None):
        return None
    start = datetime.fromisocalendar(year or (c.ref.year if c.ref else 1), num, 1)
    return unit_span(start, "week")


def _nth_century(_: Context, num: int, unit: str) -> Span | None:
    return _years(num * 100 - 100, 100) if unit == "century" and 2 <= num <= 30 else None


def add_relative(g: Grammar) -> None:
    """Adds dates that hang on the text's own time."""
    add = g.add
    add("A", "(<deictic>)", lambda c, k: day_span(day_of(c.ref) + k * DAY) if c.ref else None)
    add("A", "<the>?(<ord|last>)(<Q>)<of|in><the>?(<A|month|season|y>)", _nth_amount)
    add("A", "<the>?(<ord|last>)(<cnt>)?(<unit|units|dow>)<of|in><the>?(<A|month|season|y>)", _nth_of)
    add("A", "<this>?(<last|past|prev|next|this|following>)<work>?(<unit|workweek>)", _relative_unit)
    add("A", "<the>(<following|next>)(<unit>)", _relative_unit)
    add("A", "(<A>)<of>?(<A>)", _day_in_month)
    add("A", "<the>?(<unit>)<after>(<next>)", lambda c, u, _: unit_span(c.ref, u, 2) if c.ref else None)
    add("A", "<the>?(<unit>)<before>(<last>)", lambda c, u, _: unit_span(c.ref, u, -2) if c.ref else None)
    add("R", "(?<!<modal|to>)<these|this>?(<stp>)<only>?(<Q>)", _rolling)
    add("R", "(<cnt>)(<stp>)(<units>)", lambda c, n, _, u: _roll(c, Qty(((u, n),)), _step(c, -2)))
    add("A", "<this><past|last>(<dow>)", lambda c, w: weekday_near(c.ref, w, -1) if c.ref else None)
    add("A", "(<stp>)(<dow>)", _weekday_step)
    add("A", "(<stp>)(<month>)(?!<d|ord>)", _month_step)
    add("A", "<this>?(<stp>)(<season>)", _season_step)
    add("A", "<the><other><unit>", _other_day)
    add("A", "(<stp>)(<A>)", _step_date)
    add("A", "<tonight>", lambda c: with_clock(day_span(c.ref), Clock(72_000, 86_400, "part_of_day")) if c.ref else None)
    add("A", "(<stp>)<early|late>?(<part>)", _relative_part)
    add("A", "(<A>)<on>?(<dow>)(?!<A>)", _weekday_in)
    add("A", "<on>?(<dow>)<of|in><the>?(<A>)", lambda c, w, a: _weekday_in(c, a, w))
    add("A", "<on>?(<dow>)<stp><unit>", lambda *_: None)
    add("A", "(<A>)<of>?<stp>(<unit>)", lambda *_: None)
    # Amounts from a date.
    add("R", "(<Q>)<comma>?<starting>(?:<from|on>)?(<A|month|dow>)", _amount_from)
    add("R", "<for>(<Q>)<comma>?<from>(<A|month|dow>)", _amount_from)
    add("A", "(<Q>)<ago>", lambda c, q: ago(c.ref, q, -1) if c.ref else None)
    add("A", "(<cnt>)(<dow|dows>)<ago>", _weekdays_ago)
    add("A", "(<cnt|a>)<of>?(<season>)s?<ago>", lambda *_: None)
    add("A", "(<Q>)(?:<later|hence>|<from><now>)(?!<stp|A>)", lambda c, q: ago(c.ref, q, 1) if c.ref else None)
    add("A", "(<Q>)(?:<back|earlier>)(?=$|<stop|comma|and|when|pron|rpar>)", _back)
    add("A", "(<Q>)(<before|after|from>)(<A|month|dow|now|holiday>)(?:<on>(<dow>))?", _amount_relative)
    add("A", "<in>(<Q>)<since|of>(<A>)", lambda c, q, a: ago(c.fix(a).start, q, 1) if c.fix(a) else None)
    add("A", "<in><about|only|another>?(<Q>)(?:<s|quote>?<timeword>)?(?:<on>(<dow>))?", _in_amount)
    # Units and weekdays beside a date.
    add("A", "<the><unit>(?:<of|starting|edge>)<the>?(<A|month|season|holiday>)", _unit_of)
    add("A", "<the>?(<unit>)<before|after>(<A|holiday|month|dow>)", _unit_beside)
    add("A", "<the>?(<dow>)(<before|after>)(<A|holiday|month>)", _weekday_beside)
    add("A", "(<A|holiday>)(<unit>)(?!<s>)", _weekend_of)
    add("A", "<the>?(<ord|last>)(<cnt>)?(<unit|units|dow|part>)<of|in><the>?(<A|month|season|unit|y>)", _nth_of)
    add("A", "<the>?(<ord|last>)(<cnt>)?(<unit|units>)<of|in><the><unit>", _nth_of_this)
    add("A", "(<edge>)<of><the>?(<A|month|season|unit|y>)", _edge_of)
    add("A", "(<edge>)<of>(<A>)", _edge_of)
    add("A", "<the>?<eod>", lambda c: with_clock(day_span(c.ref), _END_OF_DAY) if c.ref else None)
    add("A", "(<early|mid|late>)<dash|in>?<the>?(<A|month|season|y>)", _edge_of)
    add("A", "(<earlier|later>)<in>?<the>?(<A|unit|deictic>)", _half_of)
    add("A", "<the>(<unit>)<before|after>(?!<A|Q|x>)", _unit_aside)
    add("A", "<the>(<unit>)<before|after>(?=$|<stop|comma>)", _unit_aside)
    add("A", "<unit><of>?(<y>)", lambda c, y: Cal(y) if _text(c).startswith("year") else None)


def _relative_unit(c: Context, word: Any, unit: str | None) -> Span | None:
    if c.ref is None:
        return None
    work = unit is None or (len(c.tokens) > 2 and unit == "week" and "work" in _text(c))
    step = _step(c, -2 if not work or unit is None else -3)
    if _text(c).startswith("this past") or _text(c).startswith("past"):
        if unit not in ("weekend", "night", None):
            return _roll(c, Qty(((str(unit), 1),)), -1)
        step = -1
    if unit == "day":
        return day_span(day_of(c.ref) + step * DAY) if step > 0 and "the" in _text(c) else None
    if unit in ("hour", "minute", "second", "fortnight") or unit == "weekday":
        return _roll(c, Qty(((unit, 1),)), step) if step and unit != "weekday" else None
    span = unit_span(c.ref, unit or "week", step)
    return replace(span, end=span.start + 5 * DAY) if work else span


def _unit_step(c: Context, unit: str) -> Span | None:
    return unit_span(c.ref, unit, _step(c)) if c.ref else None


def _rolling(c: Context, _: Any, qty: Qty) -> Span | None:
    k = next(k for k, t in enumerate(c.tokens) if t.value is qty) - 1
    while c.text[c.tokens[k].first : c.tokens[k].last] == "only":
        k -= 1
    return _roll(c, qty, _step(c, k))


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
    step = _step(c)
    return weekday_near(c.ref, dow, -1) if step < 0 else weekday_span(c.ref, dow, step)


def _month_step(c: Context, _: Any, month: int) -> Span | None:
    if c.ref is None:
        return None
    step = _step(c)
    year = c.ref.year
    if step < 0:
        year -= month >= c.ref.month
    elif step > 0:
        year += month <= c.ref.month
    return unit_span(datetime(year, month, 1), "month")


def _season_step(c: Context, _: Any, name: str) -> Span | None:
    if c.ref is None:
        return None
    step = _step(c, -2)
    if step == 0:
        return season_span(c.ref.year, name)
    if step > 0:
        return season_near(season_near(c.ref, name, 1).end if _inside(c.ref, name) else c.ref, name, 1)
    begun = season_near(c.ref, name, -1)
    return begun if begun.end <= c.ref else season_span(begun.start.year - 1, name)


def _inside(moment: datetime, name: str) -> bool:
    return season_near(moment, name, 1).start <= moment


def _other_day(c: Context) -> Span | None:
    if c.ref is None or not _text(c).endswith("day"):
        return None
    today = day_of(c.ref)
    return Span(today - 7 * DAY, today, "week", "range")


def _step_date(c: Context, _: Any, a: Any) -> Any:
    if not isinstance(a, Cal) or a.year or not a.day:
        return None
    step = _step(c)
    if step == 0 and c.ref is not None and a.month:
        return replace(a, year=c.ref.year)
    return replace(a, way=step)


def _relative_part(c: Context, _: Any, part: tuple[int, int, str]) -> Span | None:
    if c.ref is None:
        return None
    return with_part(day_span(day_of(c.ref) + _step(c) * DAY), part)


def with_part(span: Span, part: tuple[int, int, str]) -> Span:
    """Returns a part of the first day of an interval."""
    return with_clock(span, Clock(part[0] * 3600, part[1] * 3600, "part_of_day"))


def _weekday_in(c: Context, a: Any, dow: int) -> Span | None:
    span = a if isinstance(a, Span) else None
    return weekday_span(span.start, dow, 0) if span and span.grain == "week" and span.kind == "range" else None


def _at(c: Context, value: Any) -> Span:
    """Resolves a date, a holiday's name, a month or a season, or refuses the match."""
    if isinstance(value, str) and c.ref is not None:
        if value in ("spring", "summer", "autumn", "winter"):
            return season_near(c.ref, value, c.way())
        if value in ("day", "week", "month", "year", "quarter", "decade", "weekend", "century"):
            return unit_span(c.ref, value)
        return holiday_near(value, c.ref, c.way())
    if isinstance(value, int):
        value = Cal(month=value) if value <= 12 else Cal(year=value)
    span = c.fix(value)
    if span is None:
        raise ValueError("no such date")
    return span


def _named_day(c: Context, value: Any, k: int = -1) -> Span:
    """As `_at`, where a token may also be a weekday alone."""
    token = c.tokens[k]
    if isinstance(value, int) and c.text[token.first : token.first + 2] in ("mo", "tu", "we", "th", "fr", "sa", "su"):
        return _at(c, Cal(dow=value))
    if value is None and c.ref is not None:
        return Span(c.ref, c.ref, "second", "time")
    return _at(c, value)


def _amount_from(c: Context, qty: Qty, a: Any) -> Span:
    start = _named_day(c, a).start
    return Span(start, shift_all(start, qty, 1), "day", "range")


def _weekdays_ago(c: Context, num: float, dow: int) -> Span | None:
    return day_span(weekday_near(c.ref, dow, -1).start - timedelta(days=7 * (int(num) - 1))) if c.ref else None


def _back(c: Context, qty: Qty) -> Span | None:
    return ago(c.ref, qty, -1) if c.ref and not qty.article else None


def _amount_relative(c: Context, qty: Qty, _: Any, a: Any, dow: int | None) -> Span | None:
    base = _named_day(c, a, 2)
    word = c.text[c.tokens[1].first : c.tokens[1].last]
    if base.grain not in ("day", "hour", "minute", "second", "part_of_day") and word == "from":
        return None
    sign = -1 if word == "before" else 1
    at = shift_all(base.start, qty, sign)
    span = day_span(day_of(at)) if base.grain == "day" and at == day_of(at) else ago(base.start, qty, sign)
    return span if dow is None else weekday_span(span.start, dow, 0)


def _in_amount(c: Context, qty: Qty, dow: int | None) -> Span | None:
    if c.ref is None or (qty.article and qty.parts[0][0] in ("day", "night")):
        return None
    span = ago(c.ref, qty, 1)
    return span if dow is None else weekday_span(span.start, dow, 0)


def _unit_of(c: Context, a: Any) -> Span | None:
    unit = c.tokens[1].value
    how = c.text[c.tokens[2].first : c.tokens[2].last]
    start = _at(c, a).start
    if unit == "week" and how != "of":
        return Span(start, start + 7 * DAY, "week", "range")
    if unit == "weekend":
        return weekend_near(start)
    return unit_span(start, unit) if unit == "week" else None


def _weekend_of(c: Context, a: Any, unit: str) -> Span | None:
    return weekend_near(_at(c, a).start) if unit == "weekend" else None


def weekend_near(day: datetime) -> Span:
    """Returns the weekend that a day makes long or lies nearest to."""
    dow = day.weekday()
    if dow > 1:
        return unit_span(day, "weekend")
    span = unit_span(day, "weekend", -1)
    return replace(span, end=span.end + DAY) if dow == 0 else span


def _unit_beside(c: Context, unit: str, a: Any) -> Span | None:
    base = _named_day(c, a)
    step = -1 if "before" in _text(c) else 1
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


def _weekday_beside(c: Context, dow: int, _: Any, a: Any) -> Span:
    base = _at(c, a)
    return weekday_near(base.start, dow, -1) if "before" in _text(c) else weekday_near(base.end, dow, 1)


def _nth_of(c: Context, num: Any, count: float | None, unit: Any, a: Any) -> Span | None:
    if c.text[c.tokens[-1].first : c.tokens[-1].last] in ("day", "week", "hour", "life"):
        return None
    base = _at(c, a)
    which = -1 if num is None else int(num)
    if which == 0 or abs(which) > 60:
        return None
    if isinstance(unit, int):
        day = nth_weekday(base.start.year, base.start.month, unit, which)
        return day_span(day) if base.start <= day < base.end else None
    if not isinstance(unit, str):
        return None
    return _nth_unit(base, which, int(count or 1), unit)


def _nth_amount(c: Context, num: Any, qty: Qty, a: Any) -> Span | None:
    unit, count = qty.parts[0]
    return _nth_unit(_at(c, a), -1 if num is None else int(num), int(count), unit) if len(qty.parts) == 1 else None


def _day_in_month(_: Context, a: Any, b: Any) -> Cal | None:
    """Joins "the 21st" and "this month"."""
    if not isinstance(a, Cal) or a.month or not a.day or not isinstance(b, Span) or b.grain != "month":
        return None
    return replace(a, year=b.start.year, month=b.start.month)


def _nth_unit(base: Span, which: int, count: int, unit: str) -> Span | None:
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


def _nth_of_this(c: Context, num: Any, count: float | None, unit: str) -> Span | None:
    whole = c.tokens[-1].value
    if c.ref is None or whole not in ("month", "year", "quarter"):
        return None
    return _nth_unit(unit_span(c.ref, whole), -1 if num is None else int(num), int(count or 1), unit)


def _edge_of(c: Context, which: str, a: Any) -> Span | None:
    unit = a if isinstance(a, str) else ""
    if unit in ("hour", "minute", "second"):
        return None
    base = _at(c, a)
    if base.grain == "day":
        return with_clock(base, _END_OF_DAY) if which == "end" else None
    if base.grain == "week" and which != "middle":
        half = base.start + 3 * DAY
        return replace(base, end=half) if which == "begin" else replace(base, start=half)
    return part_of(base, which)


def _half_of(c: Context, _: Any, a: Any) -> Span | None:
    base = _at(c, a)
    early = "earlier" in _text(c)
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
    return unit_span(unit_start(c.ref, unit), unit, -1 if _text(c).endswith("before") else 1)

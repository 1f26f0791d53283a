"""English rules for amounts of time and for dates that a calendar names.

Dates that hang on the text's own time are in `english_relative`, times of day in `english_clock`. What a reader would
not guess: `add_dates` leaves months, weekdays and seasons that stand alone as they are, because the words beside
them may belong to a longer expression; `english_clock.add_bare` takes what is left.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from magma_gpu.timex.grammar import Context, Grammar, merge
from magma_gpu.timex.holidays import holiday, holiday_near
from magma_gpu.timex.intervals import (
    DAY,
    Cal,
    Clock,
    Qty,
    Span,
    day_of,
    season_span,
    shift,
    unit_span,
    with_clock,
)


def add_numbers(g: Grammar) -> None:
    """Adds months that are also words, years, and amounts of time."""
    c = g.classes
    c.union("cnt", "d dn dec wn frac d4 few couple several dozen")
    c.union("ord", "ordd ordw")
    c.union("anyunit", "unit units weekends ordw fall")
    c.union("stp", "last past prev this these next following")
    g.add("month", "(<may>)(?=<dash|slash|dot>?<d|ordd|ordw|d4|wn>|<comma><d4>)", lambda _, v: v)
    g.add(
        "month",
        "(?<=<in|of|since|until|by|next|last|early|mid|late|during|between|d|ordd|ordw>)(<may>)",
        _same,
    )
    g.add("month", "(?<=<month><to|dash|and|or|until|through|slash>)(<may>)", _same)
    g.add("y", "(?<!<money>)(<d4>)(?!<units|percent|ampm>)", _year)
    g.add(
        "wn", "(<wn>)(<d>)(?=<of|month>)", lambda _, a, b: a + b if a % 10 == 0 and 20 <= a < 100 and b < 10 else None
    )
    g.add("y", "(<wn>)<dash>?(<wn>)", lambda _, a, b: a * 100 + b if 13 <= a <= 20 and 10 <= b <= 99 else None)
    g.add(
        "y",
        "(<wn>)(?!<unit|units>)",
        lambda _, v: v if (1100 <= v <= 2100 and v % 1000 != 0) or v == 2000 else None,
    )
    g.add("A", "<the>?<quote>?(<d>)(?:<unit>)", _decade)
    g.add("A", "<the>?<quote>?(<d4|y>)<unit|x>", _decade)
    g.add("wn", "<a>?(<hundred|thousand>)(?=<units>)", lambda _, v: v)
    g.add("A", "(?<=<the|in|early|mid|late>)(<decades>)", lambda _, v: _years(1900 + v, 10) if v >= 20 else None)
    # Amounts.
    g.add("Q", "<a>?<unit><of><a>(<unit>)", lambda x, u: _fraction(x, u, 0.25))
    g.add("Q", "(<cnt|a>)<and><a>?(<half|unit>)(<unit|units>)", lambda _, n, h, u: Qty(((u, n + _part(h)),)))
    g.add("Q", "<a>?<half><dash>?<a>?(<unit>)", lambda _, u: Qty(((u, 0.5),)))
    g.add("Q", "(<cnt|a>)(<unit|units>)<and><a>?(<half>)", lambda _, n, u, h: Qty(((u, n + 0.5),)))
    g.add("Q", "(<cnt|a>)(<unit>)<and><a>(<unit>)(?!<ago|later>)", _and_a_quarter)
    g.add("Q", "(<cnt>)(?:<or|to|dash>)(<cnt>)(<units>)", lambda _, a, b, u: Qty(((u, (a + b) / 2),)))
    g.add("C", "(?<=<at>)(<wn>)(<cnt>)<units>", _at_hour_minutes)
    g.add("Q", "(<md>)(<unit|units>)", _slashed)
    g.add("Q", "<a>(<couple|few|several|dozen>)<of>?(<anyunit>)", _amount)
    g.add("Q", "(?<=<for|in|within|after>)(<some>)<of>?(<units>)", lambda _, n, u: Qty(((u, n),)))
    g.add("Q", "(<cnt>)<more>(<units>)", lambda _, n, u: Qty(((u, n),)))
    g.add("Q", "(<cnt>)<units><of><a>(<unit>)", _quarters)
    g.add("Q", "(<cnt>)(?:<whole>|<long>)(<unit|units>)", lambda _, n, u: Qty(((u, n),)))
    g.add("Q", "(<cnt>)<work>(<unit|units>)", lambda _, n, u: Qty(((u, n),)) if u == "day" else None)
    g.add("Q", "(<cnt>)<dash>?<of>?(<anyunit>)", _amount)
    g.add("Q", "(<cnt>)(<part|parts|nights>)", lambda _, n, p: Qty((("day", n),)) if p[2] == "night" else None)
    g.add("Q", "(<wn>)<and>(<Q>)", _tens_and)
    g.add("Q", "<a>(<unit>)<or>(<cnt>)", lambda _, u, n: Qty(((u, (1 + n) / 2),)))
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
        return _years(value, 10 if value % 100 or value >= 2000 else 100)
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


def _slashed(c: Context, _: Cal, unit: str) -> Qty | None:
    first = c.tokens[0]
    part = {"1/2": 0.5, "1/4": 0.25, "3/4": 0.75, "1/3": 1 / 3}.get(c.text[first.first : first.last])
    return Qty(((unit, part),)) if part else None


def _quarters(c: Context, num: float, unit: str) -> Qty | None:
    return Qty(((unit, num / 4),)) if c.tokens[1].value == "quarter" else None


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
    add(
        "A",
        "(<y>)<comma>?(<month>)<the>?(<d|ordd|ordw>)(?!<dash|ampm>)",
        lambda _, y, m, d: Cal(y, m, d) if d < 32 else None,
    )
    add("A", "(<y>)<slash>(<d>)<slash>(<month>)", lambda _, y, d, m: Cal(y, m, d))
    add("A", "(<month>)<slash>(<y>)<slash>(<d>)", lambda _, m, y, d: Cal(y, m, d))
    add("A", "(<month>)<dash>(<y>)<dash>(<d>)", lambda _, m, y, d: Cal(y, m, d))
    add("A", "(<d>)<dash>(<y>)<dash>(<month>)", lambda _, d, y, m: Cal(y, m, d))
    add("A", "(<y>)(<d>)(<d>)(?!<unit|units|ampm>)", lambda _, y, m, d: Cal(y, m, d) if m <= 12 else None)
    add("A", "(<date>)", _same)
    add("A", "(<month>)<dot|stop|slash|dash>?<the>?(<d|ordd|ordw|wn>)(?!<ampm>)", _month_day)
    add("A", "(<ord>)(<unit>)<of>(<month>)", lambda c, d, u, m: _month_day(c, m, d) if u == "day" else None)
    add(
        "A",
        "(?<!<money>)<the>?(<dn31>)(?:<dot|stop|dash|slash>|<of>)?(<month>)",
        lambda _, d, m: _month_day(_, m, d),
    )
    marked = "on|by|from|to|until|since|before|after|of|stp|dow|comma|or|and|dash|between|at|lpar|for|about"
    add("A", f"(?:(?<=<{marked}>)|^)(<md>)", _same)
    add("A", "(<md>)(?=<dash|to|until|through><the>?<md|date>|$)", _same)
    add(
        "A",
        "(?<=<on>)(<d>)<dash>(<d>)(?!<unit|units|ampm|x|d>)",
        lambda c, m, d: _month_day(c, m, d) if m < 13 else None,
    )
    add("A", "<dow>?(<A>)(<hm>)<ampm>?(<y>)", _asctime)
    add("A", "(<A>)<comma|dash|slash>?<of|in>?(<y>)(?!<units>)", _add_year)
    add("A", "(<A>)<of>?<quote>?(<d>)(?!<d|ampm|dash>)", _add_short_year)
    add("A", "(<month>)(?:<comma|dash|slash|of|stop>|<of><the>)?(?:<unit>)?(<y>)", lambda _, m, y: Cal(y, m))
    add("A", "(<month>)(?:<of>|<of>?<quote>)(<d>)", lambda _, m, d: Cal(_century(d), m) if d > 12 else None)
    add("A", "(<y>)<dash|slash>?(<month>)", lambda _, y, m: Cal(y, m))
    # The short year of the rule above would else take the day that ends a range: November 19-20.
    add("A", "<the>?(<dow>)<comma|stop>?<the>?(<A>)", _weekday_date)
    add("A", "(<A>)<comma>(<dow>)(?!<A|d|ordd>)", _then_weekday)
    add("A", "(<A>)<comma>?<lpar>(<dow>)<rpar>", lambda _, a, w: a if isinstance(a, Cal) and a.day else None)
    add(
        "A",
        "(<dow>)<comma>?<the>?(<ordd|ordw>)(?!<unit|dow>)",
        lambda _, w, d: Cal(day=d, dow=w) if d < 32 else None,
    )
    add("A", "(<dow>)(<d>)(?!<ampm|dash|to|unit|units|percent|x>)", _weekday_number)
    add("A", "(?<=<on|by|until|since|from|before|after>)(<the><ordd>)(?!<x|unit|dow|month|of>)", _the_nth)
    add("A", "(?<=<on|by|until|since>)(<ordd>)(?!<x|unit|dow|month|of>)", lambda _, d: Cal(day=d) if d < 32 else None)
    add("A", "(?<=<on>)(<the><ordw>)(?=$|<stop>)", _the_nth)
    add("A", "(?<=<unit><of>)(<the><ordd>)(?!<x|unit|dow|month|of>)", _the_nth)
    add("A", "(<the><ordd>)(?=<between|from|at><d|d4|hm|wn>|<stp><unit>)", _the_nth)
    # Holidays.
    add("holiday", "<holiday><eve>", lambda c: "christmas eve" if "as " in text_of(c) else None)
    add("x", "<lunar><new><unit|units>", lambda _: True)
    add("holiday", "<new><unit|units><s>?<eve>", lambda _: "new year eve")
    add("holiday", "<new><unit|units><s>?<unit>?(?!<x>)", lambda c: "new year" if "week" not in text_of(c) else None)
    add(
        "holiday",
        "<intl>?(<namer>)<namer|x>{0,3}<quote|s>?<unit>",
        lambda c, v: v if v and text_of(c).endswith("day") else None,
    )
    add("holiday", "(<person>)<quote|s>?<unit>", lambda c, v: v if text_of(c).endswith("day") else None)
    add("holiday", "<st>(<saint>)<quote|s>?<unit>?", lambda _, v: v)
    add("holiday", "(<saint>)<quote|s>?<unit>", lambda c, v: v if text_of(c).endswith("day") else None)
    add("holiday", "(<saint>)<s>(?!<x>)", lambda _, v: v)
    add("holiday", "<black|cyber><dow>", lambda c: {"b": "black friday", "c": "cyber monday"}[text_of(c)[0]])
    add("holiday", "<good><dow>", lambda c: "good friday" if text_of(c).endswith("friday") else None)
    add("holiday", "<mardi><gras>", lambda _: "mardi gras")
    add("holiday", "<ash><dow>", lambda _: "ash wednesday")
    add(
        "holiday",
        "<holiday><dow>",
        lambda c: (
            "easter monday" if text_of(c) == "easter monday" else "easter" if text_of(c) == "easter sunday" else None
        ),
    )
    add("holiday", "<boxing><unit>", lambda _: "boxing day")
    add("A", "(<holiday>)<unit>?<comma|of|in>?(<y>)", lambda _, h, y: holiday(h, y))
    add("A", "<stp>(<holiday>)<unit>?", _holiday_step)
    add("A", "(<holiday>)<of|in>?<stp>(<unit>)", _holiday_of)
    # Seasons, quarters, halves, numbered weeks, centuries.
    add("season", "(?<=<this|last|next|past|late|early|mid|in>)(<fall>)", _same)
    add("season", "(?<=<in|by|since|during|until><the>)(<fall>)", _same)
    add("season", "(<fall>)(?=<of>?<y>)", _same)
    add("A", "(<season>)<of|in>?(<y>)", lambda _, s, y: season_span(y, s))
    add("A", "(<y>)<dash|comma|slash>?(<q|hword>)(<d>)", lambda c, y, _, n: _short_quarter(c, None, n, y))
    add("A", "<the>?(<q|hword>)(<d>)(?:<of|dash|slash|in>?(<y>))?", _short_quarter)
    add("A", "<the>?(<ord>)(<unit>)(?:<of|in>?<the>?(<y|stp>)<unit>?)?(?!<of|x>)", _nth_quarter)
    add("A", "<the>?(<ord>)<half><of|in><the>?(<y|stp>)<unit>?", _nth_half)
    add("A", "(?<!<stp>)(<unit>)(<d>)(?:<of|in|comma>?(<y>))?(?!<unit|units|ampm>)", _numbered_week)
    add("A", "(?:<the>(?=<ord><unit>))?(<ordd|ordw>)(<unit>)(?!<of>)", _nth_century)
    add("A", "<fiscal>?<unit>?<fiscal><unit>(<y>)", lambda _, y: Cal(y))
    add("A", "<fyshort>(<y|d>)", lambda _, y: Cal(y if y > 99 else _century(y)))
    add("A", "<stp><fiscal><unit>", lambda c: _unit_step(c, "year") if text_of(c).endswith("year") else None)


def text_of(c: Context) -> str:
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
    if c.text[c.tokens[-2].first : c.tokens[-2].last] in ("-", "/") and " " in text_of(c):
        # "May 5 - 2019" is no date.
        return None
    return replace(a, year=year) if isinstance(a, Cal) and a.month and not a.year else None


def _add_short_year(c: Context, a: Any, year: int) -> Cal | None:
    if len(c.tokens) == 2 or year < 10:
        return None
    return _add_year(c, a, _century(year))


def _weekday_date(_: Context, __: int, a: Any) -> Cal | None:
    return a if isinstance(a, Cal) and a.day and a.dow is None else None


def _then_weekday(c: Context, a: Any, dow: int) -> Cal | None:
    span = c.fix(a) if isinstance(a, Cal) and a.day else None
    return a if span and span.start.weekday() == dow else None


def _weekday_number(_: Context, dow: int, day: int) -> Cal | None:
    return Cal(day=day, dow=dow) if 12 < day < 32 else None


def _the_nth(_: Context, values: list[Any]) -> Cal | None:
    return Cal(day=values[1]) if 1 <= values[1] <= 31 else None


def _holiday_step(c: Context, name: str) -> Span | None:
    if c.ref is None:
        return None
    step = step_of(c)
    if step == 0:
        return holiday(name, c.ref.year)
    return holiday_near(name, day_of(c.ref) - DAY if step < 0 else c.ref + DAY, step)


def _holiday_of(c: Context, name: str, unit: str) -> Span | None:
    return holiday(name, c.ref.year + step_of(c, -2)) if unit == "year" and c.ref else None


def step_of(c: Context, k: int = 0) -> int:
    """Returns the direction that the word of a match's token means."""
    word = c.text[c.tokens[k].first : c.tokens[k].last]
    if word in ("last", "past", "previous", "preceding"):
        return -1
    return 0 if word in ("this", "these", "current") else 1


def _short_quarter(c: Context, _: Any, num: int, year: int | None = None) -> Span | None:
    half = "h" in text_of(c)
    if not 1 <= num <= (2 if half else 4) or (year is None and (half or c.ref is None)):
        return None
    months = 6 if half else 3
    start = datetime(year or (c.ref.year if c.ref else 1), (num - 1) * months + 1, 1)
    return Span(start, shift(start, "month", months), "quarter", "range")


def _year_of(c: Context, year: int | None) -> int | None:
    """Returns a year that is said, or that of the text's time, moved as "last year" says."""
    if year is not None:
        return year
    if c.ref is None:
        return None
    words = text_of(c).split()
    if words[-1] == "year" and words[-2] != "the":
        return c.ref.year + step_of(c, -2)
    return c.ref.year


def _nth_quarter(c: Context, num: int, unit: str, year: int | None) -> Span | None:
    at = _year_of(c, year)
    said = year is not None or len(c.tokens) > 3
    if unit != "quarter" or not 1 <= num <= 4 or at is None or not said:
        # "The 4th quarter" alone is as often one of a game.
        return None
    start = datetime(at, 3 * num - 2, 1)
    return Span(start, shift(start, "month", 3), "quarter", "range")


def _nth_half(c: Context, num: int, year: int | None) -> Span | None:
    at = _year_of(c, year)
    if not 1 <= num <= 2 or at is None:
        return None
    start = datetime(at, 6 * num - 5, 1)
    return Span(start, shift(start, "month", 6), "quarter", "range")


def _numbered_week(c: Context, unit: str, num: int, year: int | None) -> Span | None:
    if unit != "week" or not 1 <= num <= 53 or (year is None and c.ref is None):
        return None
    start = datetime.fromisocalendar(year or (c.ref.year if c.ref else 1), num, 1)
    return unit_span(start, "week")


def _nth_century(_: Context, num: int, unit: str) -> Span | None:
    return _years(num * 100 - 100, 100) if unit == "century" and 2 <= num <= 30 else None


def _unit_step(c: Context, unit: str) -> Span | None:
    return unit_span(c.ref, unit, step_of(c)) if c.ref else None

"""English rules for dates that a calendar names.

Dates that hang on the text's own time are in `english_relative`, times of day in `english_clock`. What a reader would
not guess: `add_dates` leaves months, weekdays and seasons that stand alone as they are, because the words beside
them may belong to a longer expression; `english_clock.add_bare` takes what is left.
"""

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from magma_gpu.timex.english_amounts import same, years
from magma_gpu.timex.grammar import Context, Grammar, text_of
from magma_gpu.timex.holidays import holiday, holiday_near
from magma_gpu.timex.intervals import (
    DAY,
    Cal,
    Clock,
    Span,
    day_of,
    season_span,
    shift,
    unit_span,
    weekend_near,
    with_clock,
)


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
    add("A", "(<date>)", same)
    # "5 May - 7 June": the 7 belongs to June.
    add("A", "(<month>)<dash>(<d|ordd|ordw|wn>)(?!<ampm|month>)", _month_day)
    add("A", "(<month>)<dot|stop|slash>?<the>?(<d|ordd|ordw|wn>)(?!<ampm>)", _month_day)
    add("A", "(<ord>)(<unit>)<of>(<month>)", lambda c, d, u, m: _month_day(c, m, d) if u == "day" else None)
    add(
        "A",
        "(?<!<money>)<the>?(<dn31>)(?:<dot|stop|dash|slash>|<of>)?(<month>)",
        lambda _, d, m: _month_day(_, m, d),
    )
    marked = "on|by|from|to|until|since|before|after|of|stp|dow|comma|or|and|dash|between|at|lpar|for|about"
    add("A", f"(?:(?<=<{marked}>)|^)(<md>)", same)
    # Day and month the other way round: rare in English, and as often a fraction.
    add("md", "(<dm>)", lambda c, v: v if c.rewritten else None)
    add("A", "^(<dm>)(?=$|<dash|to><dm|A>)", same)
    add("A", "(?<=<on|by|until|since|dow>)(<dm>)(?!<dot|dash>)", same)
    add("A", "(<md>)(?=<dash|to|until|through><the>?<md|A>|<comma>?<y>|$)", same)
    add(
        "A",
        "(?<=<on>)(<d>)<dash>(<d>)(?!<unit|units|ampm|x|d>)",
        lambda c, m, d: _month_day(c, m, d) if m < 13 else None,
    )
    add("A", "<dow>?(<A>)(<hm>)<ampm>?(<y>)", _asctime)
    add("A", "(<A>)<comma|dash|slash|dot|stop>?<of|in>?(<y>)(?!<units>)", _add_year)
    add("A", "(<A>)<of>?<quote>?(<d>)(?!<d|ampm|dash>)", _add_short_year)
    add("A", "(<A>)<comma><quote>(<d>)", _add_short_year)
    add("A", "(<A>)<dash|slash|dot>(<d>)(?!<d|ampm|dash|to>)", _glued_short_year)
    add("A", "(?<!<unit>)(<dow>)<lpar>(<A>)<rpar>", _weekday_date)
    add("R", "<the>?(<d|ordd|ordw>)<and><the>?(<A>)", _two_days)
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
    add("A", "(?<=<unit|part><of>)(<the><ordd>)(?!<x|unit|dow|month|of>)", _the_nth)
    add("A", "(<the><ordd>)(?=<between|from|at><d|d4|hm|wn>|<stp><unit>)", _the_nth)
    add("R", "<from|between><the>(<ordd>)<to|until|through|dash|and><the>?(<ordd>)(?!<x|unit|dow|month|of>)", _days)
    # Holidays.
    add("holiday", "<holiday><eve>", lambda c: "christmas eve" if "as " in text_of(c) else None)
    add("x", "<lunar><new><unit|units>", lambda _: True)
    add("holiday", "<new><unit|units><s>?<eve>", lambda _: "new year eve")
    add("holiday", "<new><unit|units><s>?<unit>?(?!<x>)", lambda c: "new year" if "week" not in text_of(c) else None)
    add("namer", "<month>(<namer>)", lambda _, v: v if v == "april fools" else None)
    add(
        "holiday",
        "<intl>?(<namer>)<namer|x|stop>{0,4}<quote|s>?<unit>",
        lambda c, v: (
            v if v and text_of(c).endswith("day") and ("." not in text_of(c) or " jr. " in text_of(c)) else None
        ),
    )
    add("holiday", "(<namer>)<s>", lambda c, v: v if v == "april fools" and "april" in text_of(c) else None)
    add("holiday", "<intl>?(<person>)<quote|s>?<unit>", lambda c, v: v if text_of(c).endswith("day") else None)
    add("holiday", "<st><stop|dot>?(<saint>)<quote|s>?<unit>?", lambda _, v: v)
    add("holiday", "(<saint>)<quote|s>?<unit>", lambda c, v: v if text_of(c).endswith("day") else None)
    add("holiday", "(<saint>)<s>(?!<x>)", lambda _, v: v)
    add("holiday", "<black|cyber><dow>", lambda c: {"b": "black friday", "c": "cyber monday"}[text_of(c)[0]])
    add("holiday", "<good><dow>", lambda c: "good friday" if text_of(c).endswith("friday") else None)
    add("holiday", "<mardi><gras>", lambda _: "mardi gras")
    add("holiday", "<ash><dow>", lambda _: "ash wednesday")
    add("holiday", "(<sundays>)(<dow>)", lambda _, v, w: v if v.endswith("sunday") == (w == 6) else None)
    add(
        "holiday",
        "<holiday><dow>",
        lambda c: (
            "easter monday" if text_of(c) == "easter monday" else "easter" if text_of(c) == "easter sunday" else None
        ),
    )
    add("holiday", "<boxing><unit>", lambda _: "boxing day")
    add("A", "(<holiday>)(<unit>)<of|in>?(?:(<y>)|<stp><unit>)", _holiday_weekend)
    add("A", "(<holiday>)<unit>?<comma|of|in>?(<y>)", lambda _, h, y: holiday(h, y))
    add("A", "<stp>(<holiday>)<unit>?", _holiday_step)
    add("A", "(<holiday>)<of|in>?<stp>(<unit>)", _holiday_of)
    add("A", "<stp>(<unit>)<s>(<holiday>)", lambda c, u, h: _holiday_of(c, h, u, 0))
    # Seasons, quarters, halves, numbered weeks, centuries.
    add("season", "(?<=<this|last|next|past|late|early|mid|in>)(<fall>)", same)
    add("season", "(?<=<in|by|since|during|until><the>)(<fall>)", same)
    add("season", "(<fall>)(?=<of>?<y>)", same)
    add("A", "(<season>)<of|in>?(<y>)(?:<dash|slash>(?:<y|d>))?", lambda _, s, y: season_span(y, s))
    add("A", "(<y>)<dash|comma|slash>?(<q|hword>)(<d>)", lambda c, y, _, n: _short_quarter(c, None, n, y))
    add("A", "<the>?(<q|hword>)(<d>)(?:<of|dash|slash|in>?(<y>))?", _short_quarter)
    add("A", "<the>?(<ord>)(<unit>)(?:<of|in>?<the>?(<y|stp>)<unit>?)?(?!<of|x>)", _nth_quarter)
    add("A", "<the>?(<ord>)<half><of|in><the>?(<y|stp>)<unit>?", _nth_half)
    add("A", "<the>?(<ord|latter>)<half><of|in><the>(<unit>)", _half_of_this)
    add("A", "<the>?<latter><half><of|in>(?:<the>?(<y>)|<the>?<stp><unit>)", lambda c, y: _nth_half(c, 2, y))
    add("A", "(?<!<stp>)(<unit>)(<d>)(?:<of|in|comma>?(<y>))?(?!<unit|units|ampm>)", _numbered_week)
    add("A", "(?:<the>(?=<ord><unit>))?(<ordd|ordw>)(<unit>)(?!<of>)", _nth_century)
    add("A", "<fiscal>?<unit>?<fiscal><unit>(<y>)", lambda _, y: Cal(y))
    add("A", "<fyshort>(<y|d>)", lambda _, y: Cal(y if y > 99 else _century(y)))
    add("A", "<stp><fiscal><unit>", lambda c: _unit_step(c, "year") if text_of(c).endswith("year") else None)


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
    between = c.text[c.tokens[-2].first : c.tokens[-2].last]
    if between in ("-", "/") and " " in text_of(c):
        # "May 5 - 2019" is no date.
        return None
    if between == "." and not _SHORT_MONTH.search(c.text, 0, c.tokens[-2].first):
        # A sentence ends: "on 5 May. 2019 was".
        return None
    return replace(a, year=year) if isinstance(a, Cal) and a.month and not a.year else None


_SHORT_MONTH = re.compile(r"\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|\d{1,2}\.[a-z]+)$")


def _glued_short_year(c: Context, a: Any, year: int) -> Cal | None:
    """Reads "31-Dec-94", which has the same sign twice and no blanks."""
    whole, sign = text_of(c), c.text[c.tokens[1].first]
    named = any(char.isalpha() for char in whole)
    digits = c.tokens[2].last - c.tokens[2].first
    if " " in whole or whole.count(sign) != 2 or not named or digits != 2:
        return None
    return replace(a, year=_century(year)) if isinstance(a, Cal) and a.month and a.day and not a.year else None


def _two_days(c: Context, day: int, a: Any) -> Span | None:
    """Joins "18 and 19 June"."""
    if not isinstance(a, Cal) or not a.day or not a.month or a.day != day + 1:
        return None
    last = c.fix(a)
    return Span(last.start - DAY, last.end, "day", "range") if last else None


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


def _holiday_of(c: Context, name: str, unit: str, step: int = -2) -> Span | None:
    return holiday(name, c.ref.year + step_of(c, step)) if unit == "year" and c.ref else None


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


def _half_of_this(c: Context, num: int | None, unit: str) -> Span | None:
    if c.ref is None or unit not in ("year", "month", "decade") or not 1 <= (num or 2) <= 2:
        return None
    span = unit_span(c.ref, unit)
    if unit == "month":
        middle = span.start.replace(day=16)
    else:
        middle = shift(span.start, "month", 6 if unit == "year" else 60)
    parts = (span.start, middle), (middle, span.end)
    start, end = parts[(num or 2) - 1]
    return Span(start, end, "quarter" if unit == "year" else unit, "range")


def _days(c: Context, first: int, last: int) -> Span | None:
    """Reads "from the 5th to the 7th", which in English is as often a floor or a rank."""
    if not c.rewritten or not 1 <= first <= last <= 31:
        return None
    start = c.fix(Cal(day=first))
    return Span(start.start, start.start.replace(day=last) + DAY, "day", "range") if start else None


def _holiday_weekend(c: Context, name: str, unit: str, year: int | None) -> Span | None:
    if unit != "weekend":
        return None
    if year is None and (c.ref is None or c.tokens[-1].value != "year"):
        return None
    at = year if year is not None else c.ref.year + step_of(c, -2)  # type: ignore[union-attr]
    return weekend_near(holiday(name, at).start)


def _numbered_week(c: Context, unit: str, num: int, year: int | None) -> Span | None:
    if unit != "week" or not 1 <= num <= 53 or (year is None and c.ref is None):
        return None
    start = datetime.fromisocalendar(year or (c.ref.year if c.ref else 1), num, 1)
    return unit_span(start, "week")


def _nth_century(_: Context, num: int, unit: str) -> Span | None:
    return years(num * 100 - 100, 100) if unit == "century" and 2 <= num <= 30 else None


def _unit_step(c: Context, unit: str) -> Span | None:
    return unit_span(c.ref, unit, step_of(c)) if c.ref else None

"""English rules for repetition, ranges and open sides.

What a reader would not guess: a range includes the last unit that it names (`between 3 and 10 May` ends when 11 May
begins), and what happens again and again is given the period that the text's own time lies in.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from magma_gpu.timex.grammar import Context, Grammar, text_of
from magma_gpu.timex.intervals import (
    DAY,
    OPEN_END,
    OPEN_START,
    Cal,
    Clock,
    Qty,
    Span,
    complete,
    day_of,
    day_span,
    season_near,
    shift_all,
    unit_span,
    weekday_near,
    with_clock,
    with_part,
)


def add_repetition(g: Grammar) -> None:
    """Adds what happens again and again; its interval is the period that the text's own time lies in."""
    add = g.add
    add("E", "<every>(<other>)?(<Q>)", lambda c, _, q: _period(c, q.parts[0][0]))
    add("E", "(<Q>)(<Q>)", lambda c, _, q: _period(c, q.parts[0][0]) if q.article else None)
    add("E", "<the>?<ord|last>(?:<A|unit>)?<of><every>(<unit>)", _period)
    add("E", "<every><other|single|ord>?(<unit|units|weekends>)", _period)
    add("E", "<every>(<A>)(?:<comma>?<and|or|comma>(<A>))(?:<comma>?<and|or|comma>(<A>))?", _every_of)
    add("E", "<every>(<season>)", lambda c, s: _recurring(season_near(c.ref, s, -1)) if c.ref else None)
    add("E", "<all>(<weekends|units>)", lambda c, u: _period(c, u) if u == "weekend" else None)
    add("E", "<every><other>?(<dow|dows|month|part|A>)", _every)
    add("E", "<bi><dash>(<freq>)", _period)
    add("E", "(?<!<few>)<once>?(<freq>)", _period)
    add("E", "(<dows>)(<parts>)?", _weekdays)
    add("E", "(<weekends>)", _period)
    add("E", "<weekdays>", lambda c: _period(c, "week"))
    add("E", "(<parts>)", lambda c, p: _recurring(with_part(day_span(day_of(c.ref)), p)) if c.ref else None)
    add("E", "(?:<once>|<cnt|several|few><times>|<d|wn>)(?:<every|per>(<unit>)|(<Q>))", _times_a)
    add("E", "(<E>)(?:<comma|at>)*(<C|CR>)", lambda c, e, t: _recurring(with_clock(e, t)))
    add("E", "(<E>)<on>(<A>)", lambda c, e, a: _recurring(c.fix(a)) if c.fix(a) else None)
    add("E", "(<C>)<on>?(<E>)", lambda c, t, e: _recurring(with_clock(e, t)))
    add("Q", "<all|whole><dash>?(<unit>)", lambda _, u: Qty(((u, 1),)))


def _recurring(span: Span) -> Span:
    return replace(span, kind="recurring")


def _period(c: Context, unit: str) -> Span | None:
    return _recurring(unit_span(c.ref, unit)) if c.ref else None


def _every(c: Context, value: Any) -> Span | None:
    if c.ref is None:
        return None
    if isinstance(value, tuple):
        return _recurring(with_part(day_span(day_of(c.ref)), value))
    span = value if isinstance(value, Span) else complete(value, c.ref, 1) if isinstance(value, Cal) else None
    return _recurring(span) if span else None


def _every_of(c: Context, first: Any, *others: Any) -> Span | None:
    """Of "every Monday and Friday" the first stands for both."""
    days = [a for a in (first, *others) if a is not None]
    return _every(c, first) if all(isinstance(a, Cal) and a.dow is not None for a in days) else None


def _weekdays(c: Context, dow: int, part: tuple[int, int, str] | None) -> Span | None:
    if c.ref is None:
        return None
    span = weekday_near(c.ref, dow, 1)
    return _recurring(with_part(span, part) if part else span)


def _times_a(c: Context, unit: str | None, qty: Qty | None) -> Span | None:
    if qty is not None and not qty.article:
        return None
    return _period(c, unit or (qty.parts[0][0] if qty else "day"))


def add_ranges(g: Grammar) -> None:
    """Adds ranges of dates and open sides."""
    add = g.add
    c = g.classes
    c.union("upto", "to until through dash")
    add("R", "(<unit><to><dateword|A>)", _to_date)
    add("R", "(?:<from|between>)<now><and|to|until>(<C>)", _now_to)
    add("R", "(?:<from|between>)(<C>)(?:<and|to|until>)<now>", _to_now)
    add("A", "(?<=<from|between>)<now>", _now)
    add("A", "(?<=<A|y><to|until|through>)<now|present|dateword>", _now)
    add("R", "<between><the>?(<A|y>)<and><now>", lambda c, a: _range(c, a, _now(c)))
    add("R", "(?:<from|between><the>?)?(<ordd|ordw|d|wn>)<upto><the>?(<A>)", _days_upto)
    add("R", "<between|from><the>?(<ordd|ordw|d|wn>)<and><the>?(<A>)", _days_upto)
    add(
        "R",
        "(?:<on|from|between>)?(<A>)<upto><the>?(<d|ordd|ordw|wn>)(?!<dash>)(?:<comma>?(<y>))?(?!<unit|units|x>)",
        _upto_day,
    )
    add("R", "<between><the>?(<A|y>)<and><the>?(<A|y>)", _range)
    add("R", "(?<!<dash>)<from|between>?(?<!<dash>)(<y>)<dash>(<d>)(?!<dash|unit|units|x>)", _short_years)
    add("R", "(?:<between|from><the>?)?(<A|y>)<upto><the>?(<A|y|E>)(?!<dash><d>)", _range)
    add("R", "<until|to><dateword>(?=$|<stop|comma>)", _till_date)
    add("R", "<within><the>?<next>?(<Q>)", _within)
    add("R", "<within>(<R>)", lambda _, r: r)
    add("R", "<more><than>(<A>)", _beyond)
    add("A", "(?<!<d><dash>)(?<!<y><dash>)(<y>)(?!<ampm|percent>|<dash><d>|<dash><y>)", _bare_year)
    add("R", "<on><or>(?:<before|after>)<the>?(<A>)", _or_on)
    add("R", "<from>(<A>)(?:<onward>|<on>(?=$|<stop|comma>))", lambda c, a: _open(c, a, "from"))
    add("R", "(?:<before>)<about>?<the>?(<A>)", lambda c, a: _open(c, a, "before"))
    add("R", "(?:<by>|<until>|<no><later><than>)<the>?(<A>)", lambda c, a: _open(c, a, "until"))
    add("R", "(?:<after>|<later|more|greater><than>)<the>?(<A>)", lambda c, a: _open(c, a, "after"))
    add(
        "R",
        "(?:<since>|<xas><early><xas>)<the>?(<A>)",
        lambda c, a: _open(c, a, "since"),
    )
    # What starts on a day is dated by that day.
    add("A", "<starting><from|on>?<the>?(<A>)", lambda _, a: a)
    add("A", "(<edge>)<on|in>?<the>?(<A>)", lambda c, _, a: a if text_of(c).startswith("beginning") else None)
    add("R", "(<A>)(?:<and|or>)(?:<after|later|before|earlier>)(?!<A|Q|the|x>)", _or_later)
    add("R", "(<gt|lt>)(<eq>)?(<A>)", _compared)
    add("A", "(?<=<at|right>)<the>?(?:<present><timeword>?|<moment>)", lambda c: _now(c))
    add("A", "(?<=<right>)<now>", _now)
    add("A", "(?<!<for|by|until|since>)<now>(?=$|<stop>)", _now)
    add("Q", "(?:<more|less><than>|<at><least>|<over>|<about>)(<Q>)", lambda _, q: replace(q, article=False))


def _now(c: Context) -> Span | None:
    return Span(c.ref, c.ref, "second", "time") if c.ref else None


def _now_to(c: Context, clock: Clock) -> Span | None:
    if c.ref is None:
        return None
    end = day_of(c.ref) + timedelta(seconds=clock.start)
    while end <= c.ref:
        end += timedelta(hours=12 if clock.loose else 24)
    return Span(c.ref, end, "minute", "range")


def _to_now(c: Context, clock: Clock) -> Span | None:
    if c.ref is None:
        return None
    start = day_of(c.ref) + timedelta(seconds=clock.start)
    return Span(start, c.ref, "minute", "range") if start < c.ref else None


def _days_upto(c: Context, day: float, a: Any) -> Span | None:
    """From "3 to 5 May": the month of the second is that of the first."""
    if not isinstance(a, Cal) or not a.day or not 1 <= day <= 31:
        return None
    last = c.fix(a)
    if last is None:
        return None
    if day < a.day:
        return Span(last.start.replace(day=int(day)), last.end, "day", "range")
    if not isinstance(day, int) or c.ref is None:
        return None
    first = complete(Cal(day=day), c.ref, c.way())
    last = complete(a, first.start, 1) if first else None
    return Span(first.start, last.end, "day", "range") if first and last else None


def _upto_day(c: Context, a: Any, day: float, year: int | None) -> Span | None:
    if not isinstance(a, Cal) or not a.day or not a.month or not a.day < day <= 31:
        return None
    if year is not None and a.year is None:
        a = replace(a, year=year)
    first = c.fix(a)
    if first is None:
        return None
    return Span(first.start, day_span(first.start.replace(day=int(day))).end, "day", "range")


def _range(c: Context, a: Any, b: Any) -> Span | None:
    a, b = (Cal(year=v) if isinstance(v, int) else v for v in (a, b))
    if isinstance(a, Cal) and isinstance(b, Cal):
        if a.year is None and a.month and b.year is not None and b.month:
            a = replace(a, year=b.year - ((a.month, a.day or 0) > (b.month, b.day or 31)))
        elif b.year is None and b.month and a.year is not None and a.month:
            b = replace(b, year=a.year + ((a.month, a.day or 0) > (b.month, b.day or 31)))
    first = c.fix(a)
    if first is None:
        return None
    if isinstance(b, Cal) and b.year is None:
        last = complete(b, first.start + (DAY if b.dow is not None and b.day is None else timedelta(0)), b.way or 1)
    else:
        last = c.fix(b)
    if last is None:
        return None
    if isinstance(a, Cal) and isinstance(b, Cal) and a.year is None and b.year is None and c.ref is not None:
        # A range that is still open counts as to come.
        before = complete(a, c.ref, -1)
        closing = complete(b, before.start, 1) if before else None
        if before and closing and first.start > c.ref and closing.end > c.ref:
            first, last = before, closing
    days = ("day", "month", "year", "week")
    if last.grain == "second" and first.grain in days:
        last = day_span(day_of(last.start))
    if first.grain == "second" and last.grain in days:
        first = day_span(day_of(first.start))
    start, end = first.start, last.end
    if first.start > last.start:
        return None
    return Span(start, end, last.grain if last.grain != "second" else first.grain, "range")


def _till_date(c: Context) -> Span | None:
    if c.ref is None or c.text[: c.at].rstrip().endswith("up"):
        return None
    return Span(OPEN_START, day_of(c.ref), "day", "range")


def _to_date(c: Context, values: list[Any]) -> Span | None:
    return replace(unit_span(c.ref, values[0]), end=day_of(c.ref)) if c.ref and values[0] in ("year", "month") else None


def _within(c: Context, qty: Qty) -> Span | None:
    if c.ref is None or (qty.article and qty.parts[0][0] == "day" and len(qty.parts) == 1):
        return None
    return Span(c.ref, shift_all(c.ref, qty, 1), qty.parts[-1][0], "range")


def _beyond(c: Context, a: Any) -> Span | None:
    span = c.fix(a)
    if span is None or c.ref is None:
        return None
    if isinstance(a, Cal) and span.grain == "year":
        return Span(span.end, OPEN_END, "year", "range")
    if span.start < c.ref:
        return Span(OPEN_START, span.start, span.grain, "range")
    return Span(span.start, OPEN_END, span.grain, "range")


def _bare_year(c: Context, year: int) -> Cal | None:
    last = c.tokens[-1].last
    before, after = c.text[max(0, c.at - 40) : c.at], c.text[last : last + 40]
    if not 1500 <= year <= 2199 or _GLUED_BEFORE.search(before) or _GLUED_AFTER.match(after):
        return None
    if not _YEAR_WORD.search(before) and (_NUMBERED.search(before) or _COUNTED.match(after)):
        # "2000 pieces" and "room 2019" count or name things.
        return None
    if c.ref is not None and year > c.ref.year + 15 and not _YEAR_WORD.search(before):
        # "Cyberpunk 2077" is a name.
        return None
    # Numbers in words are years only where a word says so.
    return Cal(year=year) if c.text[c.at].isdigit() or _YEAR_WORD.search(before) else None


_GLUED_BEFORE = re.compile(r"[$€£#@_+*/\\=&.:\w-]$")
_GLUED_AFTER = re.compile(r"[\w%°$€£#@*/\\=&+]|[.:,-]\d|-\w")
_YEAR_WORD = re.compile(
    r"\b(?:in|of|since|until|till|by|before|after|during|year|from|to|than|for|and|late|early|mid)\s+$"
)
_NUMBERED = re.compile(
    r"\b(?:room|page|no\.?|number|model|version|apartment|suite|building|code|id|flight|route|highway|ext|extension|tel|"
    r"phone|order|ticket|case|invoice|part|item|line|gate|level|windows|office|top|over|about|around|almost|nearly)\s*:?\s+$"
)
_COUNTED = re.compile(
    r"\s+(?!was|is|has|this|does|always|plus|s\b)[a-z]{3,}s\b|\s+(?:people|km|kg|mb|gb|ml|usd|eur|b\.?c\b)"
)


def _open(c: Context, a: Any, how: str) -> Span | None:
    span = c.fix(a)
    if span is None or span.start == OPEN_START or span.end == OPEN_END or span.start == span.end:
        return None
    if how == "before":
        # "before the end of December" is before December ends.
        return Span(OPEN_START, span.end if _is_end(c) else span.start, span.grain, "range")
    if how == "from":
        return Span(span.start, OPEN_END, span.grain, "range")
    if how == "until":
        return Span(OPEN_START, span.end, span.grain, "range")
    if how == "after":
        return Span(span.start if "beginning" in text_of(c) else span.end, OPEN_END, span.grain, "range")
    end = c.ref if c.ref is not None and span.start < c.ref else OPEN_END
    return Span(span.start, max(end, span.start), span.grain, "range")


def _is_end(c: Context) -> bool:
    words = text_of(c).split()
    return "end" in words


def _or_on(c: Context, a: Any) -> Span | None:
    """Reads "on or before Friday": Friday counts too."""
    span = c.fix(a)
    if span is None:
        return None
    if "before" in text_of(c).split()[:3]:
        return Span(OPEN_START, span.end, span.grain, "range")
    return Span(span.start, OPEN_END, span.grain, "range")


def _short_years(c: Context, year: int, last: int) -> Span | None:
    """Reads "2019-21", where nothing stands around the dash."""
    dash = next(t for t in c.tokens if c.text[t.first] in "-–—")
    end = year - year % 100 + last
    tight = c.text[dash.first - 1].isdigit() and c.text[dash.last].isdigit()
    # "2015-32" numbers something more often than it spans 17 years.
    if not tight or last < 13 or not 0 < end - year <= 10 or not 1500 <= year <= 2199:
        return None
    return Span(datetime(year, 1, 1), datetime(end + 1, 1, 1), "year", "range")


def _or_later(c: Context, a: Any) -> Span | None:
    span = c.fix(a)
    if span is None:
        return None
    if text_of(c).endswith(("after", "later")):
        return Span(span.start, OPEN_END, span.grain, "range")
    return Span(OPEN_START, span.end, span.grain, "range")


def _compared(c: Context, _: Any, __: Any, a: Any) -> Span | None:
    span = c.fix(a)
    if span is None:
        return None
    with_it = "=" in text_of(c)
    if ">" in text_of(c):
        return Span(span.start if with_it else span.end, OPEN_END, span.grain, "range")
    return Span(OPEN_START, span.end if with_it else span.start, span.grain, "range")

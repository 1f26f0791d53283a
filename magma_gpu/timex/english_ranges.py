"""English rules for times of day, repetition, ranges and open sides.

It builds on the dates of `english`. What a reader would not guess: a range includes the last unit that it names
(`between 3 and 10 May` ends when 11 May begins), and an hour from one to six that does not say which half of the
day it means is taken as afternoon.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from magma_gpu.timex.english import with_part
from magma_gpu.timex.grammar import Context, Grammar
from magma_gpu.timex.holidays import holiday_near
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
)

_HOUR = 3600


def add_clock(g: Grammar) -> None:
    """Adds times of day."""
    add = g.add
    c = g.classes
    c.union("hour", "d wn")
    add("C", "(<hm>)<comma>?(<ampm>)?", lambda _, t, half: _half(t, half) if half else t)
    add("C", "(<d|wn>)<o>?<quote>?<clockword|oclock>(?:(<ampm>))?", lambda _, h, half: _hour(h, half))
    add("C", "(<d|wn>)(<d|wn>)?(<ampm>)", _spoken)
    add("C", "(<dec>)(<ampm>)", lambda c, _, half: _decimal(c, half))
    add("C", "(<d4|dn|y>)(<ampm>)", lambda _, n, half: _packed(n, half))
    add("C", "(<noon>)", lambda _, h: _hour(h, None, exact=True))
    add("C", "<half><past>(<d|wn>)(?:<o>?<quote>?<clockword|oclock>)?", lambda _, h: _minute(h, 30))
    add("C", "<a>?(<unit>)(<past|to>)(<d|wn>)", _quarter_past)
    add("C", "(<d|wn|Q>)(<past>)(<d|wn|C>)(?:<o>?<quote>?<clockword|oclock>)?", _minutes_past)
    add("C", "(?<=<at>)(<wn>)<dash>?(<wn>)(?:<units>)?", lambda _, h, m: _minute(h, m) if h <= 12 and m < 60 else None)
    add("C", "(?<=<deictic|A|from|to|at|and>)(<wn>)<dash>?(<wn>)", _words)
    # A part of the day tells which half of it an hour is in.
    add("C", "(?:<about>)?(<C|d|wn>)(?:<in|at><the>?|<early|late>)(<part>)", _in_part)
    add("C", "(?:<in|at><the>|<the>)(<part>)<at|comma|dash>?<about>?(<C|d|wn>)(?!<unit|units|x>)", _part_then)
    add("C", "<in><the>(<part>)<at><about>?(<C|d|wn>)", _part_then)
    add("C", "(<C>)(?:<on>?<early>)(<part>)", _in_part)
    add("CP", "(?<!<A|dow|deictic|month|d>)(?:<early|late|earlier|later>)<in>?<the>?(<part>)", _part_half)
    add("C", "<at>(<dec>)", lambda c, _: _decimal(c, None))
    # Stretches of the day.
    add("CR", "<from|between>?(<C|d|wn>)(?:<to|until|through|dash|and>)(<C>)", _clock_range)
    add("CR", "<from|between>?(<C>)(?:<to|until|through|dash|and>)(<d|wn>)(?!<unit|units|x|month|ordd>)", _clock_range)
    add("CR", "<from|between>?(<d|wn>)(?:<to|dash>)(<d|wn>)<in><the>(<part>)", _range_in_part)
    add("CR", "<from|between>?(<d|wn>)(?:<to|dash|and>)(<C>)", _clock_range)
    add("CR", "<from|between><about>?(<d4|y>)(?:<to|dash|and>)(<d4|y>)", _packed_range)
    add("CR", "<from>(<C>)<for>(<Q>)", lambda c, a, q: _for(a, q))
    add("CR", "<for>(<Q>)<from>(<C>)", lambda c, q, a: _for(a, q))
    add("CO", "<any>?<timeword>?(?:<before|until|by>|<prior><to>)<about>?(<C>)", lambda _, t: _upto(t))
    add("CO", "<no>?<xas><late><xas>(<C>)", lambda _, t: _upto(t))
    add("CO", "<any>?<timeword>?(?:<after|since|from|starting|later><than>?)<about>?(<C>)", lambda _, t: _onward(t))
    add("CO", "<xas><early><xas>(<C>)", lambda _, t: _onward(t))
    add("CR", "(?:<before|after>)(<food|meal>)", _beside_meal)


def _hour(hour: float, half: str | None, *, exact: bool = False) -> Clock | None:
    if hour != int(hour) or not 0 <= hour <= 24:
        return None
    clock = Clock(int(hour) * _HOUR, int(hour) * _HOUR + _HOUR, "hour", not exact and 1 <= hour <= 12)
    return _half(clock, half) if half else clock


def _minute(hour: float, minute: float) -> Clock | None:
    if not 0 <= hour <= 24 or not 0 <= minute < 60:
        return None
    start = int(hour) * _HOUR + int(minute) * 60
    return Clock(start, start + 60, "minute", 1 <= hour <= 12)


def _half(clock: Clock, half: str) -> Clock | None:
    hour = clock.start // _HOUR
    if hour > 12:
        return replace(clock, loose=False) if half == "p" else None
    add = (hour % 12 + (12 if half == "p" else 0) - hour) * _HOUR
    return Clock(clock.start + add, clock.end + add, clock.grain)


def _spoken(_: Context, hour: float, minute: float | None, half: str) -> Clock | None:
    if hour > 12 and half == "a":
        return None
    clock = _hour(hour, None) if minute is None else _minute(hour, minute)
    return _half(clock, half) if clock else None


def _decimal(c: Context, half: str | None) -> Clock | None:
    token = next(t for t in c.tokens if "." in c.text[t.first : t.last] and isinstance(t.value, float))
    hour, minute = c.text[token.first : token.last].split(".")
    if len(minute) != 2:
        return None
    clock = _minute(int(hour), int(minute))
    return _half(clock, half) if clock and half else clock


def _packed(number: float, half: str | None) -> Clock | None:
    clock = _minute(number // 100, number % 100)
    return _half(clock, half) if clock and half else clock


def _packed_range(c: Context, a: int, b: int) -> Clock | None:
    if not (c.text[c.tokens[1].first] == "0" or c.text[c.tokens[-1].first] == "0"):
        return None
    start, end = _packed(a, None), _packed(b, None)
    return _clock_range(c, start, end) if start and end else None


def _quarter_past(c: Context, unit: str, _: Any, hour: float) -> Clock | None:
    if unit != "quarter":
        return None
    return _minute(hour, 15) if "past" in _text(c) else _minute(hour - 1, 45)


def _minutes_past(_: Context, minute: Any, __: Any, hour: Any) -> Clock | None:
    if isinstance(minute, Qty):
        if minute.parts[0][0] != "minute":
            return None
        minute = minute.parts[0][1]
    if isinstance(hour, Clock):
        if hour.start % _HOUR:
            return None
        return Clock(hour.start + int(minute) * 60, hour.start + int(minute) * 60 + 60, "minute", hour.loose)
    return _minute(hour, minute)


def _words(_: Context, hour: float, minute: float) -> Clock | None:
    return _minute(hour, minute) if 1 <= hour <= 12 and 10 <= minute < 60 else None


def _as_clock(value: Any) -> Clock | None:
    return value if isinstance(value, Clock) else _hour(value, None)


def _part_half(c: Context, part: tuple[int, int, str]) -> Clock:
    first, last, _ = part
    middle = (first + last) // 2
    early = _text(c).startswith("ear")
    return Clock((first if early else middle) * _HOUR, (middle if early else last) * _HOUR, "part_of_day")


def _in_part(_: Context, clock: Any, part: tuple[int, int, str]) -> Clock | None:
    clock = _as_clock(clock)
    if clock is None or not clock.loose:
        return clock
    late = part[2] != "morning" and not (part[2] == "night" and clock.start < 6 * _HOUR)
    return _half(clock, "p" if late else "a")


def _part_then(c: Context, part: tuple[int, int, str], clock: Any) -> Clock | None:
    return _in_part(c, clock, part)


def _clock_range(_: Context, a: Any, b: Any) -> Clock | None:
    start, end = _as_clock(a), _as_clock(b)
    if start is None or end is None:
        return None
    if start.loose and not end.loose:
        # "4 to 6:30 pm": the half of the second counts for both, where the order allows it.
        late = start.start % (12 * _HOUR) + 12 * _HOUR
        if late < end.start:
            start = replace(start, start=late)
    elif start.loose and end.loose and start.start <= end.start and start.start <= 6 * _HOUR:
        start, end = replace(start, start=start.start + 12 * _HOUR), replace(end, start=end.start + 12 * _HOUR)
    stop = end.start
    if stop <= start.start:
        stop += 12 * _HOUR if end.loose or stop + 12 * _HOUR > start.start else 24 * _HOUR
    return Clock(start.start, stop, "range", start.loose and end.loose)


def _range_in_part(c: Context, a: float, b: float, part: tuple[int, int, str]) -> Clock | None:
    start, end = _in_part(c, a, part), _in_part(c, b, part)
    return Clock(start.start, end.start, "range") if start and end and start.start < end.start else None


def _for(start: Clock, qty: Qty) -> Clock | None:
    length = int(qty.seconds())
    return Clock(start.start, start.start + length, "range", start.loose) if length <= 86_400 else None


def _upto(clock: Clock) -> Clock:
    return Clock(0, _afternoon(clock).start, "range")


def _onward(clock: Clock) -> Clock:
    return Clock(_afternoon(clock).start, 86_400, "range")


def _afternoon(clock: Clock) -> Clock:
    """Moves an hour from one to six that does not say which half of the day it means."""
    if not clock.loose or not _HOUR <= clock.start < 7 * _HOUR:
        return clock
    return Clock(clock.start + 12 * _HOUR, clock.end + 12 * _HOUR, clock.grain)


def _beside_meal(c: Context, meal: tuple[int, ...]) -> Clock:
    if "before" in _text(c):
        return Clock(0, meal[0] * _HOUR, "range")
    return Clock(meal[1] * _HOUR, 86_400, "range")


def _text(c: Context) -> str:
    return c.text[c.tokens[0].first : c.tokens[-1].last]


def add_bare(g: Grammar) -> None:
    """Lets what is left of months, weekdays, seasons and holidays stand alone."""
    g.add("A", "(<dow>)", lambda _, w: Cal(dow=w))
    g.add("A", "(?<!<money>)(<month>)", lambda _, m: Cal(month=m))
    g.add("A", "(?<=<on>)(<dec>)", _dotted)
    g.add("A", "(?<!<good|long|work>)<the>?(<unit>)(?!<of|before|after|dash>)", _bare_weekend)
    g.add("A", "(<season>)", lambda c, s: season_near(c.ref, s, c.way()) if c.ref else None)
    g.add("A", "(<holiday>)(?:<unit>(?!<s>))?", lambda c, h: _bare_holiday(c, h))


def _dotted(c: Context, _: float) -> Cal | None:
    month, day = _text(c).split(".")
    return Cal(None, int(month), int(day)) if 1 <= int(month) <= 12 and 1 <= int(day) <= 31 else None


def _bare_weekend(c: Context, unit: str) -> Span | None:
    if unit != "weekend" or c.ref is None:
        return None
    span = unit_span(c.ref, "weekend")
    if c.way() < 0 and span.start > c.ref and "the" in _text(c):
        return unit_span(c.ref, "weekend", -1)
    return span


def _bare_holiday(c: Context, name: str) -> Span | None:
    if c.ref is None or (len(c.tokens) > 1 and not _text(c).endswith("day")):
        return None
    return holiday_near(name, c.ref, c.way())


def add_clock_dates(g: Grammar) -> None:
    """Joins dates with parts of the day and times."""
    add = g.add
    join = "(?:<comma|at|on|dash|for|lpar|rpar>|<in><the>?)*<about>?"
    add("A", "(<A>)(?:<comma|dash>|<in|at><the>?)?<early|late>?(<part>)", _on_part)
    add("A", "(<the>)?(<part>)<of|on>(<A>)", lambda c, _, p, a: _on_part(c, a, p))
    add("A", "(<A>)(<ampm>)", lambda c, a, half: _on_part(c, a, (8, 12, "") if half == "a" else (12, 16, "")))
    add("E", "(<every>)?(<A>)(<parts>)", lambda c, _, a, p: _on_part(c, a, p))
    add("R", f"(<A>){join}<for>(<Q>)<from>(<C>)", lambda c, a, q, t: _on(c, a, _for(t, q)))
    add("A", f"(<A>){join}(<CR>)(?=<of|in>)", _on)
    add("R", f"(<A>){join}(<CR|CO>)", _on)
    add("R", f"(<CR|CO>){join}<of>?(<A>)", lambda c, t, a: _on(c, a, t))
    add("R", f"(<A>){join}<from|between>?(<d|wn>)<to|dash|and>(<d|wn>)(?!<unit|units|x|percent>)", _on_hours)
    add("R", "<from|between>(<d|wn>)<to|dash|and>(<d|wn>)(<A>)", lambda c, a, b, day: _on_hours(c, day, a, b))
    add("R", "(<d|wn>)<dash>(<d|wn>)(<A>)", lambda c, a, b, day: _on_hours(c, day, a, b))
    add("A", f"(<A>){join}(<C|CP>)", _on)
    add("A", f"<at>?(<C>){join}<of>?(<A>)", lambda c, t, a: _on(c, a, t))
    add("A", "(<A>)<at|about><about>?(<d|wn>)(?!<unit|units|x|percent|month>)", lambda c, a, h: _on(c, a, _hour(h, None)))
    add("A", "(<A>)<at>?(<dec>)", lambda c, a, _: _on(c, a, _decimal(c, None)))
    add("A", "(<d|wn>)<comma>?(<A>)", lambda c, h, a: _on_night(c, a, h))


def _on_part(c: Context, a: Any, part: tuple[int, int, str]) -> Span | None:
    span = c.fix(a)
    return with_part(span, part) if span and span.grain == "day" and span.kind == "date" else None


def _on(c: Context, a: Any, clock: Clock | None) -> Span | None:
    span = c.fix(a)
    if span is None or clock is None or span.grain not in ("day", "part_of_day") or span.kind == "recurring":
        return None
    if clock.grain == "range" and span.grain == "part_of_day" and clock.loose:
        low = 12 * _HOUR if span.start.hour >= 12 else 0
        base = clock.start % (12 * _HOUR)
        clock = Clock(base + low, base + low + clock.end - clock.start, "range")
    elif span.grain == "part_of_day" and clock.loose:
        night = span.start.hour == 20 and clock.start < 6 * _HOUR
        half = _half(replace(clock, loose=True), "p" if span.start.hour >= 12 and not night else "a")
        clock = half or clock
    elif clock.loose and clock.grain != "range":
        clock = _afternoon(clock)
    return with_clock(span, clock)


def _on_hours(c: Context, a: Any, first: float, last: float) -> Span | None:
    clock = _clock_range(c, first, last)
    return _on(c, a, clock) if clock and first <= 24 and last <= 24 else None


def _on_night(c: Context, a: Any, hour: float) -> Span | None:
    if not isinstance(a, Span) or a.grain != "part_of_day" or not _text(c).endswith(("tonight", "tonite")):
        return None
    return _on(c, a, _hour(hour, None))


def add_repetition(g: Grammar) -> None:
    """Adds what happens again and again; its interval is the period that the text's own time lies in."""
    add = g.add
    add("E", "<every>(<other>)?(<Q>)", lambda c, _, q: _period(c, q.parts[0][0]))
    add("E", "<every><other>?(<unit|units|weekends>)", _period)
    add("E", "<all>(<weekends|units>)", lambda c, u: _period(c, u) if u == "weekend" else None)
    add("E", "<every><other>?(<dow|dows|month|part|A>)", _every)
    add("E", "<bi><dash>(<freq>)", _period)
    add("E", "(?<!<few>)(<freq>)", _period)
    add("E", "(<dows>)(<parts>)?", _weekdays)
    add("E", "(<weekends>)", _period)
    add("E", "<weekdays>", lambda c: _period(c, "week"))
    add("E", "(<parts>)", lambda c, p: _recurring(with_part(day_span(day_of(c.ref)), p)) if c.ref else None)
    add("E", "(?:<once>|<cnt|several|few><times>|<d|wn>)(?:<every|per>(<unit>)|(<Q>))", _times_a)
    add("E", "(<E>)(?:<comma|at>)*(<C>)", lambda c, e, t: _recurring(with_clock(e, t)))
    add("E", "(<C>)<on>?(<E>)", lambda c, t, e: _recurring(with_clock(e, t)))
    add("Q", "<all|whole>(<unit>)", lambda _, u: Qty(((u, 1),)))


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
    add("A", "(?<=<to|until|and|through>)<now|present|dateword>", _now)
    add("A", "(?<=<from|between>)<now>", _now)
    add("R", "(?:<from|between><the>?)?(<ordd|ordw|d|wn>)<upto><the>?(<A>)", _days_upto)
    add("R", "<between|from><the>?(<ordd|ordw|d|wn>)<and><the>?(<A>)", _days_upto)
    add("R", "(?:<on|from|between>)?(<A>)<upto><the>?(<d|ordd|ordw|wn>)(?!<dash>)(?:<comma>?(<y>))?(?!<unit|units|x>)", _upto_day)
    add("R", "<between><the>?(<A|y>)<and><the>?(<A|y>)", _range)
    add("R", "(?:<between|from><the>?)?(<A|y>)<upto><the>?(<A|y|E>)(?!<dash><d>)", _range)
    add("R", "(?:<until|to>)<dateword>", lambda c: Span(OPEN_START, day_of(c.ref), "day", "range") if c.ref else None)
    add("R", "<within><the>?<next>?(<Q>)", _within)
    add("R", "<within>(<R>)", lambda _, r: r)
    add("R", "(?:<more>)<than>(<Q>)<before|after>(<A>)", lambda *_: None)
    add("R", "<more><than>(<A>)", _beyond)
    add("A", "(?<!<d><dash>)(?<!<y><dash>)(<y>)(?!<ampm|percent>|<dash><d>)", _bare_year)
    add("R", "<before|by|until|after|since|starting|prior>", lambda *_: None)
    add("R", "(?:<before>|<prior><to>)<about>?<the>?(<A>)", lambda c, a: _open(c, a, "before"))
    add("R", "(?:<by>|<until>|<no><later><than>)<the>?(<A>)", lambda c, a: _open(c, a, "until"))
    add("R", "(?:<after>|<later|more|greater><than>)<the>?(<A>)", lambda c, a: _open(c, a, "after"))
    add("R", "(?:<since>|<starting><from|on>?|<xas><early><xas>)<the>?(<A>)", lambda c, a: _open(c, a, "since"))
    add("R", "(<A>)(?:<and|or>)(?:<after|later|before|earlier>)(?!<A|Q|the|x>)", _or_later)
    add("R", "(<gt|lt>)(<eq>)?(<A>)", _compared)
    add("A", "(?<=<at|right>)<the>?(?:<present><timeword>?|<moment>)", lambda c: _now(c))
    add("A", "(?<=<right>)<now>|<now>(?=$|<stop>)", lambda c: _now(c))
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
    if span.grain == "year":
        return Span(span.end, OPEN_END, "year", "range")
    if span.start < c.ref:
        return Span(OPEN_START, span.start, span.grain, "range")
    return Span(span.start, OPEN_END, span.grain, "range")


def _bare_year(c: Context, year: int) -> Cal | None:
    before = c.text[c.at - 1 : c.at]
    if year % 100 == 0 and re.match(r"\s+[a-z]{3,}s\b", c.text[c.tokens[-1].last :]):
        # "2000 pieces" counts things.
        return None
    return Cal(year=year) if 1500 <= year <= 2199 and before not in ("$", "#", "@", "_", "+") else None


def _open(c: Context, a: Any, how: str) -> Span | None:
    span = c.fix(a)
    if span is None or span.start == OPEN_START or span.end == OPEN_END:
        return None
    if how == "before":
        # "before the end of December" is before December ends.
        return Span(OPEN_START, span.end if _is_end(c) else span.start, span.grain, "range")
    if how == "until":
        return Span(OPEN_START, span.end, span.grain, "range")
    if how == "after":
        return Span(span.start if "beginning" in _text(c) else span.end, OPEN_END, span.grain, "range")
    end = c.ref if c.ref is not None and span.start < c.ref else OPEN_END
    return Span(span.start, max(end, span.start), span.grain, "range")


def _is_end(c: Context) -> bool:
    words = _text(c).split()
    return "end" in words


def _or_later(c: Context, a: Any) -> Span | None:
    span = c.fix(a)
    if span is None:
        return None
    if _text(c).endswith(("after", "later")):
        return Span(span.start, OPEN_END, span.grain, "range")
    return Span(OPEN_START, span.end, span.grain, "range")


def _compared(c: Context, _: Any, equal: Any, a: Any) -> Span | None:
    span = c.fix(a)
    if span is None:
        return None
    with_it = "=" in _text(c)
    if ">" in _text(c):
        return Span(span.start if with_it else span.end, OPEN_END, span.grain, "range")
    return Span(OPEN_START, span.end if with_it else span.start, span.grain, "range")

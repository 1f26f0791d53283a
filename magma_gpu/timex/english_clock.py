"""English rules for times of day, alone and on a date.

What a reader would not guess: an hour from one to six that does not say which half of the day it means is taken as
afternoon, unless it stands beside a part of the day.
"""

from dataclasses import replace
from typing import Any

from magma_gpu.timex.grammar import Context, Grammar, text_of
from magma_gpu.timex.holidays import holiday_near
from magma_gpu.timex.intervals import (
    Cal,
    Clock,
    Qty,
    Span,
    season_near,
    unit_span,
    with_clock,
    with_part,
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
    add("C", "(<d4|dn|y>)(<ampm>)", lambda c, n, half: _packed(n, half) if "m" in text_of(c) else None)
    add("C", "(<d|wn>)(<noon>)", lambda _, n, h: _hour(h, None, exact=True) if n == 12 else None)
    add("C", "(<noon>)", lambda _, h: _hour(h, None, exact=True))
    add("C", "(<C>)<ish>", lambda _, t: t)
    add("C", "(?<=<at|about|by>)(<d|wn>)<ish>", lambda _, h: _hour(h, None))
    add("C", "(?<=<at>)(<wn>)<o>(<wn>)", lambda _, h, m: _minute(h, m) if 1 <= h <= 12 and 1 <= m < 10 else None)
    add("C", "(?<=<at|by|before|after|until|about|since>)(<d4>)(?!<unit|units|x>)", _nought)
    add("C", "(?<=<at|by|until|since|from>)(<Q>)", _military)
    add("C", "(<Q>)(<to|before|after>)(<C>)", _beside_clock)
    add("C", "(<Q>)(<to|before|after>)(<d|wn>)(?!<unit|units|x|percent|to|dash|month>)", _beside_hour)
    add("C", "(?<=<at>)(<d|wn>)(<to|after>)(<d|wn>)(?!<unit|units|x|percent|dash|month>)", _spoken_beside)
    add("C", "<half><past>(<C>)", lambda _, t: _past(t, 30))
    add("C", "<a>?(<unit>)<past>(<C>)", lambda _, u, t: _past(t, 15) if u == "quarter" else None)
    add("C", "<a>?(<unit>)<to>(<C>)", lambda _, u, t: _past(t, -15) if u == "quarter" else None)
    add("C", "<half><past>(<d|wn>)(?:<o>?<quote>?<clockword|oclock>)?", lambda _, h: _minute(h, 30))
    add("C", "<a>?(<unit>)(<past|to>)(<d|wn>)", _quarter_past)
    add("C", "(<d|wn|Q>)(<past>)(<d|wn|C>)(?:<o>?<quote>?<clockword|oclock>)?", _minutes_past)
    add(
        "C",
        "(?<=<at>)(<wn>)<dash>?(<wn>)(?:<units>)?",
        lambda _, h, m: _minute(h, m) if h <= 12 and m < 60 else None,
    )
    add("C", "(?<=<deictic|A|from|to|at|and>)(<wn>)<dash>?(<wn>)", _words)
    # A part of the day tells which half of it an hour is in.
    add("C", "(?:<about>)?(<C|d|wn>)(?:<in|at><the>?|<early|late>)(<part>)", _in_part)
    add("C", "(?:<in|at><the>|<the>)(<part>)<at|comma|dash>?<about>?(<C|d|wn>)(?!<unit|units|x>)", _part_then)
    add("C", "<in><the>(<part>)<at><about>?(<C|d|wn>)", _part_then)
    add("C", "(<C>)(?:<on>?<early>)(<part>)", _in_part)
    add("CP", "(?<!<A|dow|deictic|month|d>)(?:<early|late|earlier|later>|<mid><dash>?)<in>?<the>?(<part>)", _part_half)
    add("C", "(?<=<at>)(<d|wn>)(?=$|<stop|comma>)", lambda c, h: _hour(h, None) if 1 <= h <= 12 else None)
    add("meal", "(<food>)<timeword>", lambda _, hours: (*hours, "mealtime"))
    add("C", "<at>(<dec>)", lambda c, _: _decimal(c, None))
    # Stretches of the day.
    add("CR", "<from|between>?(<C|d|wn>)(?:<to|until|through|dash|and>)(<C>)", _clock_range)
    add(
        "CR",
        "<from|between>?(<C>)(?:<to|until|through|dash|and>)(<d|wn>)(?!<unit|units|x|month|ordd>)",
        _clock_range,
    )
    add("CR", "<from|between>?(<d|wn>)(?:<to|dash>)(<d|wn>)<in><the>(<part>)", _range_in_part)
    add("CR", "<from|between>?(<d|wn>)(?:<to|dash|and>)(<C>)", _clock_range)
    add("CR", "<from|between><about>?(<d4|y>)(?:<to|dash|and>)(<d4|y>)", _packed_range)
    add("CR", "<from>?(<C>)<for>(<Q>)", lambda c, a, q: _for(a, q))
    add("CR", "<for>(<Q>)<from>(<C>)", lambda c, q, a: _for(a, q))
    add("CO", "<any>?<timeword>?(?:<before|until|by>|<prior><to>)<about>?(<C>)", lambda _, t: _upto(t))
    add("CO", "<no>?<xas><late><xas>(<C>)", lambda _, t: _upto(t))
    add(
        "CO",
        "<any>?<timeword>?(?:<after|since|from|starting|later><than>?)<about>?(<C>)",
        lambda _, t: _onward(t),
    )
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


def _nought(c: Context, number: int) -> Clock | None:
    """Reads "at 0730"."""
    return _packed(number, None) if text_of(c)[0] == "0" else None


def _military(c: Context, qty: Qty) -> Clock | None:
    """Reads "at 1600 hours"."""
    unit, number = qty.parts[0]
    digits = text_of(c)[:4]
    return _packed(int(number), None) if unit == "hour" and digits.isdigit() and len(qty.parts) == 1 else None


def _beside_clock(c: Context, qty: Qty, _: Any, clock: Clock) -> Clock | None:
    """Reads "two hours before noon" and "20 minutes to 9 pm"."""
    word = c.text[c.tokens[1].first : c.tokens[1].last]
    unit = qty.parts[-1][0]
    if unit not in ("minute", "hour") or (word == "to" and unit != "minute"):
        return None
    start = clock.start + int(qty.seconds()) * (1 if word == "after" else -1)
    return Clock(start, start + 60, "minute", clock.loose) if 0 <= start < 86_400 else None


def _beside_hour(c: Context, qty: Qty, _: Any, hour: float) -> Clock | None:
    clock = _hour(hour, None) if 1 <= hour <= 12 else None
    return _beside_clock(c, qty, _, clock) if clock and qty.parts[-1][0] == "minute" and qty.parts[-1][1] < 60 else None


def _spoken_beside(c: Context, minute: float, _: Any, hour: float) -> Clock | None:
    """Reads "at ten to 8"."""
    if minute not in (5, 10, 20, 25) or not 1 <= hour <= 12:
        return None
    return _beside_clock(c, Qty((("minute", minute),)), _, Clock(int(hour) * _HOUR, 0, "hour", loose=True))


def _quarter_past(c: Context, unit: str, _: Any, hour: float) -> Clock | None:
    if unit != "quarter":
        return None
    return _minute(hour, 15) if "past" in text_of(c) else _minute(hour - 1, 45)


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


def _past(clock: Clock, minutes: int) -> Clock | None:
    start = clock.start + 60 * minutes
    return Clock(start, start + 60, "minute", clock.loose) if clock.grain == "hour" and start > 0 else None


def _words(_: Context, hour: float, minute: float) -> Clock | None:
    return _minute(hour, minute) if 1 <= hour <= 12 and 10 <= minute < 60 else None


def _as_clock(value: Any) -> Clock | None:
    return value if isinstance(value, Clock) else _hour(value, None)


def _part_half(c: Context, part: tuple[int, int, str]) -> Clock:
    first, last, _ = part
    middle = (first + last) // 2
    early = text_of(c).startswith("ear")
    if text_of(c).startswith("mid"):
        return Clock((first + middle) * _HOUR // 2, (middle + last) * _HOUR // 2, "part_of_day")
    return Clock((first if early else middle) * _HOUR, (middle if early else last) * _HOUR, "part_of_day")


def _in_part(_: Context, value: Any, part: tuple[int, int, str]) -> Clock | None:
    clock = _as_clock(value)
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
        start, end = (
            replace(start, start=start.start + 12 * _HOUR),
            replace(end, start=end.start + 12 * _HOUR),
        )
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
    return Clock(0, afternoon(clock).start, "range")


def _onward(clock: Clock) -> Clock:
    return Clock(afternoon(clock).start, 86_400, "range")


def afternoon(clock: Clock) -> Clock:
    """Moves an hour from one to six that does not say which half of the day it means."""
    if not clock.loose or not _HOUR <= clock.start < 7 * _HOUR:
        return clock
    return Clock(clock.start + 12 * _HOUR, clock.end + 12 * _HOUR, clock.grain)


def _beside_meal(c: Context, meal: tuple[int, ...]) -> Clock:
    if "before" in text_of(c):
        return Clock(0, meal[0] * _HOUR, "range")
    return Clock(meal[1] * _HOUR, 86_400, "range")


def add_bare(g: Grammar) -> None:
    """Lets what is left of months, weekdays, seasons and holidays stand alone."""
    g.add("A", "(<dow>)", lambda _, w: Cal(dow=w))
    g.add("A", "(?<!<money>)(<month>)", lambda _, m: Cal(month=m))
    g.add("A", "(?<=<on|by|until>)(<dec>)", _dotted)
    g.add("A", "(?<!<good|long|work>)<the>?(<unit>)(?!<of|before|after>)", _bare_weekend)
    before_season = "in this over during the whole since until of for all before after".replace(" ", "|")
    g.add("A", f"(?<=<{before_season}>)(<season>)", lambda c, s: season_near(c.ref, s, c.way()) if c.ref else None)
    g.add("A", "(<holiday>)(?:<unit>(?!<s>))?", lambda c, h: _bare_holiday(c, h))


def _dotted(c: Context, _: float) -> Cal | None:
    month, day = text_of(c).split(".")
    return Cal(None, int(month), int(day)) if 1 <= int(month) <= 12 and 1 <= int(day) <= 31 else None


def _bare_weekend(c: Context, unit: str) -> Span | None:
    if unit != "weekend" or c.ref is None:
        return None
    if c.text[c.tokens[-1].last : c.tokens[-1].last + 1] in ("-", "–"):
        return None
    span = unit_span(c.ref, "weekend")
    that = c.text[max(0, c.at - 5) : c.at].rstrip().endswith("that")
    if c.way() < 0 and span.start > c.ref and ("the" in text_of(c) or (c.told() and not (that or c.rewritten))):
        return unit_span(c.ref, "weekend", -1)
    return span


def _bare_holiday(c: Context, name: str) -> Span | None:
    if c.ref is None or (len(c.tokens) > 1 and not text_of(c).endswith("day")):
        return None
    return holiday_near(name, c.ref, c.way())


def add_clock_dates(g: Grammar) -> None:
    """Joins dates with parts of the day and times."""
    add = g.add
    join = "(?:<comma|at|on|dash|for|lpar|rpar>|<in><the>?)*<about>?"
    add("A", "(<A>)(?:<comma|dash>|<early|late>?<in|at><the>?)?<early|late>?(<part>)", _on_part)
    add("A", "(<the>)?(<part>)<of|on>(<A>)", lambda c, _, p, a: _on_part(c, a, p))
    add("A", "(<A>)(<ampm>)", lambda c, a, half: _on_part(c, a, (8, 12, "") if half == "a" else (12, 16, "")))
    add("E", "(<every>)?(<A>)(<parts>)", _on_parts)
    add("R", f"(<A>){join}<for>(<Q>)<from>(<C>)", lambda c, a, q, t: _on(c, a, _for(t, q)))
    add("A", f"(<A>){join}(<CR>)(?=<of|in>)", _on)
    add("R", f"(<A>){join}(<CR|CO>)", _on)
    add("R", f"(<CR|CO>){join}<of>?(<A>)", lambda c, t, a: _on(c, a, t))
    add("R", f"(<A>){join}<from|between>?(<d|wn>)<to|dash>(<d|wn>)(?!<unit|units|x|percent>)", _on_hours)
    add("R", f"(<A>){join}<between>(<d|wn>)<and>(<d|wn>)(?!<unit|units|x|percent>)", _on_hours)
    add("R", "<from|between>(<d|wn>)<to|dash|and>(<d|wn>)(<A>)", lambda c, a, b, day: _on_hours(c, day, a, b))
    add("R", "(<d|wn>)<dash>(<d|wn>)(<A>)", lambda c, a, b, day: _on_hours(c, day, a, b))
    add("A", f"(<A>){join}(<C|CP>)", _on)
    add("A", f"<at>?(<C>){join}<of>?(<A>)", lambda c, t, a: _on(c, a, t))
    add(
        "A",
        "(<A>)<at|about><about>?(<d|wn>)(?!<unit|units|x|percent|month>)",
        lambda c, a, h: _on(c, a, _hour(h, None)),
    )
    add("A", "<at|about>(<d|wn>)(?:<on><the>?)?(<A>)", lambda c, h, a: _on(c, a, _hour(h, None)))
    add("A", "(<early|late>)(<A>)", _half_of_part)
    add("A", "(<A>)<at>?(<dec>)", lambda c, a, _: _on(c, a, _decimal(c, None)))
    add("A", "(<d|wn>)<comma>?(<A>)", lambda c, h, a: _on_night(c, a, h))


def _on_part(c: Context, a: Any, part: tuple[int, int, str]) -> Span | None:
    span = c.fix(a)
    return with_part(span, part) if span and span.grain == "day" and span.kind == "date" else None


def _on_parts(c: Context, _: Any, a: Any, part: tuple[int, int, str]) -> Span | None:
    span = _on_part(c, a, part)
    return replace(span, kind="recurring") if span else None


def _on(c: Context, a: Any, clock: Clock | None) -> Span | None:
    span = c.fix(a)
    if span is None or clock is None or span.grain not in ("day", "part_of_day") or span.kind == "recurring":
        return None
    if clock.grain == "range" and span.grain == "part_of_day" and clock.loose:
        low = 12 * _HOUR if span.start.hour >= 12 else 0
        base = clock.start % (12 * _HOUR)
        clock = Clock(base + low, base + low + clock.end - clock.start, "range")
    elif span.grain == "part_of_day" and span.start.hour == 20 and clock.start == 0 and clock.grain == "hour":
        # The midnight of tonight is the one to come.
        clock = Clock(24 * _HOUR, 25 * _HOUR, "hour")
    elif span.grain == "part_of_day" and clock.loose:
        night = span.start.hour == 20 and clock.start < 6 * _HOUR
        half = _half(replace(clock, loose=True), "p" if span.start.hour >= 12 and not night else "a")
        clock = half or clock
    elif clock.loose and clock.grain != "range":
        clock = afternoon(clock)
    return with_clock(span, clock)


def _half_of_part(c: Context, _: Any, a: Any) -> Span | None:
    """Cuts "early tomorrow morning" in half."""
    if not isinstance(a, Span) or a.grain != "part_of_day":
        return None
    middle = a.start + (a.end - a.start) / 2
    return replace(a, end=middle) if text_of(c).startswith("early") else replace(a, start=middle)


def _on_hours(c: Context, a: Any, first: float, last: float) -> Span | None:
    clock = _clock_range(c, first, last)
    return _on(c, a, clock) if clock and first <= 24 and last <= 24 else None


def _on_night(c: Context, a: Any, hour: float) -> Span | None:
    if not isinstance(a, Span) or a.grain != "part_of_day" or not text_of(c).endswith(("tonight", "tonite")):
        return None
    return _on(c, a, _hour(hour, None))

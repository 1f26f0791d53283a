"""Days with names, by year.

Fixed days, nth weekdays of a month and the days that hang on Easter; no moon calendars. What a reader would not
guess: where countries differ (Mother's Day, Labor Day) it is the day of the United States.
"""

from datetime import datetime, timedelta

from magma_gpu.timex.intervals import Span, day_span

# Name: month and day.
_FIXED = {
    "christmas": (12, 25),
    "christmas eve": (12, 24),
    "boxing day": (12, 26),
    "new year": (1, 1),
    "new year eve": (12, 31),
    "valentine": (2, 14),
    "patrick": (3, 17),
    "april fools": (4, 1),
    "earth day": (4, 22),
    "may day": (5, 1),
    "juneteenth": (6, 19),
    "independence day": (7, 4),
    "halloween": (10, 31),
    "veterans day": (11, 11),
    "epiphany": (1, 6),
    "flag day": (6, 14),
    "all souls": (11, 2),
    "women": (3, 8),
    "groundhog day": (2, 2),
    "all saints": (11, 1),
    "german unity": (10, 3),
    "bastille": (7, 14),
    "singles day": (11, 11),
    "canada day": (7, 1),
    "australia day": (1, 26),
    "inauguration day": (1, 20),
}
# Name: month, weekday, which (-1 the last), days after it.
_NTH = {
    "mlk day": (1, 0, 3, 0),
    "presidents day": (2, 0, 3, 0),
    "mother": (5, 6, 2, 0),
    "memorial day": (5, 0, -1, 0),
    "arbor day": (4, 4, -1, 0),
    "father": (6, 6, 3, 0),
    "labor day": (9, 0, 1, 0),
    "columbus day": (10, 0, 2, 0),
    "election day": (11, 0, 1, 1),
    "thanksgiving": (11, 3, 4, 0),
    "black friday": (11, 3, 4, 1),
    "cyber monday": (11, 3, 4, 4),
}
# Name: days after Easter Sunday.
_EASTER = {
    "easter": 0,
    "good friday": -2,
    "easter monday": 1,
    "ascension": 39,
    "pentecost": 49,
    "palm sunday": -7,
    "maundy thursday": -3,
    "mardi gras": -47,
    "ash wednesday": -46,
}


def nth_weekday(year: int, month: int, dow: int, which: int) -> datetime:
    """Returns the nth weekday of a month, counted from its end where `which` is negative.

    Raises:
        ValueError: the month has no such day.
    """
    if which > 0:
        first = datetime(year, month, 1)
        day = first + timedelta(days=(dow - first.weekday()) % 7 + 7 * (which - 1))
        if day.month != month:
            raise ValueError("no such weekday")
        return day
    last = datetime(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - dow) % 7 + 7 * (-which - 1))


def easter(year: int) -> datetime:
    """Returns Easter Sunday by the Gregorian rule (Meeus)."""
    a, b, c = year % 19, year // 100, year % 100
    d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
    f = d + e - 7 * ((a + 11 * d + 22 * e) // 451) + 114
    return datetime(year, f // 31, f % 31 + 1)


def holiday(name: str, year: int) -> Span:
    """Returns the day of a holiday in a year.

    Raises:
        KeyError: no holiday has this name.
    """
    if name in _FIXED:
        month, day = _FIXED[name]
        return day_span(datetime(year, month, day))
    if name in _EASTER:
        return day_span(easter(year) + timedelta(days=_EASTER[name]))
    month, dow, which, more = _NTH[name]
    return day_span(nth_weekday(year, month, dow, which) + timedelta(days=more))


def holiday_near(name: str, ref: datetime, way: int) -> Span:
    """Returns the nearest such day before or at a moment (way -1), or at or after it."""
    spans = [holiday(name, ref.year + k) for k in (-1, 0, 1)]
    if way < 0:
        return [s for s in spans if s.start <= ref][-1]
    return next(s for s in spans if s.end > ref)

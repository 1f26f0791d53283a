"""Reads the time stamps of logs into UTC microseconds.

It does not look for times inside sentences (`magma_gpu.timex` does), and it never asks a clock or the
machine's zone. What a reader would not guess: a stamp that cannot be read for sure has no time at all.
`03/04/2023` without a date order, `12:00 CT` and `31 June 2023` are missing, with a note that says why,
rather than a likely value.

A stamp is made of a date and perhaps a time of day, a zone and a weekday, in any order:

- Numbers, and texts that are a number, are epochs. The unit follows the size of the number without its
  sign: below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, below 1e20 nanoseconds. A text
  of eight digits that is a calendar date (`20230520`) is that date; one of four digits is a year and
  unreadable.
- Dates: `2023-05-20`, `2023/5/20`, `20230520`, `20 May 2023`, `May 20th, 2023`, `20.05.2023` (dots: day
  first), `20/05/2023` and `20-05-23` (by `date_order`), `2023年5月20日`, `2023:05:20` (of cameras), and months in
  six more languages (`magma_gpu.stamp_words`). A date without a time of day is its first moment. Years of two
  digits are 1969 to 2068.
- Zones: `Z`, `UTC`, `GMT`, numeric offsets, and names such as `Europe/Berlin` (beside a numeric offset the
  offset counts). Other abbreviations name several zones each and are not read. A stamp without a zone is in
  `assumed_zone`; a local time that occurs twice is the first of the two, and one in a daylight-saving gap moves
  forward by the gap.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from magma_gpu.errors import ConfigError
from magma_gpu.stamp_words import in_english
from magma_gpu.types import RawTime

SECOND = 1_000_000
DAY = 86_400 * SECOND
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST = (date(1, 1, 1).toordinal() - _EPOCH_DAY) * DAY
_LAST = (date(9999, 12, 31).toordinal() + 1 - _EPOCH_DAY) * DAY - 1
_FAR = (date(2100, 1, 1).toordinal() - _EPOCH_DAY) * DAY
# Epochs before 3 March 1973 are more likely counters than times.
_SMALL_EPOCH = 100_000_000 * SECOND
_ORDERS = ("", "day", "month")
# Files in the zone database that stand for the zone of the machine.
_MACHINE_ZONES = ("localtime", "posixrules")


@dataclass(frozen=True, slots=True)
class Stamp:
    """One stamp as it was read."""

    # Microseconds since 1970 in UTC; None where no time could be read.
    time: int | None
    # The raw value as text; None where there was none.
    text: str | None
    # "given" (a zone or an epoch in the stamp), "assumed" (the zone of the option), "missing" (no time).
    zone_source: str
    # Why there is no time, or what is doubtful about it; None when all is well.
    note: str | None = None


def parse_stamps(values: Sequence[RawTime], *, assumed_zone: str, date_order: str) -> list[Stamp]:
    """Reads time stamps; the result depends on the arguments alone.

    Args:
        values: raw stamps; None, booleans, NaN and blank texts have no time.
        assumed_zone: IANA name of the zone of stamps that name none.
        date_order: "day" or "month", whichever comes first in stamps such as 03/04/2023; "" reads such a
            stamp only when one of the two numbers is above 12 or both are equal.

    Returns:
        One `Stamp` a value, in order.

    Raises:
        ConfigError: the zone is not known or the date order is none of the three.
    """
    if date_order not in _ORDERS:
        raise ConfigError(f"ingest.date_order must be 'day', 'month' or '' (got '{date_order}').")
    zone = _zone(assumed_zone)
    seen: dict[tuple[type, RawTime], Stamp] = {}
    stamps = []
    for value in values:
        # The type is part of the key because True == 1 == 1.0.
        key = (type(value), value)
        stamp = seen.get(key)
        if stamp is None:
            stamp = seen[key] = _read(value, zone, date_order)
        stamps.append(stamp)
    return stamps


def _zone(name: str) -> ZoneInfo | None:
    """Returns the zone, None for UTC."""
    if name in ("UTC", "Etc/UTC"):
        return None
    try:
        if name in _MACHINE_ZONES:
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"ingest.assumed_zone must be an IANA zone name such as Europe/Berlin (got '{name}')."
        ) from None


def _read(value: RawTime, zone: ZoneInfo | None, date_order: str) -> Stamp:
    if value is None:
        return Stamp(None, None, "missing", "no stamp")
    if isinstance(value, str):
        text = value
        fast = _ISO.fullmatch(text)
        if fast is not None:
            return _from_iso(fast, text, zone)
        if not text.strip():
            return Stamp(None, None, "missing", "no stamp")
        return _from_text(text, zone, date_order)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Stamp(None, str(value), "missing", "not a time")
    if isinstance(value, float) and not math.isfinite(value):
        return Stamp(None, str(value), "missing", "not a number")
    return _from_epoch(Decimal(repr(value)) if isinstance(value, float) else Decimal(int(value)), str(value))


def _finish(time: int, text: str, source: str, notes: Sequence[str] = ()) -> Stamp:
    """Checks the range of a time and adds what is doubtful about it."""
    if not _FIRST <= time <= _LAST:
        return Stamp(None, text, "missing", "out of range")
    if time < 0:
        notes = [*notes, "before 1970"]
    elif time >= _FAR:
        notes = [*notes, "far in the future"]
    return Stamp(time, text, source, "; ".join(notes) or None)


def _from_epoch(number: Decimal, text: str) -> Stamp:
    size = abs(number)
    if size >= Decimal(10) ** 20:
        return Stamp(None, text, "missing", "out of range")
    if size < 10**11:
        micros = number * SECOND
    elif size < 10**14:
        micros = number * 1000
    elif size < 10**17:
        micros = number
    else:
        micros = number / 1000
    time = int(micros.to_integral_value())
    small = 0 <= time < _SMALL_EPOCH
    return _finish(time, text, "given", ["a small number, read as epoch seconds"] if small else [])


def _resolve(
    text: str,
    day: date,
    micros: int,
    offset_s: int | None,
    zone: ZoneInfo | None,
    notes: Sequence[str] = (),
    source: str = "assumed",
) -> Stamp:
    """Turns a local date, a time of day and an offset (or a zone, as a rule the assumed one) into a stamp."""
    local = (day.toordinal() - _EPOCH_DAY) * DAY + micros
    if offset_s is not None:
        return _finish(local - offset_s * SECOND, text, "given", notes)
    if zone is None:
        return _finish(local, text, source, notes)
    wall = datetime(day.year, day.month, day.day) + timedelta(microseconds=micros)  # noqa: DTZ001
    first = wall.replace(tzinfo=zone).utcoffset()
    second = wall.replace(tzinfo=zone, fold=1).utcoffset()
    assert first is not None
    assert second is not None
    if first > second:
        notes = [*notes, "time occurs twice at a daylight-saving change, first taken"]
    elif first < second:
        # The offset before the gap, taken as it is, moves the time forward by the length of the gap.
        notes = [*notes, "time in a daylight-saving gap, moved forward"]
    return _finish(local - first // timedelta(microseconds=1), text, source, notes)


_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


def _from_iso(match: re.Match[str], text: str, zone: ZoneInfo | None) -> Stamp:
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        on = date(int(year), int(month), int(day))
    except ValueError:
        return Stamp(None, text, "missing", "no such date")
    if hour is None:
        return _resolve(text, on, 0, None, zone)
    micros = _micros(int(hour), int(minute), int(second or 0), fraction)
    if micros is None:
        return Stamp(None, text, "missing", "no such time of day")
    offset_s = None
    if offset is not None:
        offset_s = _offset_s(offset)
        if offset_s is None:
            return Stamp(None, text, "missing", "no such zone offset")
    return _resolve(text, on, micros, offset_s, zone)


def _micros(hour: int, minute: int, second: int, fraction: str | None) -> int | None:
    """Returns the microseconds of a time of day; 24:00 and a leap second roll over."""
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second or int(fraction or 0))):
        return None
    return (hour * 3600 + minute * 60 + second) * SECOND + int(((fraction or "0") + "000000")[:6])


def _offset_s(text: str) -> int | None:
    """Returns the seconds east of UTC of `Z`, `UTC`, `GMT`, `+2`, `+02:00`, `GMT+0200`."""
    digits = text.upper().removeprefix("UTC").removeprefix("GMT").replace(":", "")
    if digits in ("", "Z"):
        return 0
    number = digits[1:].rjust(4, "0") if len(digits) > 3 else digits[1:].rjust(2, "0") + "00"
    hours, minutes = int(number[:2]), int(number[2:])
    if hours > 23 or minutes > 59:
        return None
    return (-1 if digits[0] == "-" else 1) * (hours * 3600 + minutes * 60)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    r"(?P<mon>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_FLAGS = re.ASCII | re.IGNORECASE
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?", re.ASCII)
_HALF = r"(?P<ap>[ap]\.?\s?m\b\.?)"
_TIME = re.compile(
    r"(?:(?P<cjk>上午|下午|午前|午後|凌晨|晚上)\s*)?(?<![\d:.+-])"
    r"(?:(?P<h>\d{1,2}):(?P<mi>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d+))?)?(?!\d|:\d)(?:\s*" + _HALF + r")?"
    r"|(?P<h4>\d{1,2})\.(?P<mi4>\d\d)(?:\.(?P<s4>\d\d))?\s*" + _HALF.replace("<ap>", "<ap4>") + r""
    r"|(?P<h2>\d{1,2})\s*" + _HALF.replace("<ap>", "<ap2>") + r""
    r"|(?P<h3>\d{1,2})[时時点點](?:(?P<mi3>\d{1,2})分(?:(?P<s3>\d{1,2})秒)?)?)"
    r"(?:\s*(?P<z>(?:UTC|GMT)?[+-]\d\d?(?::?\d\d)?(?!\d)|Z\b|UTC\b|GMT\b)(?P<comment>\s*\([A-Za-z ]+\))?)?",
    _FLAGS,
)
_DATES = (
    re.compile(
        r"(?<!\d)(?P<y>\d{4})(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})(?:(?<=\d)\.(?=\s|$))?(?!\d)", _FLAGS
    ),
    re.compile(r"(?<!\d)(?P<y>\d{4})(?P<sep>:)(?P<m>\d\d):(?P<d>\d\d)(?!\d)", _FLAGS),
    re.compile(r"(?P<y>\d{4})\s*年\s*(?P<m>\d{1,2})\s*月\s*(?P<d>\d{1,2})\s*日", _FLAGS),
    re.compile(
        r"\b(?P<d>\d{1,2})(?:st|nd|rd|th)?\.?[\s-]*(?:of\s+)?" + _MONTH + r"(?:[\s,-]*(?P<y>\d{4}|\d\d)\b)?",
        _FLAGS,
    ),
    re.compile(r"\b" + _MONTH + r"[\s-]*(?P<d>\d{1,2})(?:st|nd|rd|th)?\b(?:[\s,-]*(?P<y>\d{4}|\d\d)\b)?", _FLAGS),
    re.compile(r"(?<![\d.])(?P<d>\d{1,2})(?P<sep>\.)\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4}|\d\d)(?!\d)", _FLAGS),
    re.compile(r"(?<!\d)(?P<a>\d{1,2})(?P<sep>[/-])(?P<b>\d{1,2})(?P=sep)(?P<y>\d{4}|\d\d)(?!\d)", _FLAGS),
    re.compile(r"(?<!\d)(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)(?!\d)", _FLAGS),
)
_COMPACT = re.compile(r"(\d{8})T(\d\d)(\d\d)(?:(\d\d)([.,]\d+)?)?", re.ASCII)
_YEAR = re.compile(r"(?<!\d)(\d{4})(?!\d)", re.ASCII)
_WEEKDAY = re.compile(
    r"\b(mon|tue|wed|thu|fri|sat|sun)(?:day|s|sday|nesday|rs|rsday|urday)?\b\.?|(?:星期|[周週])([一二三四五六日天])"
    r"|([月火水木金土日])曜日?|\(([月火水木金土日])\)",
    _FLAGS,
)
_CJK_DAYS = {
    **dict(zip("月火水木金土日", range(7), strict=True)),
    **dict(zip("一二三四五六天", range(7), strict=True)),
}
_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_FILLER = re.compile(r"\b(?:on|at)\b|[\s,;()\[\]·•|]+|(?<!\S)[-–T](?!\S)", _FLAGS)
_ZONE_NAME = re.compile(r"\[?(?<![\w/])([A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+)\]?", re.ASCII)
_LETTERS = re.compile(r"[A-Za-z/_]+")


def _from_text(text: str, zone: ZoneInfo | None, date_order: str) -> Stamp:
    """Takes the time, the date and the weekday out of a text; what is left must be filler."""
    rest = _MARKS.sub("", text if text.isascii() else unicodedata.normalize("NFKC", text)).strip()
    if _NUMBER.fullmatch(rest) and not (len(rest) == 8 and rest.isdigit() and _calendar(rest)):
        if len(rest) == 4 and rest.isdigit():
            return Stamp(None, text, "missing", "a year alone")
        return _from_epoch(Decimal(rest), text)
    rest = _COMPACT.sub(lambda m: f"{m[1]} {m[2]}:{m[3]}:{m[4] or '00'}{m[5] or ''}", rest)
    rest = re.sub(r"(?<=\d)T(?=\d\d?:)", " ", rest)
    source = "assumed"
    if (place := _ZONE_NAME.search(rest)) is not None:
        try:
            zone, source = _zone(place[1]), "given"
        except ConfigError:
            return Stamp(None, text, "missing", f"zone '{place[1]}' is not known")
        rest = f"{rest[: place.start()]} {rest[place.end() :]}"
    rest = in_english(rest)
    notes: list[str] = []
    micros, offset_s, found = 0, None, _TIME.search(rest)
    if found is not None:
        rest = f"{rest[: found.start()]} {rest[found.end() :]}"
        time = _time_of_day(found, notes)
        if time is None:
            return Stamp(None, text, "missing", "no such time of day")
        micros = time
        if found["z"] is not None:
            offset_s = _offset_s(found["z"])
            if offset_s is None:
                return Stamp(None, text, "missing", "no such zone offset")
    on, rest = _date(rest, date_order)
    if isinstance(on, str):
        return Stamp(None, text, "missing", on)
    if offset_s is None and (named := re.search(r"(?<!\S)(?:UTC|GMT|Z)(?!\S)", rest)):
        offset_s, rest = 0, rest[: named.start()] + rest[named.end() :]
    weekday = _WEEKDAY.search(rest)
    if weekday is not None:
        rest = rest[: weekday.start()] + rest[weekday.end() :]
        if _weekday(weekday) != on.weekday():
            notes.append("weekday does not match the date")
    rest = _FILLER.sub("", rest)
    if rest:
        known = found is not None and _LETTERS.fullmatch(rest)
        return Stamp(None, text, "missing", f"zone '{rest}' is not a known offset" if known else "not a time")
    return _resolve(text, on, micros, offset_s, zone, notes, source)


def _calendar(digits: str) -> bool:
    try:
        return 1900 <= date(int(digits[:4]), int(digits[4:6]), int(digits[6:])).year < 2100
    except ValueError:
        return False


def _time_of_day(found: re.Match[str], notes: list[str]) -> int | None:
    hour = int(found["h"] or found["h2"] or found["h3"] or found["h4"])
    minute = int(found["mi"] or found["mi3"] or found["mi4"] or 0)
    second = int(found["s"] or found["s3"] or found["s4"] or 0)
    half = (found["ap"] or found["ap2"] or found["ap4"] or "")[:1].lower()
    if found["cjk"]:
        half = "a" if found["cjk"] in ("上午", "午前", "凌晨") else "p"
    if half:
        if hour > 12:
            if half == "a":
                return None
            notes.append("hour above 12 with PM")
        elif hour == 12 or half == "p":
            hour = hour % 12 + (12 if half == "p" else 0)
    return _micros(hour, minute, second, found["f"])


def _date(rest: str, date_order: str) -> tuple[date | str, str]:
    """Returns the date, or the note that says why there is none, and the text without it."""
    for pattern in _DATES:
        found = pattern.search(rest)
        if found is None:
            continue
        rest = f"{rest[: found.start()]} {rest[found.end() :]}"
        parts = found.groupdict()
        year = parts["y"]
        if year is None:
            # As in the C library's form, "Sat May 20 02:21:00 2023".
            late = _YEAR.search(rest)
            if late is None:
                return "no year", rest
            year, rest = late[1], f"{rest[: late.start()]} {rest[late.end() :]}"
        number = int(year)
        if len(year) == 2:
            number += 2000 if number < 69 else 1900
        if "a" in parts:
            order = _day_month(int(parts["a"]), int(parts["b"]), date_order)
            if order is None:
                return "day and month cannot be told apart, set ingest.date_order", rest
            day, month = order
        else:
            day = int(parts["d"])
            month = _MONTHS.index(parts["mon"][:3].lower()) + 1 if "mon" in parts else int(parts["m"])
        try:
            return date(number, month, day), rest
        except ValueError:
            return "no such date", rest
    return "not a time", rest


def _day_month(a: int, b: int, date_order: str) -> tuple[int, int] | None:
    if a > 12 or b > 12 or a == b:
        # Only one reading is a date, whatever the option says.
        return (a, b) if b <= 12 else (b, a)
    if not date_order:
        return None
    return (a, b) if date_order == "day" else (b, a)


def _weekday(found: re.Match[str]) -> int:
    if found[1]:
        return _DAYS.index(found[1].lower())
    return _CJK_DAYS[found[2] or found[3] or found[4]]

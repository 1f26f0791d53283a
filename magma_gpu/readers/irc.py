"""Reads `irc`: channel logs, one line a message, as irssi, weechat, mIRC and log bots write them.

Memory: the channel, by the file's name without its date (or the memory id given). Session: the file. Turn: a
line; joins, quits and notices are turns of role system. Lines often have a time only: the date is then that
of the file's name, and goes on at midnight. A file that never shows an hour 0 or above 12 is on a twelve-hour
clock.
"""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.lines import numbered_lines
from magma_gpu.readers.peek import Peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record

_STAMP = re.compile(
    r"\[?(?:(?P<date>\d{4}-\d{2}-\d{2})[ T])?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\]?(?:\t| +)"
)
_SPEECH = re.compile(r"<[ @+%&~!]?(?P<nick>[^<>\s]{1,64})> ?(?P<text>.*)")
_TABBED = re.compile(r"[@+%&~!]?(?P<nick>[^\s<>*=-][^\s]{0,63})\t(?P<text>.*)")
_ACTION = re.compile(r"\*\s+(?P<nick>[^\s*]{1,64})\s(?P<text>.*)")
_NOTICE = re.compile(r"(?:-!-|\*\*\*|===|-->|<--|--|—)\s+(?P<text>\S.*)")
_DAY_LINE = re.compile(
    r"--- (?:Day changed|Log (?:opened|closed)) \w{3} "
    r"(?P<month>\w{3}) +(?P<day>\d{1,2}) (?:[\d:]+ )?(?P<year>\d{4})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NAME_DATE = re.compile(r"(?<!\d)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})(?!\d)")
# A step back in time of at least this is a new half day or day; a smaller one is a line out of order.
_ROLL_S = 3600
_HALF_DAY_S = 43_200
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class _Line:
    """A line taken apart; `nick` is None for a notice, `clock_s` where it has no time."""

    date: dt.date | None
    clock_s: int | None
    nick: str | None
    text: str


def looks_like(head: Peek) -> bool:
    """Whether most of the first lines are messages or notices, and some are messages."""
    filled = [line for line in head.lines if line.strip()]
    parsed = [line for line in map(_parse, filled) if line is not None]
    num_said = sum(line.nick is not None and line.clock_s is not None for line in parsed)
    return head.kind == "text" and num_said > 0 and 2 * len(parsed) > len(filled)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a log, in its order."""
    maker = TurnMaker(source, options)
    stem = clean.clean_id(source.stem)
    day = _date_of(source.name)
    memory_id = options.memory_id or re.sub(r"[-_. ]{2,}", "_", _NAME_DATE.sub("", stem)).strip("-_. ") or "irc"
    conversation = Conversation(memory_id=memory_id, session_id=stem, session_time=day.isoformat() if day else None)
    clock = _Clock(day, _is_twelve_hours(source))
    for line in numbered_lines(text):
        if not line.text.strip():
            continue
        changed = _day_of(line.text)
        if changed is not None:
            clock.set_day(changed)
        parsed = None if line.is_too_long else _parse(line.text)
        if parsed is None:
            reason = "line too long" if line.is_too_long else "not a message"
            yield maker.reject(reason, line.text, line.number, memory_id)
            continue
        row = {
            "speaker": parsed.nick,
            "role": "system" if parsed.nick is None else "other",
            "text": parsed.text,
            "time": clock.time(parsed),
        }
        yield maker.turn(row, line.number, conversation)


class _Clock:
    """Gives lines with a time of day a date, which moves on where the time steps back."""

    def __init__(self, day: dt.date | None, is_twelve_hours: bool) -> None:
        self._is_twelve_hours = is_twelve_hours
        self._midnight: dt.datetime | None = None
        self._offset_s, self._last_s = 0, 0
        if day is not None:
            self.set_day(day)

    def set_day(self, day: dt.date) -> None:
        self._midnight = dt.datetime.combine(day, dt.time())
        self._offset_s, self._last_s = 0, 0

    def time(self, line: _Line) -> str | None:
        if line.clock_s is None:
            return None
        if line.date is not None:
            self.set_day(line.date)
        elif line.clock_s <= self._last_s - _ROLL_S:
            is_noon = self._is_twelve_hours and self._last_s >= _HALF_DAY_S and line.clock_s < _HALF_DAY_S
            self._offset_s += _HALF_DAY_S if is_noon else _DAY_S
        self._last_s = line.clock_s
        if self._midnight is None:
            return None
        try:
            return (self._midnight + dt.timedelta(seconds=self._offset_s + line.clock_s)).isoformat()
        except OverflowError:
            return None


def _parse(line: str) -> _Line | None:
    stamp = _STAMP.match(line)
    date, clock_s, rest = None, None, line
    if stamp is not None:
        rest = line[stamp.end() :]
        hour, minute, second = int(stamp["hour"]), int(stamp["minute"]), int(stamp["second"] or 0)
        if hour < 24 and minute < 60 and second < 61:
            clock_s = hour * 3600 + minute * 60 + second
        date = _date(stamp["date"]) if stamp["date"] else None
        said = _SPEECH.fullmatch(rest) or _ACTION.fullmatch(rest.lstrip())
        if said is None and stamp[0].endswith("\t"):
            said = _TABBED.fullmatch(rest)
        if said is not None:
            return _Line(date, clock_s, said["nick"], said["text"])
    notice = _NOTICE.fullmatch(rest)
    if notice is not None:
        return _Line(date, clock_s, None, notice["text"])
    return _Line(None, None, None, line.removeprefix("--- ")) if _DAY_LINE.match(line) else None


def _is_twelve_hours(source: Source) -> bool:
    hours = set()
    with source.open() as stream, source.open_text(stream) as text:
        for line in numbered_lines(text):
            stamp = _STAMP.match(line.text)
            if stamp is not None:
                hours.add(int(stamp["hour"]))
    return bool(hours) and min(hours) >= 1 and max(hours) <= 12


def _day_of(line: str) -> dt.date | None:
    match = _DAY_LINE.match(line)
    if match is None or match["month"] not in _MONTHS:
        return None
    return _date(f"{match['year']}-{_MONTHS.index(match['month']) + 1:02}-{int(match['day']):02}")


def _date_of(name: str) -> dt.date | None:
    dates = [_date("-".join(match.groups())) for match in _NAME_DATE.finditer(name)]
    return next((date for date in reversed(dates) if date is not None), None)


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None

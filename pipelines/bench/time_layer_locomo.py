"""Scores the tagger on LoCoMo's category 2: does the evidence, read with its session's date, hold the gold's date?

What a reader would not guess: gold answers are read by a small reader of their own, so that the tagger is not measured
with itself; golds that name no day, week, weekend, month, season or year are left out; and a gold without a year has
the year of the session that its evidence was said in.
"""

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from magma_gpu.stamps import parse_stamps
from magma_gpu.timex import tag
from time_layer_specs import EPOCH, from_spans, one_more, share

_MONTHS = "january february march april may june july august september october november december".split()
_SHORT_MONTHS = [m[:3] for m in _MONTHS]
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTH = r"(?P<month>" + "|".join(m[:3] + r"[a-z]*" for m in _MONTHS) + r")"
_OTHER_MONTH = _MONTH.replace("<month>", "<month2>")
_GOLD_DAY = re.compile(
    rf"(?:(?P<d1>\d{{1,2}})[^\w\d]*\s*{_MONTH}|{_OTHER_MONTH}\s*(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?)"
    r"(?:\W*(?P<year>\d{4}))?"
)
_GOLD_MONTH = re.compile(rf"{_MONTH}\W*(?P<year>\d{{4}})")
_GOLD_BEFORE = re.compile(
    r"^(?:the |a )?(?:(?P<num>one|two|three|few) )?(?P<what>week|weekend|"
    + "|".join(_WEEKDAYS)
    + r")s? (?P<how>before|after|of) "
)
_GOLD_NTH = re.compile(r"^(?:the )?(?P<nth>first|second|third|last) (?P<what>week|weekend) of ")
_SEASON = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}


Interval = tuple[datetime, datetime]
# A range of days: "between 26 March and 20 April 2023", "November 5-6, 2022", "the night of October 30 to 31, 2022".
_GOLD_RANGE = re.compile(
    rf"(?:(?P<d1>\d{{1,2}}) )?{_MONTH} ?(?P<d2>\d{{1,2}})?(?:st|nd|rd|th)? ?(?:-|to|and) ?"
    rf"(?:{_OTHER_MONTH} ?)?(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?(?: (?P<month3>[a-z]+))?(?:\W*(?P<year>\d{{4}}))?"
)
_RANGE_BEFORE = re.compile(r"(?:(?:approximately|either|on|the|night|of|between) )*")
_FEW_DAYS = re.compile(r"^(?:a )?few days before ")
# How long before a day "a few days before" it may be.
_FEW = timedelta(days=5)


def gold_intervals(gold: str, year: int | None = None) -> tuple[Interval, ...]:
    """Reads a gold answer of LoCoMo that is a date, week, weekend, month or year; nothing for all others.

    It is written apart from the tagger, so that the tagger is not measured with itself. "The week before" a day is the
    week from Monday to Sunday before the one the day lies in, "a few days before" it the five days before.

    Args:
        gold: the answer.
        year: the year of answers that name none; without it they are nothing.

    Returns:
        The interval, or several where the answer says that any of them is right.
    """
    text = gold.strip().strip(".").lower()
    found = list(_GOLD_RANGE.finditer(text))
    if found and _RANGE_BEFORE.fullmatch(text, 0, found[0].start()):
        ranges = tuple(r for one in found if (r := _day_range(one, year)) is not None)
        if ranges:
            return ranges
    one = _one_interval(text, year)
    return () if one is None else (one,)


def _day_range(found: re.Match[str], year: int | None) -> Interval | None:
    at = int(found["year"]) if found["year"] else year
    first, last = found["d1"] or found["d2"], found["d3"]
    if at is None or first is None:
        return None
    other = found["month2"] or found["month3"]
    known = other if other and other[:3] in _SHORT_MONTHS else found["month"]
    try:
        start = datetime(at, _SHORT_MONTHS.index(found["month"][:3]) + 1, int(first))
        end = datetime(at, _SHORT_MONTHS.index(known[:3]) + 1, int(last))
    except ValueError:
        return None
    return (start, end + timedelta(days=1)) if start < end else None


def _one_interval(text: str, year: int | None) -> Interval | None:
    for wrong, right in (("janury", "january"), ("fridays", "friday"), ("weekday", "week")):
        text = text.replace(wrong, right)
    text = re.sub(r"^(?:approximately|last(?= week before)|on(?= a| the)|in(?= summer| winter)) ", "", text)
    only = re.fullmatch(r"(?:in |since |around |the year )?(\d{4})(?: \(.*)?", text)
    if only is not None:
        return datetime(int(only[1]), 1, 1), datetime(int(only[1]) + 1, 1, 1)
    day = _gold_day(text)
    if day is not None and _FEW_DAYS.match(text):
        return day - _FEW, day
    before = _GOLD_BEFORE.match(text)
    if before is not None:
        return _beside(day, before) if day is not None else None
    month = _GOLD_MONTH.search(text)
    nth = _GOLD_NTH.match(text)
    if nth is not None and month is not None:
        return _nth_week(_month_start(month), nth["nth"], nth["what"])
    if re.search(r"summer|spring|fall|autumn|winter", text):
        season = re.fullmatch(r"(?:the )?(\w+) (?:of )?(\d{4})", text)
        if season is None or season[1] not in _SEASON:
            return None
        start = datetime(int(season[2]), _SEASON[season[1]], 1)
        return start, one_more(one_more(one_more(start, "M"), "M"), "M")
    rest = re.sub(r"^(?:on|in|around|by|early|late|mid|end of|the|before|after)\s+", "", text)
    # An audit that names another person keeps the day: its last words.
    if day is not None and (_GOLD_DAY.match(rest) or re.search(r" on \w+ \d{1,2}, \d{4}$", text)):
        return day, day + timedelta(days=1)
    if month is not None and _GOLD_MONTH.match(rest):
        start = _month_start(month)
        end = one_more(start, "M")
        if text.startswith("early"):
            end = start + timedelta(days=10)
        elif text.startswith(("late", "end")):
            start += timedelta(days=20)
        return start, end
    return _without_year(text, year)


def _without_year(text: str, year: int | None) -> Interval | None:
    """Reads "13 August" and "August"."""
    found = re.fullmatch(rf"(?:(\d{{1,2}}) )?({'|'.join(_MONTHS)})", text)
    if found is None or year is None:
        return None
    start = datetime(year, _MONTHS.index(found[2]) + 1, int(found[1] or 1))
    return start, start + timedelta(days=1) if found[1] else one_more(start, "M")


def _gold_day(text: str) -> datetime | None:
    found = _GOLD_DAY.search(text)
    if found is None or found["year"] is None:
        return None
    month = _SHORT_MONTHS.index((found["month"] or found["month2"])[:3]) + 1
    try:
        return datetime(int(found["year"]), month, int(found["d1"] or found["d2"]))
    except ValueError:
        return None


def _month_start(found: re.Match[str]) -> datetime:
    return datetime(int(found["year"]), _SHORT_MONTHS.index(found["month"][:3]) + 1, 1)


def _beside(day: datetime, found: re.Match[str]) -> tuple[datetime, datetime]:
    monday = day - timedelta(days=day.weekday())
    num = {"two": 2, "three": 3, "few": 3}.get(found["num"] or "", 1)
    sign = {"before": -1, "after": 1, "of": 0}[found["how"]]
    if found["what"] == "week":
        if num > 1:
            return day + timedelta(days=7 * num * sign), day + timedelta(days=7 * num * sign + 1)
        return monday + timedelta(days=7 * sign), monday + timedelta(days=7 * sign + 7)
    if found["what"] == "weekend":
        saturday = monday + timedelta(days=5)
        if sign > 0:
            saturday += timedelta(days=7 * (num - (saturday > day)))
        elif sign < 0:
            saturday -= timedelta(days=7 * num)
        return saturday, saturday + timedelta(days=2)
    dow = _WEEKDAYS.index(found["what"])
    if sign < 0:
        at = day - timedelta(days=(day.weekday() - dow - 1) % 7 + 1 + 7 * (num - 1))
    else:
        at = day + timedelta(days=(dow - day.weekday() - sign) % 7 + sign)
    return at, at + timedelta(days=1)


def _nth_week(start: datetime, nth: str, what: str) -> tuple[datetime, datetime]:
    """The weeks whose Thursday, and the weekends whose Saturday, lies in the month."""
    key = 3 if what == "week" else 5
    first = start + timedelta(days=(key - start.weekday()) % 7 - key)
    if nth == "last":
        last = one_more(start, "M") - timedelta(days=1)
        monday = last - timedelta(days=(last.weekday() - key) % 7 + key)
    else:
        monday = first + timedelta(days=7 * ("first", "second", "third").index(nth))
    return (monday, monday + timedelta(days=7)) if what == "week" else (
        monday + timedelta(days=5), monday + timedelta(days=7))  # fmt: skip


def read_category_2(folder: Path) -> list[tuple[str, tuple[Interval, ...], list[tuple[str, int]]]]:
    """Returns (question, gold intervals, evidence turns with their session's time) with the audited golds."""
    samples = json.loads((folder / "locomo/locomo10.json").read_text(encoding="utf-8"))
    audit = {
        e["question_id"]: e
        for e in json.loads((folder / "locomo/locomo_audit_errors.json").read_text(encoding="utf-8"))
    }
    rows = []
    for k, sample in enumerate(samples):
        turns = dict(locomo_turns(sample))
        for i, qa in enumerate(sample["qa"]):
            if qa["category"] != 2:
                continue
            fix = audit.get(f"locomo_{k}_qa{i}")
            gold = str(fix["correct_answer"] if fix else qa.get("answer", ""))
            ids = (fix.get("correct_evidence") if fix else None) or qa["evidence"]
            evidence = [turns[t] for one in ids for t in re.findall(r"D\d+:\d+", str(one)) if t in turns]
            said_in = (EPOCH + timedelta(microseconds=evidence[0][1])).year if evidence else None
            intervals = gold_intervals(gold, said_in)
            if intervals:
                rows.append((qa["question"], intervals, evidence))
    return rows


def locomo_turns(sample: dict[str, Any]) -> list[tuple[str, tuple[str, int]]]:
    """Returns (turn id, (text, session time)) of a sample."""
    talk = sample["conversation"]
    turns = []
    for key, session in talk.items():
        if re.fullmatch(r"session_\d+", key):
            at = parse_stamps([talk[key + "_date_time"]], assumed_zone="UTC", date_order="")[0].time
            assert at is not None
            turns.extend((turn["dia_id"], (turn.get("text") or "", at)) for turn in session)
    return turns


# How a found value and a gold interval may agree, from the strictest; each includes those before it.
AGREES = {
    "equal": "the same interval",
    "inside": "equal, or wholly inside the gold's interval",
    "close": "inside, or over at least half of the gold's interval while at most twice as long",
    "hit": "inside, or over at least half of the gold's interval however long",
}


def score_category_2(folder: Path) -> dict[str, Any]:
    """Scores whether a value found in the evidence is the gold's date."""
    counts: Counter[str] = Counter()
    for _, golds, turns in read_category_2(folder):
        found = [f for spans in tag([t for t, _ in turns], [a for _, a in turns]) for f in from_spans(spans)]
        days = [datetime(*(EPOCH + timedelta(microseconds=a)).timetuple()[:3]) for _, a in turns]
        text = [(f.start, f.end) for f in found]
        with_date = text + [(d, d + timedelta(days=1)) for d in days]
        counts["n"] += 1
        for where, values in (("text", text), ("with_session_date", with_date)):
            best = max((_agreement(v, g) for v in values for g in golds), default=0)
            for rank, name in enumerate(reversed(AGREES), start=1):
                counts[f"{name}_{where}"] += best >= rank
    n = counts.pop("n")
    shares = {name: share(counts[name], n) for name in sorted(counts)}
    return {"n": n, **shares, "equal": shares["equal_with_session_date"], "counted_as": AGREES}


def _agreement(value: tuple[datetime | None, datetime | None], gold: Interval) -> int:
    """Returns 4 for equal, 3 for inside, 2 for close, 1 for a hit, 0 for none; what is open on a side is none."""
    start, end = value
    if start is None or end is None or start.year == 1 or end.year == 9999:
        return 0
    if (start, end) == gold:
        return 4
    if gold[0] <= start and end <= gold[1]:
        return 3
    if min(end, gold[1]) - max(start, gold[0]) < (gold[1] - gold[0]) / 2:
        return 0
    return 2 if end - start <= 2 * (gold[1] - gold[0]) else 1

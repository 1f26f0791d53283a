"""English rules for numbers that are years, months that are also words, and amounts of time.

What a reader would not guess: an amount has units and numbers and no length of its own, so that a month later is the
same day of the next month; and "two hours a day" is no amount but a rate.
"""

from datetime import datetime
from typing import Any

from magma_gpu.timex.grammar import Context, Grammar, merge, text_of
from magma_gpu.timex.intervals import Cal, Clock, Qty, Span


def add_numbers(g: Grammar) -> None:
    """Adds months that are also words, years, and amounts of time."""
    c = g.classes
    c.union("cnt", "d dn dec wn frac d4 few couple several dozen")
    c.union("ord", "ordd ordw")
    c.union("anyunit", "unit units weekends ordw fall")
    c.union("stp", "last past prev this these next following")
    follows = "<dash|slash|dot|quote>?<d|ordd|ordw|d4|wn>|<comma><d4>|<to|dash|through|until><month>|<of><stp><unit>"
    g.add("month", f"(?<!<pron>)(<may>)(?={follows})", same)
    g.add(
        "month",
        "(?<=<in|of|since|until|by|next|last|early|mid|late|during|between|d|ordd|ordw>)(<may>)",
        same,
    )
    g.add("month", "(?<=<month><to|dash|and|or|until|through|slash>)(<may>)", same)
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
    g.add("A", "(?<=<the|in|early|mid|late|dash>)(<decades>)", lambda _, v: years(1900 + v, 10) if v >= 20 else None)
    # Amounts.
    g.add("dozen", "<half><a>(<dozen>)", lambda _, n: n / 2)
    g.add("wn", "<a>(<hundred|thousand>)<and>?(<wn>)(?=<units>)", lambda _, a, b: a + b if b < a else None)
    g.add("Q", "(<d|wn>)<dash|and>?(<md|frac>)(<unit|units>)", _mixed)
    g.add("Q", "(?<=<for>)(<hm>)", _clock_length)
    g.add("Q", "(?<=<for|in|within|about|right>)<a>(<ordw>)(?=$|<stop|comma|and|or>)", _one_second)
    g.add("Q", "<a>?(<unit>)(<unit>)", _quarter_of)
    g.add("Q", "<a>?<unit><of><a>(<unit>)", lambda x, u: _fraction(x, u, 0.25))
    g.add(
        "Q",
        "(<cnt|a>)<dash>?<and><dash>?<a>?<dash>?(<half|unit>)<dash>?(<unit|units>)",
        lambda _, n, h, u: Qty(((u, n + _part(h)),)),
    )
    g.add("Q", "(?<!<ord|latter>)<a>?<half><dash|of>?<a>?(<unit>)", lambda _, u: Qty(((u, 0.5),)))
    g.add("Q", "(?<!<ord|latter>)<half><of>?<the>(<unit>)", lambda _, u: Qty(((u, 0.5),)))
    g.add("Q", "(?<!<cnt|a|every|per|dash|stp>)(<unit>)<and><a><half>(?!<unit|units>)", lambda _, u: Qty(((u, 1.5),)))
    g.add("Q", "(?<=<for|in|within>)(<d|dec>)<hword>(?!<d>)", lambda _, n: Qty((("hour", n),)))
    g.add("Q", "(?<=<for>)<a>(<part>)(?=$|<stop|comma>)", lambda _, p: Qty((("day", 1),)) if p[2] == "night" else None)
    g.add("Q", "(<cnt>)<weekdays>", lambda _, n: Qty((("weekday", n),)))
    g.add("Q", "(<cnt|a>)(<unit|units>)<and><a>?(<half>)", lambda _, n, u, h: Qty(((u, n + 0.5),)))
    g.add("Q", "(<cnt|a>)(<unit>)<and><a>(<unit>)(?!<ago|later>)", _and_a_quarter)
    g.add("Q", "(<cnt>)(?:<or|to|dash>)(<cnt>)(<units>)", lambda _, a, b, u: Qty(((u, (a + b) / 2),)))
    g.add("Q", "<between>(<cnt>)<and>(<cnt>)(<units>)", lambda _, a, b, u: Qty(((u, (a + b) / 2),)))
    g.add("C", "(?<=<at>)(<wn>)(<cnt>)<units>", _at_hour_minutes)
    g.add("Q", "(<md>)(<unit|units>)", _slashed)
    g.add("Q", "<a>(<couple|few|several|dozen>)<of>?(<anyunit>)", _amount)
    g.add("Q", "(?<=<for|in|within|after>)(<some>)<of>?(<units>)", lambda _, n, u: Qty(((u, n),)))
    g.add("Q", "(?:<a>(?=<few>))?(<cnt>)<dash>?<more|extra|plus>(<units>)", lambda _, n, u: Qty(((u, n),)))
    g.add("Q", "(<cnt>)<unit|units><of><a>(<unit>)", _quarters)
    g.add("Q", "(<wn|d>)<and>(<wn|d>)<unit|units>(<unit|units>)", _and_quarters)
    g.add("Q", "(<cnt|a>)<semester>", lambda _, n: Qty((("month", 6 * n),)))
    g.add("Q", "(<cnt>)(?:<whole>|<long>)(<unit|units>)", lambda _, n, u: Qty(((u, n),)))
    g.add("Q", "(<cnt>)<work>(<unit|units>)", lambda _, n, u: Qty(((u, n),)) if u == "day" else None)
    g.add("Q", "(<cnt>)<dash>?<of>?(<anyunit>)", _amount)
    g.add("Q", "(<cnt>)(<part|parts|nights>)", lambda _, n, p: Qty((("day", n),)) if p[2] == "night" else None)
    g.add("Q", "(<wn>)<and>(<Q>)", _tens_and)
    g.add("Q", "<a>(<unit>)<or>(<cnt>)", lambda _, u, n: Qty(((u, (1 + n) / 2),)))
    g.add("Q", "<a>(<unit>)", lambda _, u: Qty(((u, 1),), article=True) if u != "quarter" else None)
    joint = "(?:<comma>?<and>|<comma>)?"
    g.add("Q", f"(<Q>){joint}(<Q>)(?:{joint}(<Q>))?(?:{joint}(<Q>))?", _joined)
    g.add("Q", "(?<=<for>)<the>(<unit>)(?=$|<stop|comma>)", lambda _, u: Qty(((u, 1),)) if u == "hour" else None)
    g.add("x", "(<Q>)<dash>?<old>", lambda *_: True)


_PARTS = {"1/2": 0.5, "1/4": 0.25, "3/4": 0.75, "1/3": 1 / 3, "2/3": 2 / 3}


def same(_: Context, value: Any) -> Any:
    """Takes a value as it is."""
    return value


def _part(half: Any) -> float:
    return 0.25 if half == "quarter" else 0.5


def _year(c: Context, value: int) -> int | None:
    return value if 1000 <= value <= 2999 and c.tokens[0].last - c.tokens[0].first == 4 else None


def years(first: int, num: int) -> Span:
    """Returns the decade or century that begins with a year."""
    grain = {10: "decade", 100: "century"}[num]
    return Span(datetime(first, 1, 1), datetime(first + num, 1, 1), grain, "range")


def _decade(c: Context, value: int) -> Span | None:
    last, number = c.tokens[-1], c.tokens[-2]
    if c.text[last.first : last.last] != "s" or number.last != last.first or value % 10:
        return None
    if value >= 1000:
        return years(value, 10 if value % 100 or value >= 2000 else 100)
    marked = len(c.tokens) > 2 or c.text[max(0, c.at - 4) : c.at].strip() in ("in", "mid", "rly", "ate")
    if not marked or value < 20:
        return None
    return years(1900 + value, 10)


def _fraction(c: Context, unit: str, part: float) -> Qty | None:
    return Qty(((unit, part),)) if "quarter" in (c.tokens[0].value, c.tokens[1].value) else None


def _quarter_of(_: Context, part: str, unit: str) -> Qty | None:
    """Reads "a quarter hour"."""
    return Qty(((unit, 0.25),)) if part == "quarter" and unit in ("hour", "century") else None


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
    part = _PARTS.get(c.text[first.first : first.last])
    return Qty(((unit, part),)) if part else None


def _quarters(c: Context, num: float, unit: str) -> Qty | None:
    return Qty(((unit, num / 4),)) if c.tokens[1].value == "quarter" else None


def _and_quarters(c: Context, whole: float, quarters: float, unit: str) -> Qty | None:
    """Reads "one and three quarter hours"."""
    fits = c.tokens[3].value == "quarter" and 1 <= quarters <= 3
    return Qty(((unit, whole + quarters / 4),)) if fits else None


def _tens_and(_: Context, tens: int, qty: Qty) -> Qty | None:
    # "twenty and four hours"
    (unit, num), *rest = qty.parts
    return Qty(((unit, tens + num), *rest)) if tens % 10 == 0 and 20 <= tens <= 90 and num < 10 else None


def _joined(c: Context, a: Qty, b: Qty, *more: Qty | None) -> Qty | None:
    parts = [a, b, *(q for q in more if q is not None)]
    units = [q.parts[-1][0] for q in parts]
    if len(set(units)) < len(units) or (a.article and b.article):
        return None
    if b.article and c.tokens[1].value is b:
        # "Two hours a day" is a rate.
        return None
    return merge(parts)


def _mixed(c: Context, whole: float, part: Cal | float, unit: str) -> Qty | None:
    """Joins "2 1/2 hours" and "2½ hours"."""
    token = c.tokens[-2]
    half = part if isinstance(part, float) else _PARTS.get(c.text[token.first : token.last])
    return Qty(((unit, whole + half),)) if half else None


def _clock_length(c: Context, clock: Clock) -> Qty | None:
    """Reads "for 1h30" as a length."""
    return Qty((("minute", clock.start / 60),)) if "h" in text_of(c) and clock.start else None


def _one_second(c: Context, _: int) -> Qty | None:
    return Qty((("second", 1),), article=True) if text_of(c).endswith("second") else None


def _at_hour_minutes(c: Context, hour: float, minute: float) -> Clock | None:
    last = c.tokens[-1]
    if not c.text[last.first : last.last].startswith("minute") or not 1 <= hour <= 12 or not 0 <= minute < 60:
        return None
    start = int(hour) * 3600 + int(minute) * 60
    return Clock(start, start + 60, "minute", loose=True)

"""Scores a tagger on Recognizers-Text specs: spans, exact spans and values.

It fits nothing. Half of every language's specs, chosen by a hash of the text, was not looked at while the rules were
written. What a reader would not guess: the specs end a range where its last unit begins ("from 2014 to 2018" ends on
1 January 2018) and this project where it ends, and "two months ago" is a day there and a month here. Both count as
right; `value_strict` is the figure without them.
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from magma_gpu.stamps import parse_stamps
from magma_gpu.timex import tag
from magma_gpu.types import TimeSpan

EPOCH = datetime(1970, 1, 1)
LANGUAGES = ("en", "es", "fr", "de", "zh", "ja")
KINDS = {
    "date": "date",
    "time": "time",
    "datetime": "time",
    "daterange": "range",
    "timerange": "range",
    "datetimerange": "range",
    "duration": "duration",
    "set": "recurring",
}
_CONNECTED = re.compile(r"\b(?:to|till?|until|through|thru|and|by|after|since|before|later|than|hasta|al?|y|bis|und|au|"
                        r"et|jusqu)\b|[-~–—至到から]")  # fmt: skip


# "Two months ago" is a day in the specs and a month here: the words do not tell the day.
_COUNTED = re.compile(r"months?|years?|decades?|mes(?:es)?|años?|mois|ans?|années?|monate?n?|jahre?n?|月|年")


@dataclass(frozen=True, slots=True)
class Found:
    """What a tagger found: characters and, where it can tell, the interval."""

    first: int
    last: int
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Gold:
    """One annotated expression; `values` are its accepted readings, none where the data gives no value."""

    first: int
    last: int
    kind: str
    type: str
    timex: str
    values: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Spec:
    text: str
    reference: int | None
    golds: tuple[Gold, ...]
    # Golds whose offsets do not lie on their text; they are left out.
    misplaced: int


# Stands in where a spec has no reference time: spans are still scored, values are not.
STAND_IN = int(datetime(2016, 11, 7, tzinfo=UTC).timestamp()) * 1_000_000


def tagged(specs: list[Spec]) -> list[list[Found]]:
    """Tags the texts of specs with this project's tagger."""
    references = [STAND_IN if s.reference is None else s.reference for s in specs]
    return [from_spans(spans) for spans in tag([s.text for s in specs], references)]


def is_held_out(text: str) -> bool:
    """Says in which half a text is; the other half is for development."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 1


def read_specs(folder: Path, language: str, *, held_out: bool) -> list[Spec]:
    """Reads one half of a language's specs."""
    specs = []
    with (folder / f"temporal/recognizers_{language}.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if is_held_out(row["text"]) == held_out:
                specs.append(_spec(row))
    return specs


def _spec(row: dict[str, Any]) -> Spec:
    reference = parse_stamps([row["ref"]], assumed_zone="UTC", date_order="")[0].time
    golds, misplaced = [], 0
    for gold in row["expect"]:
        first, last = gold.get("start"), gold.get("end")
        if first is None or row["text"][first : last + 1].lower() != gold["text"].lower():
            first = row["text"].lower().find(gold["text"].lower())
            if first < 0 or row["text"].lower().count(gold["text"].lower()) > 1:
                misplaced += 1
                continue
            last = first + len(gold["text"]) - 1
        resolution = gold["resolution"] or []
        type_ = (gold["type"] or "").removeprefix("datetimeV2.")
        type_ = type_ or (resolution[0].get("type", "") if resolution else "")
        golds.append(
            Gold(
                first=first,
                last=last + 1,
                kind=KINDS.get(type_, "other"),
                type=type_,
                timex=resolution[0].get("timex", "") if resolution else "",
                values=tuple(v for v in resolution if v.get("value") != "not resolved"),
            )
        )
    return Spec(row["text"], reference, tuple(golds), misplaced)


def from_spans(spans: list[TimeSpan]) -> list[Found]:
    """Makes our own result comparable."""
    return [
        Found(
            s.first,
            s.last,
            EPOCH + timedelta(microseconds=s.start),
            EPOCH + timedelta(microseconds=s.end),
        )
        for s in spans
    ]


def score(specs: list[Spec], founds: list[list[Found]], *, values: bool = True) -> dict[str, Any]:
    """Scores what was found against the golds: overlap and exact F1, values over all golds, and by kind."""
    counts: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    for spec, found in zip(specs, founds, strict=True):
        counts["golds"] += len(spec.golds)
        counts["misplaced"] += spec.misplaced
        counts["found"] += len(found)
        if not spec.golds and not spec.misplaced:
            counts["negatives"] += 1
            counts["negatives_clean"] += not found
        pairs = _pairs(spec.golds, found)
        counts["overlap"] += len(pairs)
        for gold in spec.golds:
            kinds.setdefault(gold.kind, Counter())["n"] += 1
            if spec.reference is not None:
                kinds[gold.kind]["with_reference"] += 1
                counts["with_reference"] += 1
        for gold, hit in pairs:
            kinds[gold.kind]["found"] += 1
            counts["exact"] += (gold.first, gold.last) == (hit.first, hit.last)
            right = _right(spec, gold, hit)
            if spec.reference is None:
                continue
            counts["right"] += right > 0
            counts["right_by_rule"] += right == 2
            kinds[gold.kind]["right"] += right > 0
        counts["valued"] += sum(1 for g in spec.golds if g.values and spec.reference is not None)
    result: dict[str, Any] = {
        "texts": len(specs),
        "golds": counts["golds"],
        "misplaced_golds": counts["misplaced"],
        "without_reference": sum(s.reference is None for s in specs),
        "found": counts["found"],
        "span_f1": _f1(counts["overlap"], counts["found"], counts["golds"]),
        "span_precision": share(counts["overlap"], counts["found"]),
        "span_recall": share(counts["overlap"], counts["golds"]),
        "exact_f1": _f1(counts["exact"], counts["found"], counts["golds"]),
        "negatives": counts["negatives"],
        "negatives_clean": counts["negatives_clean"],
    }
    if values:
        result |= {
            "value": share(counts["right"], counts["with_reference"]),
            "value_strict": share(counts["right"] - counts["right_by_rule"], counts["with_reference"]),
            "golds_with_reference": counts["with_reference"],
            "golds_with_value": counts["valued"],
            "value_of_golds_with_value": share(counts["right"], counts["valued"]),
            "by_kind": {
                kind: {
                    "n": c["n"],
                    "found": share(c["found"], c["n"]),
                    "value": share(c["right"], c["with_reference"]),
                }
                for kind, c in sorted(kinds.items())
            },
        }
    return result


def share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _f1(hits: int, found: int, golds: int) -> float:
    return round(2 * hits / (found + golds), 4) if found + golds else 0.0


def _pairs(golds: tuple[Gold, ...], found: list[Found]) -> list[tuple[Gold, Found]]:
    """Pairs each gold with at most one span, longest overlap first."""
    options = sorted(
        (
            (max(g.first, f.first) - min(g.last, f.last), i, j)
            for i, g in enumerate(golds)
            for j, f in enumerate(found)
            if min(g.last, f.last) > max(g.first, f.first)
        ),
    )
    used_golds: set[int] = set()
    used_found: set[int] = set()
    pairs = []
    for _, i, j in options:
        if i not in used_golds and j not in used_found:
            used_golds.add(i)
            used_found.add(j)
            pairs.append((golds[i], found[j]))
    return pairs


def _right(spec: Spec, gold: Gold, hit: Found) -> int:
    """Returns 1 for a right value, 2 for one that is right by a rule of the module's docstring, 0 else."""
    if hit.start is None:
        return 0
    best = 0
    for value in gold.values:
        try:
            best = max(best, _same_value(spec, gold, value, hit) if best != 1 else 1, key=lambda b: (b > 0, -b))
        except ValueError:
            # The specs hold a few dates that do not exist.
            continue
    return best


def _same_value(spec: Spec, gold: Gold, value: dict[str, str], hit: Found) -> int:
    assert hit.start is not None
    if gold.type == "duration":
        return int(hit.end is not None and abs((hit.end - hit.start).total_seconds() - float(value["value"])) < 0.001)
    if gold.type == "date":
        day = _moment(value["value"])
        if hit.end is None:
            # A tagger of moments cannot tell the length of a day.
            return int(hit.start.date() == day.date())
        if hit.start == day and hit.end == day + timedelta(days=1):
            return 1
        counted = _COUNTED.search(spec.text[gold.first : gold.last].lower())
        return 2 if counted and _is_unit_of(day, hit.start, hit.end) else 0
    if gold.type == "datetime":
        return int(hit.start == _moment(value["value"]))
    if gold.type == "time":
        return int(hit.start.time() == _moment("2000-01-01 " + value["value"]).time())
    if gold.type in ("daterange", "datetimerange", "timerange"):
        return _same_range(spec, gold, value, hit)
    return 0


def _is_unit_of(day: datetime, start: datetime, end: datetime) -> bool:
    """Says whether an interval is the month or the year that a day lies in."""
    return start <= day < end and start.day == 1 and end in (one_more(start, "M"), one_more(start, "Y"))


def _same_range(spec: Spec, gold: Gold, value: dict[str, str], hit: Found) -> int:
    assert hit.start is not None
    exact = 1
    for side, ours in (("start", hit.start), ("end", hit.end)):
        if side not in value:
            continue
        if ours is None:
            return 0
        if gold.type == "timerange":
            said = _moment("2000-01-01 " + value[side]).time()
            if said != ours.time() and (said.hour != 23 or said.second != 59 or ours.time().hour):
                return 0
            continue
        said_at = _moment(value[side])
        if (said_at.hour, said_at.minute, said_at.second) == (23, 59, 59):
            # The specs' last second of a day is the end of that day.
            said_at += timedelta(seconds=1)
        if said_at == ours:
            continue
        if not _CONNECTED.search(spec.text[gold.first : gold.last].lower()):
            return 0
        if side == "start" and "end" in value:
            return 0
        if one_more(said_at, _unit(gold.timex)) != ours:
            return 0
        exact = 2
    return exact


def _unit(timex: str) -> str:
    counted = re.search(r"P[\dX.]+([YMWD])\)", timex)
    return counted[1] if counted else "D"


def one_more(moment: datetime, unit: str) -> datetime:
    if unit == "D":
        return moment + timedelta(days=1)
    if unit == "W":
        return moment + timedelta(days=7)
    months = 12 if unit == "Y" else 1
    index = moment.year * 12 + moment.month - 1 + months
    return moment.replace(year=index // 12, month=index % 12 + 1)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)

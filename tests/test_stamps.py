"""Stamps of logs: every form by value, the doubtful ones by their note, whatever the zone of the machine."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.errors import ConfigError
from magma_gpu.stamps import Stamp, parse_stamps
from magma_gpu.types import RawTime

CASES = Path(__file__).resolve().parents[2] / "shared/cases/cases.jsonl"


def read(value: RawTime, zone: str = "UTC", order: str = "") -> Stamp:
    return parse_stamps([value], assumed_zone=zone, date_order=order)[0]


def iso(value: RawTime, zone: str = "UTC", order: str = "") -> str | None:
    time = read(value, zone, order).time
    if time is None:
        return None
    return (datetime(1970, 1, 1) + timedelta(microseconds=time)).isoformat()


def case(name: str) -> dict:
    if not CASES.exists():
        pytest.skip("the shared cases are not beside the checkout")
    return next(c for c in map(json.loads, CASES.read_text(encoding="utf-8").splitlines()) if c["id"] == name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2023-05-20T02:21:00", "2023-05-20T02:21:00"),
        ("2023-05-20 02:21", "2023-05-20T02:21:00"),
        ("2023-05-20", "2023-05-20T00:00:00"),
        ("2023-05-20T02:21:00Z", "2023-05-20T02:21:00"),
        ("2023-05-20T02:21:00z", "2023-05-20T02:21:00"),
        ("2023-05-20T02:21:00.123456789+05:30", "2023-05-19T20:51:00.123456"),
        ("2023-05-20T02:21:00,5-0200", "2023-05-20T04:21:00.500000"),
        ("2023-05-20 02:21:00 UTC", "2023-05-20T02:21:00"),
        ("2023-05-20T02:21:00+02", "2023-05-20T00:21:00"),
        ("20230520T022100Z", "2023-05-20T02:21:00"),
        ("20230520", "2023-05-20T00:00:00"),
        ("2023-05-20T24:00:00", "2023-05-21T00:00:00"),
        ("2023-5-2 3:04", "2023-05-02T03:04:00"),
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
        ("12:09 am on 13 September, 2023", "2023-09-13T00:09:00"),
        ("12:09 pm on 13 September, 2023", "2023-09-13T12:09:00"),
        ("2023/05/20 (Sat) 02:21", "2023-05-20T02:21:00"),
        ("Mon, 20 May 2024 10:00:00 +0200", "2024-05-20T08:00:00"),
        ("Mon, 20 May 2024 10:00:00 +0200 (CEST)", "2024-05-20T08:00:00"),
        ("Mon, 20 May 2024 10:00:00 GMT", "2024-05-20T10:00:00"),
        ("Mon May 20 2024 10:00:00 GMT+0200", "2024-05-20T08:00:00"),
        ("Mon May 20 10:00:00 2024", "2024-05-20T10:00:00"),
        ("Mon May 20 10:00:00 +0000 2024", "2024-05-20T10:00:00"),
        ("May 8, 2023 1:56 PM", "2023-05-08T13:56:00"),
        ("May 8th 2023, 1 p.m.", "2023-05-08T13:00:00"),
        ("8 May 2023", "2023-05-08T00:00:00"),
        ("8-May-2023 13:56", "2023-05-08T13:56:00"),
        ("20/05/2023, 14:30", "2023-05-20T14:30:00"),
        ("5/20/23, 2:30\u202fPM", "2023-05-20T14:30:00"),
        ("[\u200e20/05/23, 14:30:11]", "2023-05-20T14:30:11"),
        ("20.05.2023 14:30", "2023-05-20T14:30:00"),
        ("03.04.2023, 14:30", "2023-04-03T14:30:00"),
        ("05/05/2023", "2023-05-05T00:00:00"),
        ("2023年5月20日 14:30", "2023-05-20T14:30:00"),
        ("2023年5月20日(土) 午後2:30", "2023-05-20T14:30:00"),
        ("2023年5月20日 14时30分", "2023-05-20T14:30:00"),
        ("2023/5/20 下午2:30", "2023-05-20T14:30:00"),
        (1710072000, "2024-03-10T12:00:00"),
        (1710072000000, "2024-03-10T12:00:00"),
        (1710072000000000, "2024-03-10T12:00:00"),
        (1710072000000000000, "2024-03-10T12:00:00"),
        (1710072000.25, "2024-03-10T12:00:00.250000"),
        ("1710072000.5", "2024-03-10T12:00:00.500000"),
        ("1710072000123", "2024-03-10T12:00:00.123000"),
        ("1710072000.000200", "2024-03-10T12:00:00.000200"),
    ],
)
def test_a_clear_stamp_is_read_without_a_note(value: RawTime, expected: str) -> None:
    assert iso(value) == expected
    assert read(value).note is None


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (None, "no stamp"),
        ("", "no stamp"),
        ("  ", "no stamp"),
        (True, "not a time"),
        (float("nan"), "not a number"),
        (float("inf"), "not a number"),
        ("NaN", "not a time"),
        ("yesterday", "not a time"),
        ("10:30", "not a time"),
        ("2023", "a year alone"),
        ("31 June 2023", "no such date"),
        ("2023-02-29", "no such date"),
        ("0000-01-01", "no such date"),
        ("8 May", "no year"),
        ("2023-05-20T25:00", "no such time of day"),
        ("2023-05-20 13:00 am", "no such time of day"),
        ("2023-05-20T10:00+99:00", "no such zone offset"),
        ("10 Mar 2024 12:00 CT", "zone 'CT' is not a known offset"),
        ("10 Mar 2024 12:00 EST", "zone 'EST' is not a known offset"),
        ("03/04/2023", "day and month cannot be told apart, set ingest.date_order"),
        ("13/13/2023", "no such date"),
        ("10000-01-01", "not a time"),
        ("0001-01-01T00:00:00+05:00", "out of range"),
        (10**25, "out of range"),
        (1e300, "out of range"),
        ("999999999999999999999", "out of range"),
        ("2023-05-20 or 2023-05-21", "not a time"),
        ("call 555-1234 on 8 May 2023", "not a time"),
    ],
)
def test_what_is_not_surely_a_time_has_none(value: RawTime, note: str) -> None:
    stamp = read(value)
    assert (stamp.time, stamp.zone_source, stamp.note) == (None, "missing", note)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20. Mai 2023 um 02:21", "2023-05-20T02:21:00"),
        ("samedi 20 mai 2023 à 14 h 21", "2023-05-20T14:21:00"),
        ("8 de mayo de 2023, 13:56", "2023-05-08T13:56:00"),
        ("20 de maio de 2023 às 02:21", "2023-05-20T02:21:00"),
        ("20 maggio 2023 alle ore 02:21", "2023-05-20T02:21:00"),
        ("20 mei 2023 om 02:21", "2023-05-20T02:21:00"),
        ("2023:05:20 02:21:09", "2023-05-20T02:21:09"),
        ("2023.05.20. 2:21", "2023-05-20T02:21:00"),
        ("2023-05-20 at 2.21.00 PM", "2023-05-20T14:21:00"),
        ("2:21 PM · May 20, 2023", "2023-05-20T14:21:00"),
    ],
)
def test_local_forms_of_exports_are_read(value: str, expected: str) -> None:
    (stamp,) = parse_stamps([value], assumed_zone="UTC", date_order="")
    assert (stamp.note, stamp.zone_source) == (None, "assumed")
    assert stamp.time is not None
    assert (datetime(1970, 1, 1) + timedelta(microseconds=stamp.time)).isoformat() == expected


def test_a_zone_that_is_named_in_the_stamp_counts() -> None:
    values = [
        "2023-05-20T02:21:00[Europe/Berlin]",
        "2023-05-20 02:21 Asia/Kolkata",
        # The offset says more than the name.
        "2023-05-20T02:21:00+05:00[Europe/Berlin]",
        "2023-05-20 02:21 Mars/Olympus",
    ]
    stamps = parse_stamps(values, assumed_zone="America/New_York", date_order="")
    minutes = [None if s.time is None else s.time // 60_000_000 - 28_075_821 for s in stamps]
    assert minutes == [-120, -330, -300, None]
    assert [s.zone_source for s in stamps] == ["given", "given", "given", "missing"]
    assert stamps[3].note == "zone 'Mars/Olympus' is not known"
    twice = parse_stamps(["2023-11-05 01:30 America/New_York"], assumed_zone="UTC", date_order="")[0]
    assert twice.note == "time occurs twice at a daylight-saving change, first taken"


def test_small_words_of_other_languages_alone_make_nothing_readable() -> None:
    for value in ("de 20 um 5", "20 de 2023", "um 20.05.2023"):
        assert parse_stamps([value], assumed_zone="UTC", date_order="")[0].time is None


def test_doubtful_stamps_are_kept_with_a_note() -> None:
    assert iso("2023/05/20 (Mon) 02:21") == "2023-05-20T02:21:00"
    assert read("2023/05/20 (Mon) 02:21").note == "weekday does not match the date"
    assert iso("1969-07-20T20:17:40Z") == "1969-07-20T20:17:40"
    assert read("1969-07-20T20:17:40Z").note == "before 1970"
    assert read(-1.5).time == -1_500_000
    assert read("2150-01-01").note == "far in the future"
    assert read("2099-12-31").note is None
    assert read(3).time == 3_000_000
    assert read(3).note == "a small number, read as epoch seconds"
    assert read("2023-05-20 14:30 PM").note == "hour above 12 with PM"


def test_date_order_decides_between_two_readings() -> None:
    assert iso("03/04/2023", order="day") == "2023-04-03T00:00:00"
    assert iso("03/04/2023", order="month") == "2023-03-04T00:00:00"
    assert iso("3-4-23 10:00", order="month") == "2023-03-04T10:00:00"
    # Where only one reading is a date, the option does not matter.
    for order in ("day", "month", ""):
        assert iso("20/05/2023", order=order) == iso("05/20/2023", order=order) == "2023-05-20T00:00:00"
        assert iso("03.04.2023", order=order) == "2023-04-03T00:00:00"


def test_zone_sources() -> None:
    assert read("2023-05-20T02:21:00").zone_source == "assumed"
    assert read("2023-05-20").zone_source == "assumed"
    assert read("2023-05-20T02:21:00Z").zone_source == "given"
    assert read("2023-05-20T02:21:00 UTC").zone_source == "given"
    assert read(0).zone_source == "given"


def test_assumed_zone_and_daylight_saving() -> None:
    assert iso("2023-01-15 12:00", "Europe/Berlin") == "2023-01-15T11:00:00"
    assert iso("15 Jul 2023 12:00", "Europe/Berlin") == "2023-07-15T10:00:00"
    assert iso("2023-07-15T12:00Z", "Europe/Berlin") == "2023-07-15T12:00:00"
    gap = read("2023-03-26 02:30", "Europe/Berlin")
    # 02:30 does not exist; one hour later by the clock is 03:30 CEST.
    assert (gap.time, gap.note) == (
        read("2023-03-26T03:30+02:00").time,
        "time in a daylight-saving gap, moved forward",
    )
    fold = read("2023-10-29 02:30", "Europe/Berlin")
    assert fold.time == read("2023-10-29T02:30+02:00").time
    assert fold.note == "time occurs twice at a daylight-saving change, first taken"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "America", "localtime", "CT"])
def test_an_unknown_zone_is_a_config_error(zone: str) -> None:
    with pytest.raises(ConfigError, match="IANA zone name"):
        parse_stamps([], assumed_zone=zone, date_order="")


def test_an_unknown_date_order_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="date_order"):
        parse_stamps([], assumed_zone="UTC", date_order="year")


def test_text_is_the_raw_value() -> None:
    stamps = parse_stamps([" 8 May 2023", 5, 5.0, True, None, ""], assumed_zone="UTC", date_order="")
    assert [s.text for s in stamps] == [" 8 May 2023", "5", "5.0", "True", None, None]
    # True, 1 and 1.0 are equal keys in Python and different stamps.
    assert [s.time for s in parse_stamps([1, True, 1.0], assumed_zone="UTC", date_order="")] == [
        10**6,
        None,
        10**6,
    ]


def test_case_c16_zones() -> None:
    rows = case("C16")["input"]
    stamps = parse_stamps([r["timestamp"] for r in rows], assumed_zone="UTC", date_order="")
    at = {r["message_id"]: s for r, s in zip(rows, stamps, strict=True)}
    noon = 1710072000 * 10**6
    assert [at[k].time for k in "abcdefgh"] == [
        noon,
        noon,
        noon - 19800 * 10**6,
        noon,
        noon,
        noon + 500_000,
        None,
        None,
    ]
    assert [at[k].zone_source for k in "abcdefgh"] == ["assumed"] + ["given"] * 5 + ["missing"] * 2


def test_case_c17_formats() -> None:
    stamps = parse_stamps(case("C17")["input"]["stamps"], assumed_zone="UTC", date_order="")
    expected = [
        datetime(2023, 5, 20, 2, 21, tzinfo=UTC),
        datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
        datetime(2023, 9, 13, 0, 9, tzinfo=UTC),
        datetime(2023, 5, 20, 2, 21, tzinfo=UTC),
        datetime(2023, 5, 20, 2, 21, tzinfo=UTC),
        None,
        datetime(2023, 5, 20, 2, 21, tzinfo=UTC),
        None,
    ]
    assert [s.time for s in stamps] == [None if e is None else int(e.timestamp()) * 10**6 for e in expected]


MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))


@given(MOMENTS, st.integers(-14 * 60, 14 * 60))
@settings(max_examples=200, deadline=None)
def test_iso_round_trip(moment: datetime, offset_min: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    expected = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert read(zoned.isoformat()).time == read(zoned.isoformat(sep=" ")).time == expected


@given(st.datetimes(datetime(1971, 1, 1), datetime(2068, 12, 31)), st.sampled_from(["", "day", "month"]))
@settings(max_examples=200, deadline=None)
def test_every_written_form_of_a_moment_reads_alike(moment: datetime, order: str) -> None:
    moment = moment.replace(second=0, microsecond=0)
    expected = read(moment.isoformat()).time
    forms = [
        f"{moment:%I:%M %p} on {moment.day} {moment:%B}, {moment:%Y}",
        f"{moment:%Y/%m/%d (%a) %H:%M}",
        f"{moment:%a, %d %b %Y %H:%M:%S}",
        f"{moment:%b} {moment.day}, {moment:%Y %I:%M %p}",
        f"{moment:%d.%m.%Y %H:%M}",
        f"{moment:%Y}年{moment.month}月{moment.day}日 {moment:%H:%M}",
    ]
    if order:
        forms.append(f"{moment:%d/%m/%Y, %H:%M}" if order == "day" else f"{moment:%m/%d/%y, %I:%M %p}")
    stamps = parse_stamps(forms, assumed_zone="UTC", date_order=order)
    assert [s.time for s in stamps] == [expected] * len(forms)
    assert [s.note for s in stamps] == [None] * len(forms)


@given(st.integers(10**8, 4 * 10**9), st.integers(0, 999_999))
@settings(max_examples=200, deadline=None)
def test_epochs_of_every_unit_agree(seconds: int, micros: int) -> None:
    expected = seconds * 10**6 + micros
    text = f"{seconds}.{micros:06d}"
    assert read(text).time == read(float(text)).time == expected
    if seconds >= 2 * 10**8:
        assert read(expected).time == read(str(expected)).time == expected
        assert read(seconds * 1000).time == seconds * 10**6


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none()), st.sampled_from(["", "day"]))
@settings(max_examples=500, deadline=None)
def test_nothing_raises_and_every_time_is_in_range(value: RawTime, order: str) -> None:
    stamp = read(value, "America/New_York", order)
    assert (stamp.time is None) == (stamp.zone_source == "missing")
    if stamp.time is None:
        assert stamp.note
    else:
        datetime(1970, 1, 1) + timedelta(microseconds=stamp.time)


@given(st.datetimes(datetime(1975, 1, 1), datetime(2036, 1, 1)))
@settings(max_examples=200, deadline=None)
def test_assumed_zone_agrees_with_zoneinfo(moment: datetime) -> None:
    zone = ZoneInfo("America/New_York")
    expected = int((moment.replace(tzinfo=zone).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    time = read(moment.isoformat(), "America/New_York").time
    assert time is not None
    assert time // 10**6 == expected


def test_the_machine_zone_does_not_matter() -> None:
    code = (
        "from magma_gpu.stamps import parse_stamps;"
        "print([s.time for s in parse_stamps(['2024-03-10T12:00:00', '8 May 2023 1 pm', 5, '2023年5月20日'],"
        "assumed_zone='Europe/Berlin', date_order='')])"
    )
    root = str(Path(__file__).resolve().parents[1])
    outs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TZ": zone, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone in ("UTC", "Asia/Tokyo", "America/New_York")
    }
    assert len(outs) == 1

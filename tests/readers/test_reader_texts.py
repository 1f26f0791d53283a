"""Chats as lines of text: WhatsApp, Signal, IRC, and tables."""

import json
import zipfile
from pathlib import Path

import pytest

from magma_gpu.errors import InputError
from magma_gpu.readers import Source, detect_format, find_sources, read_source
from magma_gpu.readers.whatsapp_line import parse_header, split_speaker
from magma_gpu.types import Reject, Turn

SHARED = Path(__file__).resolve().parents[2] / "../shared"


def shared(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"shared/{name} is not beside the checkout")
    return path


def read(path, format_, **options):
    options.setdefault("memory_id", None)
    source = Source(path, path.name)
    assert detect_format(source) == format_
    return list(read_source(source, format_, **options))


def chat(tmp_path, *lines, name="chat.txt", format_="whatsapp", **options):
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    return read(tmp_path / name, format_, **options)


def said(records):
    return [(r.time, r.speaker, r.text) for r in records if isinstance(r, Turn)]


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("[30/12/2023, 9:05:01\u202fPM] Ines: hi", "2023-12-30T21:05:01"),
        ("\u200e[30/12/2023, 9:05:01 pm] Ines: hi", "2023-12-30T21:05:01"),
        ("[30/12/2023, 12:00:03\u202fAM] Ines: hi", "2023-12-30T00:00:03"),
        ("30/12/23, 12:05 p. m. - Ines: hi", "2023-12-30T12:05:00"),
        ("30/12/23, 00:05 a.\u00a0m. - Ines: hi", "2023-12-30T00:05:00"),
        ("30.12.23, 21:05 - Ines: hi", "2023-12-30T21:05:00"),
        ("30-12-2023 21.05.09 – Ines: hi", "2023-12-30T21:05:09"),
        ("[2023-12-30, 21:05] Ines: hi", "2023-12-30T21:05:00"),
        ("2023/12/30, 21:05 - Ines: hi", "2023-12-30T21:05:00"),
        ("2023. 12. 30. 오후 9:05 - Ines: hi", "2023-12-30T21:05:00"),
        ("٣٠/١٢/٢٠٢٣, ٢١:٠٥ - Ines: hi", "2023-12-30T21:05:00"),
    ],
)
def test_stamps(line, time):
    header = parse_header(line)
    assert header is not None
    assert (header.time("day"), header.rest) == (time, "Ines: hi")


LOCALES = """
[12/30/23, 9:05:01 PM] / 12/30/23, 9:05 PM - / [30/12/2023, 21:05:01] / 30/12/23, 9:05 pm - / 30.12.23, 21:05 -
[30.12.23, 21:05:01] / 30/12/2023 à 21:05 - / [30/12/2023 à 21:05:01] / 30/12/23 9:05 p. m. - / 30/12/2023 21:05 -
30-12-2023 21:05 - / 2023-12-30 21:05 - / 30.12.2023 21.05 - / 30.12.2023 klo 21.05 - / 30. 12. 2023 21:05 -
2023. 12. 30. 21:05 - / 30. 12. 2023. u 21:05 - / 30.12.23 г., 21:05 - / 30.12.2023. 21:05 - / 30/12/2023، 9:05 م -
٣٠‏/١٢‏/٢٠٢٣، ٩:٠٥ م - / ۲۰۲۳/۱۲/۳۰،‏ ۲۱:۰۵ - / 30/12/23, 9:05 अपराह्न - / 2023/12/30 21:05 -
[2023/12/30 下午9:05:01] / 2023/12/30 下午9:05 - / 2023年12月30日 下午9:05 - / 2023. 12. 30. 오후 9:05 -
2023년 12월 30일 오후 9:05 - / [2023. 12. 30. 오후 9:05:01] / 30/12/23 21.05 - / 21:05, 30/12/2023 -
30/12/2566 21:05 - / 2023-12-30, 9:05 p.m. - / 30/12/23, 9:05 μ.μ. - / 30/12/23, 21:05:01: / 30/12/2023, 9:05 PTG -
[21:05, 30/12/2023] / 30/12/23, 9:05 nachm. - / ৩০/১২/২৩, ৯:০৫ PM -
"""


def test_stamps_of_many_languages():
    found = {}
    for stamp in LOCALES.replace("\n", " / ").strip(" /").split(" / "):
        header = parse_header(f"{stamp} Ines: hi: 9:05")
        time = header and (header.time("day") or header.time("month"))
        found[stamp] = (time and time[:16], header and header.rest)
    assert len(found) == 40
    assert {stamp: f for stamp, f in found.items() if f != ("2023-12-30T21:05", "Ines: hi: 9:05")} == {}


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "30/12/23, 21:05: a plan",
        "2023年12月 a plan",
        "21:05 - a plan",
        "",
        "2/11/19: Arrival",
        "30/12/2023 21:05 Ines: hi",
        "[12:18] <nick> hi",
        "123/12/2023, 21:05 - Ines: hi",
        "30/12/2023, 9:05 xx - Ines: hi",
    ],
)
def test_no_stamps(line):
    assert parse_header(line) is None


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("Ines: Train at 8:15 - Tomasz: late", ("Ines", "Train at 8:15 - Tomasz: late", False)),
        ("~\u202fOlu: hi", ("Olu", "hi", False)),
        ("Ines:", ("Ines", "", False)),
        ("Ines:.", (None, "Ines:.", True)),
        ("Ines added Olu", (None, "Ines added Olu", True)),
        (
            'Ines changed the subject to "Trip: Porto"',
            (None, 'Ines changed the subject to "Trip: Porto"', True),
        ),
        ("Ines: \u200eYou deleted this message.", ("Ines", "You deleted this message.", True)),
        ("Ines: so \u200e<This message was edited>", ("Ines", "so", False)),
    ],
)
def test_speakers(rest, parts):
    assert split_speaker(rest) == parts


def test_whatsapp_case_of_hidden_characters():
    records = read(shared("cases/C04_whatsapp.txt"), "whatsapp")
    assert said(records) == [
        ("2023-12-30T21:05:01", None, "Messages and calls are end-to-end encrypted."),
        (
            "2023-12-30T21:06:00",
            "Ines",
            "Train at 8:15 - Tomasz: don't be late\nsecond line of the same message",
        ),
        ("2023-12-31T23:59:59", "Tomasz", "ok"),
        ("2024-01-01T00:00:03", "Ines", "happy new year \U0001f386"),
        ("2024-01-13T12:30:00", None, "Ines added ~ Oluwaseun"),
    ]
    assert [r.role for r in records[:5]] == ["system", "other", "other", "other", "system"]
    assert (records[5].reason, records[5].line) == ("no text", 7)


FORMS = ["[mmddyy]_24hrs", "ddmmyy_24hrs", "mmddyy_24hrs", "mmddyyyy_12hrs", "yyyymmdd_24hrs"]


@pytest.mark.parametrize("form", FORMS)
def test_whatsapp_targets(form):
    records = read(shared(f"data/exports/chat-miner_whatsapp_test_{form}.txt"), "whatsapp")
    target = json.loads(shared("data/exports/chat-miner_whatsapp_target.json").read_text(encoding="utf-8"))
    found = [(r.time, r.speaker, r.text.replace("\n", " ")) for r in reversed(records) if r.role != "system"]
    assert found == [(row["timestamp"], row["author"], row["message"]) for row in target]
    assert len(records) == 9


def test_signal_target():
    records = read(shared("data/exports/chat-miner_signal_test_export.txt"), "whatsapp")
    target = json.loads(shared("data/exports/chat-miner_signal_target.json").read_text())
    found = [(r.time, r.speaker, r.text.replace("\n", " ")) for r in reversed(records)]
    # The target is moved by the zone of the machine that made it; the export itself has no zone.
    assert [row[1:] for row in found] == [(row["author"], row["message"]) for row in target]
    assert found[0][0] == "2020-01-17T21:49:00"


def test_whatsapp_pasted_stamps_of_another_shape_belong_to_their_message():
    records = read(shared("data/exports/chatistics__chat.txt"), "whatsapp")
    assert len(records) == 21
    assert sum(r.role == "system" for r in records) == 1
    assert any("[1.2.2019, 00:00:00] John Doe: this line is not" in r.text for r in records)
    records = read(shared("data/exports/chatistics__chat_2.txt"), "whatsapp")
    assert [r.time for r in records] == [f"2019-09-17T{t}" for t in ("16:37:47", "16:38:06", "16:38:59", "16:39:52")]
    assert "[1.9.19, 00:00:00]" in records[0].text
    records = read(shared("data/exports/chatistics__chat_4.txt"), "whatsapp")
    assert [r.time for r in records] == ["2019-09-17T08:30:52", "2019-09-17T16:30:10", "2019-09-18T16:50:32"]


def test_whatsapp_ambiguous_order_is_asked_for():
    path = shared("data/exports/chatistics__chat_3.txt")
    with pytest.raises(InputError, match=r"dates such as 2/11/19.*--set ingest.date_order=day or =month"):
        read(path, "whatsapp")
    by_day = read(path, "whatsapp", date_order="day")
    by_month = read(path, "whatsapp", date_order="month")
    assert (by_day[0].time, by_month[0].time) == ("2019-11-02T14:18:00", "2019-02-11T14:18:00")
    assert len(by_day) == len(by_month) == 11
    assert by_day[-1].text.endswith("\n2/11/19: Arrival\n12/12/19: Departure")


def test_whatsapp_order_is_decided_once(tmp_path):
    lines = ["1/2/23, 10:00 - A: x", "3/4/23, 10:00 - A: y", "13/4/23, 10:00 - A: z", "5/6/23, 10:00 - A: w"]
    assert [t for t, _, _ in said(chat(tmp_path, *lines))] == [
        f"2023-{day}T10:00:00" for day in ("02-01", "04-03", "04-13", "06-05")
    ]
    # What the stamps themselves say is stronger than what the user says.
    assert said(chat(tmp_path, *lines, date_order="month"))[0][0] == "2023-02-01T10:00:00"


def test_whatsapp_equal_day_and_month_need_no_order(tmp_path):
    assert said(chat(tmp_path, "1/1/23, 10:00 - A: x")) == [("2023-01-01T10:00:00", "A", "x")]


def test_whatsapp_lines_before_the_first_message_and_attachments(tmp_path):
    records = chat(
        tmp_path,
        "30/12/23, 10:00 - A: IMG-1.jpg (file attached)",
        "caption of it",
        "30/12/23, 10:01 - A: <Media omitted>",
        "30/12/23, 10:02 - A: \u200eimage omitted",
        "30/12/23, 10:03 - A: look \u200e<attached: 1.jpg>",
        "30/12/23, 10:04 - A: ",
    )
    assert [getattr(r, "text", None) or r.reason for r in records] == [
        "IMG-1.jpg (file attached)\ncaption of it",
        "no text",
        "no text",
        "look",
        "no text",
    ]
    records = chat(tmp_path, "Exported", "", "30/12/23, 10:00 - A: x", "30/12/23, 10:00 - B: y")
    assert [(r.line, getattr(r, "reason", "")) for r in records] == [(1, "not a message"), (3, ""), (4, "")]


def test_whatsapp_without_a_message_shows_the_first_line(tmp_path):
    (tmp_path / "x.txt").write_text("\nDear diary\nnothing\n")
    with pytest.raises(InputError, match=r"'x.txt' has no line .*'Dear diary'"):
        list(read_source(Source(tmp_path / "x.txt", "x.txt"), "whatsapp", memory_id=None))


def test_whatsapp_archive_names_the_chat(tmp_path):
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat - Ines.zip", "w") as archive:
        archive.writestr("_chat.txt", "[30/12/2023, 9:05:01 PM] Ines: hi\r\n")
        archive.writestr("00000012-PHOTO.jpg", "x")
        archive.writestr("00000013-AUDIO.opus", "x")
    (source,) = find_sources([str(tmp_path)])
    (turn,) = read_source(source, detect_format(source), memory_id=None)
    assert (turn.memory_id, turn.session_id) == ("WhatsApp Chat - Ines", "WhatsApp Chat - Ines")
    (turn,) = read_source(source, "whatsapp", memory_id="me")
    assert (turn.memory_id, turn.session_id) == ("me", "WhatsApp Chat - Ines")


def test_irc_lines(tmp_path):
    records = chat(
        tmp_path,
        "[23:58] <@ana> hi: there",
        "=== ben has joined #dev",
        "[23:59]  * ben waves at ana",
        "[00:01] <ben|away> new day",
        "garbage",
        name="#dev.2024-02-28_03.log",
        format_="irc",
    )
    assert records[0] == Turn(
        memory_id="#dev_03",
        session_id="#dev.2024-02-28_03",
        turn_id=None,
        speaker="ana",
        role="other",
        text="hi: there",
        time="2024-02-28T23:58:00",
        seq=0,
        session_time="2024-02-28",
        source="#dev.2024-02-28_03.log",
        line=1,
    )
    assert said(records[1:]) == [
        (None, None, "ben has joined #dev"),
        ("2024-02-28T23:59:00", "ben", "waves at ana"),
        ("2024-02-29T00:01:00", "ben|away", "new day"),
    ]
    assert records[1].role == "system"
    assert records[4].reason == "not a message"


def test_irc_twelve_hour_clock_and_lines_out_of_order(tmp_path):
    lines = [f"[{clock}] <a> x" for clock in ("11:59", "12:30", "01:10", "01:05", "11:58", "12:02", "01:00")]
    records = chat(tmp_path, *lines, name="x.20041115.txt", format_="irc")
    assert [t for t, _, _ in said(records)] == [
        "2004-11-15T11:59:00",
        "2004-11-15T12:30:00",
        "2004-11-15T13:10:00",
        "2004-11-15T13:05:00",
        "2004-11-15T23:58:00",
        "2004-11-16T00:02:00",
        "2004-11-16T01:00:00",
    ]


def test_irc_other_clients(tmp_path):
    irssi = ["--- Log opened Mon Feb 05 10:00:00 2024", "10:01 <@ana> hi", "10:02 -!- ben [x@y] has quit",
             "--- Day changed Tue Feb 06 2024", "00:00 < ana> yo"]  # fmt: skip
    assert said(chat(tmp_path, *irssi, name="a.log", format_="irc")) == [
        (None, None, "Log opened Mon Feb 05 10:00:00 2024"),
        ("2024-02-05T10:01:00", "ana", "hi"),
        ("2024-02-05T10:02:00", None, "ben [x@y] has quit"),
        (None, None, "Day changed Tue Feb 06 2024"),
        ("2024-02-06T00:00:00", "ana", "yo"),
    ]
    weechat = ["2024-02-05 10:01:00\t-->\tana has joined", "2024-02-05 10:01:02\t@ana\thi: x"]
    assert said(chat(tmp_path, *weechat, name="b.log", format_="irc")) == [
        ("2024-02-05T10:01:00", None, "ana has joined"),
        ("2024-02-05T10:01:02", "ana", "hi: x"),
    ]
    dated = ["[2024-02-05 10:01:00] <ana> hi: x"]
    assert said(chat(tmp_path, *dated, name="c.log", format_="irc")) == [("2024-02-05T10:01:00", "ana", "hi: x")]


def test_irc_without_a_date_has_no_times(tmp_path):
    assert said(chat(tmp_path, "[10:01] <ana> hi", name="c.log", format_="irc")) == [(None, "ana", "hi")]


@pytest.mark.parametrize(
    ("name", "memory_id", "last"),
    [
        ("dev_2004-11-15_03.raw.txt", "dev_03.raw", "2004-11-15T16"),
        ("test_2016-06-08_07.raw.txt", "test_07.raw", "2016-06-09T13"),
        ("channel-two.all.raw.txt", "channel-two.all.raw", None),
    ],
)
def test_irc_files(name, memory_id, last):
    path = shared(f"data/irc/{name}")
    records = read(path, "irc")
    assert len(records) == sum(bool(line.strip()) for line in path.read_text("utf-8", "replace").split("\n"))
    assert not any(isinstance(r, Reject) for r in records)
    assert {r.memory_id for r in records} == {memory_id}
    times = [r.time for r in records if r.time]
    assert (times[-1][:13] if times else None) == last
    assert times == sorted(times)


def test_csv(tmp_path):
    records = chat(
        tmp_path,
        "\ufeffUser_ID;Speaker;Text;Timestamp;position",
        'u;Ana;"two; parts',
        'and a line";2024-01-01;7',
        "",
        "u;Ben;;2024-01-02;8",
        "v;Ben",
        "u;Ben;last;;",
        name="x.csv",
        format_="csv",
    )
    assert records[0] == Turn(
        memory_id="u",
        session_id="x",
        turn_id=None,
        speaker="Ana",
        role="other",
        text="two; parts\nand a line",
        time="2024-01-01",
        seq=7,
        source="x.csv",
        line=2,
    )
    assert [(r.line, getattr(r, "text", None) or r.reason) for r in records[1:]] == [
        (5, "no text"),
        (6, "no text"),
        (7, "last"),
    ]


def test_csv_with_names_of_its_own(tmp_path):
    (tmp_path / "x.csv").write_text("Sender,Body,Sent\nAna,hi,2024\n")
    source = Source(tmp_path / "x.csv", "x.csv")
    with pytest.raises(InputError, match=r"no column named text, content, message \(got sender, body, sent\)"):
        list(read_source(source, "csv", memory_id=None))
    fields = {"text": "Body", "speaker": "Sender", "time": "Sent"}
    (turn,) = read_source(source, "csv", memory_id=None, fields=fields)
    assert (turn.text, turn.speaker, turn.time) == ("hi", "Ana", "2024")


def test_csv_cells_and_lines_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr("magma_gpu.readers.csv_table.MAX_LINE_CHARS", 1000)
    rows = ["text,speaker", "x" * 5000 + ",a", "short,b", '"' + ("y" * 90 + "\n") * 20]
    records = chat(tmp_path, *rows, name="x.csv", format_="csv")
    assert records[0].reason == "broken CSV"
    assert records[1].text == "short"
    assert records[2].reason == "quote not closed"
    # No line is lost, whatever is made of it.
    assert [r.line for r in records] == list(range(2, 24))


HEAD = "text,speaker"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        # Never closed: its line is lost, and nothing behind it.
        (["one,A", '"two,B', "three,A", "four,B"], ["one", "quote not closed", "three", "four"]),
        # Closed by the next quoted cell only.
        (["one,A", '"two,B', "three,A", '"four",B', "five,A"], ["one", "quote not closed", "three", "four", "five"]),
        # What follows may be the rest of a cell of many lines, which is no row.
        (["one,A", '"two', "and more", "and more"], ["one", *["quote not closed"] * 3]),
        (['"a ""b"" c\nd",A', "two,B"], ['a "b" c\nd', "two"]),
        # Quotes that are not doubled are what they are.
        (['"one" and two,A', 'say "hi",B', '"x"y"z",A'], ["one and two", 'say "hi"', 'xy"z"']),
        (["one,A", '"two,B', '"three,A', '"four,B', "five,A"], ["one", *["quote not closed"] * 3, "five"]),
        (["one,A", '"'], ["one", "quote not closed"]),
        (["a\rb,A", "two,B"], ["broken CSV", "two"]),
    ],
)
def test_csv_quotes(tmp_path, rows, found):
    records = chat(tmp_path, HEAD, *rows, name="x.csv", format_="csv")
    assert [getattr(r, "text", None) or r.reason for r in records] == found


def test_csv_lines_are_read_again_only_so_often(tmp_path, monkeypatch):
    monkeypatch.setattr("magma_gpu.readers.csv_table._MAX_AGAIN_CHARS", 100)
    rows = ["one,A", '"two,B', *["x" * 30 + ",A"] * 9]
    records = chat(tmp_path, HEAD, *rows, name="x.csv", format_="csv")
    assert [getattr(r, "text", None) or r.reason for r in records] == ["one", *["quote not closed"] * 10]
    assert [r.line for r in records] == list(range(2, 13))


def test_csv_line_too_long_inside_an_open_quote(tmp_path, monkeypatch):
    monkeypatch.setattr("magma_gpu.readers.csv_table.MAX_LINE_CHARS", 1000)
    records = chat(tmp_path, HEAD, '"one,A', "two,B", "x" * 3000, "three,B", name="x.csv", format_="csv")
    assert [(r.line, getattr(r, "text", None) or r.reason) for r in records] == [
        (2, "quote not closed"),
        (3, "two"),
        (4, "broken CSV"),
        (5, "three"),
    ]

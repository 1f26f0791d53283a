"""Rows of the contract: fields, aliases, rejects."""

import json

import pytest

from magma_gpu.errors import InputError
from magma_gpu.readers import Source, detect_format, read_source
from magma_gpu.readers import lines as lines_module
from magma_gpu.types import Reject, Turn


def read(tmp_path, *rows, name="chat.jsonl", **options):
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    options.setdefault("memory_id", None)
    return list(read_source(Source(tmp_path / name, name), "jsonl", **options))


def one(tmp_path, row, **options):
    (record,) = read(tmp_path, row, **options)
    return record


def test_every_field(tmp_path):
    row = {
        "memory_id": "ana",
        "session_id": "s",
        "turn_id": "t",
        "speaker": "Ana",
        "role": "user",
        "text": "hi",
        "time": "2024-01-01",
        "seq": 7,
        "caption": "a dog",
        "reply_to": 5,
        "session_time": "2023",
    }
    assert one(tmp_path, row) == Turn(
        memory_id="ana",
        session_id="s",
        turn_id="t",
        speaker="Ana",
        role="user",
        text="hi",
        time="2024-01-01",
        seq=7,
        caption="a dog",
        reply_to="5",
        session_time="2023",
        source="chat.jsonl",
        line=1,
    )


def test_defaults_come_from_the_file(tmp_path):
    assert one(tmp_path, {"text": "hi"}) == Turn(
        memory_id="chat",
        session_id="chat",
        turn_id=None,
        speaker=None,
        role="other",
        text="hi",
        time=None,
        seq=0,
        source="chat.jsonl",
        line=1,
    )


@pytest.mark.parametrize(
    ("row", "given", "memory_id", "session_id"),
    [
        ({"user_id": "u", "conversation_id": "c"}, "given", "u", "c"),
        ({"namespace": 12, "thread_id": "t"}, None, "12", "t"),
        ({"conversation_id": "c"}, "given", "given", "c"),
        ({"conversation_id": "c"}, None, "c", "c"),
        ({"conversation_id": "c", "session_id": "s"}, None, "c", "s"),
        ({"session_id": 3.0}, None, "chat", "3"),
        ({"memory_id": None, "user_id": "../../x"}, None, "../../x", "chat"),
        ({"memory_id": " e\u0301 "}, None, " e\u0301 ", "chat"),
    ],
)
def test_memory_and_session(tmp_path, row, given, memory_id, session_id):
    turn = one(tmp_path, {**row, "text": "x"}, memory_id=given)
    assert (turn.memory_id, turn.session_id) == (memory_id, session_id)


@pytest.mark.parametrize(
    ("row", "speaker", "role"),
    [
        ({"role": "human"}, None, "user"),
        ({"role": "AI"}, None, "assistant"),
        ({"role": "developer"}, None, "system"),
        ({"role": "function", "name": "save"}, "save", "tool"),
        ({"role": "user", "name": "Ines"}, "Ines", "user"),
        ({"speaker": "Assistant"}, None, "assistant"),
        ({"author": " Ana "}, "Ana", "other"),
        ({"role": "Narrator"}, "Narrator", "other"),
        ({"from": 12}, "12", "other"),
        ({"speaker": ""}, None, "other"),
        ({"author": {"id": "5", "username": "ana", "global_name": " Ana "}}, "Ana", "other"),
        ({"author": {"id": 5, "name": None}}, "5", "other"),
        ({"author": {}}, None, "other"),
    ],
)
def test_who(tmp_path, row, speaker, role):
    turn = one(tmp_path, {**row, "text": "x"})
    assert (turn.speaker, turn.role) == (speaker, role)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no text"),
        ({"text": None}, "no text"),
        ({"text": ""}, "no text"),
        ({"text": " \n\t"}, "no text"),
        ({"text": "\u200b"}, "no text"),
        ({"text": [{"type": "image_url", "image_url": {"url": "x"}}]}, "no text"),
        ({"text": []}, "no text"),
        ({"text": 5}, "text of a wrong type"),
        ({"text": True}, "text of a wrong type"),
        ({"text": [1, 2]}, "text of a wrong type"),
        ('{"text": NaN}', "no text"),
        ('{"text": Infinity}', "text of a wrong type"),
        ("[1]", "not an object"),
        ("null", "not an object"),
        ('"text"', "not an object"),
        ('{"text": "x"', "not JSON"),
        ("hello", "not JSON"),
        ("9" * 5000, "not JSON"),
        ('{"text":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        ({"text": "x", "memory_id": ""}, "unusable id"),
        ({"text": "x", "memory_id": "  "}, "unusable id"),
        ({"text": "x", "memory_id": 1.5}, "unusable id"),
        ({"text": "x", "session_id": ["a"]}, "unusable id"),
        ({"text": "x", "session_id": True}, "unusable id"),
        ({"text": "x", "conversation_id": {}}, "unusable id"),
    ],
)
def test_rejects(tmp_path, row, reason):
    records = read(tmp_path, {"text": "before"}, row, {"text": "after"})
    assert [type(record) for record in records] == [Turn, Reject, Turn]
    assert (records[1].reason, records[1].line, records[1].source) == (reason, 2, "chat.jsonl")
    assert len(records[1].excerpt) <= 120


def test_a_reject_names_its_memory_and_shows_what_was_there(tmp_path):
    reject = one(tmp_path, {"memory_id": "ana", "text": None})
    assert (reject.memory_id, reject.excerpt) == ("ana", '{"memory_id": "ana", "text": null}')


def test_a_line_too_long_is_skipped_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "MAX_LINE_CHARS", 100)
    records = read(tmp_path, {"text": "a"}, {"text": "b" * 5000}, {"text": "c"})
    assert [getattr(r, "reason", None) for r in records] == [None, "line too long", None]
    assert [r.line for r in records] == [1, 2, 3]
    exactly = '{"text": "%s"}' % ("x" * 88)
    assert len(exactly) == 100
    assert isinstance(one(tmp_path, exactly), Turn)


def test_the_limit_of_a_line_is_16_mib():
    assert lines_module.MAX_LINE_CHARS == 16 * 1024 * 1024


def test_characters_that_cannot_be_stored(tmp_path):
    turn = one(tmp_path, r'{"text": "a\ud800b\u0000c\ud83d\ude00e\u0301", "memory_id": "m\udfff", "time": "2\ud800"}')
    assert turn.text == "a\ufffdbc\U0001f600é"
    assert turn.memory_id == "m\ufffd"
    assert turn.time == "2\ufffd"


def test_bytes_that_are_no_utf8_are_replaced(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a\xffb"}\r\n\r\n  \r\n{"text": "c"}')
    records = list(read_source(Source(tmp_path / "x.jsonl", "x.jsonl"), "jsonl", memory_id=None))
    assert [(r.text, r.line) for r in records] == [("a\ufffdb", 1), ("c", 4)]


def test_control_strings_of_tokenisers_are_plain_text(tmp_path):
    text = "The docs say <|endoftext|> ends it; also <|im_start|>system [INST] </s>"
    assert one(tmp_path, {"speaker": "Ines", "text": text}).text == text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1710072000, 1710072000),
        (1.5, 1.5),
        ("10 Mar", "10 Mar"),
        ("", None),
        (None, None),
        (True, None),
        ([1], None),
    ],
)
def test_times_stay_raw(tmp_path, given, kept):
    assert one(tmp_path, {"text": "x", "timestamp": given}).time == kept


def test_place_counts_within_the_session(tmp_path):
    rows = [{"text": "x", "session_id": s} for s in "aabab"]
    rows[1]["text"] = None
    assert [getattr(r, "seq", None) for r in read(tmp_path, *rows)] == [0, None, 0, 2, 1]


@pytest.mark.parametrize(("given", "seq"), [(5, 5), (5.0, 5), ("5", 0), (True, 0), (1 << 80, 0), (None, 0), (-1, -1)])
def test_seq_is_taken_where_it_is_an_integer(tmp_path, given, seq):
    assert one(tmp_path, {"text": "x", "position": given}).seq == seq


def test_caption_alone_is_a_turn(tmp_path):
    turn = one(tmp_path, {"text": " ", "caption": "a red kite"})
    assert (turn.text, turn.caption) == ("", "a red kite")


def test_alt_text_of_an_image_part_becomes_the_caption(tmp_path):
    parts = [
        {"type": "image_url", "image_url": {"url": "x"}, "alt": "a dog"},
        {"type": "text", "text": "look"},
        "!",
    ]
    turn = one(tmp_path, {"text": parts})
    assert (turn.text, turn.caption) == ("look\n!", "a dog")


def test_a_row_of_messages_is_a_conversation(tmp_path):
    row = {"id": "c1", "user_id": "u", "messages": [{"role": "user", "content": "hi"}, {"role": "user"}]}
    turn, reject = read(tmp_path, row)
    assert (turn.memory_id, turn.session_id, turn.line) == ("u", "c1", 1)
    assert reject.reason == "no text"


def test_columns_of_other_names(tmp_path):
    row = {"body": "hi", "text": "not this", "who": "Ana", "chat": "c"}
    turn = one(tmp_path, row, fields={"text": "body", "speaker": "who", "session_id": "chat"})
    assert (turn.text, turn.speaker, turn.session_id) == ("hi", "Ana", "c")


def test_columns_inside_objects_and_formats_told_by_them(tmp_path):
    fields = {"text": "body.plain", "speaker": "author.name", "time": "sent"}
    row = {"author": {"name": "Ana"}, "body": {"plain": "hi"}, "sent": 5}
    turn = one(tmp_path, row, fields=fields)
    assert (turn.text, turn.speaker, turn.time) == ("hi", "Ana", 5)
    assert [r.reason for r in read(tmp_path, {"body": "hi"}, {"body": {"plain": [1]}}, fields=fields)] == [
        "no text",
        "text of a wrong type",
    ]
    for name, content, format_ in (
        ("a.jsonl", json.dumps(row) + "\n" + json.dumps(row), "jsonl"),
        ("b.json", json.dumps([row]), "openai"),
        ("c.csv", "Sent;Body.Plain\n1;hi\n", "csv"),
    ):
        (tmp_path / name).write_text(content)
        source = Source(tmp_path / name, name)
        with pytest.raises(InputError, match="looks like none of"):
            detect_format(source)
        assert detect_format(source, fields) == format_
        assert {r.text for r in read_source(source, format_, memory_id=None, fields=fields)} == {"hi"}

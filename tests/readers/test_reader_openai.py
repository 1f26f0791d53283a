"""Conversations with messages: shapes of files, content parts, tool calls."""

import json
from pathlib import Path

import pytest

from magma_gpu.errors import InputError
from magma_gpu.readers import Source, detect_format, read_source
from magma_gpu.types import Reject, Turn

CASES = Path(__file__).resolve().parents[2] / "../shared/cases/cases.jsonl"


def read(tmp_path, content, name="chat.json", **options):
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text)
    source = Source(tmp_path / name, name)
    options.setdefault("memory_id", None)
    assert detect_format(source) == "openai"
    return list(read_source(source, "openai", **options))


def ids(records):
    return [(r.memory_id, r.session_id, r.seq, r.line, r.text) for r in records]


HI = {"role": "user", "content": "hi"}
YO = {"role": "assistant", "content": "yo"}


def test_a_list_of_messages_is_one_session(tmp_path):
    assert ids(read(tmp_path, [HI, YO])) == [("chat", "chat", 0, 1, "hi"), ("chat", "chat", 1, 2, "yo")]


def test_a_list_of_conversations(tmp_path):
    records = read(tmp_path, [{"messages": [HI, YO]}, {"id": "c2", "messages": [HI]}, {"messages": []}])
    assert ids(records) == [
        ("chat", "chat-0", 0, 1, "hi"),
        ("chat", "chat-0", 1, 2, "yo"),
        ("c2", "c2", 0, 3, "hi"),
    ]


def test_one_object(tmp_path):
    (turn,) = read(tmp_path, {"conversation_id": 5, "title": "T", "created_at": 17, "messages": [HI]})
    assert turn == Turn(
        memory_id="5",
        session_id="5",
        turn_id=None,
        speaker=None,
        role="user",
        text="hi",
        time=None,
        seq=0,
        session_time=17,
        session_title="T",
        source="chat.json",
        line=1,
    )


def test_objects_a_line(tmp_path):
    lines = [json.dumps({"messages": [HI, YO]}), "", "broken", json.dumps({"id": "c", "messages": [HI]})]
    records = read(tmp_path, "\n".join(lines))
    assert ids(records[:2]) == [("chat", "chat-0", 0, 1, "hi"), ("chat", "chat-0", 1, 1, "yo")]
    assert (records[2].reason, records[2].line) == ("not JSON", 3)
    assert ids(records[3:]) == [("c", "c", 0, 4, "hi")]


def test_memory_id_given_wins_over_the_conversation_but_not_over_the_user(tmp_path):
    records = read(
        tmp_path,
        [{"id": "c", "messages": [HI]}, {"user_id": "u", "id": "d", "messages": [HI]}],
        memory_id="m",
    )
    assert [(r.memory_id, r.session_id) for r in records] == [("m", "c"), ("u", "d")]


def test_unusable_conversation_id_rejects_each_message(tmp_path):
    records = read(tmp_path, [{"id": "", "messages": [HI, YO]}])
    assert [r.reason for r in records] == ["unusable id", "unusable id"]


def test_tool_messages(tmp_path):
    calls = {
        "role": "assistant",
        "tool_calls": [{"id": "t1", "function": {"name": "save", "arguments": "{}"}}],
    }
    result = {
        "role": "tool",
        "name": "save",
        "tool_call_id": "t1",
        "content": [{"type": "text", "text": "saved"}],
    }
    first, second = read(tmp_path, [calls, result])
    assert (first.reason, first.line) == ("no text", 1)
    assert (second.role, second.speaker, second.text) == ("tool", "save", "saved")


def test_case_of_content_shapes(tmp_path):
    if not CASES.exists():
        pytest.skip("shared/cases is not beside the checkout")
    case = next(c for c in map(json.loads, CASES.open(encoding="utf-8")) if c["id"] == "C01")
    records = read(tmp_path, case["input"])
    turns = [(r.role, r.text) for r in records if isinstance(r, Turn)]
    assert turns == [("user", "My sister Ines moved to Porto."), ("tool", "saved"), ("user", "Thanks!")]
    assert [r.reason for r in records if isinstance(r, Reject)] == ["no text"] * 5


def test_a_list_cut_in_the_middle_yields_the_whole_messages(tmp_path):
    text = json.dumps([HI, YO, {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "te"}]}])
    records = read(tmp_path, text[:-8])
    assert [getattr(r, "text", None) for r in records] == ["hi", "yo", None]
    assert records[-1].reason == "broken JSON"


def test_a_conversation_cut_in_the_middle_yields_its_whole_messages(tmp_path):
    text = json.dumps([{"id": "a", "messages": [HI]}, {"id": "b", "messages": [HI, YO, YO]}])
    records = read(tmp_path, text[:-10])
    assert [(getattr(r, "session_id", None), getattr(r, "text", None)) for r in records] == [
        ("a", "hi"),
        ("b", "hi"),
        ("b", "yo"),
        (None, None),
    ]
    assert records[-1].reason == "broken JSON"


def test_nothing_readable_names_the_line(tmp_path):
    (tmp_path / "x.json").write_text('\n\n  hello, "role"')
    with pytest.raises(InputError, match=r"'x.json' is not JSON at line 3 \(got 'hello"):
        list(read_source(Source(tmp_path / "x.json", "x.json"), "openai", memory_id=None))


def test_a_message_nested_too_deep_costs_itself_only(tmp_path):
    deep = '{"role": "user", "content": ' + "[" * 50_000 + "]" * 50_000 + "}"
    records = read(tmp_path, f"[{json.dumps(HI)}, {deep}, {json.dumps(YO)}]")
    assert [getattr(r, "text", None) or r.reason for r in records] == ["hi", "nested too deep", "yo"]


def test_strange_items_are_counted(tmp_path):
    records = read(tmp_path, [HI, 5, None, "x", [HI], {"messages": "no"}])
    assert [getattr(r, "text", None) or r.reason for r in records] == [
        "hi",
        "not an object",
        "not an object",
        "not an object",
        "not an object",
        "not a conversation",
    ]


def test_sessions_of_one_memory(tmp_path):
    talks = [{"session_id": "s1", "title": "T", "messages": [HI, YO]}, {"messages": [HI]}, 5]
    records = read(tmp_path, {"about": 1, "sessions": talks, "qa": []})
    assert [(r.memory_id, r.session_id, r.session_title, r.text) for r in records[:3]] == [
        ("chat", "s1", "T", "hi"),
        ("chat", "s1", "T", "yo"),
        ("chat", "chat-1", None, "hi"),
    ]
    assert records[3].reason == "not an object"
    records = read(tmp_path, {"user_id": "ana", "sessions": talks[:2]}, memory_id="given")
    assert {r.memory_id for r in records} == {"ana"}
    assert {r.memory_id for r in read(tmp_path, {"sessions": talks[:2]}, memory_id="given")} == {"given"}


def test_pairs_of_question_and_answer(tmp_path):
    rows = [
        {"id": 7, "user_input": "hi", "agent_response": "yo", "timestamp": "2025-06-01 10:00:00", "user_id": "u"},
        {"user_input": "and?", "agent_response": ""},
        5,
    ]
    for name, content in (("x.json", json.dumps(rows)), ("y.jsonl", "\n".join(map(json.dumps, rows)))):
        (tmp_path / name).write_text(content)
        source = Source(tmp_path / name, name)
        assert detect_format(source) == "pairs"
        records = list(read_source(source, "pairs", memory_id=None))
        assert [(r.memory_id, r.role, r.text, r.turn_id, r.time) for r in records[:2]] == [
            ("u", "user", "hi", None, "2025-06-01 10:00:00"),
            ("u", "assistant", "yo", None, "2025-06-01 10:00:00"),
        ]
        assert [getattr(r, "reason", r.seq if isinstance(r, Turn) else 0) for r in records[2:]] == [
            0,
            "no text",
            "not an object",
        ]
    (tmp_path / "z.json").write_text(json.dumps([{"prompt": "p", "completion": "c", "text": "t"}]))
    with pytest.raises(InputError, match="openai and pairs"):
        detect_format(Source(tmp_path / "z.json", "z.json"))

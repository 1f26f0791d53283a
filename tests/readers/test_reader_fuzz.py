"""No input makes a reader raise anything but InputError, and no row is lost."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magma_gpu.errors import InputError
from magma_gpu.readers import FORMATS, Source, detect_format, read_source
from magma_gpu.types import MemoryNote, Question, Reject, Turn

LOOSE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["", " ", "hi", "user", "2024-01-01", "D1:1"])
)
KEYS = st.sampled_from(
    re.findall(
        r"\w+",
        """
        memory_id user_id session_id conversation_id id role speaker from text content message time date seq
        caption messages mapping conversations conversation session_1 session_1_date_time qa question evidence
        question_id haystack_sessions haystack_session_ids haystack_dates type value parts author create_time
        current_node parent children name chats list date_unixtime ts user replies history query response
        """,
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


def storable(records):
    for record in records:
        assert isinstance(record, Turn | Reject | MemoryNote | Question)
        for name in record.__slots__:
            value = getattr(record, name)
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str):
                    text.encode("utf-8")
        if isinstance(record, Turn):
            assert record.text or record.caption
            assert record.memory_id
            assert record.session_id
    return records


def read_any(path, content, format_):
    path.write_bytes(content)
    source = Source(path, path.name)
    try:
        detect_format(source)
    except InputError:
        pass
    try:
        return storable(list(read_source(source, format_, memory_id=None)))
    except InputError:
        return None


@pytest.mark.parametrize("format_", FORMATS)
@LOOSE
@given(content=st.binary(max_size=300))
def test_random_bytes(tmp_path, format_, content):
    read_any(tmp_path / "x", content, format_)


@pytest.mark.parametrize("format_", FORMATS)
@LOOSE
@given(values=st.lists(VALUES, max_size=4), as_lines=st.booleans())
def test_random_json(tmp_path, format_, values, as_lines):
    text = "\n".join(map(json.dumps, values)) if as_lines else json.dumps(values)
    read_any(tmp_path / "x", text.encode("utf-8", "surrogatepass"), format_)


@LOOSE
@given(rows=st.lists(VALUES, max_size=6))
def test_every_line_is_one_record(tmp_path, rows):
    records = read_any(tmp_path / "x", "\n".join(map(json.dumps, rows)).encode(), "jsonl")
    expected = 0
    for row in rows:
        nested = row.get("messages") if isinstance(row, dict) else None
        expected += len(nested) if isinstance(nested, list) else 1
    assert len(records) == expected


@LOOSE
@given(messages=st.lists(VALUES.filter(lambda v: not (isinstance(v, dict) and "messages" in v)), max_size=6))
def test_every_message_is_one_record(tmp_path, messages):
    records = read_any(tmp_path / "x", json.dumps([{"messages": messages}]).encode(), "openai")
    assert len(records) == len(messages)
    records = read_any(tmp_path / "x", json.dumps(messages).encode(), "openai")
    assert len(records) == len(messages)


@LOOSE
@given(sessions=st.lists(st.lists(VALUES, max_size=4), max_size=4))
def test_every_benchmark_turn_is_one_record(tmp_path, sessions):
    num_turns = sum(map(len, sessions))
    haystack = {"question_id": "q", "question": "?", "haystack_sessions": sessions}
    records = read_any(tmp_path / "x", json.dumps([haystack]).encode(), "longmemeval")
    assert sum(isinstance(r, Turn | Reject) for r in records) == num_turns
    conversation = {f"session_{i}": rows for i, rows in enumerate(sessions)}
    records = read_any(tmp_path / "x", json.dumps([{"sample_id": 1, "conversation": conversation}]).encode(), "locomo")
    assert sum(isinstance(r, Turn | Reject) for r in records) == num_turns


@LOOSE
@given(content=st.binary(max_size=200), cut=st.integers(0, 400))
def test_bytes_in_a_parquet_frame(tmp_path, content, cut):
    read_any(tmp_path / "x", b"PAR1" + content + b"PAR1"[: cut % 5], "parquet")


CHAT_PIECES = st.sampled_from(
    [
        "1/2/23, 10:00 - Ana: ", "[13/2/23, 10:00:01 PM] Ana: ", "\u200e", "\u202f", "Ana: ", "[10:01] <ana> ", "=== x",
        "[10:02]  * ana ", "hi", "\n", "\r\n", ",", '"', "text,speaker\n", "--- Day changed Tue Feb 30 2024",
        "99/99/9999, ",
        "\t", "2024-02-05 10:01:00\t", "<attached: x.jpg>",
    ]
)  # fmt: skip


@pytest.mark.parametrize("format_", ["whatsapp", "irc", "csv"])
@LOOSE
@given(pieces=st.lists(CHAT_PIECES | st.text(max_size=5), max_size=20))
def test_random_chats(tmp_path, format_, pieces):
    content = "".join(pieces).encode("utf-8", "surrogatepass")
    records = read_any(tmp_path / "x-2024-01-02.txt", content, format_)
    if format_ == "irc" and records is not None:
        lines = content.decode("utf-8", "replace").split("\n")
        assert len(records) == sum(bool(line.strip()) for line in lines)


def say(number, **more):
    return {"id": f"m{number}", "role": "user", "content": f"text {number}", **more}


WHOLE = {
    "openai": [{"id": c, "messages": [say(i) for i in range(3)]} for c in "ab"],
    "sharegpt": [{"id": c, "conversations": [{"from": "human", "value": f"v{i}"} for i in range(3)]} for c in "ab"],
    "locomo": [
        {
            "sample_id": c,
            "conversation": {
                "session_1_date_time": "1 May 2023",
                "session_1": [{"dia_id": f"D1:{i}", "speaker": "A", "text": f"t{i}"} for i in range(3)],
            },
        }
        for c in "ab"
    ],
    "longmemeval": [
        {
            "question_id": c,
            "question": "?",
            "haystack_session_ids": ["s", "t"],
            "haystack_dates": ["d", "e"],
            "haystack_sessions": [[say(0), say(1)], [say(2, has_answer=True)]],
        }
        for c in "ab"
    ],
    "memorybank": {c: {"history": {"2024-01-01": [{"query": "q", "response": "r"}] * 2}} for c in "ab"},
    "telegram": {
        "chats": {
            "list": [
                {"id": c, "messages": [{"id": i, "type": "message", "date": "d", "text": f"t{i}"} for i in range(3)]}
                for c in (1, 2)
            ]
        }
    },
    "slack": [{"type": "message", "user": "U", "text": f"t{i}", "ts": f"{i}.0"} for i in range(5)],
}


@pytest.mark.parametrize("format_", WHOLE)
def test_a_document_cut_anywhere_yields_whole_turns_only(tmp_path, format_):
    text = json.dumps(WHOLE[format_])
    path = tmp_path / "x"

    def read(content):
        path.write_text(content)
        try:
            return list(read_source(Source(path, "x"), format_, memory_id=None))
        except InputError:
            return []

    whole = [r for r in read(text) if isinstance(r, Turn)]
    assert len(whole) > 4
    most = 0
    for cut in range(1, len(text), 3):
        records = read(text[:cut])
        turns = [r for r in records if isinstance(r, Turn)]
        assert turns == whole[: len(turns)]
        assert sum(isinstance(r, Reject) for r in records) == (1 if records else 0)
        assert len(turns) >= most
        most = len(turns)
    assert most == len(whole)

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
    records = read_any(
        tmp_path / "x", json.dumps([{"sample_id": 1, "conversation": conversation}]).encode(), "locomo"
    )
    assert sum(isinstance(r, Turn | Reject) for r in records) == num_turns


@LOOSE
@given(content=st.binary(max_size=200), cut=st.integers(0, 400))
def test_bytes_in_a_parquet_frame(tmp_path, content, cut):
    read_any(tmp_path / "x", b"PAR1" + content + b"PAR1"[: cut % 5], "parquet")

"""Small valid logs of every form that a reader knows, drawn from a random generator.

Each is a value and a way to write it down, so that a fault can be put into either (broken_logs.py does). Words are
noise of ours. A reader must read every one of these whole.
"""

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = ("Ana", "Wes", "Ines B.", "O'Neill", "José", "王芳", "user", "~ Olu")
WORDS = "the a boat roof visa cake leaked sold found moved because yesterday on 7 May 2023 Dr. Lee? ok 你好 👍".split()
STAMPS: tuple[Any, ...] = (
    "2024-01-01T10:00:00Z",
    "2024-01-02 10:00",
    "1 May 2023",
    1710072000,
    1710072000.5,
    "2 Jan 2024 9:05 PM",
)


@dataclass(frozen=True, slots=True)
class ValidLog:
    """A valid log: a value (None for a text that is no value) and how it is written down."""

    value: Any
    write: Callable[[Any], bytes]
    num_turns: int


def _words(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _ascii_json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _lines(value: Any) -> bytes:
    rows = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _document(value: Any, num_turns: int, rng: random.Random) -> ValidLog:
    return ValidLog(value, rng.choice((_json, _ascii_json)), num_turns)


def _row(rng: random.Random, number: int) -> dict[str, Any]:
    row = {"speaker": rng.choice(NAMES), "text": _words(rng)}
    more = {
        "memory_id": rng.choice(("ana", "wes")),
        "session_id": rng.choice(("s1", "s2", "../s")),
        "turn_id": rng.choice((f"t{number}", number)),
        "time": rng.choice(STAMPS),
        "caption": _words(rng),
        "reply_to": "t0",
        "seq": number,
    }
    return row | {k: v for k, v in more.items() if rng.random() < 0.6}


def _jsonl(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 8)
    return ValidLog([_row(rng, i) for i in range(count)], _lines, count)


def _csv(rng: random.Random) -> ValidLog:
    delimiter = rng.choice(",;\t")
    count = rng.randint(2, 8)

    def write(value: Any) -> bytes:
        rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
        out = io.StringIO()
        columns = ["memory_id", "session_id", "turn_id", "speaker", "text", "time"]
        writer = csv.writer(out, delimiter=delimiter)
        writer.writerow(columns)
        # A row that is no object has no columns; it is left out as a whole.
        writer.writerows([_cell(row.get(c)) for c in columns] for row in rows)
        return out.getvalue().encode("utf-8", "surrogatepass")

    return ValidLog([_row(rng, i) for i in range(count)], write, count)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _parquet(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 8)

    def write(value: Any) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
        columns: dict[str, Any] = {}
        for name in ("memory_id", "session_id", "speaker", "text", "time"):
            cells = [row.get(name) for row in rows]
            try:
                columns[name] = pa.array(cells)
                pq.write_table(pa.table({name: columns[name]}), io.BytesIO())
            except (pa.ArrowException, UnicodeError, OverflowError):
                # Columns of mixed types are no Parquet, nor are objects without a member; as texts they are.
                words = [None if c is None else str(c).encode("utf-8", "replace").decode() for c in cells]
                columns[name] = pa.array(words, pa.string())
        out = io.BytesIO()
        pq.write_table(pa.table(columns), out)
        return out.getvalue()

    return ValidLog([_row(rng, i) for i in range(count)], write, count)


def _message(rng: random.Random, number: int) -> dict[str, Any]:
    content: Any = _words(rng)
    if rng.random() < 0.3:
        content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": {"url": "x"}}]
    return {"id": f"m{number}", "role": rng.choice(("user", "assistant")), "content": content}


def _openai(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 5)
    messages = [_message(rng, i) for i in range(count)]
    if rng.random() < 0.3:
        return _document(messages, count, rng)
    value = [{"id": f"c{c}", "created_at": rng.choice(STAMPS), "messages": messages} for c in range(2)]
    if rng.random() < 0.3:
        return ValidLog(value, _lines, 2 * count)
    return _document(value, 2 * count, rng)


def _pairs(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 5)
    value = [
        {"user_input": _words(rng), "agent_response": _words(rng), "timestamp": rng.choice(STAMPS)}
        for _ in range(count)
    ]
    return ValidLog(value, _lines, 2 * count) if rng.random() < 0.3 else _document(value, 2 * count, rng)


def _chatgpt(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 5)
    value = []
    for c in range(2):
        mapping: dict[str, Any] = {"n0": {"id": "n0", "message": None, "parent": None, "children": ["n1"]}}
        for i in range(1, count + 1):
            message = {
                "id": f"n{i}",
                "author": {"role": rng.choice(("user", "assistant", "tool"))},
                "create_time": rng.choice((1706778000.25 + i, None)),
                "content": {"content_type": "text", "parts": [_words(rng)]},
            }
            children = [f"n{i + 1}"] if i < count else []
            mapping[f"n{i}"] = {"id": f"n{i}", "message": message, "parent": f"n{i - 1}", "children": children}
        value.append(
            {"id": f"c{c}", "title": "T", "create_time": 1.7e9, "current_node": f"n{count}", "mapping": mapping}
        )
    return _document(value, 2 * count, rng)


def _sharegpt(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 5)
    said = [{"from": rng.choice(("human", "gpt")), "value": _words(rng)} for _ in range(count)]
    return _document([{"id": f"c{c}", "conversations": said} for c in range(2)], 2 * count, rng)


def _locomo(rng: random.Random) -> ValidLog:
    count = rng.randint(1, 4)
    samples = []
    for c in range(2):
        conversation: dict[str, Any] = {"speaker_a": "Ana", "speaker_b": "Wes"}
        for s in (1, 2):
            conversation[f"session_{s}_date_time"] = rng.choice(
                ("1:56 pm on 8 May, 2023", "12:09 am on 13 September, 2023")
            )
            conversation[f"session_{s}"] = [
                {"dia_id": f"D{s}:{i}", "speaker": rng.choice(NAMES), "text": _words(rng)} for i in range(1, count + 1)
            ]
        qa = [{"question": "Why?", "answer": rng.choice(("cake", 3)), "evidence": ["D1:1", "D:1:2"], "category": 1}]
        samples.append({"sample_id": f"conv-{c}", "conversation": conversation, "qa": qa})
    return _document(samples, 4 * count, rng)


def _longmemeval(rng: random.Random) -> ValidLog:
    count = rng.randint(1, 4)
    value = [
        {
            "question_id": f"q{c}",
            "question": "When?",
            "answer": "May",
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_session_ids": ["s", "t"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
            "haystack_sessions": [[{"role": "user", "content": _words(rng)} for _ in range(count)] for _ in range(2)],
        }
        for c in range(2)
    ]
    return _document(value, 4 * count, rng)


def _memorybank(rng: random.Random) -> ValidLog:
    count = rng.randint(1, 3)
    days = {"2023-05-01": [{"query": _words(rng), "response": _words(rng)} for _ in range(count)]}
    return _document({name: {"name": name, "history": days} for name in ("Ana", "Wes")}, 4 * count, rng)


def _telegram(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 5)
    messages = [
        {
            "id": i,
            "type": "message",
            "date": "2023-05-01T10:00:00",
            "date_unixtime": str(1682935200 + i),
            "from": rng.choice(NAMES),
            "text": rng.choice((_words(rng), [_words(rng), {"type": "link", "text": "x"}])),
        }
        for i in range(count)
    ]
    if rng.random() < 0.5:
        return _document({"name": "Chat", "type": "personal_chat", "id": 7, "messages": messages}, count, rng)
    chats = [{"name": "Chat", "id": c, "messages": messages} for c in (1, 2)]
    return _document({"chats": {"list": chats}}, 2 * count, rng)


def _slack(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 6)
    return _document(
        [{"type": "message", "user": "U1", "text": _words(rng), "ts": f"{1682935200 + i}.0001"} for i in range(count)],
        count,
        rng,
    )


def _claude(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 5)
    value = []
    for c in range(2):
        messages: list[dict[str, Any]] = [
            {
                "uuid": f"u{i}",
                "sender": rng.choice(("human", "assistant")),
                "text": _words(rng),
                "created_at": STAMPS[0],
            }
            for i in range(count)
        ]
        for i, message in enumerate(messages):
            if rng.random() < 0.5:
                message["content"] = [{"type": "text", "text": _words(rng)}, {"type": "tool_use", "name": "x"}]
            if c:
                message["parent_message_uuid"] = f"u{i - 1}" if i else "00000000-0000-4000-8000-000000000000"
        value.append({"uuid": f"c{c}", "name": "Talk", "created_at": STAMPS[0], "chat_messages": messages})
    return _document(value, 2 * count, rng)


def _discord(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 6)
    messages = [
        {
            "id": str(100 + i),
            "type": rng.choice(("Default", "Reply", "GuildMemberJoin")),
            "timestamp": "2024-03-01T09:00:00.1+00:00",
            "content": _words(rng),
            "author": {"id": "5", "name": rng.choice(NAMES[:4]), "nickname": rng.choice(("Ana", None))},
            "reference": {"messageId": "100"},
            "embeds": [],
        }
        for i in range(count)
    ]
    value = {"guild": {"id": "1", "name": "G"}, "channel": {"id": "77", "name": "general"}, "messages": messages}
    return _document(value, count, rng)


def _instagram(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 6)
    messages = [
        {"sender_name": rng.choice(NAMES[:4]), "timestamp_ms": 1682935200000 - i, "content": "ok " + _words(rng)}
        for i in range(count)
    ]
    return _document({"title": "Chat", "thread_path": "inbox/chat_1", "messages": messages}, count, rng)


def _text(lines: Sequence[str], num_turns: int) -> ValidLog:
    data = ("\n".join(lines) + "\n").encode()
    return ValidLog(None, lambda _: data, num_turns)


def _whatsapp(rng: random.Random) -> ValidLog:
    count = rng.randint(2, 8)
    form = rng.choice(("[{d}/{m}/2023, 9:{t:02d}:01 PM] {who}: {text}", "{d}/{m}/23, 09:{t:02d} - {who}: {text}"))
    lines = [
        form.format(d=13 + i, m=5, t=i, who=NAMES[rng.randrange(5)], text="so " + _words(rng))
        + rng.choice(("", "\nand so on"))
        for i in range(count)
    ]
    return _text(lines, count)


def _irc(rng: random.Random) -> ValidLog:
    count = rng.randint(3, 8)
    return _text([f"[10:{i:02d}] <ana{i % 2}> {_words(rng)}" for i in range(count)], count)


FORMS: dict[str, tuple[str, Callable[[random.Random], ValidLog]]] = {
    "jsonl": (".jsonl", _jsonl),
    "parquet": (".parquet", _parquet),
    "csv": (".csv", _csv),
    "openai": (".json", _openai),
    "pairs": (".json", _pairs),
    "chatgpt": (".json", _chatgpt),
    "claude": (".json", _claude),
    "sharegpt": (".json", _sharegpt),
    "locomo": (".json", _locomo),
    "longmemeval": (".json", _longmemeval),
    "memorybank": (".json", _memorybank),
    "whatsapp": (".txt", _whatsapp),
    "telegram": (".json", _telegram),
    "slack": (".json", _slack),
    "discord": (".json", _discord),
    "instagram": (".json", _instagram),
    "irc": ("-2023-05-01.log", _irc),
}

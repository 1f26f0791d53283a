"""Exports of chat apps with JSON inside: ChatGPT, Claude, ShareGPT, Telegram, Slack, Discord, Instagram, MemoryBank."""

import json
import zipfile
from pathlib import Path

import pytest

from magma_gpu.readers import Source, detect_format, find_sources, read_source
from magma_gpu.types import MemoryNote, Question, Reject, Turn

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


def write(tmp_path, content, name="x.json"):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return tmp_path / name


def texts(records):
    return [getattr(record, "text", None) or record.reason for record in records]


def test_chatgpt_case_of_trees():
    records = read(shared("cases/C03_conversations.json"), "chatgpt")
    assert records[0] == Turn(
        memory_id="C03_conversations",
        session_id="C03_conversations-0",
        turn_id="a",
        speaker=None,
        role="user",
        text="Plan a trip to Bled",
        time=1706778000.25,
        seq=0,
        session_title="T1",
        source="C03_conversations.json",
        line=1,
    )
    assert [(r.turn_id, r.role, r.text, r.time) for r in records[1:3]] == [
        ("c", "assistant", "Take the bus", None),
        ("d", "tool", "no parts key here", 1706778030),
    ]
    assert records[2].speaker == "browser"
    assert [(r.reason, "OLD DRAFT" in r.excerpt) for r in records[3:]] == [
        ("abandoned branch", True),
        ("not a conversation", False),
    ]


def test_chatgpt_example_with_a_branch():
    records = read(shared("data/exports/chatgpt_export_example-conversation.json"), "chatgpt")
    assert [r.turn_id for r in records if isinstance(r, Turn)] == ["msg-2", "msg-3", "msg-4", "msg-6"]
    assert [r.reason for r in records if isinstance(r, Reject)] == ["no text", "abandoned branch"]
    assert {(r.session_id, r.session_time) for r in records if isinstance(r, Turn)} == {("conv-123", 1704067200)}


def node(name, parent, children=(), text=None):
    message = {"author": {"role": "user"}, "content": {"parts": [text or name]}}
    return {"id": name, "parent": parent, "children": list(children), "message": message}


@pytest.mark.parametrize(
    ("current", "path"),
    [("b", ["r", "b"]), (None, ["r", "c"]), ("gone", ["r", "c"]), ("x", ["y", "x"])],
)
def test_chatgpt_current_node_missing_or_in_a_cycle(tmp_path, current, path):
    nodes = [node("r", None, "bc"), node("b", "r"), node("c", "r"), node("x", "y", "y"), node("y", "x", "x")]
    conversation = {"id": "k", "current_node": current, "mapping": {n["id"]: n for n in nodes}}
    records = read(write(tmp_path, [conversation]), "chatgpt")
    assert [r.turn_id for r in records if isinstance(r, Turn)] == path
    assert len(records) == 5


def test_chatgpt_archive_is_one_memory_and_its_other_files_hold_nothing(tmp_path):
    conversation = {"id": "k", "mapping": {"a": node("a", None)}, "current_node": "a"}
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([conversation]))
        archive.writestr("chat.html", "<html>")
        archive.writestr("user.json", '{"id": "u"}')
        archive.writestr("message_feedback.json", '[{"id": "a", "content": "{}"}]')
    sources = find_sources([str(tmp_path / "export.zip")])
    assert [detect_format(source) for source in sources] == ["chatgpt"] * 3
    records = [r for source in sources for r in read_source(source, "chatgpt", memory_id=None)]
    assert [(r.memory_id, r.session_id, r.text) for r in records] == [("conversations", "k", "a")]


def test_chatgpt_numbered_files_are_one_memory(tmp_path):
    conversation = {"id": "k", "mapping": {"a": node("a", None)}, "current_node": "a"}
    path = write(tmp_path, [conversation], "conversations-001.json")
    assert read(path, "chatgpt")[0].memory_id == "conversations"


def test_sharegpt(tmp_path):
    said = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}, {"from": "bard"}, 5]
    records = read(write(tmp_path, [{"id": "i", "conversations": said}, {"conversations": said[:1]}, 7]), "sharegpt")
    assert [(r.memory_id, r.session_id, r.role, r.text, r.line) for r in records if isinstance(r, Turn)] == [
        ("i", "i", "user", "hi", 1),
        ("i", "i", "assistant", "yo", 2),
        ("x", "x-1", "user", "hi", 5),
    ]
    assert [r.reason for r in records if isinstance(r, Reject)] == [
        "no text",
        "not an object",
        "not a conversation",
    ]


def test_sharegpt_file():
    records = read(shared("data/exports/sharegpt_fastchat_dummy_conversation.json"), "sharegpt")
    given = json.loads(shared("data/exports/sharegpt_fastchat_dummy_conversation.json").read_text())
    assert len(records) == sum(len(item["conversations"]) for item in given)
    assert {r.role for r in records} == {"user", "assistant"}
    assert len({r.memory_id for r in records}) == len(given)


@pytest.mark.parametrize("language", ["en", "cn"])
def test_memorybank_files(language):
    path = shared(f"data/memorybank/memory_bank_{language}.json")
    records = read(path, "memorybank")
    turns = [r for r in records if isinstance(r, Turn)]
    users = json.loads(path.read_text(encoding="utf-8"))
    assert [r.memory_id for r in records if isinstance(r, MemoryNote)] == list(users)
    assert len(turns) == 2 * sum(len(day) for user in users.values() for day in user["history"].values())
    first = next(iter(users))
    assert (turns[0].memory_id, turns[0].session_id, turns[0].session_time) == (
        first,
        "2023-04-27",
        "2023-04-27",
    )
    assert [(t.speaker, t.role, t.seq) for t in turns[:2]] == [(first, "user", 0), (None, "assistant", 1)]


def test_memorybank_questions():
    records = read(shared("data/memorybank/probing_questions_en.jsonl"), "memorybank")
    assert len(records) == 100
    assert {type(r) for r in records} == {Question}
    assert (records[0].memory_id, records[0].query_id) == ("Emily", "Emily_0")


def test_memorybank_cut_in_the_second_user(tmp_path):
    bank = {name: {"history": {"2024-01-01": [{"query": "q", "response": "r"}] * 2}} for name in "ab"}
    text = json.dumps(bank)
    records = read(write(tmp_path, text[: text.rindex("query")]), "memorybank")
    assert [(r.memory_id, r.text) for r in records if isinstance(r, Turn)] == [
        *[("a", text) for text in "qrqr"],
        *[("b", text) for text in "qr"],
    ]
    assert [r.reason for r in records if isinstance(r, Reject)] == ["broken JSON"]


TELEGRAM = {
    "name": "Trip",
    "type": "private_group",
    "id": 42,
    "messages": [
        {
            "id": 1,
            "type": "service",
            "date": "2024-01-01T10:00:00",
            "actor": "Ines",
            "action": "create_group",
        },
        {
            "id": 2,
            "type": "message",
            "date": "2024-01-01T10:01:00",
            "date_unixtime": "1704103260",
            "from": "Ines",
            "text": ["see ", {"type": "link", "text": "https://x.org"}, ", ok"],
        },
        {
            "id": 3,
            "type": "message",
            "date": "2024-01-01T10:02:00",
            "from": None,
            "from_id": "user7",
            "reply_to_message_id": 2,
            "text": "yes",
        },
        {
            "id": 4,
            "type": "message",
            "date": "2024-01-01T10:03:00",
            "from": "User",
            "photo": "p.jpg",
            "text": "",
        },
    ],
}


def test_telegram_single_chat(tmp_path):
    records = read(write(tmp_path, TELEGRAM, "result.json"), "telegram")
    assert records[1] == Turn(
        memory_id="42",
        session_id="42",
        turn_id="2",
        speaker="Ines",
        role="other",
        text="see https://x.org, ok",
        time=1704103260,
        seq=0,
        session_title="Trip",
        source="result.json",
        line=2,
    )
    assert (records[2].speaker, records[2].reply_to, records[2].time) == ("user7", "2", "2024-01-01T10:02:00")
    assert [(records[i].reason, records[i].memory_id) for i in (0, 3)] == [
        ("service message", "42"),
        ("no text", "42"),
    ]


def test_telegram_account_has_a_memory_a_chat(tmp_path):
    other = {**TELEGRAM, "id": 43, "messages": TELEGRAM["messages"][2:3]}
    path = write(tmp_path, {"about": "x", "chats": {"about": "y", "list": [TELEGRAM, other]}})
    turns = [r for r in read(path, "telegram") if isinstance(r, Turn)]
    assert [t.memory_id for t in turns] == ["42", "42", "43"]
    turns = [r for r in read(path, "telegram", memory_id="me") if isinstance(r, Turn)]
    assert [(t.memory_id, t.session_id) for t in turns] == [("me", "42"), ("me", "42"), ("me", "43")]


def test_telegram_cut(tmp_path):
    text = json.dumps(TELEGRAM)
    records = read(write(tmp_path, text[: text.index('"yes"')]), "telegram")
    assert texts(records) == ["service message", "see https://x.org, ok", "broken JSON"]
    records = read(write(tmp_path, '{"chats": {"list": [' + text[: text.index('"yes"')]), "telegram")
    assert texts(records) == ["service message", "see https://x.org, ok", "broken JSON"]


@pytest.mark.parametrize("kind", ["single", "batch"])
def test_telegram_targets(kind):
    turns = read(shared(f"data/exports/chat-miner_telegram_test_{kind}_export.json"), "telegram")
    target = json.loads(shared("data/exports/chat-miner_telegram_target.json").read_text())
    assert [(t.speaker, t.text) for t in turns] == [(row["author"], row["message"]) for row in target]
    assert [t.time for t in turns] == [1544006350, 1544006964]


def test_instagram_target():
    turns = read(shared("data/exports/chat-miner_instagram_test_export.json"), "instagram")
    target = json.loads(shared("data/exports/chat-miner_instagram_target.json").read_text())
    assert [(t.speaker, t.text) for t in reversed(turns)] == [(row["author"], row["message"]) for row in target]
    assert [t.time for t in turns] == [1577186580000, 1579294140000]


def test_instagram_order_and_characters(tmp_path):
    def say(name, stamp, **more):
        return {"sender_name": name, "timestamp_ms": stamp, **more}

    chat = {
        "title": "Zo\u00c3\u00ab",
        "thread_path": "inbox/zoe_1",
        "messages": [
            say("Zo\u00c3\u00ab", 3, content="caf\u00c3\u00a9"),
            say("Ana", 2),
            say("Ana", 1, content="\u2019"),
        ],
    }
    first, second, third = read(write(tmp_path, chat), "instagram")
    assert (first.text, first.line, first.memory_id, first.session_title) == (
        "\u2019",
        3,
        "inbox/zoe_1",
        "Zoë",
    )
    assert second.reason == "no text"
    assert (third.speaker, third.text, third.seq) == ("Zoë", "café", 2)


SLACK_TEXT = "hi <@U2> &amp; <@U9|old>, see <https://x.org|docs> <#C1|dev> <!here>"
SLACK_DAY = [
    {"type": "message", "user": "U1", "text": SLACK_TEXT, "ts": "1452837352.000006"},
    {
        "type": "message",
        "user": "U2",
        "text": "in a thread",
        "ts": "1452837359.000007",
        "thread_ts": "1452837352.000006",
    },
    {
        "type": "message",
        "subtype": "channel_join",
        "user": "U2",
        "text": "<@U2> has joined",
        "ts": "1452837360.0",
    },
    {
        "type": "message",
        "subtype": "bot_message",
        "username": "ci",
        "text": "",
        "ts": "1452837361.0",
        "attachments": [{"fallback": "build failed"}],
    },
    {"type": "message", "user": "U1", "text": "", "ts": "1452837362.0", "files": [{"title": "p.png"}]},
]


def test_slack_day(tmp_path):
    users = [
        {"id": "U1", "name": "ana", "profile": {"display_name": ""}},
        {"id": "U2", "real_name": "Ben B"},
        5,
    ]
    write(tmp_path, users, "users.json")
    write(tmp_path, [{"id": "C1", "name": "dev"}], "channels.json")
    write(tmp_path, SLACK_DAY, "dev/2016-01-15.json")
    write(tmp_path, [], "dev/2016-01-16.json")
    sources = find_sources([str(tmp_path)])
    assert [detect_format(source) for source in sources] == ["slack"] * 4
    records = [r for source in sources for r in read_source(source, "slack", memory_id=None)]
    assert records[0] == Turn(
        memory_id="dev",
        session_id="dev/2016-01-15",
        turn_id="1452837352.000006",
        speaker="ana",
        role="other",
        text="hi @Ben B & @old, see docs #dev @here",
        time=1452837352.000006,
        seq=0,
        session_time="2016-01-15",
        session_seq=20160115,
        session_title="dev",
        source="dev/2016-01-15.json",
        line=1,
    )
    assert (records[1].reply_to, records[1].speaker) == ("1452837352.000006", "Ben B")
    assert (records[2].role, records[2].speaker, records[2].text) == ("system", None, "@Ben B has joined")
    assert (records[3].speaker, records[3].text) == ("ci", "build failed")
    assert records[4].reason == "no text"
    assert len(records) == 5


def test_slack_folder_and_archive_are_equal(tmp_path):
    path = shared("data/exports/slack_export_viewer_testarchive.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "folder")
        days = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".json")]
        num_messages = sum(len(json.loads(archive.read(name))) for name in days)
    found = []
    for given in (str(path), str(tmp_path / "folder")):
        sources = find_sources([given])
        assert {detect_format(source) for source in sources} == {"slack"}
        records = [r for source in sources for r in read_source(source, "slack", memory_id=None)]
        found.append([(r.memory_id, r.session_id, r.turn_id, r.speaker, r.role, r.text) for r in records])
    assert found[0] == found[1]
    assert len(found[0]) == num_messages
    assert {row[0] for row in found[0]} == {"enrique", "traveling-sailor"}
    assert not any(row[3] and row[3].startswith("U0") for row in found[0])


def _said(number, sender="human", **more):
    return {"uuid": f"u{number}", "sender": sender, "text": f"text {number}", **more}


def test_claude_export(tmp_path):
    answer = _said(
        2,
        "assistant",
        created_at="2024-05-01T10:00:05Z",
        text="This block is not supported.",
        content=[
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "It is"},
            {"type": "tool_use", "name": "look", "input": {"text": 5}},
            {"type": "text", "text": "raining."},
        ],
    )
    talk = {
        "uuid": "c1",
        "name": "Weather",
        "created_at": "2024-05-01T10:00:00Z",
        "chat_messages": [_said(1), answer, _said(3, text="", content=[]), 5],
    }
    records = read(write(tmp_path, [talk, {"uuid": "c2", "chat_messages": []}, 7], "conversations.json"), "claude")
    assert records[1] == Turn(
        memory_id="conversations",
        session_id="c1",
        turn_id="u2",
        speaker=None,
        role="assistant",
        text="It is\nraining.",
        time="2024-05-01T10:00:05Z",
        seq=1,
        session_time="2024-05-01T10:00:00Z",
        session_title="Weather",
        source="conversations.json",
        line=2,
    )
    assert texts(records) == ["text 1", "It is\nraining.", "no text", "not an object", "not a conversation"]
    assert records[0].role == "user"


@pytest.mark.parametrize(("leaf", "path"), [(None, ["a", "c", "d"]), ("b", ["a", "b"]), ("gone", ["a", "c", "d"])])
def test_claude_branches(tmp_path, leaf, path):
    root = "00000000-0000-4000-8000-000000000000"
    tree = {"a": root, "b": "a", "c": "a", "d": "c"}
    said = [{**_said(0), "uuid": name, "parent_message_uuid": before} for name, before in tree.items()]
    records = read(
        write(tmp_path, {"uuid": "c", "chat_messages": said, "current_leaf_message_uuid": leaf}),
        "claude",
        memory_id="me",
    )
    assert [r.turn_id for r in records if isinstance(r, Turn)] == path
    assert {r.reason for r in records if isinstance(r, Reject)} == {"abandoned branch"}
    assert len(records) == 4
    assert {r.memory_id for r in records} == {"me"}
    # Where the chain breaks off, or runs in a circle, every message counts.
    said[2]["parent_message_uuid"] = "elsewhere" if leaf else "d"
    records = read(write(tmp_path, {"uuid": "c", "chat_messages": said}), "claude")
    assert [r.turn_id for r in records] == ["a", "b", "c", "d"]


def test_claude_archive_and_its_other_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([{"uuid": "c", "chat_messages": [_said(1)]}]))
        archive.writestr("users.json", '[{"uuid": "u", "full_name": "Ana"}]')
        archive.writestr("projects.json", "[]")
    sources = find_sources([str(tmp_path)])
    assert [detect_format(source) for source in sources] == ["claude"] * 3
    assert [r.text for s in sources for r in read_source(s, "claude", memory_id=None)] == ["text 1"]


DISCORD = {
    "guild": {"id": "1", "name": "Boats", "iconUrl": "x"},
    "channel": {"id": "77", "type": "GuildTextChat", "category": "Text", "name": "general", "topic": None},
    "dateRange": {"after": None, "before": None},
    "messages": [
        {
            "id": "100",
            "type": "Default",
            "timestamp": "2024-03-01T09:00:00.123+00:00",
            "timestampEdited": None,
            "content": "Who has the key?",
            "author": {"id": "5", "name": "ana_f", "nickname": "Ana", "isBot": False},
            "attachments": [],
            "embeds": [],
        },
        {
            "id": "101",
            "type": "Reply",
            "timestamp": "2024-03-01T09:01:00+00:00",
            "content": "Me.",
            "author": {"id": "6", "name": "wes"},
            "reference": {"messageId": "100", "channelId": "77", "guildId": "1"},
        },
        {
            "id": "102",
            "type": "GuildMemberJoin",
            "timestamp": "2024-03-01T09:02:00+00:00",
            "content": "Joined the server.",
            "author": {"id": "7", "name": "olu"},
        },
        {
            "id": "103",
            "type": "Default",
            "content": "",
            "author": {"name": "ci"},
            "embeds": [{"title": "Build failed"}],
        },
        {"id": "104", "type": "Default", "content": "", "author": None, "attachments": [{"fileName": "p.png"}]},
        7,
    ],
    "messageCount": 6,
}


def test_discord_channel(tmp_path):
    records = read(write(tmp_path, DISCORD, "Boats - general [77].json"), "discord")
    assert records[1] == Turn(
        memory_id="77",
        session_id="77",
        turn_id="101",
        speaker="wes",
        role="other",
        text="Me.",
        time="2024-03-01T09:01:00+00:00",
        seq=1,
        reply_to="100",
        session_title="Boats / general",
        source="Boats - general [77].json",
        line=2,
    )
    assert texts(records) == [
        "Who has the key?",
        "Me.",
        "Joined the server.",
        "Build failed",
        "no text",
        "not an object",
    ]
    assert [(r.speaker, r.role) for r in records[:4]] == [
        ("Ana", "other"),
        ("wes", "other"),
        (None, "system"),
        ("ci", "other"),
    ]
    assert {r.memory_id for r in read(tmp_path / "Boats - general [77].json", "discord", memory_id="me")} == {"me"}


def test_discord_cut_and_empty(tmp_path):
    text = json.dumps(DISCORD)
    assert texts(read(write(tmp_path, text[: text.index('"Joined')]), "discord")) == [
        "Who has the key?",
        "Me.",
        "broken JSON",
    ]
    assert read(write(tmp_path, {**DISCORD, "messages": []}), "discord") == []
    assert texts(list(read_source(Source(write(tmp_path, [1, {}]), "x.json"), "discord", memory_id=None))) == [
        "not a channel",
        "not a channel",
    ]

"""Reads `slack`: the day files of a Slack export, in its folder or its zip archive.

Memory: the channel (or the memory id given). Session: a day of a channel. Turn: a message, named by its `ts`;
a reply in a thread names the thread's first message in `reply_to`. Joins, topics and the like are turns of
role system. Names come from the `users.json` above the channel's folder. The other files of an export hold no
turns.
"""

import functools
import html
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.json_stream import iter_items
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

_WITHOUT_TURNS = frozenset(
    {
        "users.json",
        "channels.json",
        "groups.json",
        "dms.json",
        "mpims.json",
        "integration_logs.json",
        "org_users.json",
        "canvases.json",
        "lists.json",
        "file_conversations.json",
        "huddle_transcripts.json",
    }
)
_SERVICE = re.compile(
    r"(?:channel|group)_(?:join|leave|topic|purpose|name|archive|unarchive|convert_to_private|posting_permissions)"
    r"|bot_(?:add|remove|enable|disable)|pinned_item|unpinned_item|reminder_add|sh_room_created|tombstone"
)
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_LINK = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")


def looks_like(head: Peek) -> bool:
    """Whether a source is a day of a channel, or lies above the channels of an export."""
    if _is_above(head.source):
        return True
    if head.kind != "json" or not isinstance(head.value, list):
        return False
    if not head.value:
        return bool(_DAY.fullmatch(head.source.stem)) and head.source.beside("../users.json") is not None
    return any(item.get("type") == "message" and isinstance(item.get("ts"), str) for item in head.items)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a day of a channel."""
    if _is_above(source):
        return
    maker = TurnMaker(source, options)
    users = source.beside("../users.json")
    names = _user_names(users, users.path.stat().st_mtime_ns) if users else {}
    inside = source.member or source.path.as_posix()
    channel = clean.clean_id(PurePosixPath(inside).parent.name) or clean.clean_id(source.path.stem)
    day = _DAY.fullmatch(source.stem)
    conversation = Conversation(
        memory_id=options.memory_id or channel,
        session_id=f"{channel}/{clean.clean_id(source.stem)}",
        session_time=source.stem if day else None,
        session_seq=int("".join(day.groups())) if day else 0,
        session_title=channel,
    )
    for number, (_, item) in enumerate(items_of(peek(source), text), 1):
        if isinstance(item, Reject):
            yield item
        else:
            yield maker.turn(_plain_row(item, names), number, conversation)


def _is_above(source: Source) -> bool:
    return PurePosixPath(source.name).name in _WITHOUT_TURNS and source.beside("channels.json") is not None


@functools.lru_cache(maxsize=4)
def _user_names(source: Source, _changed_ns: int) -> dict[str, str]:
    """Returns name by user id; `_changed_ns` tells versions of the file apart."""
    names = {}
    with source.open() as stream, source.open_text(stream) as text:
        for user in iter_items(text):
            if isinstance(user, dict) and isinstance(user.get("id"), str):
                profile = user.get("profile")
                profile = profile if isinstance(profile, dict) else {}
                given = (
                    profile.get("display_name"),
                    user.get("real_name"),
                    profile.get("real_name"),
                    user.get("name"),
                )
                names[user["id"]] = next((n for value in given if (n := clean.name_or_none(value))), user["id"])
    return names


def _plain_row(message: Any, names: dict[str, str]) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(message, dict):
        return message
    thread, stamp = message.get("thread_ts"), message.get("ts")
    subtype = message.get("subtype")
    is_service = isinstance(subtype, str) and bool(_SERVICE.fullmatch(subtype))
    return {
        "turn_id": stamp,
        "speaker": None if is_service else _speaker(message, names),
        "role": "system" if is_service else "other",
        "text": _text(message, names),
        "time": _seconds(stamp),
        "reply_to": thread if thread != stamp else None,
        "caption": _caption(message.get("files")),
    }


def _speaker(message: dict[str, Any], names: dict[str, str]) -> str | None:
    user = message.get("user")
    if isinstance(user, str) and user in names:
        return names[user]
    profile, bot = message.get("user_profile"), message.get("bot_profile")
    given = (
        message.get("username"),
        profile.get("real_name") if isinstance(profile, dict) else None,
        bot.get("name") if isinstance(bot, dict) else None,
        user,
        message.get("bot_id"),
    )
    return next((name for value in given if (name := clean.name_or_none(value))), None)


def _text(message: dict[str, Any], names: dict[str, str]) -> Any:
    text = message.get("text")
    attachments = message.get("attachments")
    if not text and isinstance(attachments, list):
        # What bots post is often in attachments alone.
        found = [a.get("text") or a.get("fallback") for a in attachments if isinstance(a, dict)]
        text = "\n".join(part for part in found if isinstance(part, str))
    if not isinstance(text, str):
        return text

    def plain(match: re.Match[str]) -> str:
        target, label = match[1], match[2]
        if target.startswith("@"):
            return "@" + (names.get(target[1:]) or label or target[1:])
        if target.startswith(("#", "!")):
            return ("#" if target[0] == "#" else "@") + (label or target[1:]).lstrip("@#")
        return label or target

    return html.unescape(_LINK.sub(plain, text))


def _seconds(stamp: Any) -> float | None:
    try:
        return float(stamp) if isinstance(stamp, str) else None
    except ValueError:
        return None


def _caption(files: Any) -> str | None:
    found = [f.get("alt_txt") for f in files if isinstance(f, dict)] if isinstance(files, list) else []
    return "\n".join(text for text in found if isinstance(text, str)) or None

"""Reads `telegram`: `result.json` of Telegram Desktop, of one chat or of a whole account.

Memory: the chat, by its id (names change and repeat), else its name, else the file's name; the memory id
given takes the place of all of them. Session: the chat. Turn: a message. A service message ("... joined the
group") has no text of its own and is a reject. `date_unixtime` is used before `date`, which is the exporter's
local time.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

_CHATS = (("chats", "list"), ("left_chats", "list"))
# Entities that are words of their own, also where the export has no space beside them.
_WORDS = frozenset({"link", "text_link", "mention", "mention_name", "hashtag", "email", "phone", "bot_command"})


def looks_like(head: Peek) -> bool:
    """Whether a source is the export of a chat or an account."""
    value = head.value
    if not isinstance(value, dict):
        return False
    chats = [value]
    for above, below in _CHATS:
        inside = value.get(above)
        found = inside.get(below) if isinstance(inside, dict) else None
        chats += [chat for chat in (found if isinstance(found, list) else ()) if isinstance(chat, dict)]
    return any(_is_chat(chat) for chat in chats)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of one chat after the other."""
    maker = TurnMaker(source, options)
    head = peek(source)
    number = 0
    if isinstance(head.value, dict) and isinstance(head.value.get("messages"), list):
        # The chat's own members stand before its messages, so the messages need not be in memory together.
        conversation = _conversation(maker, head.value)
        for _, item in items_of(head, text, inner=(("messages",),)):
            number += 1
            yield item if isinstance(item, Reject) else _record(maker, item, number, conversation)
        return
    for _, chat in items_of(head, text, inner=_CHATS, turn_depth=2):
        if isinstance(chat, Reject):
            yield chat
        elif not isinstance(chat, dict) or not isinstance(chat.get("messages"), list):
            number += 1
            yield maker.reject("not a chat", chat, number)
        else:
            conversation = _conversation(maker, chat)
            for message in chat["messages"]:
                number += 1
                yield _record(maker, message, number, conversation)


def _is_chat(chat: dict[str, Any]) -> bool:
    messages = chat.get("messages")
    return isinstance(messages, list) and any(
        isinstance(message, dict)
        and message.get("type") in ("message", "service")
        and ("date" in message or "date_unixtime" in message)
        for message in messages
    )


def _conversation(maker: TurnMaker, chat: dict[str, Any]) -> Conversation:
    name = clean.name_or_none(chat.get("name"))
    session_id = clean.id_or_none(chat.get("id")) or name or clean.clean_id(maker.source.stem)
    return Conversation(memory_id=maker.options.memory_id or session_id, session_id=session_id, session_title=name)


def _record(maker: TurnMaker, message: Any, number: int, conversation: Conversation) -> Record:
    if not isinstance(message, dict):
        return maker.turn(message, number, conversation)
    if message.get("type") == "service":
        return maker.reject("service message", message, number, conversation.memory_id)
    stamp = message.get("date_unixtime")
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdigit() and len(stamp) < 19:
        stamp = int(stamp)
    row = {
        "turn_id": message.get("id"),
        "speaker": message.get("from") or message.get("from_id") or message.get("author"),
        # A name that happens to be a word for a role is still a name here.
        "role": "other",
        "text": _text(message.get("text")),
        "time": message.get("date") if stamp is None else stamp,
        "reply_to": message.get("reply_to_message_id"),
    }
    return maker.turn(row, number, conversation)


def _text(value: Any) -> Any:
    """Returns a text that is given as pieces of formatting as one string."""
    if not isinstance(value, list):
        return value
    joined = ""
    before: Any = None
    for piece in value:
        text = piece.get("text") if isinstance(piece, dict) else piece
        if not isinstance(text, str):
            continue
        touching = bool(joined) and not joined[-1].isspace() and bool(text) and not text[0].isspace()
        if touching and isinstance(before, dict) and isinstance(piece, dict):
            kinds = {kind for kind in (before.get("type"), piece.get("type")) if isinstance(kind, str)}
            joined += " " if kinds & _WORDS else ""
        joined += text
        before = piece
    return joined

"""Reads `discord`: one channel as DiscordChatExporter writes it in JSON.

Memory and session: the channel, by its id (names change), else the file's name; the memory id given takes the
place of the memory. Turn: a message; what a bot posts as an embed is its text. Joins, pins and calls are turns
of role system. The parts of a channel that was exported in several files come together by its id.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

# Types of messages that somebody has written; all others the app reports.
_WRITTEN = frozenset({"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "0", "19", "20", "23"})


def looks_like(head: Peek) -> bool:
    """Whether a source is the export of a channel."""
    value = head.value
    if not isinstance(value, dict) or not isinstance(value.get("channel"), dict):
        return False
    messages = value.get("messages")
    if not isinstance(messages, list):
        return False
    return any(isinstance(m, dict) and isinstance(m.get("author"), dict) for m in messages) or (
        not messages and isinstance(value.get("guild"), dict)
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a channel, in the order of the file."""
    maker = TurnMaker(source, options)
    head = peek(source)
    # The channel stands before its messages, so the messages need not be in memory together.
    conversation = _conversation(maker, head.value)
    is_export = isinstance(head.value, dict) and isinstance(head.value.get("messages"), list)
    for number, (_, item) in enumerate(items_of(head, text, inner=(("messages",),)), 1):
        if isinstance(item, Reject):
            yield item
        elif is_export:
            yield maker.turn(_plain_row(item), number, conversation)
        else:
            yield maker.reject("not a channel", item, number)


def _conversation(maker: TurnMaker, value: Any) -> Conversation:
    channel, guild = (value.get(key) if isinstance(value, dict) else None for key in ("channel", "guild"))
    channel = channel if isinstance(channel, dict) else {}
    guild = guild if isinstance(guild, dict) else {}
    name = clean.name_or_none(channel.get("name"))
    session_id = clean.id_or_none(channel.get("id")) or name or clean.clean_id(maker.source.stem)
    titles = [title for title in (clean.name_or_none(guild.get("name")), name) if title]
    return Conversation(
        memory_id=maker.options.memory_id or session_id,
        session_id=session_id,
        session_title=" / ".join(titles) or None,
    )


def _plain_row(message: Any) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(message, dict):
        return message
    author, reference = message.get("author"), message.get("reference")
    author = author if isinstance(author, dict) else {"name": author}
    kind = clean.id_or_none(message.get("type"))
    is_written = kind is None or kind in _WRITTEN
    return {
        "turn_id": message.get("id"),
        "speaker": (author.get("nickname") or author.get("name") or author.get("id")) if is_written else None,
        "role": "other" if is_written else "system",
        "text": _text(message),
        "time": message.get("timestamp"),
        "reply_to": reference.get("messageId") if isinstance(reference, dict) else None,
    }


def _text(message: dict[str, Any]) -> Any:
    text, embeds = message.get("content"), message.get("embeds")
    if text or not isinstance(embeds, list):
        return text
    found = [e.get(key) for e in embeds if isinstance(e, dict) for key in ("title", "description")]
    return "\n".join(part for part in found if isinstance(part, str) and part)

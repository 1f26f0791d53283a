"""Reads `instagram`: `message_N.json` of an Instagram or Facebook Messenger export.

Memory: the chat, by its `thread_path`, else its title, else the file's name; the memory id given takes the
place of all of them. Session: the chat. Turn: a message. The export stands newest first and is put in order;
its texts are UTF-8 bytes written as Latin-1 characters and are put right.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject


def looks_like(head: Peek) -> bool:
    """Whether a source has messages with a `sender_name` and `timestamp_ms`."""
    messages = head.value.get("messages") if isinstance(head.value, dict) else None
    return isinstance(messages, list) and any(
        isinstance(message, dict) and "sender_name" in message and "timestamp_ms" in message for message in messages
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a chat, oldest first."""
    maker = TurnMaker(source, options)
    number = 0
    for _, chat in items_of(peek(source), text, turn_depth=2):
        if isinstance(chat, Reject):
            yield chat
            continue
        messages = chat.get("messages") if isinstance(chat, dict) else None
        if not isinstance(messages, list):
            number += 1
            yield maker.reject("not a chat", chat, number)
            continue
        title = clean.name_or_none(_repaired(chat.get("title")))
        session_id = clean.id_or_none(chat.get("thread_path")) or title or clean.clean_id(source.stem)
        conversation = Conversation(
            memory_id=options.memory_id or session_id, session_id=session_id, session_title=title
        )
        numbered = list(enumerate(messages, number + 1))
        number += len(messages)
        for line, message in reversed(numbered) if _is_newest_first(messages) else numbered:
            yield maker.turn(_plain_row(message), line, conversation)


def _is_newest_first(messages: list[Any]) -> bool:
    stamps = [m.get("timestamp_ms") for m in messages if isinstance(m, dict)]
    known = [stamp for stamp in stamps if isinstance(stamp, int | float)]
    return bool(known) and known[0] > known[-1]


def _plain_row(message: Any) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(message, dict):
        return message
    return {
        "speaker": _repaired(message.get("sender_name")),
        "role": "other",
        "text": _repaired(message.get("content")),
        "time": message.get("timestamp_ms"),
    }


def _repaired(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text

"""Reads `sharegpt`: conversations with a list `conversations` of messages `from` and `value`.

A source is a list of such objects, one object, or one a line. Memory: the object's `memory_id`, else the
memory id given, else the object's `id`, else the file's name. Session: an object. Turn: a message.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers.documents import items_of
from magma_gpu.readers.openai import read_conversation
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

_ROLES = {"observation": "tool", "function_call": "assistant", "bing": "assistant", "bard": "assistant"}


def looks_like(head: Peek) -> bool:
    """Whether the items of a source have `conversations` of `from` and `value`."""
    return any(
        isinstance(message, dict) and "from" in message and "value" in message
        for item in head.items
        for message in _messages(item)
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a source, in its order."""
    maker = TurnMaker(source, options)
    number, index = 0, 0
    for line, item in items_of(peek(source), text, turn_depth=2):
        if isinstance(item, Reject):
            yield item
        elif not isinstance(item, dict) or not isinstance(item.get("conversations"), list):
            number += 1
            yield maker.reject("not a conversation", item, line or number)
        else:
            messages = [_plain_row(message) for message in item["conversations"]]
            records = read_conversation(maker, {**item, "messages": messages}, index, line=line, number=number)
            number += len(messages)
            index += 1
            yield from records


def _messages(item: dict[str, Any]) -> list[Any]:
    found = item.get("conversations")
    return found if isinstance(found, list) else []


def _plain_row(message: Any) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(message, dict):
        return message
    role = message.get("from", message.get("role"))
    return {
        "role": _ROLES.get(role, role) if isinstance(role, str) else None,
        "text": message.get("value", message.get("content")),
        "turn_id": message.get("id"),
        "time": message.get("timestamp"),
    }

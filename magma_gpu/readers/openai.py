"""Reads `openai`: conversations as chat APIs take them, with `messages` of `role` and `content`.

A source is a list of messages (one session, named by the file), an object with `messages`, a list of such
objects, one such object a line, or an object whose `sessions` are such objects of one memory. Memory: the
object's `memory_id`, else the memory id given, else the conversation's own id, else the file's name. Session:
the conversation. Turn: a message; one that only calls tools has no text and is rejected.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.clean import UnusableError
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ALIASES, Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

_IDS = ("id", "conversation_id", "session_id")
_TIMES = ("session_time", "session_date", "create_time", "created_at", "timestamp", "time", "date")
_TITLES = ("session_title", "title")


def looks_like(head: Peek) -> bool:
    """Whether a source holds conversations with `messages`, or one list of messages."""
    return any(map(_is_conversation, [*head.items, *_sessions(head)])) or (
        head.kind == "json" and isinstance(head.value, list) and any(map(_is_bare_message, head.items))
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a source, in its order."""
    maker = TurnMaker(source, options)
    number, index = 0, 0
    head = peek(source)
    is_one_memory = any(map(_is_conversation, _sessions(head)))
    inner = (("sessions",),) if is_one_memory else ()
    for line, item in items_of(head, text, inner=inner, turn_depth=2 if "messages" in head.first else None):
        if isinstance(item, dict) and is_one_memory:
            item = {"memory_id": _memory_of(maker, head.first), **item}
        if isinstance(item, Reject):
            yield item
        elif isinstance(item, dict) and "messages" in item:
            records = list(read_conversation(maker, item, index, line=line, number=number))
            number += len(records)
            index += 1
            yield from records
        else:
            number += 1
            yield maker.turn(item, line or number)


def read_conversation(
    maker: TurnMaker, item: dict[str, Any], index: int, *, line: int | None = None, number: int = 0
) -> Iterator[Record]:
    """Yields the turns and rejects of one conversation.

    Args:
        maker: makes the turns of its source.
        item: an object with `messages`.
        index: its place among the conversations of the source, from 0; names one without an id.
        line: the line it stands on, for sources of lines.
        number: messages of the source before it.
    """
    messages = item["messages"]
    if not isinstance(messages, list):
        yield maker.reject("not a conversation", item, line or number + 1)
        return
    try:
        own_id = next((item[key] for key in _IDS if not clean.is_missing(item.get(key))), None)
        conversation = Conversation(
            memory_id=maker.memory_id(item, own_id),
            session_id=clean.clean_id(f"{maker.source.stem}-{index}") if own_id is None else clean.id_text(own_id),
            session_time=next((t for key in _TIMES if (t := clean.raw_time(item.get(key))) is not None), None),
            session_title=next((t for key in _TITLES if (t := clean.name_or_none(item.get(key)))), None),
        )
    except UnusableError as error:
        for offset, message in enumerate(messages, 1):
            yield maker.reject(str(error), message, line or number + offset)
        return
    for offset, message in enumerate(messages, 1):
        yield maker.turn(message, line or number + offset, conversation)


def _sessions(head: Peek) -> list[Any]:
    """The items of an object's `sessions`, as far as they were looked at."""
    found = head.value.get("sessions") if head.kind == "json" and isinstance(head.value, dict) else None
    return found if isinstance(found, list) else []


def _memory_of(maker: TurnMaker, above: dict[str, Any]) -> str:
    try:
        return maker.memory_id(above)
    except UnusableError:
        return clean.clean_id(maker.source.stem)


def _is_conversation(item: Any) -> bool:
    messages = item.get("messages") if isinstance(item, dict) else None
    return isinstance(messages, list) and _is_message((messages or [{"role": ""}])[0])


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and ("role" in value or any(name in value for name in ALIASES["text"]))


def _is_bare_message(item: dict[str, Any]) -> bool:
    return isinstance(item.get("role"), str) or isinstance(
        next((item[name] for name in ALIASES["text"] if name in item), None), str
    )

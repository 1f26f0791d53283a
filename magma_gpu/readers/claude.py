"""Reads `claude`: the conversations of a Claude data export (`conversations.json`, alone or in its archive).

Memory: the file (or the memory id given). Session: a conversation with its name and creation time. Turn: a
message on the active path; messages of abandoned branches are rejects. The text is that of the content's text
parts: thoughts and calls of tools are left out. The other files of an export hold no turns.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

_WITHOUT_TURNS = frozenset({"users.json", "projects.json", "memories.json"})
# What the first message names as the one before it.
_ROOT = "00000000-0000-4000-8000-000000000000"


def looks_like(head: Peek) -> bool:
    """Whether a source holds conversations with `chat_messages`, or lies beside one in an export."""
    return any(isinstance(item.get("chat_messages"), list) for item in head.items) or _is_beside(head.source)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns of one conversation after the other, then its abandoned messages as rejects."""
    if _is_beside(source):
        return
    maker = TurnMaker(source, options)
    number = 0
    for index, (line, item) in enumerate(items_of(peek(source), text, turn_depth=2)):
        if isinstance(item, Reject):
            yield item
        elif not isinstance(item, dict) or not isinstance(item.get("chat_messages"), list):
            number += 1
            yield maker.reject("not a conversation", item, line or number)
        else:
            yield from _read_conversation(maker, item, index, number)
            number += len(item["chat_messages"])


def _is_beside(source: Source) -> bool:
    name = PurePosixPath(source.name).name
    if name not in _WITHOUT_TURNS or source.beside("channels.json") is not None:
        return False
    return source.beside("conversations.json") is not None


def _read_conversation(maker: TurnMaker, item: dict[str, Any], index: int, number: int) -> Iterator[Record]:
    stem = clean.clean_id(maker.source.stem)
    conversation = Conversation(
        memory_id=maker.options.memory_id or stem,
        session_id=clean.id_or_none(item.get("uuid")) or f"{stem}-{index}",
        session_time=clean.raw_time(item.get("created_at")),
        session_title=clean.name_or_none(item.get("name")),
    )
    messages = item["chat_messages"]
    active = _active(messages, item.get("current_leaf_message_uuid"))
    for place in active:
        yield maker.turn(_plain_row(messages[place]), number + place + 1, conversation)
    for place in sorted(set(range(len(messages))) - set(active)):
        said = messages[place].get("text") if isinstance(messages[place], dict) else messages[place]
        yield maker.reject("abandoned branch", said, number + place + 1, conversation.memory_id)


def _active(messages: list[Any], leaf: Any) -> list[int]:
    """Places of the messages from the root to the leaf; of all messages where they are no tree."""
    places = {m["uuid"]: n for n, m in enumerate(messages) if isinstance(m, dict) and isinstance(m.get("uuid"), str)}
    at = places.get(leaf) if isinstance(leaf, str) else None
    at = len(messages) - 1 if at is None else at
    path: dict[int, None] = {}
    while at >= 0 and at not in path:
        path[at] = None
        message = messages[at]
        parent = message.get("parent_message_uuid") if isinstance(message, dict) else None
        if parent == _ROOT:
            return list(reversed(path))
        # A chain that breaks off tells nothing of what lies outside of it.
        at = places.get(parent, -1) if isinstance(parent, str) else -1
    return list(range(len(messages)))


def _plain_row(message: Any) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(message, dict):
        return message
    parts = message.get("content")
    try:
        has_text = isinstance(parts, list) and not clean.is_blank(clean.content_text(parts)[0])
    except clean.UnusableError:
        has_text = False
    return {
        "turn_id": message.get("uuid"),
        "role": message.get("sender"),
        "text": parts if has_text else message.get("text"),
        "time": message.get("created_at"),
    }

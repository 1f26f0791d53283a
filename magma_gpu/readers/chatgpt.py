"""Reads `chatgpt`: the conversations of a ChatGPT data export (`conversations.json`, alone or in its
archive).

Memory: the file (or the memory id given). Session: a conversation with its title and creation time. Turn: a
message on the active path, from `current_node` back to the root. A conversation is a tree: messages on
abandoned branches (regenerated answers, edited prompts) are rejects, and nodes without a message are nothing.
The other files of an export hold no turns.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

_PART_OF_EXPORT = re.compile(r"conversations[-_]\d+")
_WITHOUT_TURNS = frozenset(
    {
        "user.json",
        "user_settings.json",
        "message_feedback.json",
        "model_comparisons.json",
        "shared_conversations.json",
        "export_manifest.json",
        "group_chats.json",
        "sora.json",
        "shopping.json",
    }
)


def looks_like(head: Peek) -> bool:
    """Whether a source holds trees of messages, or lies beside one in an export."""
    has_trees = head.kind == "json" and any(isinstance(item.get("mapping"), dict) for item in head.items)
    return has_trees or _is_beside(head.source)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns of one conversation after the other, then its abandoned messages as rejects."""
    if _is_beside(source):
        return
    maker = TurnMaker(source, options)
    number = 0
    for index, (_, item) in enumerate(items_of(peek(source), text, turn_depth=2)):
        if isinstance(item, Reject):
            yield item
        elif not isinstance(item, dict) or not isinstance(item.get("mapping"), dict):
            number += 1
            yield maker.reject("not a conversation", item, number)
        else:
            records = list(_read_conversation(maker, item, index, number))
            number += len(records)
            yield from records


def _is_beside(source: Source) -> bool:
    name = PurePosixPath(source.name).name
    return name in _WITHOUT_TURNS and source.beside("conversations.json") is not None


def _read_conversation(maker: TurnMaker, item: dict[str, Any], index: int, number: int) -> Iterator[Record]:
    stem = clean.clean_id(maker.source.stem)
    stem = "conversations" if _PART_OF_EXPORT.fullmatch(stem) else stem
    own_id = next((i for key in ("conversation_id", "id") if (i := clean.id_or_none(item.get(key)))), None)
    conversation = Conversation(
        memory_id=maker.options.memory_id or stem,
        session_id=own_id or f"{stem}-{index}",
        session_time=clean.raw_time(item.get("create_time")),
        session_title=clean.name_or_none(item.get("title")),
    )
    mapping: dict[str, Any] = item["mapping"]
    path = _active_path(mapping, item.get("current_node"))
    for name in path:
        message = _message(mapping[name])
        if message is not None:
            number += 1
            yield maker.turn(_plain_row(message, name), number, conversation)
    abandoned = mapping.keys() - set(path)
    for name, node in mapping.items():
        if name in abandoned and (message := _message(node)) is not None:
            number += 1
            said = message.get("content") if isinstance(message, dict) else message
            yield maker.reject("abandoned branch", said, number, conversation.memory_id)


def _message(node: Any) -> Any:
    return node.get("message") if isinstance(node, dict) else node


def _active_path(mapping: dict[str, Any], current: Any) -> list[str]:
    """Returns the names of the nodes from the root to the current one."""
    if not isinstance(current, str) or current not in mapping:
        current = _last_leaf(mapping)
    path: dict[str, None] = {}
    while isinstance(current, str) and current in mapping and current not in path:
        path[current] = None
        node = mapping[current]
        current = node.get("parent") if isinstance(node, dict) else None
    return list(reversed(path))


def _last_leaf(mapping: dict[str, Any]) -> str | None:
    """Returns where the last children lead from the first root: what a reader of the chat would see."""
    nodes = {name: node for name, node in mapping.items() if isinstance(node, dict)}
    name = next((name for name, node in nodes.items() if not _is_below(node.get("parent"), nodes)), None)
    seen = set()
    while name is not None and name not in seen:
        seen.add(name)
        children = nodes[name].get("children")
        children = children if isinstance(children, list) else []
        following = [child for child in children if isinstance(child, str) and child in nodes]
        if not following:
            break
        name = following[-1]
    return name


def _is_below(parent: Any, nodes: dict[str, Any]) -> bool:
    # What stands for a name may be anything, and a list cannot be looked up.
    return isinstance(parent, str) and parent in nodes


def _plain_row(message: Any, name: str) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(message, dict):
        return message
    author = message.get("author")
    author = author if isinstance(author, dict) else {"role": author}
    return {
        "turn_id": message.get("id") or name,
        "role": author.get("role"),
        "speaker": author.get("name"),
        "text": message.get("content"),
        "time": message.get("create_time"),
    }

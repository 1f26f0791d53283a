"""Reads `pairs`: rows that hold what was asked and what was answered, as programs keep them that talk to a model.

Memory: the row's `memory_id`, else the memory id given, else `conversation_id`, else the file's name. Session:
`session_id`, else one a file. Turns: two a row, of roles user and assistant, both at the row's time. A source is a
list of rows, or one row a line.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ReadOptions, TurnMaker
from magma_gpu.types import Record, Reject

# What was asked, and what was answered. Names that also serve other purposes are none of these.
_PAIRS = (
    ("user_input", "agent_response"),
    ("user_input", "assistant_response"),
    ("user_message", "assistant_message"),
    ("prompt", "completion"),
    ("user", "assistant"),
)


def looks_like(head: Peek) -> bool:
    """Whether the first rows hold a pair of texts."""
    return any(
        isinstance(item.get(asked), str) and isinstance(item.get(answered), str)
        for item in head.items
        for asked, answered in _PAIRS
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the two turns or rejects of one row after the other."""
    maker = TurnMaker(source, options)
    number = 0
    for line, item in items_of(peek(source), text):
        if isinstance(item, Reject):
            yield item
            continue
        for row in _plain_rows(item):
            number += 1
            yield maker.turn(row, line or number)


def _plain_rows(item: Any) -> list[Any]:
    """Returns what was asked and what was answered under the names that turns are read by."""
    pair = next((p for p in _PAIRS if isinstance(item, dict) and (p[0] in item or p[1] in item)), None)
    if pair is None:
        return [item]
    # An id of the row would be the id of two turns.
    row = {key: value for key, value in item.items() if key not in ("id", "message_id", "turn_id", "role", "text")}
    return [{**row, "role": role, "text": item.get(key)} for role, key in zip(("user", "assistant"), pair, strict=True)]

"""Reads `jsonl`: one turn a line, or one conversation a line where a row has a list of `messages`.

Memory: `memory_id`, else the memory id given, else `conversation_id`, else the file's name. Session:
`session_id`, else one a file. Turn: a line. Blank lines are no turns; a line that cannot be read is one
reject, and the next line goes on.
"""

from collections.abc import Iterator
from typing import TextIO

from magma_gpu.readers.lines import numbered_lines, parse_line
from magma_gpu.readers.openai import read_conversation
from magma_gpu.readers.peek import Peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ALIASES, ReadOptions, TurnMaker
from magma_gpu.types import Record


def looks_like(head: Peek) -> bool:
    """Whether a source is lines of turns."""
    is_one_line = isinstance(head.value, dict) and sum(bool(line.strip()) for line in head.lines) == 1
    return (
        (head.kind == "lines" or is_one_line)
        and not isinstance(head.first.get("messages"), list)
        and any(name in row for row in head.items for name in ALIASES["text"])
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a source, in its order."""
    maker = TurnMaker(source, options)
    num_conversations = 0
    for line in numbered_lines(text):
        if line.is_too_long:
            yield maker.reject("line too long", line.text, line.number)
            continue
        if not line.text.strip():
            continue
        row, reason = parse_line(line.text)
        if reason:
            yield maker.reject(reason, line.text, line.number)
        elif isinstance(row, dict) and isinstance(row.get("messages"), list):
            yield from read_conversation(maker, row, num_conversations, line=line.number)
            num_conversations += 1
        else:
            yield maker.turn(row, line.number)

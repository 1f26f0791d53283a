"""Gives the items of a JSON source, whether they stand in one document or one a line.

It makes rejects of what cannot be read, and an error of a source in which nothing can.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.errors import InputError
from magma_gpu.readers.clean import excerpt, shown
from magma_gpu.readers.json_stream import Broken, Paths, iter_items
from magma_gpu.readers.lines import numbered_lines, parse_line
from magma_gpu.readers.peek import Peek
from magma_gpu.readers.source import Source
from magma_gpu.types import Reject


def items_of(
    head: Peek, text: TextIO, *, inner: Paths = (), members: bool = False, turn_depth: int | None = None
) -> Iterator[tuple[int | None, Any]]:
    """Yields (line, item): the line where items stand one a line, else None; the item is a value or a Reject.

    Args:
        head: the beginning of the source.
        text: the content of the source from its start.
        inner: see `iter_items`.
        members: see `iter_items`.
        turn_depth: see `iter_items`.

    Raises:
        InputError: it is not JSON, and no item came before the place where that shows.
    """
    source = head.source
    if head.kind == "lines":
        for line in numbered_lines(text):
            if line.is_too_long:
                yield line.number, _reject(source, line.number, "line too long", line.text)
            elif line.text.strip():
                value, reason = parse_line(line.text)
                yield line.number, _reject(source, line.number, reason, line.text) if reason else value
        return
    # Elsewhere an object is an item as a whole, and can be saved where the file is cut.
    inner = tuple(path for path in inner if isinstance(_at(head.value, path), list))
    is_first = True
    for item in iter_items(text, inner, members=members, turn_depth=turn_depth):
        if isinstance(item, Broken):
            if is_first and item.is_rest:
                raise InputError(
                    f"'{source.name}' is not JSON at line {item.line} (got '{shown(item.excerpt, 40)}'); "
                    "give the complete file, or name its format with --format."
                )
            yield None, _reject(source, item.line, item.reason, item.excerpt)
        else:
            yield None, item
        is_first = False


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _reject(source: Source, line: int, reason: str, text: str) -> Reject:
    return Reject(source=source.name, line=line, memory_id=None, reason=reason, excerpt=excerpt(text))

"""Looks at the beginning of a source, so that its format can be told by what it says.

It reads at most HEAD_BYTES and names no format (detect.py does). The head of a JSON document that goes on
behind it is closed after its last whole member, so `value` is often incomplete.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from magma_gpu.readers.json_stream import head_value
from magma_gpu.readers.source import Source

HEAD_BYTES = 1 << 20
# Lines and rows that are looked at.
_MAX_LINES = 200
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Peek:
    """The beginning of a source.

    Attributes:
        source: whose beginning it is.
        kind: "parquet", "json" (one document or several), "lines" (a JSON object a line) or "text".
        value: the first JSON document as far as it was read; None for other kinds.
        rows: the objects on the first lines; empty for other kinds than "lines".
        lines: the first lines without their ends, blank ones included.
    """

    source: Source
    kind: str
    value: Any
    rows: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]

    @property
    def items(self) -> tuple[dict[str, Any], ...]:
        """The objects among the first items: rows, elements of the array, or the one object."""
        if self.kind == "lines":
            return self.rows
        found = self.value if isinstance(self.value, list) else [self.value]
        return tuple(item for item in found if isinstance(item, dict))

    @property
    def first(self) -> dict[str, Any]:
        """The first object among the items; an empty one where there is none."""
        return next(iter(self.items), {})


def peek(source: Source) -> Peek:
    """Reads the beginning of a source.

    Raises:
        InputError: it cannot be opened.
    """
    with source.open() as stream:
        text_stream = source.open_text(stream)
        text = text_stream.read(HEAD_BYTES)
        text_stream.close()
    if text.startswith("PAR1"):
        return Peek(source, "parquet", None, (), ())
    is_whole = len(text) < HEAD_BYTES
    lines = text.split("\n", _MAX_LINES)
    lines = [line.rstrip("\r") for line in (lines if is_whole and len(lines) <= _MAX_LINES else lines[:-1])]
    kind, value, rows = "text", None, []
    if _is_lines(text, lines):
        kind = "lines"
        rows = [row for line in lines if isinstance(row := _parse(line), dict)]
    elif re.match(r"\s*[\[{]", text):
        value = head_value(text)
        kind = "text" if value is None else "json"
    return Peek(source, kind, value, tuple(rows), tuple(lines))


def _is_lines(text: str, lines: list[str]) -> bool:
    filled = [line for line in lines if line.strip()]
    # A single line is read as a document: it may well be one.
    if len(filled) < 2 or not any(line.lstrip().startswith("{") for line in filled):
        return False
    if isinstance(_parse(filled[0]), dict):
        return True
    # The first row may be broken: then most lines are rows, and together they are no document.
    num_rows = sum(isinstance(_parse(line), dict) for line in filled)
    return 2 * num_rows >= len(filled) and head_value(text) is None


def _parse(line: str) -> Any:
    try:
        return _DECODER.decode(line.strip())
    except (ValueError, RecursionError):
        return None

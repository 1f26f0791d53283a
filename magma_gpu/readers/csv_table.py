"""Reads `csv`: a table with a header line, one turn a row, with the fields of `jsonl`.

Memory, session and turn are those of `jsonl`. Commas, semicolons and tabs are told by the header line. Names
of columns are compared without regard to case; an empty cell is a missing one.
"""

import csv
from collections.abc import Iterator
from typing import TextIO

from magma_gpu.errors import InputError
from magma_gpu.readers.clean import shown
from magma_gpu.readers.lines import MAX_LINE_CHARS
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ALIASES, ReadOptions, TurnMaker
from magma_gpu.types import Record

_DELIMITERS = (",", ";", "\t")
# A header of a line that is longer is none.
_HEADER_CHARS = 10_000


def looks_like(head: Peek) -> bool:
    """Whether the first line names a column of texts and at least one more that means something."""
    names = _header(head)[1]
    known = {field for field, columns in ALIASES.items() if any(column in names for column in columns)}
    return head.kind == "text" and "text" in known and len(known) > 1


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a table, in its order.

    Raises:
        InputError: it has no column of texts.
    """
    maker = TurnMaker(source, options)
    delimiter, names = _header(peek(source))
    # Columns that the user names are found as written there, in any case.
    wanted = {name.lower(): name for name in maker.columns}
    names = [wanted.get(name, name) for name in names]
    if not any(name in names for name in maker.text_columns):
        raise InputError(
            f"'{source.name}' has no column named {', '.join(maker.text_columns)} "
            f"(got {shown(', '.join(names), 200)}); rename the column that holds the texts."
        )
    # The limit is the process's, and its default is below the length of long messages.
    csv.field_size_limit(MAX_LINE_CHARS)
    rows = csv.reader(_Lines(text), delimiter=delimiter)
    is_header = True
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield maker.reject("broken CSV", str(error), line)
            continue
        if is_header or not cells:
            is_header = is_header and not cells
            continue
        row = {name: _value(name, cell, maker) for name, cell in zip(names, cells, strict=False) if cell}
        yield maker.turn(row, line)


def _header(head: Peek) -> tuple[str, list[str]]:
    first = next((line for line in head.lines if line.strip()), "")[:_HEADER_CHARS].removeprefix("\ufeff")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        cells = next(csv.reader([first], delimiter=delimiter), [])
    except csv.Error:
        cells = []
    return delimiter, [cell.strip().lower() for cell in cells]


class _Lines:
    """The lines of a text; one that is too long is an error, after which the next one follows."""

    def __init__(self, text: TextIO) -> None:
        self._text = text

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._text.readline(MAX_LINE_CHARS + 1)
        if len(line) <= MAX_LINE_CHARS:
            if not line:
                raise StopIteration
            return line
        while line and not line.endswith("\n"):
            line = self._text.readline(1 << 20)
        raise csv.Error("line too long")


def _value(name: str, cell: str, maker: TurnMaker) -> str | int:
    if maker.is_number(name):
        try:
            return int(cell)
        except ValueError:
            return cell
    return cell

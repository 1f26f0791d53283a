"""Reads `csv`: a table with a header line, one turn a row, with the fields of `jsonl`.

Memory, session and turn are those of `jsonl`. Commas, semicolons and tabs are told by the header line. Names
of columns are compared without regard to case; an empty cell is a missing one. A quote that is never closed,
or that only the next quoted cell closes, would swallow rows: its line is a reject, and the lines after it are
read again as rows.
"""

import csv
from collections import deque
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
# Lines that a quote has swallowed are read again; beyond this many characters of a file they are rejects at once.
_MAX_AGAIN_CHARS = 1 << 28


def looks_like(head: Peek) -> bool:
    """Whether the first line names a column of texts and at least one more that means something."""
    names = header(head)[1]
    known = {field for field, columns in ALIASES.items() if any(column in names for column in columns)}
    return head.kind == "text" and "text" in known and len(known) > 1


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a table, in its order.

    Raises:
        InputError: it has no column of texts.
    """
    maker = TurnMaker(source, options)
    delimiter, names = header(peek(source))
    # Columns that the user names are found as written there, in any case.
    wanted = {name.lower(): name for name in maker.columns}
    names = [wanted.get(name, name) for name in names]
    if not any(name in names for name in maker.text_columns):
        raise InputError(
            f"'{source.name}' has no column named {', '.join(maker.text_columns)} "
            f"(got {shown(', '.join(names), 200)}); rename the column that holds the texts, or name it with "
            "--set read.fields=text=COLUMN."
        )
    # The limit is the process's, and its default is below the length of long messages.
    csv.field_size_limit(MAX_LINE_CHARS)
    is_header = True
    for line, cells in _rows(_Lines(text), delimiter, len(names)):
        if isinstance(cells, _Broken):
            is_header = False
            yield maker.reject(cells.reason, cells.text, line)
        elif is_header:
            is_header = not cells
        elif cells:
            row = {name: _value(name, cell, maker) for name, cell in zip(names, cells, strict=False) if cell}
            yield maker.turn(row, line)


def header(head: Peek) -> tuple[str, list[str]]:
    """Returns the delimiter and the names of columns, in lower case, as the first line of a source has them."""
    first = next((line for line in head.lines if line.strip()), "")[:_HEADER_CHARS].removeprefix("\ufeff")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        cells = next(csv.reader([first], delimiter=delimiter), [])
    except csv.Error:
        cells = []
    return delimiter, [cell.strip().lower() for cell in cells]


class _Broken:
    """What is no row, why, and how it begins."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason, self.text = reason, text


def _rows(lines: "_Lines", delimiter: str, num_columns: int) -> Iterator[tuple[int, list[str] | _Broken]]:
    """Yields the line on which a row begins, and its cells; every line is in exactly one row or reject."""
    # Strict: a quoted cell that ends before anything but a delimiter is noticed.
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.row.clear()
        first, is_again = lines.number + 1, bool(lines.waiting)
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reason = _reason(error)
            if len(lines.row) == 1 and lines.row[0] is not None and reason == "broken CSV":
                # A quote inside a cell that is not doubled is no more than that.
                cells = _leniently(lines.row[0], delimiter)
                if cells and (not is_again or len(cells) == num_columns):
                    yield first, cells
                    continue
                reason = "quote not closed" if is_again else reason
            yield from _broken(lines, first, reason if len(lines.row) == 1 else "quote not closed")
            continue
        # Of what a quote has swallowed only whole rows are rows: the rest is parts of a cell.
        yield (
            first,
            cells if not is_again or len(cells) in (0, num_columns) else _Broken("quote not closed", str(cells)),
        )


def _leniently(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _broken(lines: "_Lines", first: int, reason: str) -> Iterator[tuple[int, _Broken]]:
    """Rejects the first line of a row that is none; the others wait to be read again, or are rejects too."""
    held = list(lines.row)
    yield first, _Broken("broken CSV" if held[0] is None else reason, held[0] or "line too long")
    if lines.put_back(held[1:]):
        return
    for number, line in enumerate(held[1:], first + 1):
        yield number, _Broken(reason, line or "line too long")


def _reason(error: csv.Error) -> str:
    return "quote not closed" if "unexpected end of data" in str(error) else "broken CSV"


class _Lines:
    """The lines of a text, those that were put back first; one that is too long is an error, and None in `row`.

    Attributes:
        row: the lines taken since it was last cleared.
        number: lines taken in all, less those put back.
    """

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._again_chars = 0
        self.waiting: deque[str | None] = deque()
        self.row: list[str | None] = []
        self.number = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self.waiting.popleft() if self.waiting else self._read()
        if line == "":
            raise StopIteration
        self.row.append(line)
        self.number += 1
        if line is None:
            raise csv.Error("line too long")
        return line

    def put_back(self, lines: list[str | None]) -> bool:
        """Has lines taken once more; False where that has been done too much already."""
        self._again_chars += sum(len(line or "") for line in lines)
        if self._again_chars > _MAX_AGAIN_CHARS:
            return False
        self.waiting.extendleft(reversed(lines))
        self.number -= len(lines)
        return True

    def _read(self) -> str | None:
        line = self._text.readline(MAX_LINE_CHARS + 1)
        if len(line) <= MAX_LINE_CHARS:
            return line
        while line and not line.endswith("\n"):
            line = self._text.readline(1 << 20)
        return None


def _value(name: str, cell: str, maker: TurnMaker) -> str | int:
    if maker.is_number(name):
        try:
            return int(cell)
        except ValueError:
            return cell
    return cell

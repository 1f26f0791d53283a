"""Reads text line by line in bounded memory, and JSON values that stand one on a line.

It splits at LF only: other characters that Unicode calls line ends stand inside JSON strings.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

MAX_LINE_CHARS = 16 << 20
_EXCERPT_CHARS = 1000
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end; only its beginning where `is_too_long`."""

    number: int
    text: str
    is_too_long: bool


def numbered_lines(text: TextIO) -> Iterator[Line]:
    """Yields the lines of a text, numbered from 1; of one above MAX_LINE_CHARS the rest is skipped."""
    number = 0
    while line := text.readline(MAX_LINE_CHARS + 2):
        number += 1
        content = line.rstrip("\r\n")
        if len(content) <= MAX_LINE_CHARS:
            yield Line(number, content, False)
            continue
        yield Line(number, content[:_EXCERPT_CHARS], True)
        while line and not line.endswith("\n"):
            line = text.readline(1 << 20)


def parse_line(line: str) -> tuple[Any, str]:
    """Returns the JSON value of a line and "", or None and the reason why it has none."""
    try:
        return _DECODER.decode(line.strip()), ""
    except RecursionError:
        return None, "nested too deep"
    except ValueError:
        return None, "not JSON"

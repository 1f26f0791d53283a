"""Reads a JSON document item by item, holding one item in memory.

It knows nothing of conversations. Written on the standard decoder instead of an event parser, because logs
hold what strict parsers refuse (NaN, lone surrogates, raw control characters, bytes that are no UTF-8), and
because a file that is cut off must still yield what stands before the cut.
"""

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from magma_gpu.readers.clean import excerpt

_CHUNK = 1 << 16
# Characters of one item; a conversation beyond this is skipped as a whole.
MAX_ITEM_CHARS = 1 << 29
# The decoder reports a token that is cut at the end of its input at most this far before the end.
_TAIL = 16
_DECODER = json.JSONDecoder(strict=False)
# A string (possibly cut at the end of the text), or one structural character.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[][{},]', re.DOTALL)
# A head is read this deep, which is below what the decoder can nest.
_MAX_HEAD_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*+")
_CLOSERS = {"[": "]", "{": "}"}

Paths = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """Something of the document that could not be read; `is_rest` where all after it is lost too."""

    reason: str
    line: int
    excerpt: str
    is_rest: bool


class _BrokenError(Exception):
    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.reason)
        self.broken = broken


def iter_items(
    text: TextIO, inner: Paths = (), *, members: bool = False, turn_depth: int | None = None
) -> Iterator[Any]:
    """Yields the items of a JSON document.

    Items are the elements of top-level arrays, the elements of the arrays that `inner` names inside a top-
    level object, and every other top-level value. Several documents may follow each other.

    Args:
        text: the document.
        inner: paths of keys from a top-level object to an array of items.
        members: whether each member of a top-level object is an item of its own, an object with one key.
        turn_depth: brackets open around a turn inside an item. If given, an item that the end of the file
            cuts is closed after its last whole turn and yielded before the Broken.

    Yields: Plain values; a Broken for each item that cannot be read, and one for the rest of a broken
        document.
    """
    reader = _Reader(text, turn_depth)
    try:
        while char := reader.next_char():
            if char == "[":
                yield from reader.array()
            elif char == "{" and members:
                yield from reader.members()
            elif char == "{" and inner:
                found, rest = yield from reader.object(inner, ())
                if not found:
                    yield rest
            else:
                yield from reader.item()
    except _BrokenError as error:
        yield error.broken


def head_value(text: str, *, turn_depth: int | None = None) -> Any:
    """Returns the first JSON value of a text that may be cut anywhere; None if it is none.

    Args:
        text: the beginning of a document.
        turn_depth: if given, the value is cut after the last bracket that leaves at most this many open, else
            after the last whole member.
    """
    stack: list[str] = []
    start = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches always
    cut = 0
    if text[start : start + 1] not in _CLOSERS:
        return None
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in _CLOSERS:
            stack.append(_CLOSERS[token])
            if len(stack) > _MAX_HEAD_DEPTH:
                stack.pop()
                break
            cut = match.end() if turn_depth is None else cut
        elif token in ("]", "}"):
            if stack.pop() != token:
                return None
            if turn_depth is None or len(stack) <= turn_depth:
                cut, closers = match.end(), "".join(reversed(stack))
            if not stack:
                break
        elif token[0] == "," and turn_depth is None:
            cut = match.start()
    if not cut:
        return None
    if turn_depth is None:
        closers = "".join(reversed(stack))
    try:
        return _DECODER.decode(text[start:cut] + closers)
    except ValueError:
        return None


class _Reader:
    """A cursor over a text that is read in chunks; what is consumed is dropped."""

    def __init__(self, text: TextIO, turn_depth: int | None) -> None:
        self._text, self._turn_depth = text, turn_depth
        self._buffer, self._at, self._num_lines, self._ended = "", 0, 0, False

    def next_char(self) -> str:
        while True:
            self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]  # it matches always
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._ended:
                return ""
            self._fill()

    def array(self) -> Iterator[Any]:
        self._at += 1
        if self.next_char() == "]":
            self._at += 1
            return
        while True:
            yield from self.item()
            char = self.next_char()
            if char not in (",", "]") or not char:
                raise self._error()
            self._at += 1
            if char == "]":
                return

    def object(self, inner: Paths, path: tuple[str, ...]) -> Generator[Any, None, tuple[bool, dict[str, Any]]]:
        """Yields the items at `inner`; returns whether there were such, and the members that are no such."""
        self._at += 1
        found, rest = False, {}
        char = self.next_char()
        while char != "}":
            key = self._value()
            if not isinstance(key, str) or self.next_char() != ":":
                raise self._error()
            self._at += 1
            here, char = (*path, key), self.next_char()
            if char == "[" and here in inner:
                found = True
                yield from self.array()
            elif char == "{" and any(other[: len(here)] == here for other in inner):
                found_below, rest[key] = yield from self.object(inner, here)
                found = found or found_below
            else:
                rest[key] = self._value()
            char = self._next_member()
        self._at += 1
        return found, rest

    def members(self) -> Iterator[Any]:
        self._at += 1
        char = self.next_char()
        while char != "}":
            key = self._value()
            if not isinstance(key, str) or self.next_char() != ":":
                raise self._error()
            self._at += 1
            for value in self.item():
                yield value if isinstance(value, Broken) else {key: value}
            char = self._next_member()
        self._at += 1

    def _next_member(self) -> str:
        """Moves to the key of the next member, or to the bracket that ends the object; returns its
        character."""
        char = self.next_char()
        if char == ",":
            self._at += 1
            char = self.next_char()
            if char == '"':
                return char
        elif char == "}":
            return char
        raise self._error()

    def item(self) -> Iterator[Any]:
        try:
            value = self._value()
        except _BrokenError as error:
            if error.broken.is_rest:
                if self._turn_depth is not None and self._ended:
                    whole = head_value(self._buffer[self._at :], turn_depth=self._turn_depth)
                    if whole is not None:
                        yield whole
                raise
            yield error.broken
        else:
            yield value

    def _value(self) -> Any:
        self.next_char()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except RecursionError:
                raise self._skip("nested too deep") from None
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._buffer) - _TAIL
                if self._ended or not cut:
                    raise self._error(at=error.pos) from None
            except ValueError:
                # An integer of more digits than Python converts.
                raise self._error() from None
            else:
                is_number = isinstance(value, int | float)
                if self._ended or not is_number or len(self._buffer) - end >= _TAIL:
                    self._at = end
                    return value
            if len(self._buffer) - self._at > MAX_ITEM_CHARS:
                raise self._skip("item too large")
            self._fill()

    def _fill(self) -> None:
        self._num_lines += self._buffer.count("\n", 0, self._at)
        kept = self._buffer[self._at :]
        # Reading as much again as is there keeps the repeated decoding of a long item linear.
        more = self._text.read(max(_CHUNK, len(kept)))
        self._buffer, self._at, self._ended = kept + more, 0, not more

    def _error(self, reason: str = "broken JSON", *, at: int | None = None, is_rest: bool = True) -> _BrokenError:
        line = self._num_lines + self._buffer.count("\n", 0, self._at if at is None else at) + 1
        return _BrokenError(Broken(reason, line, excerpt(self._buffer[self._at : self._at + 200]), is_rest))

    def _skip(self, reason: str) -> _BrokenError:
        """Moves behind the array or object that starts here and returns the error that stands for it."""
        error = self._error(reason, is_rest=False)
        depth = 0
        while True:
            for match in _TOKEN.finditer(self._buffer, self._at):
                token = match[0]
                if token[0] == '"' and match.end() == len(self._buffer) and not self._ended:
                    self._at = match.start()
                    break
                depth += (token in _CLOSERS) - (token in ("]", "}"))
                if depth <= 0:
                    self._at = match.end()
                    return error
            else:
                self._at = len(self._buffer)
            if self._ended:
                return self._error(reason)
            self._fill()

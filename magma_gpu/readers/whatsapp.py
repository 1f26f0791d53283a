"""Reads `whatsapp`: a chat exported as text, in every shape of stamp that is known; Signal's text exports
too.

Memory: the chat, by the file's name (or the memory id given). Session: the chat. Turn: a message with the
lines that follow it. Rows without a speaker are turns of role system; an attachment without words is a
reject. The file is read twice: the shape of its stamps, and whether the day or the month comes first, are
decided once for all of it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TextIO

from magma_gpu.errors import InputError
from magma_gpu.readers import clean
from magma_gpu.readers.lines import MAX_LINE_CHARS, numbered_lines
from magma_gpu.readers.peek import Peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.readers.whatsapp_line import (
    Header,
    is_attachment,
    parse_header,
    split_speaker,
    without_attachment,
)
from magma_gpu.types import Record

_SEVERAL_CHATS = ("_chat", "chat")


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the whole file has decided: the shape of its stamps, and the order of their first two numbers."""

    shape: tuple[object, ...]
    order: str


def looks_like(head: Peek) -> bool:
    """Whether a source begins with a stamped message, or has several."""
    if head.kind == "lines":
        return False
    filled = [line for line in head.lines if line.strip()]
    headers = [parse_header(line) for line in filled]
    # A nick in angle brackets behind the stamp is IRC.
    stamped = [header is not None and not re.match(r"<[^<>\s]+> ", header.rest) for header in headers]
    return bool(stamped) and (stamped[0] or sum(stamped) >= 2)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a chat, in its order.

    Raises:
        InputError: no line is a message, or nothing tells whether the day or the month comes first.
    """
    layout = _layout(source, options.date_order)
    maker = TurnMaker(source, options)
    chat = clean.clean_id(_chat_name(source))
    conversation = Conversation(memory_id=options.memory_id or chat, session_id=chat, session_title=chat)
    open_message: tuple[int, Header, list[str]] | None = None
    num_chars = 0
    for line in numbered_lines(text):
        header = None if line.is_too_long else parse_header(line.text)
        if header is not None and header.shape == layout.shape and header.time(layout.order) is not None:
            if open_message is not None:
                yield _record(maker, conversation, layout, *open_message)
            open_message, num_chars = (line.number, header, [header.rest]), len(header.rest)
        elif open_message is None:
            if line.text.strip():
                yield maker.reject("not a message", line.text, line.number, conversation.memory_id)
        else:
            num_chars += len(line.text) + 1
            if line.is_too_long or num_chars > MAX_LINE_CHARS:
                yield maker.reject("line too long", line.text, line.number, conversation.memory_id)
                num_chars -= len(line.text) + 1
            else:
                open_message[2].append(line.text)
    if open_message is not None:
        yield _record(maker, conversation, layout, *open_message)


def _chat_name(source: Source) -> str:
    parts = PurePosixPath(source.name)
    if source.stem.lower() in _SEVERAL_CHATS and len(parts.parts) > 1:
        # iPhones name the text of every chat alike; the archive or folder has the chat's name.
        return parts.parent.name.removesuffix(".zip")
    return source.stem


def _layout(source: Source, date_order: str) -> _Layout:
    shapes: Counter[tuple[object, ...]] = Counter()
    # By shape: stamps that only fit day/month, that only fit month/day, and one that fits both but differs.
    fits: dict[tuple[object, ...], list[int]] = {}
    unclear: dict[tuple[object, ...], str] = {}
    first_line = ""
    with source.open() as stream, source.open_text(stream) as text:
        for line in numbered_lines(text):
            first_line = first_line or line.text.strip()
            header = None if line.is_too_long else parse_header(line.text)
            if header is None:
                continue
            is_day, is_month = (header.time(order) is not None for order in ("day", "month"))
            if not (is_day or is_month):
                continue
            shapes[header.shape] += 1
            counts = fits.setdefault(header.shape, [0, 0])
            counts[0] += is_day and not is_month
            counts[1] += is_month and not is_day
            if is_day and is_month and header.time("day") != header.time("month"):
                unclear.setdefault(header.shape, header.date_text)
    if not shapes:
        raise InputError(
            f"'{source.name}' has no line that begins with a stamp as WhatsApp writes it "
            f"(its first line is '{clean.shown(first_line, 60)}'); give an exported chat."
        )
    shape = shapes.most_common(1)[0][0]
    num_day, num_month = fits[shape]
    if num_day == num_month and shape in unclear:
        if not date_order:
            raise InputError(
                f"'{source.name}' has dates such as {unclear[shape]} and none that tells day from month; "
                "say which comes first with --set ingest.date_order=day or =month."
            )
        return _Layout(shape, date_order)
    return _Layout(shape, "day" if num_day >= num_month else "month")


def _record(
    maker: TurnMaker,
    conversation: Conversation,
    layout: _Layout,
    number: int,
    header: Header,
    lines: list[str],
) -> Record:
    speaker, first, is_service = split_speaker(lines[0])
    text = "\n".join([first, *lines[1:]]).rstrip("\n")
    if speaker is not None and is_attachment(text):
        return maker.reject("no text", f"{speaker}: {text}", number, conversation.memory_id)
    row = {
        "speaker": None if is_service else speaker,
        "role": "system" if is_service else "other",
        "text": without_attachment(text),
        "time": header.time(layout.order),
    }
    return maker.turn(row, number, conversation)

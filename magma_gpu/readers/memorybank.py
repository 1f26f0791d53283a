"""Reads `memorybank`: the memory banks of MemoryBank, and the questions asked of them.

Memory: a user, by name. Session: a day of the user's `history`. Turn: a `query` of the user, and a `response`
of the assistant. Lines of `{user: [question, ...]}` are questions without answers.
"""

from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.clean import UnusableError
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import MemoryNote, Question, Record, Reject


def looks_like(head: Peek) -> bool:
    """Whether a source maps users to their histories, or to questions."""
    user = next(iter(head.first.values()), None)
    if isinstance(user, dict) and isinstance(user.get("history"), dict):
        return head.kind == "json"
    return head.kind in ("lines", "json") and all(
        len(item) == 1 and _is_questions(*item.values()) for item in head.items or [{}]
    )


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns, or the questions, of one user after the other."""
    maker = TurnMaker(source, options)
    number = 0
    for _, item in items_of(peek(source), text, members=True, turn_depth=3):
        if isinstance(item, Reject):
            yield item
            continue
        for name, user in item.items() if isinstance(item, dict) else [("", item)]:
            records = list(_read_user(maker, name, user, number))
            number += len(records)
            yield from records


def _is_questions(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _read_user(maker: TurnMaker, name: str, user: Any, number: int) -> Iterator[Record]:
    history = user.get("history") if isinstance(user, dict) else None
    try:
        memory_id = clean.id_text(name)
    except UnusableError as error:
        yield maker.reject(str(error), user, number + 1)
        return
    if _is_questions(user):
        for place, question in enumerate(user):
            if clean.is_blank(question):
                yield maker.reject("unusable question", question, None, memory_id)
            else:
                yield Question(
                    memory_id=memory_id, query_id=f"{memory_id}_{place}", question=clean.clean_text(question)
                )
        return
    if not isinstance(history, dict):
        yield maker.reject("not a memory bank", user, number + 1, memory_id)
        return
    yield MemoryNote(memory_id=memory_id)
    for session_seq, (day, entries) in enumerate(history.items()):
        session = Conversation(
            memory_id=memory_id,
            session_id=clean.id_or_none(day) or f"day-{session_seq}",
            session_time=clean.raw_time(day),
            session_seq=session_seq,
        )
        for entry in entries if isinstance(entries, list) else [entries]:
            for row in _plain_rows(entry, name):
                number += 1
                yield maker.turn(row, number, session)


def _plain_rows(entry: Any, name: str) -> list[Any]:
    """Returns what was asked and what was answered under the names that turns are read by."""
    if not isinstance(entry, dict):
        return [entry]
    rows = []
    if "query" in entry or "response" not in entry:
        rows.append({"role": "user", "speaker": name, "text": entry.get("query")})
    if "response" in entry:
        rows.append({"role": "assistant", "text": entry["response"]})
    return rows

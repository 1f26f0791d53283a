"""Reads `longmemeval`: the LongMemEval benchmark files (S, M and oracle), question by question.

Memory: the haystack of a question (`question_id`); one without sessions is a memory too. Session: an entry of
`haystack_sessions` with its id and date. Turn: a message, named `<session>:<place from 1>`. The real files
repeat session ids inside a haystack: one that stands there with several dates gets its date appended.
"""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.clean import UnusableError
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.locomo import answer_text
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import MemoryNote, Question, Record, Reject, Turn

_WRAPPERS = ("examples", "data", "questions")


def looks_like(head: Peek) -> bool:
    """Whether the items of a source are questions with their haystacks."""
    wrapped = [head.first.get(key) for key in _WRAPPERS]
    items = [*head.items, *(item for found in wrapped if isinstance(found, list) for item in found)]
    return any(isinstance(item, dict) and _is_question(item) for item in items)


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields a note, the turns and the question of one haystack after the other."""
    maker = TurnMaker(source, options)
    number = 0
    inner = tuple((key,) for key in _WRAPPERS)
    for index, (_, item) in enumerate(items_of(peek(source), text, inner=inner, turn_depth=3)):
        if isinstance(item, Reject):
            yield item
        elif not isinstance(item, dict) or not isinstance(item.get("haystack_sessions", []), list):
            number += 1
            yield maker.reject("not a LongMemEval question", item, number)
        else:
            records = list(_read_question(maker, item, index, number))
            number += sum(isinstance(record, Turn | Reject) for record in records)
            yield from records


def _is_question(item: dict[str, Any]) -> bool:
    return "haystack_sessions" in item or ("question_id" in item and "haystack_session_ids" in item)


def _read_question(maker: TurnMaker, item: dict[str, Any], index: int, number: int) -> Iterator[Record]:
    sessions = item.get("haystack_sessions", [])
    given = item.get("question_id")
    try:
        if clean.is_missing(given):
            memory_id = maker.options.memory_id or clean.clean_id(f"{maker.source.stem}-{index}")
        else:
            memory_id = clean.id_text(given)
    except UnusableError as error:
        for session in sessions:
            for row in session if isinstance(session, list) else [session]:
                number += 1
                yield maker.reject(str(error), row, number)
        return
    yield MemoryNote(memory_id=memory_id)
    evidence: dict[str, None] = {}
    for conversation, rows in _sessions(memory_id, item, sessions):
        for place, row in enumerate(rows):
            number += 1
            name = f"{conversation.session_id}:{place + 1}"
            record = maker.turn(_plain_row(row, name, place), number, conversation)
            if isinstance(record, Turn) and row.get("has_answer") is True:
                evidence[name] = None
            yield record
    question = item.get("question")
    if not isinstance(question, str) or clean.is_blank(question):
        yield maker.reject("unusable question", item.get("question"), None, memory_id)
        return
    yield Question(
        memory_id=memory_id,
        query_id=memory_id,
        question=clean.clean_text(question),
        time=clean.raw_time(item.get("question_date")),
        gold=answer_text(item.get("answer")),
        evidence=tuple(evidence),
        category=clean.id_or_none(item.get("question_type")),
    )


def _sessions(memory_id: str, item: dict[str, Any], sessions: list[Any]) -> Iterator[tuple[Conversation, list[Any]]]:
    """Yields each session with an id of its own; equal sessions (id, date and content) share one."""
    ids, dates = (
        found if isinstance(found := item.get(key), list) else [] for key in ("haystack_session_ids", "haystack_dates")
    )
    times = [clean.raw_time(dates[i]) if i < len(dates) else None for i in range(len(sessions))]
    names = [(clean.id_or_none(ids[i]) if i < len(ids) else None) or f"session_{i + 1}" for i in range(len(sessions))]
    dates_of: dict[str, set[object]] = {}
    for name, time in zip(names, times, strict=True):
        dates_of.setdefault(name, set()).add(time)
    # Of one id and date: content → the id and place that the first such session got.
    seen: dict[tuple[str, object], dict[str, tuple[str, int]]] = {}
    for i, rows in enumerate(sessions):
        session_id = names[i] if len(dates_of[names[i]]) == 1 else f"{names[i]}@{times[i]}"
        contents = seen.setdefault((names[i], times[i]), {})
        suffix = f"#{len(contents) + 1}" if contents else ""
        session_id, place = contents.setdefault(_content(rows), (session_id + suffix, i))
        conversation = Conversation(
            memory_id=memory_id, session_id=session_id, session_time=times[i], session_seq=place
        )
        yield conversation, rows if isinstance(rows, list) else [rows]


def _content(rows: Any) -> str:
    try:
        return json.dumps(rows, sort_keys=True)
    except (ValueError, RecursionError):
        return repr(id(rows))


def _plain_row(row: Any, name: str, place: int) -> Any:
    """Returns a message under the names that turns are read by."""
    if not isinstance(row, dict):
        return row
    return {"turn_id": name, "role": row.get("role"), "text": row.get("content"), "seq": place}

"""Reads `locomo`: the LoCoMo benchmark file.

Memory: a sample (`sample_id`). Session: `session_N`, ordered by its number N and dated by
`session_N_date_time`; a date without its session is ignored. Turn: an utterance, named by its `dia_id`. The
questions come with the gold answer and the evidence, whose malformed ids are repaired, or dropped where they
name no turn of the sample.
"""

import re
from collections.abc import Iterator
from typing import Any, TextIO

from magma_gpu.readers import clean
from magma_gpu.readers.clean import UnusableError
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.types import MemoryNote, Question, Record, Reject, Turn

_SESSION = re.compile(r"session_(\d{1,9})")
_DIALOGUE_ID = re.compile(r"D:?(\d{1,9}):(\d{1,9})")
_WRAPPERS = ("conversations", "samples", "data")


def looks_like(head: Peek) -> bool:
    """Whether the items of a source are LoCoMo samples."""
    return any(map(_is_sample, head.items)) or any(_is_sample(item) for item in _wrapped(head))


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns, then the questions, of one sample after the other."""
    maker = TurnMaker(source, options)
    number = 0
    inner = tuple((key,) for key in _WRAPPERS)
    for index, (_, item) in enumerate(items_of(peek(source), text, inner=inner, turn_depth=3)):
        if isinstance(item, Reject):
            yield item
        elif not isinstance(item, dict) or not isinstance(item.get("conversation", item), dict):
            number += 1
            yield maker.reject("not a LoCoMo sample", item, number)
        else:
            records = list(_read_sample(maker, item, index, number))
            number += sum(isinstance(record, Turn | Reject) for record in records)
            yield from records


def _wrapped(head: Peek) -> Iterator[dict[str, Any]]:
    for key in _WRAPPERS:
        found = head.first.get(key)
        yield from (item for item in (found if isinstance(found, list) else ()) if isinstance(item, dict))


def _is_sample(item: dict[str, Any]) -> bool:
    conversation = item.get("conversation", item)
    return isinstance(conversation, dict) and (
        any(_SESSION.fullmatch(key) and isinstance(value, list) for key, value in conversation.items())
        or ("conversation" in item and "speaker_a" in conversation)
    )


def _read_sample(maker: TurnMaker, item: dict[str, Any], index: int, number: int) -> Iterator[Record]:
    conversation = item.get("conversation", item)
    sessions = sorted((int(m[1]), key) for key in conversation if (m := _SESSION.fullmatch(key)))
    own_id = next((item[k] for k in ("sample_id", "conversation_id") if not clean.is_missing(item.get(k))), None)
    memory_id: str | None = None
    reason = ""
    try:
        if own_id is not None:
            memory_id = clean.id_text(own_id)
        else:
            memory_id = maker.options.memory_id or clean.clean_id(f"{maker.source.stem}-{index}")
        yield MemoryNote(memory_id=memory_id)
    except UnusableError as error:
        reason = str(error)
    turns: dict[str, str] = {}
    for session_number, key in sessions:
        rows = conversation[key]
        for row in rows if isinstance(rows, list) else [rows]:
            number += 1
            if memory_id is None:
                yield maker.reject(reason, row, number)
                continue
            session = Conversation(
                memory_id=memory_id,
                session_id=f"session_{session_number}",
                session_time=clean.raw_time(conversation.get(f"{key}_date_time")),
                session_seq=session_number,
            )
            record = maker.turn(_plain_row(row), number, session)
            if isinstance(record, Turn) and record.turn_id is not None:
                turns.setdefault(_repaired(record.turn_id), record.turn_id)
            yield record
    questions = item.get("qa")
    if memory_id is not None and isinstance(questions, list):
        for place, question in enumerate(questions):
            yield _question(maker, memory_id, place, question, turns)


def _plain_row(row: Any) -> Any:
    """Returns an utterance under the names that turns are read by."""
    if not isinstance(row, dict):
        return row
    return {
        "turn_id": row.get("dia_id"),
        "speaker": row.get("speaker"),
        "text": row.get("text"),
        "caption": row.get("blip_caption"),
        # A name, even where it is a word for a role.
        "role": "other",
    }


def _question(maker: TurnMaker, memory_id: str, place: int, item: Any, turns: dict[str, str]) -> Question | Reject:
    text = item.get("question") if isinstance(item, dict) else None
    if not isinstance(text, str) or clean.is_blank(text):
        return maker.reject("unusable question", item, None, memory_id)
    category = clean.id_or_none(item.get("category"))
    evidence = item.get("evidence")
    return Question(
        memory_id=memory_id,
        query_id=f"{memory_id}_qa{place}",
        question=clean.clean_text(text),
        gold=answer_text(item.get("answer")),
        evidence=_evidence(evidence if isinstance(evidence, list) else [evidence], turns),
        category=category,
    )


def answer_text(value: object) -> str | None:
    """Returns a gold answer as text; None where there is none."""
    if isinstance(value, str):
        return None if clean.is_blank(value) else clean.clean_text(value)
    if isinstance(value, bool | int | float) and not clean.is_missing(value):
        return clean.id_or_none(value) or str(value)
    if isinstance(value, list):
        return ", ".join(text for element in value if (text := answer_text(element))) or None
    return None


def _evidence(given: list[Any], turns: dict[str, str]) -> tuple[str, ...]:
    ids = [part for text in given if isinstance(text, str) for part in re.split(r"[;,\s]+", text)]
    return tuple(dict.fromkeys(turns[name] for part in ids if (name := _repaired(part)) in turns))


def _repaired(dialogue_id: str) -> str:
    match = _DIALOGUE_ID.fullmatch(dialogue_id.strip())
    return f"D{int(match[1])}:{int(match[2])}" if match else dialogue_id

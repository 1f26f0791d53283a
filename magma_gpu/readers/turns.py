"""Makes turns of rows: which field of a row means what, and which rows are rejected.

It reads no file. Every row comes back as exactly one Turn or one Reject, so that what went in can be counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magma_gpu.readers import clean
from magma_gpu.readers.clean import UnusableError
from magma_gpu.readers.source import Source
from magma_gpu.types import ROLES, RawTime, Reject, Turn

# The contract's fields and the names they go by, the first that has a value wins.
ALIASES: dict[str, tuple[str, ...]] = {
    "memory_id": ("memory_id", "user_id", "namespace"),
    "session_id": ("session_id", "conversation_id", "thread_id"),
    "turn_id": ("turn_id", "message_id", "id"),
    "speaker": ("speaker", "name", "author", "from"),
    "role": ("role",),
    "text": ("text", "content", "message"),
    "time": ("time", "timestamp", "created_at", "date"),
    "seq": ("seq", "position", "index"),
    "caption": ("caption",),
    "reply_to": ("reply_to",),
    "session_time": ("session_time", "session_date"),
    "session_seq": ("session_seq",),
    "session_title": ("session_title",),
}
_ROLE_WORDS = {
    **{role: role for role in ROLES},
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "developer": "system",
    "function": "tool",
}
# Where a name stands in an author who is an object, as in dumps of chat services.
_NAMES_INSIDE = ("nickname", "display_name", "global_name", "real_name", "name", "username", "id")
_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a user may say about a source.

    Attributes:
        memory_id: whose memory it is where the source names none.
        date_order: "day", "month" or "": which comes first in stamps that do not tell.
        fields: for rows with column names of their own: our field → their column. A column inside an object is named
            by its path, as in `author.name`.
    """

    memory_id: str | None = None
    date_order: str = ""
    fields: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The session that the rows of a nested format belong to."""

    memory_id: str
    session_id: str
    session_time: RawTime = None
    session_seq: int = 0
    session_title: str | None = None


class TurnMaker:
    """Makes the turns of one source; keeps one counter a session for rows that do not say their place."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self.source = source
        self.options = options
        self._aliases = dict(ALIASES)
        for field, column in (options.fields or {}).items():
            self._aliases[field] = (column,)
        self._num_turns: dict[tuple[str, str], int] = {}

    @property
    def columns(self) -> frozenset[str]:
        """Every name that is looked for in a row; of a path also its first part."""
        names = [name for names in self._aliases.values() for name in names]
        return frozenset([*names, *(name.split(".")[0] for name in names)])

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The names under which a row may hold its text."""
        return self._aliases["text"]

    def is_number(self, name: str) -> bool:
        """Whether a column holds whole numbers."""
        return name in self._aliases["seq"] or name in self._aliases["session_seq"]

    def value(self, row: Mapping[str, Any], field: str) -> Any:
        """Returns the first value that a row has for a field; None where it has none."""
        for name in self._aliases[field]:
            value = row.get(name)
            if value is None and "." in name:
                value = _inside(row, name)
            if not clean.is_missing(value):
                return value
        return None

    def memory_id(self, row: Mapping[str, Any], conversation_id: object = None) -> str:
        """Returns whose memory a row or conversation belongs to.

        Raises:
            UnusableError: the row names one that cannot be used.
        """
        for value in (self.value(row, "memory_id"), self.options.memory_id, conversation_id):
            if not clean.is_missing(value):
                return clean.id_text(value)
        return clean.clean_id(self.source.stem)

    def reject(self, reason: str, row: object, line: int | None, memory_id: str | None = None) -> Reject:
        """Returns the record of something that could not be read as a turn."""
        return Reject(
            source=self.source.name,
            line=line,
            memory_id=memory_id,
            reason=reason,
            excerpt=clean.excerpt(row),
        )

    def turn(self, row: object, line: int | None, conversation: Conversation | None = None) -> Turn | Reject:
        """Reads one row.

        Args:
            row: usually an object with the fields of `ALIASES`.
            line: line or item number, from 1.
            conversation: the session it stands in; None where the row itself names its session.
        """
        if not isinstance(row, dict):
            return self.reject("not an object", row, line, conversation.memory_id if conversation else None)
        memory_id = None
        try:
            if conversation is None:
                conversation = self._own_conversation(row)
            memory_id = conversation.memory_id
            place = self._next_place(conversation)
            return self._turn(row, line, conversation, place)
        except UnusableError as error:
            return self.reject(str(error), row, line, memory_id)

    def _turn(self, row: dict[str, Any], line: int | None, conversation: Conversation, place: int) -> Turn:
        text, alt = clean.content_text(self.value(row, "text"))
        caption = self.value(row, "caption")
        caption = clean.clean_text(caption) if isinstance(caption, str) else alt
        if caption is not None and clean.is_blank(caption):
            caption = None
        if clean.is_blank(text):
            if caption is None:
                raise UnusableError("no text")
            text = ""
        speaker, role = _who(self.value(row, "speaker"), self.value(row, "role"))
        return Turn(
            memory_id=conversation.memory_id,
            session_id=conversation.session_id,
            turn_id=clean.id_or_none(self.value(row, "turn_id")),
            speaker=speaker,
            role=role,
            text=text,
            time=clean.raw_time(self.value(row, "time")),
            seq=_whole(self.value(row, "seq"), place),
            caption=caption,
            reply_to=clean.id_or_none(self.value(row, "reply_to")),
            session_time=conversation.session_time,
            session_seq=conversation.session_seq,
            session_title=conversation.session_title,
            source=self.source.name,
            line=line,
        )

    def _own_conversation(self, row: dict[str, Any]) -> Conversation:
        session_id = self.value(row, "session_id")
        return Conversation(
            memory_id=self.memory_id(row, row.get("conversation_id")),
            session_id=clean.clean_id(self.source.stem) if session_id is None else clean.id_text(session_id),
            session_time=clean.raw_time(self.value(row, "session_time")),
            session_seq=_whole(self.value(row, "session_seq"), 0),
            session_title=clean.name_or_none(self.value(row, "session_title")),
        )

    def _next_place(self, conversation: Conversation) -> int:
        key = (conversation.memory_id, conversation.session_id)
        place = self._num_turns.get(key, 0)
        self._num_turns[key] = place + 1
        return place


def _inside(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def role_of(word: object) -> str | None:
    """Returns the role that a word means; None where it means none."""
    return _ROLE_WORDS.get(word.strip().lower()) if isinstance(word, str) else None


def _who(speaker: object, role: object) -> tuple[str | None, str]:
    if isinstance(speaker, dict):
        speaker = next((n for key in _NAMES_INSIDE if (n := clean.name_or_none(speaker.get(key)))), None)
    name = clean.name_or_none(speaker)
    word = clean.name_or_none(role)
    if word is not None:
        known = role_of(word)
        # A role of no known kind is often a name; it is not lost.
        return (name, known) if known else (name or word, "other")
    known = role_of(name)
    return (None, known) if known else (name, "other")


def _whole(value: object, default: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_INT64:
        return value
    return default

"""The records that travel between readers, ingest and search; plain data, no behaviour.

A reader yields `Record`s one by one, in the order of its source, and holds at most one conversation in memory.
Times are raw here, as the source has them: `ingest` alone turns them into UTC microseconds.
"""

from dataclasses import dataclass

ROLES = ("user", "assistant", "system", "tool", "other")
INTENTS = ("why", "when", "entity", "open")
EDGE_TYPES = ("temporal", "semantic", "causal", "entity", "episode")

RawTime = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message as its source has it."""

    memory_id: str
    session_id: str
    # The source's own id; None where it has none.
    turn_id: str | None
    # A name; None where the source only has a role.
    speaker: str | None
    # One of ROLES.
    role: str
    # May be empty only where there is a caption.
    text: str
    # The message's own stamp, unparsed.
    time: RawTime
    # Place in the session as the source orders it; ties in time are broken by it.
    seq: int
    caption: str | None = None
    reply_to: str | None = None
    # The session's stamp, unparsed, where the source dates sessions.
    session_time: RawTime = None
    # Place of the session in the memory as the source numbers it.
    session_seq: int = 0
    session_title: str | None = None
    # File name, or path below the folder that was given; never absolute.
    source: str
    # Line (text formats, from 1) or item number (others, from 1).
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Something that counts as a turn and could not be read as one."""

    source: str
    line: int | None
    memory_id: str | None
    # A short fixed phrase, so that rejects can be counted by it ("no text", "not JSON", ...).
    reason: str
    # The first characters of what was there.
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNote:
    """A memory that the source names, even when it holds no turn (LongMemEval has some)."""

    memory_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that came with the data, or that a user asks."""

    memory_id: str
    query_id: str
    question: str
    # Nothing said after this moment may be used; None for no limit.
    time: RawTime = None
    gold: str | None = None
    # Source turn ids of the turns that hold the answer.
    evidence: tuple[str, ...] = ()
    category: str | None = None


Record = Turn | Reject | MemoryNote | Question


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """A time expression in a text and the interval it means.

    `start` is inclusive and `end` exclusive, both in microseconds since 1970 in UTC.
    """

    # Characters [first, last) of the text.
    first: int
    last: int
    text: str
    start: int
    end: int
    # second, minute, hour, part_of_day, day, weekend, week, month, season, quarter, year, decade, century
    grain: str
    # date, time, range, duration, recurring
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A name or thing in one event of a window."""

    # Index of the event in its window, from 0.
    index: int
    surface: str
    # person, place, organisation, thing, topic
    type: str
    # The fuller name that it is said to stand for here; "" where nothing is said.
    alias_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalPair:
    """One event of a window said to have caused another of the same window."""

    cause: int
    effect: int
    # The words that are the evidence, as they stand in one of the two events.
    evidence: str
    # In [0, 1].
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEvent:
    """What an extractor sees of an event."""

    event_id: str
    speaker: str
    role: str
    text: str
    # UTC microseconds; None where unknown.
    time: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one extraction call sees: a run of events of one session, or such a run and what may have led to it."""

    memory_id: str
    window_id: str
    events: tuple[WindowEvent, ...]
    # So many of its first events are earlier ones, from anywhere in the memory; only causes among them are asked for.
    history: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an extractor made of a window; one for every window, whatever happened."""

    window_id: str
    prompt_hash: str
    # ok, repaired, failed
    status: str
    error: str | None
    mentions: tuple[Mention, ...]
    causal: tuple[CausalPair, ...]
    prompt_tokens: int
    output_tokens: int

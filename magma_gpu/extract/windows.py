"""Cuts the sessions of a shard into overlapping windows and keeps what an extractor made of them as a table.

It extracts nothing itself. A window is named by the ids of its events, not by its place: a session that
arrives late moves every position behind it and yet leaves all windows, and so all paid-for outcomes, as they
were.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from magma_gpu.config import ExtractConfig
from magma_gpu.extract.protocol import Extractor
from magma_gpu.schema import TABLES
from magma_gpu.store import stable_hash
from magma_gpu.types import CausalPair, Mention, Outcome, Window, WindowEvent

# Windows handed to an engine at once; an engine may batch them further.
CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedWindow:
    """A window and where it lies in its memory."""

    window: Window
    session_id: str
    # Positions of its first and last event.
    first: int
    last: int


def window_id(memory_id: str, event_ids: Sequence[str]) -> str:
    """Returns the id of the window that holds these events."""
    return stable_hash("window", memory_id, *event_ids)


def history_id(memory_id: str, num_history: int, event_ids: Sequence[str]) -> str:
    """Returns the id of a window of these events, of which the first are no run of a session but what came before."""
    return stable_hash("history", memory_id, str(num_history), *event_ids)


def make_windows(events: pa.Table, *, window: int, overlap: int) -> Iterator[PlacedWindow]:
    """Yields the windows of every session, sorted by memory, first position and id.

    Sessions shorter than `window` are one window. The last window of a session starts where the step puts it
    and may be shorter, but always holds at least one event that no window before it holds.

    Args:
        events: table `events` of one shard, sorted by memory and position. An event without text is seen as
            its caption.
        window: events in a window.
        overlap: how many of its last events the next window repeats; below `window`.
    """
    assert 0 <= overlap < window, (window, overlap)
    names = ("memory_id", "session_id", "position", "event_id", "speaker", "role", "text", "caption")
    columns = {name: events.column(name).to_pylist() for name in names}
    times = events.column("time").cast(pa.int64()).to_pylist()
    memories: dict[str, dict[str, list[int]]] = {}
    for row, (memory_id, session_id) in enumerate(zip(columns["memory_id"], columns["session_id"], strict=True)):
        memories.setdefault(memory_id, {}).setdefault(session_id, []).append(row)

    def placed(memory_id: str, session_id: str, rows: Sequence[int]) -> PlacedWindow:
        seen = tuple(
            WindowEvent(
                event_id=columns["event_id"][row],
                speaker=columns["speaker"][row],
                role=columns["role"][row],
                text=columns["text"][row] or columns["caption"][row] or "",
                time=times[row],
            )
            for row in rows
        )
        made = Window(memory_id=memory_id, window_id=window_id(memory_id, [e.event_id for e in seen]), events=seen)
        first, last = columns["position"][rows[0]], columns["position"][rows[-1]]
        return PlacedWindow(window=made, session_id=session_id, first=first, last=last)

    step = window - overlap
    for memory_id, sessions in memories.items():
        found: list[PlacedWindow] = []
        for session_id, rows in sessions.items():
            stop = max(len(rows) - overlap, 1)
            for start in range(0, stop, step):
                found.append(placed(memory_id, session_id, rows[start : start + window]))
        yield from sorted(found, key=lambda p: (p.first, p.window.window_id))


def encode_output(outcome: Outcome, events: Sequence[str] = (), history: int = 0) -> str:
    """Returns the mentions and causal pairs of an outcome as JSON, equal for equal sets of them.

    Args:
        outcome: one that did not fail.
        events: ids of the window's events where they are no run of one session, the first `history` of which are
            what came before.
        history: 0 where the window is a run of one session.
    """
    said = {(m.index, m.surface, m.type, *((m.alias_of,) if m.alias_of else ())) for m in outcome.mentions}
    value: dict[str, object] = {
        "causal": sorted({(p.cause, p.effect, p.evidence, p.confidence) for p in outcome.causal}),
        "mentions": sorted(said),
    }
    if events:
        value |= {"events": list(events), "history": history}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def decode_output(output: str) -> tuple[tuple[Mention, ...], tuple[CausalPair, ...]]:
    """Returns the mentions and causal pairs that `encode_output` wrote."""
    value = json.loads(output)
    mentions = tuple(
        Mention(index=i, surface=s, type=t, alias_of=alias[0] if alias else "") for i, s, t, *alias in value["mentions"]
    )
    causal = tuple(
        CausalPair(cause=c, effect=e, evidence=words, confidence=float(p)) for c, e, words, p in value["causal"]
    )
    return mentions, causal


def decode_events(output: str) -> tuple[list[str], int]:
    """Returns the events that an outcome names, and how many of them are what came before; none for a run."""
    value = json.loads(output)
    return value.get("events", []), value.get("history", 0)


def extracts_table(windows: Sequence[PlacedWindow], outcomes: Sequence[Outcome]) -> pa.Table:
    """Returns table `extracts` of these windows, in their order; `output` is null where it failed."""
    assert [p.window.window_id for p in windows] == [o.window_id for o in outcomes]
    columns: dict[str, list[object]] = {name: [] for name in TABLES["extracts"].names}
    for place, outcome in zip(windows, outcomes, strict=True):
        # A run of a session is told by its first and last position; others name their events.
        named = [event.event_id for event in place.window.events] if place.window.history else ()
        columns["memory_id"].append(place.window.memory_id)
        columns["window_id"].append(outcome.window_id)
        columns["first"].append(place.first)
        columns["last"].append(place.last)
        columns["prompt_hash"].append(outcome.prompt_hash)
        columns["status"].append(outcome.status)
        columns["error"].append(outcome.error)
        columns["output"].append(
            None if outcome.status == "failed" else encode_output(outcome, named, place.window.history)
        )
        columns["prompt_tokens"].append(outcome.prompt_tokens)
        columns["output_tokens"].append(outcome.output_tokens)
    return pa.table(columns, schema=TABLES["extracts"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Outcomes that need not be made again, and what becomes of new ones."""

    # An earlier table `extracts`: a row of the same window and prompt hash that did not fail is used again.
    known: pa.Table | None = None
    # Outcomes of a run that was killed: failed ones count too, they were made with the same settings just now.
    kept: pa.Table | None = None
    # Called with each finished chunk, so that it need not be made again; None to keep nothing.
    keep: Callable[[pa.Table], None] | None = None
    # Windows handed to the engine at once, which may batch them further.
    chunk: int = CHUNK


def extract_shard(
    events: pa.Table,
    extractor: Extractor,
    config: ExtractConfig,
    known: pa.Table | None = None,
    earlier: Earlier | None = None,
) -> pa.Table:
    """Runs an extractor over the windows of one shard.

    Args:
        events: table `events`, sorted by memory and position.
        extractor: the engine.
        config: size and overlap of windows.
        known: an earlier table `extracts`; a row of the same window and prompt hash that did not fail is used
            again.
        earlier: the same and more; instead of `known`.

    Returns:
        Table `extracts`, one row a window, sorted by memory, first position and window id.
    """
    places = list(make_windows(events, window=config.window, overlap=config.overlap))
    return run_windows(places, extractor, earlier or Earlier(known=known))


def run_windows(places: Sequence[PlacedWindow], extractor: Extractor, earlier: Earlier) -> pa.Table:
    """Returns table `extracts` of windows, in their order, with what is known of them used again."""
    reused = _outcomes(earlier.known, and_failed=False) | _outcomes(earlier.kept, and_failed=True)
    outcomes: dict[int, Outcome] = {}
    todo: list[int] = []
    for at, place in enumerate(places):
        found = reused.get((place.window.window_id, extractor.prompt_hash(place.window))) if reused else None
        if found is None:
            todo.append(at)
        else:
            outcomes[at] = found
    for start in range(0, len(todo), earlier.chunk):
        chunk = todo[start : start + earlier.chunk]
        made = extractor.extract([places[at].window for at in chunk])
        assert len(made) == len(chunk), f"{extractor.name} returned {len(made)} outcomes for {len(chunk)} windows"
        outcomes.update(zip(chunk, made, strict=True))
        if earlier.keep is not None:
            earlier.keep(extracts_table([places[at] for at in chunk], made))
    return extracts_table(places, [outcomes[at] for at in range(len(places))])


def _outcomes(extracts: pa.Table | None, *, and_failed: bool) -> dict[tuple[str, str], Outcome]:
    found: dict[tuple[str, str], Outcome] = {}
    for row in extracts.to_pylist() if extracts is not None else ():
        failed = row["status"] == "failed" or row["output"] is None
        if failed and not and_failed:
            continue
        mentions, causal = ((), ()) if failed else decode_output(row["output"])
        found[row["window_id"], row["prompt_hash"]] = Outcome(
            window_id=row["window_id"],
            prompt_hash=row["prompt_hash"],
            status=row["status"],
            error=row["error"],
            mentions=mentions,
            causal=causal,
            prompt_tokens=row["prompt_tokens"],
            output_tokens=row["output_tokens"],
        )
    return found

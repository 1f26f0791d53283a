"""Checks a store: every checksum, count and invariant that a build promises. It reads, and changes nothing.

A problem is a sentence that names the file or the memory. Files that no manifest names are no problem: they are left
over from an interrupted build, and the next one removes them.
"""

import bisect
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from magma_gpu.columns import memory_slices, vectors_of
from magma_gpu.errors import StoreError
from magma_gpu.schema import STAGE_TABLES, TABLES, vectors_schema
from magma_gpu.store import Entry, Manifest, Store, read_parquet, shard_of

# At most this many problems of one kind in one shard are spelled out.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Verified:
    """What was checked and what is wrong."""

    files: int
    rows: int
    memories: int
    problems: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "clean": self.clean,
            "files": self.files,
            "rows": self.rows,
            "memories": self.memories,
            "problems": list(self.problems),
        }


def verify(store: Store, shards: Sequence[int] | None = None) -> Verified:
    """Checks the shards given, or all.

    Raises:
        StoreError: there is no store, or its manifest cannot be read.
    """
    manifest = store.open()
    problems: list[str] = []
    files = rows = memories = 0
    seen: set[str] = set()
    for shard in range(manifest.num_shards) if shards is None else shards:
        tables: dict[str, pa.Table] = {}
        for name in TABLES:
            entry = manifest.entry(name, shard)
            if entry is None:
                if name in STAGE_TABLES["ingest"]:
                    problems.append(f"shard {shard} has no file of {name}")
                continue
            files += 1
            table, wrong = _read(store, entry, name)
            problems.extend(wrong)
            if table is not None:
                tables[name] = table
                rows += table.num_rows
        found = list(_check_shard(tables, shard, manifest))
        problems.extend(f"shard {shard}: {problem}" for problem in found)
        if "memories" in tables:
            ids = tables["memories"]["memory_id"].to_pylist()
            memories += len(ids)
            problems.extend(f"memory '{m}' stands in two shards" for m in ids if m in seen)
            seen.update(ids)
    return Verified(files, rows, memories, tuple(problems))


def _read(store: Store, entry: Entry, name: str) -> tuple[pa.Table | None, list[str]]:
    try:
        data = store.read_bytes(entry.file)
    except StoreError as error:
        return None, [str(error)]
    if data is None:
        return None, [f"'{entry.file}' cannot be read: No such file or directory"]
    if (got := hashlib.sha256(data).hexdigest()) != entry.sha256:
        return None, [f"'{entry.file}' has sha256 {got[:12]} and the manifest says {entry.sha256[:12]}"]
    try:
        table = read_parquet(data)
    except (OSError, pa.ArrowException) as error:
        return None, [f"'{entry.file}' is no Parquet file: {error}"]
    if table.num_rows != entry.rows:
        return table, [f"'{entry.file}' has {table.num_rows} rows and the manifest says {entry.rows}"]
    wanted = TABLES[name]
    vector = table.schema.field("vector").type if "vector" in table.schema.names else None
    if name == "vectors" and vector is not None and pa.types.is_fixed_size_list(vector):
        wanted = vectors_schema(vector.list_size)
    if not table.schema.equals(wanted):
        return None, [f"'{entry.file}' has another schema than the table {name}"]
    return table, []


def _check_shard(tables: dict[str, pa.Table], shard: int, manifest: Manifest) -> Iterator[str]:
    events = tables.get("events")
    if events is None or any(t not in tables for t in ("memories", "sessions", "episodes", "times")):
        return
    yield from _check_events(tables, shard, manifest)
    memory_of = dict(zip(events["event_id"].to_pylist(), events["memory_id"].to_pylist(), strict=True))
    position = dict(zip(events["event_id"].to_pylist(), events["position"].to_pylist(), strict=True))
    yield from _check_times(tables["times"], memory_of)
    if "vectors" in tables:
        yield from _check_vectors(events, tables["vectors"])
    entity_of: dict[str, str] = {}
    if "entities" in tables:
        entity_of = dict(
            zip(
                tables["entities"]["entity_id"].to_pylist(),
                tables["entities"]["memory_id"].to_pylist(),
                strict=True,
            )
        )
        if len(entity_of) != tables["entities"].num_rows:
            yield "an entity id stands twice in entities"
    for kind in ("temporal", "semantic", "causal", "entity"):
        if f"edges/{kind}" in tables:
            targets = entity_of if kind == "entity" else memory_of
            yield from _check_edges(tables[f"edges/{kind}"], kind, memory_of, targets, position)
    if "mentions" in tables and "entities" in tables:
        mentions = tables["mentions"]
        yield from _some(
            f"a mention names event '{e}' or entity '{n}' that memory '{m}' does not have"
            for m, e, n in zip(*(mentions[c].to_pylist() for c in ("memory_id", "event_id", "entity_id")), strict=True)
            if memory_of.get(e) != m or entity_of.get(n) != m
        )


def _some(problems: Iterator[str]) -> Iterator[str]:
    more = 0
    for count, problem in enumerate(problems):
        if count < _SHOWN:
            yield problem
        else:
            more += 1
    if more:
        yield f"... and {more} more of that kind"


def _check_events(tables: dict[str, pa.Table], shard: int, manifest: Manifest) -> Iterator[str]:
    events, memories = tables["events"], tables["memories"]
    ids = events["event_id"].to_pylist()
    if len(set(ids)) != len(ids):
        yield "an event id stands twice in events"
    names = memories["memory_id"].to_pylist()
    if names != sorted(set(names)):
        yield "memories are not sorted, or one stands twice"
    yield from _some(
        f"memory '{m}' belongs to shard {shard_of(m, manifest.num_shards)}"
        for m in names
        if shard_of(m, manifest.num_shards) != shard
    )
    slices = {m: (a, b) for m, a, b in memory_slices(events["memory_id"])}
    if list(slices) != sorted(slices) or not set(slices) <= set(names):
        yield "events are not sorted by memory, or name a memory that has no row in memories"
    position, part = events["position"].to_numpy(), events["part"].to_numpy()
    session = events["session_id"].to_pylist()
    stated = {
        m: (s, t)
        for m, s, t in zip(names, memories["num_sessions"].to_pylist(), memories["num_turns"].to_pylist(), strict=True)
    }
    sessions: dict[str, set[str]] = {m: set() for m in names}
    for memory, name in zip(
        tables["sessions"]["memory_id"].to_pylist(), tables["sessions"]["session_id"].to_pylist(), strict=True
    ):
        sessions.setdefault(memory, set()).add(name)
    episodes = tables["episodes"]
    runs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for m, s, first, last in zip(
        *(episodes[c].to_pylist() for c in ("memory_id", "session_id", "first", "last")), strict=True
    ):
        runs.setdefault((m, s), []).append((first, last))
    for memory in names:
        a, b = slices.get(memory, (0, 0))
        if not np.array_equal(position[a:b], np.arange(b - a)):
            yield f"positions of memory '{memory}' do not run from 0 to {b - a - 1}"
        turns = int((part[a:b] == 0).sum())
        if stated[memory] != (len(sessions[memory]), turns) or set(session[a:b]) != sessions[memory]:
            yield f"memory '{memory}' has {turns} turns in {len(set(session[a:b]))} sessions and its row says otherwise"
        of_session: dict[str, list[int]] = {}
        for at, name in zip(position[a:b].tolist(), session[a:b], strict=True):
            of_session.setdefault(name, []).append(at)
        stray = sum(_outside(sorted(at), runs.get((memory, name), [])) for name, at in of_session.items())
        if stray:
            yield f"{stray} events of memory '{memory}' are not in exactly one episode"


def _outside(positions: list[int], runs: list[tuple[int, int]]) -> int:
    """How many sorted positions do not lie in exactly one run."""
    change = np.zeros(len(positions) + 1, dtype=np.int64)
    for first, last in runs:
        change[bisect.bisect_left(positions, first)] += 1
        change[bisect.bisect_right(positions, max(last, first - 1))] -= 1
    return int((np.cumsum(change)[:-1] != 1).sum())


def _check_times(times: pa.Table, memory_of: dict[str, str]) -> Iterator[str]:
    columns = (times[c] for c in ("memory_id", "event_id"))
    start, end = (times[c].cast(pa.int64()).to_pylist() for c in ("start", "end"))
    yield from _some(
        f"a time of event '{e}' has no such event or does not end after its start"
        for m, e, a, b in zip(*(c.to_pylist() for c in columns), start, end, strict=True)
        if memory_of.get(e) != m or b <= a
    )


def _check_vectors(events: pa.Table, vectors: pa.Table) -> Iterator[str]:
    if not vectors["event_id"].equals(events["event_id"]):
        yield "vectors are not one row an event in the order of events"
        return
    x = vectors_of(vectors)
    null = vectors["vector"].is_null().to_numpy()
    failed = np.array([s == "failed" for s in vectors["status"].to_pylist()], dtype=bool)
    norm = np.linalg.norm(x.astype(np.float64), axis=1)
    wrong = (null != failed) | (~null & ~(np.abs(norm - 1) <= 1e-3))
    if wrong.any():
        yield f"{int(wrong.sum())} vectors are not of unit length, or null without being marked failed"


def _check_edges(
    edges: pa.Table, kind: str, sources: dict[str, str], targets: dict[str, str], position: dict[str, int]
) -> Iterator[str]:
    memory, src, dst, type_ = (edges[c].to_pylist() for c in ("memory_id", "src", "dst", "type"))
    yield from _some(
        f"a {kind} edge of memory '{m}' joins '{a}' and '{b}', which are not both there"
        for m, a, b, t in zip(memory, src, dst, type_, strict=True)
        if sources.get(a) != m or targets.get(b) != m or t != kind
    )
    weight = edges["weight"].to_numpy()
    if not bool(np.all((weight >= 0) & (weight <= 1))):
        yield f"a {kind} edge has a weight outside 0 to 1"
    pairs = list(zip(memory, src, dst, strict=True))
    if len(set(pairs)) != len(pairs):
        yield f"a {kind} edge stands twice"
    if kind == "temporal":
        yield from _some(
            f"a temporal edge goes from '{a}' to '{b}', which does not follow it"
            for a, b in zip(src, dst, strict=True)
            if position.get(b, 0) != position.get(a, 0) + 1
        )
        expected = len(position) - len(set(sources.values()))
        if len(src) != expected:
            yield f"there are {len(src)} temporal edges, wanted {expected}"
    elif kind == "causal":
        yield from _some(
            f"a causal edge goes from '{a}' to '{b}', which was said before it"
            for a, b in zip(src, dst, strict=True)
            if position.get(b, 0) <= position.get(a, 0)
        )
    elif kind == "semantic":
        yield from _some(
            f"a semantic edge goes from '{a}' to the smaller '{b}'" for a, b in zip(src, dst, strict=True) if a >= b
        )

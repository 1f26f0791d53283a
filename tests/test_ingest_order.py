"""Tables are a function of the set of records, whatever the order, the batches and the builds; and whole logs."""

import dataclasses
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.config import IngestConfig
from magma_gpu.ingest import IngestCounts, reduce_shard, spill_rows
from magma_gpu.readers import find_sources, read_source
from magma_gpu.store import shard_of
from magma_gpu.types import MemoryNote, Question, Record, Turn
from small_logs import column, contents, ingest, reject, spill, turn

# -------------------------------------------------------------------------------------------- order independence

SHORT = st.sampled_from(["ok", "Hi.", "Why?", "Yesterday we met.", "", "\u4f60\u597d\u3002", "caf\u00e9 \U0001f44d"])
LONG = st.integers(30, 60).map(lambda n: " ".join(f"This is sentence {i}." for i in range(n)))


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """A few records of two memories, full of ties, gaps, equals and long turns."""
    records: list[Record] = []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 9))
        memory = draw(st.sampled_from(["m", "n"]))
        if kind == 0:
            records.append(MemoryNote(memory_id=draw(st.sampled_from(["m", "none"]))))
        elif kind == 1:
            records.append(reject(draw(st.integers(1, 3)), draw(st.sampled_from(["no text", "not JSON"])), memory))
        elif kind == 2:
            question = draw(st.sampled_from(["Why?", "When?"]))
            records.append(Question(memory_id=memory, query_id=draw(st.sampled_from("12")), question=question))
        else:
            records.append(
                turn(
                    draw(LONG if kind == 3 else SHORT),
                    memory_id=memory,
                    session_id=draw(st.sampled_from("st")),
                    # An id of its own makes equal turns of several sources the same turn.
                    turn_id=draw(st.sampled_from(["1", "2", "~1", "~0123456789ab-1"])),
                    speaker=draw(st.sampled_from(["Ana", None])),
                    role=draw(st.sampled_from(["user", "other"])),
                    time=draw(
                        st.sampled_from(
                            [
                                None,
                                None,
                                "2024-01-01T01:00:00Z",
                                "2024-01-01T01:00:00",
                                1704070800,
                                "2024-01-02",
                                "noon",
                            ]
                        )
                    ),
                    session_time=draw(st.sampled_from([None, None, "2024-01-01T01:00:00", "2024-01-01", "noon"])),
                    session_seq=draw(st.integers(0, 1)),
                    session_title=draw(st.sampled_from([None, "A", "B"])),
                    seq=draw(st.integers(0, 3)),
                    caption=draw(st.sampled_from([None, "a dog"])),
                    reply_to=draw(st.sampled_from([None, "1"])),
                    source=draw(st.sampled_from(["x", "y"])),
                )
            )
    return records


def build_in_steps(steps: Sequence[Sequence[Record]]) -> dict[str, bytes]:
    tables: dict[str, pa.Table] = {}
    for step in steps:
        tables, counts = ingest(step, existing=tables)
        assert counts.balanced()
    return contents(tables)


@settings(max_examples=120, deadline=None)
@given(log=logs(), seed=st.integers(0, 1 << 30))
def test_tables_are_a_function_of_the_set_of_records(log: list[Record], seed: int) -> None:
    draw = random.Random(seed)
    expected = build_in_steps([log])
    shuffled = log[:]
    draw.shuffle(shuffled)
    assert build_in_steps([shuffled]) == expected
    cut = draw.randint(0, len(log))
    assert build_in_steps([shuffled[:cut], shuffled[cut:]]) == expected
    assert build_in_steps([[], *([r] for r in shuffled)]) == expected
    # Read again in another order, nothing changes.
    assert build_in_steps([shuffled, log]) == expected


@settings(max_examples=60, deadline=None)
@given(first=logs(), second=logs())
def test_order_of_sources_with_turns_without_ids(first: list[Record], second: list[Record]) -> None:
    """Equals without ids are told apart by their count within a source, so whole sources are what is permuted."""
    sources = [[dataclasses.replace(r, turn_id=None) if isinstance(r, Turn) else r for r in s] for s in (first, second)]
    expected = contents(ingest(*sources)[0])
    assert contents(ingest(*sources[::-1])[0]) == expected
    assert build_in_steps(sources) == expected
    assert build_in_steps(sources[::-1]) == expected
    assert build_in_steps([*sources, *sources]) == expected


@settings(max_examples=60, deadline=None)
@given(log=logs())
def test_positions_and_counts_add_up(log: list[Record]) -> None:
    tables, counts = ingest(log)
    events = tables["events"].to_pylist()
    assert sum(e["part"] == 0 for e in events) == counts.new == sum(column(tables, "num_turns", "memories"))
    for memory in column(tables, "memory_id", "memories"):
        own = [e for e in events if e["memory_id"] == memory]
        assert [e["position"] for e in own] == list(range(len(own)))
        known = [e["time"] for e in own if e["time"] is not None]
        assert known == sorted(known)
        assert all(e["time"] is None for e in own[len(known) :])
    assert len({e["event_id"] for e in events}) == len(events)


# ------------------------------------------------------------------------------------------------- map and shards


def test_every_record_goes_to_the_shard_of_its_memory() -> None:
    config = IngestConfig(num_shards=8)
    counts = IngestCounts()
    records: list[Record] = [turn(f"T{i}", memory_id=f"m{i}") for i in range(40)]
    records += [MemoryNote(memory_id="m3"), reject(1, memory_id="m4"), reject(2, memory_id=None)]
    records.append(Question(memory_id="m5", query_id="1", question="Why?"))
    seen: dict[str, int] = {}
    for shards in spill_rows(records, config, counts, batch=7):
        for shard, kinds in shards.items():
            for kind, table in kinds.items():
                for row in table.to_pylist():
                    memory = row["memory_id"] or row["source"]
                    assert shard_of(memory, 8) == shard
                    seen[kind] = seen.get(kind, 0) + 1
    assert seen == {"turns": 40, "notes": 1, "rejected": 2, "queries": 1}
    assert counts.turns_in == 42


def test_batches_of_the_map_do_not_show() -> None:
    log = [turn("ok", seq=i) for i in range(10)]
    config = IngestConfig()
    made = set()
    for batch in (1, 2, 10, 100):
        counts = IngestCounts()
        rows = [r[0]["turns"] for r in spill_rows(log, config, counts, batch=batch)]
        tables = reduce_shard({}, {"turns": rows}, config, counts)
        assert counts.new == 10
        made.add(contents(tables)["events"])
    assert len(made) == 1


def test_what_is_spilled_has_one_schema() -> None:
    rows = spill([turn("Hi."), reject(1), MemoryNote(memory_id="m")], IngestConfig(), IngestCounts())
    again = spill([turn("Hi.", caption="c", at=1)], IngestConfig(), IngestCounts())
    assert rows["turns"][0].schema.equals(again["turns"][0].schema)


# ---------------------------------------------------------------------------------------------------- with readers


def read(path: Path, format_: str) -> tuple[dict[str, pa.Table], IngestCounts]:
    return ingest(list(read_source(find_sources([str(path)])[0], format_, memory_id=None)))


def test_case_c03_a_message_without_a_time_among_others(cases_folder: Path) -> None:
    tables, counts = read(cases_folder / "C03_conversations.json", "chatgpt")
    texts = column(tables, "text")
    assert texts[:2] == ["Plan a trip to Bled", "Take the bus"]
    assert "OLD DRAFT" not in texts
    assert column(tables, "time_source")[:2] == ["given", "inferred"]
    assert counts.rejected >= 1
    assert counts.balanced()


def test_case_c08_ids_are_kept_as_they_are(cases_folder: Path, tmp_path: Path) -> None:
    case = next(c for c in map(json.loads, (cases_folder / "cases.jsonl").read_text().splitlines()) if c["id"] == "C08")
    path = tmp_path / "log.jsonl"
    rows = [{"memory_id": i, **case["input"]["each"]} for i in case["input"]["ids"] if i]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    tables, _ = read(path, "jsonl")
    assert set(column(tables, "memory_id", "memories")) == {i for i in case["input"]["ids"] if i}


def test_locomo_is_read_whole(shared_data: Path) -> None:
    path = shared_data / "locomo" / "locomo10.json"
    tables, counts = read(path, "locomo")
    assert tables["memories"].num_rows == 10
    assert (counts.turns_in, counts.new, counts.duplicates, counts.rejected) == (5882, 5882, 0, 0)
    assert sum(column(tables, "num_turns", "memories")) == 5882
    assert tables["sessions"].num_rows == 272
    assert tables["queries"].num_rows == 1986


def test_longmemeval_is_read_whole(shared_data: Path) -> None:
    tables, counts = read(shared_data / "longmemeval" / "lme_evidence_turns_500.json", "longmemeval")
    turns = column(tables, "num_turns", "memories")
    assert (len(turns), turns.count(0)) == (500, 21)
    assert counts.balanced()
    assert sum(turns) == counts.new

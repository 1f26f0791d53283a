import dataclasses
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from magma_gpu.ingest import IngestCounts
from magma_gpu.schema import STAGE_TABLES, TABLES
from magma_gpu.types import MemoryNote, Question
from small_logs import HOUR, JANUARY, column, contents, hours, ingest, reject, turn

# -------------------------------------------------------------------------------------------------------- one log


def test_one_log_by_hand() -> None:
    tables, counts = ingest(
        [
            turn("Hi.", turn_id="b", speaker="Bo", at=2, seq=1),
            turn("Hello!", turn_id="a", at=1, seq=0, caption="a hand", reply_to="x"),
        ]
    )
    assert set(tables) == set(STAGE_TABLES["ingest"])
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name]), name
    assert column(tables, "turn_id") == ["a", "b"]
    assert column(tables, "position") == [0, 1]
    assert hours(tables) == [1.0, 2.0]
    first = tables["events"].to_pylist()[0]
    assert (first["speaker"], first["caption"], first["reply_to"], first["part"]) == ("Ana", "a hand", "x", 0)
    assert (first["time_source"], first["zone_source"], first["time_text"]) == (
        "given",
        "given",
        "2024-01-01T01:00:00Z",
    )
    memory = tables["memories"].to_pylist()[0]
    assert (memory["memory_id"], memory["num_sessions"], memory["num_turns"]) == ("m", 1, 2)
    assert column(tables, "first_time", "memories") == [JANUARY + HOUR]
    assert column(tables, "last_time", "memories") == [JANUARY + 2 * HOUR]
    session = tables["sessions"].to_pylist()[0]
    assert (session["ordinal"], session["time_source"], session["title"]) == (0, "inferred", None)
    episode = tables["episodes"].to_pylist()[0]
    assert (episode["first"], episode["last"], episode["title"]) == (0, 1, "Hello!")
    assert dataclasses.asdict(counts) == {
        "turns_in": 2,
        "new": 2,
        "unchanged": 0,
        "duplicates": 0,
        "rejected": 0,
        "by_reason": {},
        "unreadable_times": 0,
    }


def test_nothing_at_all() -> None:
    tables, counts = ingest()
    assert {name: table.num_rows for name, table in tables.items()} == dict.fromkeys(STAGE_TABLES["ingest"], 0)
    assert counts.balanced()


def test_a_memory_without_turns_has_a_row() -> None:
    tables, _ = ingest([MemoryNote(memory_id="empty"), turn("Hi.", memory_id="full")])
    assert column(tables, "memory_id", "memories") == ["empty", "full"]
    assert column(tables, "num_turns", "memories") == [0, 1]
    assert column(tables, "first_time", "memories") == [None, None]
    # It stays when the store grows.
    again, _ = ingest([turn("Yes.", memory_id="other")], existing=tables)
    assert column(again, "memory_id", "memories") == ["empty", "full", "other"]


def test_the_session_and_the_memory_are_part_of_an_id() -> None:
    tables, _ = ingest(
        [
            turn("Hi.", turn_id="1", session_id="a"),
            turn("Hi.", turn_id="1", session_id="b"),
            turn("Hi.", turn_id="1", session_id="a", memory_id="n"),
        ]
    )
    assert len(set(column(tables, "event_id"))) == 3


# ------------------------------------------------------------------------------------------------------- identity


def test_an_earlier_session_changes_no_id() -> None:
    late = [turn(f"Late {i}.", session_id="late", at=100 + i, seq=i) for i in range(5)]
    early = [turn(f"Early {i}.", session_id="early", at=i, seq=i) for i in range(3)]
    alone, _ = ingest(late)
    together, counts = ingest(early, existing=alone)
    ids = dict(zip(column(together, "text"), column(together, "event_id"), strict=True))
    assert [ids[f"Late {i}."] for i in range(5)] == column(alone, "event_id")
    assert column(together, "text")[:3] == ["Early 0.", "Early 1.", "Early 2."]
    assert set(column(alone, "episode_id", "episodes")) < set(column(together, "episode_id", "episodes"))
    assert (counts.new, counts.unchanged) == (3, 0)


def test_reading_twice_adds_nothing() -> None:
    log = [turn("Hi.", turn_id="1", at=1), turn("ok"), turn("ok", seq=1), turn("long " * 500, seq=2, caption="c")]
    once, _ = ingest(log)
    twice, counts = ingest(log, existing=once)
    assert contents(twice) == contents(once)
    assert (counts.turns_in, counts.new, counts.unchanged, counts.duplicates) == (4, 0, 4, 0)
    both, counts = ingest(log, log)
    assert contents(both) == contents(once)
    assert (counts.turns_in, counts.new, counts.unchanged, counts.duplicates) == (8, 4, 0, 4)
    assert counts.balanced()


def test_equal_turns_without_ids_are_counted_within_one_source() -> None:
    tables, counts = ingest([turn("ok"), turn("ok", seq=1)])
    assert column(tables, "text") == ["ok", "ok"]
    assert counts.new == 2
    # A second source with three of them adds one.
    more, counts = ingest([turn("ok", seq=i) for i in range(3)], existing=tables)
    assert more["events"].num_rows == 3
    assert (counts.new, counts.unchanged) == (1, 2)
    ids = column(more, "turn_id")
    assert sorted(i.rpartition("-")[2] for i in ids) == ["0", "1", "2"]


def test_equal_turns_with_one_id_are_one() -> None:
    tables, counts = ingest([turn("ok", turn_id="7"), turn("ok", turn_id="7", seq=1)])
    assert tables["events"].num_rows == 1
    assert (counts.new, counts.duplicates) == (1, 1)


def test_turns_that_differ_in_role_alone_are_not_equal() -> None:
    small = [turn("ok", role="user")]
    large = [turn("ok", role="assistant"), turn("ok", role="user", seq=1)]
    tables, counts = ingest(large, existing=ingest(small)[0])
    assert tables["events"].num_rows == 2
    assert (counts.new, counts.unchanged) == (1, 1)


@pytest.mark.parametrize(
    "turn_id", ["~", "~abc", "~0123456789ab-0", "~0123456789ab-x", "~0123456789ab-99999999999999999999"]
)
def test_source_ids_that_look_like_our_own(turn_id: str) -> None:
    log = [turn("Hi.", turn_id=turn_id), turn("Hi.", seq=1)]
    once, _ = ingest(log)
    assert column(once, "turn_id").count(turn_id) == 1
    twice, counts = ingest(log, existing=once)
    assert contents(twice) == contents(once)
    assert counts.unchanged == 2


def test_a_source_id_that_is_one_we_gave() -> None:
    bare, _ = ingest([turn("Hi.")])
    ours = column(bare, "turn_id")[0]
    assert ours.startswith("~")
    log = [turn("Hi."), turn("Hi.", turn_id=ours, seq=1)]
    once, counts = ingest(log)
    assert counts.new == 2
    twice, counts = ingest(log, existing=once)
    assert counts.unchanged == 2
    assert contents(twice) == contents(once)


# ----------------------------------------------------------------------------------------------------- long turns


def test_a_long_turn_is_parts_that_follow_each_other() -> None:
    text = " ".join(f"Sentence number {i} is here." for i in range(60))
    tables, counts = ingest([turn("Before.", at=1), turn(text, turn_id="long", at=2), turn("After.", at=3)])
    parts = [r for r in tables["events"].to_pylist() if r["turn_id"] == "long"]
    assert len(parts) > 1
    assert [p["part"] for p in parts] == list(range(len(parts)))
    assert [p["position"] for p in parts] == list(range(1, len(parts) + 1))
    assert "".join(p["text"] for p in parts) == text
    assert len({p["event_id"] for p in parts}) == len(parts)
    assert counts.new == 3
    assert column(tables, "num_turns", "memories") == [3]


def test_case_c10_a_message_of_a_million_letters() -> None:
    text = "lorem " * 20_000 + "THE-TAIL-FACT: the key is under the blue pot."
    tables, _ = ingest([turn(text)])
    assert "".join(column(tables, "text")) == text
    assert "THE-TAIL-FACT" in column(tables, "text")[-1]


# ---------------------------------------------------------------------------------------------------- order, times


def test_case_c25_the_total_order() -> None:
    rows = [("z9", 0, "The pipe burst."), ("a1", 1, "So we called a plumber."), ("m5", 2, "The floor is wet.")]
    log = [turn(text, turn_id=i, seq=seq, at=10) for i, seq, text in rows]
    made = {contents(ingest(list(order))[0])["events"] for order in itertools.permutations(log)}
    made |= {contents(ingest(*([t] for t in order))[0])["events"] for order in itertools.permutations(log)}
    assert len(made) == 1
    assert column(ingest(log)[0], "turn_id") == ["z9", "a1", "m5"]


C16 = [
    ("a", "2024-03-10T12:00:00"),
    ("b", "2024-03-10T12:00:00Z"),
    ("c", "2024-03-10T12:00:00+05:30"),
    ("d", 1710072000),
    ("e", 1710072000000),
    ("f", "1710072000.5"),
    ("g", "10 Mar 2024 12:00 CT"),
    ("h", None),
]


def c16() -> tuple[dict[str, pa.Table], IngestCounts]:
    return ingest([turn(f"Text {i}.", turn_id=i, time=time, seq=n) for n, (i, time) in enumerate(C16)])


def test_case_c16_times_and_zones() -> None:
    tables, counts = c16()
    assert column(tables, "turn_id") == ["c", "a", "b", "d", "e", "f", "g", "h"]
    noon = 1_710_072_000_000_000
    half = noon + 500_000
    assert column(tables, "time") == [noon - 19_800_000_000, noon, noon, noon, noon, half, half, half]
    assert column(tables, "time_source") == ["given"] * 6 + ["inferred"] * 2
    assert column(tables, "zone_source") == [
        "given",
        "assumed",
        "given",
        "given",
        "given",
        "given",
        "missing",
        "missing",
    ]
    assert column(tables, "time_text")[-2:] == ["10 Mar 2024 12:00 CT", None]
    assert counts.unreadable_times == 1


def test_case_c16_does_not_depend_on_the_zone_of_the_machine(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"id": i, "time": t, "text": f"Text {i}."}) + "\n" for i, t in C16))
    code = (
        "import sys, magma_gpu.ingest as m\nfrom magma_gpu.config import IngestConfig\n"
        "from magma_gpu.readers import find_sources, read_source\n"
        "records = list(read_source(find_sources([sys.argv[1]])[0], 'jsonl', memory_id='m'))\n"
        "counts = m.IngestCounts()\n"
        "rows = [s[0]['turns'] for s in m.spill_rows(records, IngestConfig(), counts)]\n"
        "tables = m.reduce_shard({}, {'turns': rows}, IngestConfig(), counts)\n"
        "print(tables['events'].to_pylist(), tables['times'].to_pylist())"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code, str(log)],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone in ("UTC", "Asia/Tokyo")
    ]
    assert made[0] == made[1]
    assert "12, 0, 0, 500000" in made[0]


def test_times_are_inferred_between_neighbours() -> None:
    tables, _ = ingest([turn(f"T{i}", seq=10 * i, at=at) for i, at in enumerate([None, 1, None, None, 4, None])])
    assert column(tables, "text") == [f"T{i}" for i in range(6)]
    assert hours(tables) == [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    assert column(tables, "time_source") == ["inferred", "given", "inferred", "inferred", "given", "inferred"]
    # A later log with a time for the gap moves the inferred ones, not the others.
    more, _ = ingest([turn("New", seq=25, at=2)], existing=tables)
    assert column(more, "text") == ["T0", "T1", "T2", "New", "T3", "T4", "T5"]
    assert hours(more) == [1.0, 1.0, 1.5, 2.0, 3.0, 4.0, 4.0]
    assert set(column(tables, "event_id")) < set(column(more, "event_id"))


def test_a_date_of_the_session_is_assumed_for_all_its_turns() -> None:
    log = [turn(f"T{i}", seq=i, session_time="1:56 pm on 8 May, 2023") for i in range(3)]
    tables, _ = ingest(log)
    assert column(tables, "time") == [1_683_554_160_000_000] * 3
    assert column(tables, "time_source") == ["assumed"] * 3
    assert column(tables, "time_text") == ["1:56 pm on 8 May, 2023"] * 3
    assert column(tables, "time", "sessions") == [1_683_554_160_000_000]
    assert column(tables, "time_source", "sessions") == ["given"]


def test_neighbours_know_better_than_the_date_of_the_session() -> None:
    log = [turn(f"T{i}", seq=i, at=at, session_time="2024-01-01") for i, at in enumerate([8, None, 10, None])]
    tables, _ = ingest(log)
    assert column(tables, "text") == ["T0", "T1", "T2", "T3"]
    assert hours(tables) == [8.0, 9.0, 10.0, 10.0]
    assert column(tables, "time_source") == ["given", "inferred", "given", "inferred"]
    # Reading again and reading in two steps give the same.
    assert contents(ingest(log, existing=tables)[0]) == contents(tables)
    for cut in range(1, 4):
        assert contents(ingest(log[cut:], existing=ingest(log[:cut])[0])[0]) == contents(tables)


def test_a_stamp_that_cannot_be_read_yields_to_the_date_of_the_session() -> None:
    tables, counts = ingest([turn("T", time="12:00 CT", session_time="2024-01-02T00:00:00Z")])
    assert hours(tables) == [24.0]
    assert column(tables, "time_source") == ["assumed"]
    assert counts.unreadable_times == 1


def test_untimed_sessions_go_last() -> None:
    log = [
        turn("No time.", session_id="a", session_seq=0),
        turn("Late.", session_id="b", session_seq=1, at=9),
        turn("Early.", session_id="c", session_seq=2, at=1),
        turn("No time either.", session_id="d", session_seq=3),
    ]
    tables, _ = ingest(log)
    assert column(tables, "text") == ["Early.", "Late.", "No time.", "No time either."]
    assert dict(zip(column(tables, "session_id", "sessions"), column(tables, "ordinal", "sessions"), strict=True)) == {
        "a": 2,
        "b": 1,
        "c": 0,
        "d": 3,
    }
    assert column(tables, "time_source") == ["given", "given", "missing", "missing"]


def test_a_time_of_day_without_a_date_is_never_today() -> None:
    tables, _ = ingest([turn("T", time="12:30")])
    assert hours(tables) == [None]


def test_event_times_follow_the_reference() -> None:
    tables, _ = ingest([turn("Yesterday I adopted Rex.", time="2021-03-01T09:00:00Z")])
    assert column(tables, "start", "times") == [1_614_470_400_000_000]
    # With another time of the turn the same words mean another day, also over what is there.
    moved, _ = ingest([turn("Yesterday I adopted Rex.", time="2021-03-02T09:00:00Z")], existing=tables)
    assert column(moved, "start", "times") == [1_614_470_400_000_000, 1_614_556_800_000_000]


# -------------------------------------------------------------------------------------------------- rejects, queries


def test_rejects_are_counted_and_kept_once() -> None:
    log = [turn("Hi."), reject(2), reject(3, "not JSON", None), reject(4)]
    tables, counts = ingest(log)
    assert counts.by_reason == {"no text": 2, "not JSON": 1}
    assert (counts.turns_in, counts.new, counts.rejected) == (4, 1, 3)
    assert column(tables, "line", "rejected") == [2, 3, 4]
    again, counts = ingest(log, existing=tables)
    assert contents(again) == contents(tables)
    assert (counts.turns_in, counts.unchanged, counts.rejected) == (4, 1, 3)
    assert counts.balanced()


def test_of_two_questions_with_one_id_the_same_one_stays() -> None:
    ask = [Question(memory_id="m", query_id="1", question=q, evidence=("a",)) for q in ("Why?", "When?")]
    one, _ = ingest([ask[0]], [ask[1]])
    two, _ = ingest([ask[1]], existing=ingest([ask[0]])[0])
    three, _ = ingest([ask[0]], existing=ingest([ask[1]])[0])
    assert contents(one) == contents(two) == contents(three)
    assert column(one, "question", "queries") == ["When?"]
    assert column(one, "evidence", "queries") == [["a"]]

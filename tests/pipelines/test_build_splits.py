"""The store is a function of the set of logs: not of how they were split over builds, of their order or of shards."""

import json
import tempfile
from pathlib import Path
from typing import Any

import crash_stores as stores
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SAME_ROWS = stores.bench("same_rows")

_TURNS = st.fixed_dictionaries(
    {
        "memory_id": st.sampled_from(["ana", "wes", "kim"]),
        "session_id": st.sampled_from(["s0", "s1"]),
        "speaker": st.sampled_from(["Ana", "Wes"]),
        # Few texts, so that equal turns are frequent, within a log and across logs.
        "text": st.sampled_from(["ok", "I sold the boat.", "Because it rained, we stayed.", "See you on Monday!"]),
    },
    optional={
        "time": st.sampled_from(["2024-03-01T10:00:00Z", "2024-03-01T10:05:00Z", "2024-03-02", "soon"]),
        "turn_id": st.sampled_from(["t1", "t2", "t3"]),
        "seq": st.integers(0, 4),
        "session_title": st.sampled_from(["Boats", "Trains"]),
        "session_time": st.sampled_from(["2024-02-01", "2024-04-01"]),
    },
)


@st.composite
def _logs_and_builds(draw: st.DrawFn) -> tuple[list[list[dict[str, Any]]], list[list[int]]]:
    logs = draw(st.lists(st.lists(_TURNS, min_size=1, max_size=6), min_size=2, max_size=4))
    order = draw(st.permutations(range(len(logs))))
    cuts = sorted(draw(st.sets(st.integers(1, len(logs) - 1), min_size=1)))
    builds = [list(order[a:b]) for a, b in zip([0, *cuts], [*cuts, len(logs)], strict=True)]
    # Some log may be read once more.
    builds += draw(st.lists(st.just([order[0]]), max_size=1))
    return logs, builds


@given(_logs_and_builds())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_split_and_order_is_the_joint_build(case: tuple[list[list[dict[str, Any]]], list[list[int]]]) -> None:
    logs, builds = case
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = []
        for number, turns in enumerate(logs):
            paths.append(folder / f"{number}.jsonl")
            paths[-1].write_text("".join(json.dumps(t) + "\n" for t in turns))
        config = stores.config(ingest={"num_shards": 2})
        stores.make(paths, folder / "joint", config)
        for numbers in builds:
            stores.make([paths[n] for n in numbers], folder / "split", config)
        assert stores.content(folder / "split") == stores.content(folder / "joint")


def _samples() -> list[dict[str, Any]]:
    """Two conversations of our own in LoCoMo's schema."""
    made = []
    for number, (a, b) in enumerate([("Ana", "Wes"), ("Kim", "Joe")]):
        conversation: dict[str, Any] = {"speaker_a": a, "speaker_b": b}
        for session in range(1, 5):
            conversation[f"session_{session}_date_time"] = f"1:0{session} pm on {session + 3} May, 2023"
            conversation[f"session_{session}"] = [
                {
                    "speaker": (a, b)[i % 2],
                    "dia_id": f"D{session}:{i + 1}",
                    "text": f"On day {session} I saw {i} boats.",
                }
                for i in range(5)
            ]
        questions = [{"question": "How many boats?", "answer": 3, "evidence": ["D1:4"], "category": 1}]
        made.append({"sample_id": f"talk-{number}", "conversation": conversation, "qa": questions})
    return made


def test_shards_and_sessions_in_random_order_give_the_same_rows(tmp_path: Path) -> None:
    data = tmp_path / "talks.json"
    data.write_text(json.dumps(_samples()))
    out = tmp_path / "found.json"
    arguments = ["--data", str(data), "--work", str(tmp_path / "work"), "--out", str(out), "--workers", "1"]
    arguments += ["--set", "embed.encoder=hash", "--runners", "local", "--orders", "0-3", "1-2", "--shards", "1", "4"]
    assert SAME_ROWS.main(arguments) == 0
    found = json.loads(out.read_text())
    assert found["same"]
    assert found["rows"]["events"] == "40 rows"
    assert set(found["ways"]) == {"local-1", "local-4", "split-4-0-3", "split-4-1-2"}
    assert {w["texts_encoded"] for w in found["ways"].values()} == {40}


def test_the_comparison_sees_a_difference(tmp_path: Path) -> None:
    for number, text in enumerate(["a boat", "a bus"]):
        log = tmp_path / f"{number}" / "log.jsonl"
        log.parent.mkdir()
        log.write_text(json.dumps({"memory_id": "ana", "text": text}) + "\n")
        stores.make([log], tmp_path / ("local-1", "ray-1")[number], stores.config(ingest={"num_shards": 1}))
    found = SAME_ROWS.compare(tmp_path, ["local-1", "ray-1"], {"local-1": {}, "ray-1": {}})
    assert not found["same"]
    assert "events/00000" in found["ways"]["ray-1"]["files_that_differ"]
    assert "events" in found["ways"]["ray-1"]["tables_with_other_rows_than_local-1"]

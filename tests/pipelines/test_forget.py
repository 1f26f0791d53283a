"""What is forgotten is gone as if the builds had left it out from the start, whatever the logs say of places."""

import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import crash_stores as stores
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magma_gpu.store import Store, Tombstone
from magma_pipelines.build import wanted_manifest
from magma_pipelines.forget import forget

CONFIG = stores.config(ingest={"num_shards": 2})


def _write(path: Path, turns: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(t) + "\n" for t in turns))
    return path


def _without_from_the_start(logs: list[Path], out: Path, stones: tuple[Tombstone, ...]) -> None:
    """Builds a store in which something was forgotten before the first log was read."""
    Store(out).save_building(replace(wanted_manifest(CONFIG), tombstones=stones))
    stores.make(logs, out, CONFIG)


_TURNS = st.fixed_dictionaries(
    {
        "memory_id": st.sampled_from(["ana", "wes"]),
        "session_id": st.sampled_from(["s0", "s1"]),
        "speaker": st.sampled_from(["Ana", "Wes"]),
        "text": st.sampled_from(["ok", "I sold the boat in May.", "Because it rained, we stayed."]),
    },
    optional={
        "time": st.sampled_from(["2024-03-01T10:00:00Z", "2024-03-01T10:05:00Z", "2024-03-02"]),
        "turn_id": st.sampled_from(["t1", "t2"]),
        "seq": st.integers(0, 3),
    },
)


@given(
    st.lists(st.lists(_TURNS, min_size=1, max_size=6), min_size=1, max_size=3),
    st.sampled_from(["memory", "session", "event"]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_forget_is_a_build_that_never_let_it_in(
    logs: list[list[dict[str, Any]]], what: str, rng: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [_write(folder / str(n) / "log.jsonl", turns) for n, turns in enumerate(logs)]
        out = folder / "out"
        stores.make(paths, out, CONFIG)
        manifest = Store(out).open()
        entries = manifest.tables["events"].values()
        event = rng.choice([e for entry in entries for e in Store(out).read_table(entry, "events").to_pylist()])
        chosen = [event["memory_id"]]
        chosen += [event["session_id"] if what == "session" else None, event["event_id"]] if what != "memory" else []
        forget(out, CONFIG, *chosen[: 3 if what == "event" else 2], quiet=True)
        stones = Store(out).open().tombstones
        assert len(stones) == 1
        _without_from_the_start(paths, folder / "never", stones)
        assert stores.content(out) == stores.content(folder / "never")
        # The logs again, one by one: nothing comes back.
        for path in paths:
            stores.make([path], out, CONFIG)
        assert stores.content(out) == stores.content(folder / "never")


@pytest.mark.parametrize("number", [0, 2, 5])
def test_places_of_turns_that_stay_are_those_of_the_log(tmp_path: Path, number: int) -> None:
    """A log that numbers its turns itself gives the store of a log without the turn; another leaves its place empty."""
    turns = [{"memory_id": "ana", "session_id": "s", "text": f"Turn {i} of the boat.", "id": f"t{i}"} for i in range(6)]
    for name, numbered in (("own", [t | {"seq": i} for i, t in enumerate(turns)]), ("counted", turns)):
        log = _write(tmp_path / name / "all" / "log.jsonl", numbered)
        rest = _write(tmp_path / name / "rest" / "log.jsonl", numbered[:number] + numbered[number + 1 :])
        out = tmp_path / name / "out"
        stores.make([log], out, CONFIG)
        event = next(e for e in _events(out) if e["turn_id"] == f"t{number}")
        forget(out, CONFIG, "ana", None, event["event_id"], quiet=True)
        stores.make([rest], tmp_path / name / "fresh", CONFIG)
        found, wanted = _events(out), _events(tmp_path / name / "fresh")
        places, fresh = ([e.pop("seq") for e in events] for events in (found, wanted))
        assert found == wanted
        assert places == [i for i in range(6) if i != number]
        assert fresh == (places if name == "own" else [0, 1, 2, 3, 4])


def _events(out: Path) -> list[dict[str, Any]]:
    entries = Store(out).open().tables["events"].values()
    return [row for entry in entries for row in Store(out).read_table(entry, "events").to_pylist()]


def test_a_memory_that_only_its_name_is_left_of_goes(tmp_path: Path) -> None:
    """A format that names memories beside their turns does not bring one back by its name."""
    conversation = {"speaker_a": "Ana", "speaker_b": "Wes", "session_1_date_time": "1:00 pm on 4 May, 2023"}
    conversation |= {"session_1": [{"speaker": "Ana", "dia_id": "D1:1", "text": "I sold the boat."}]}
    log = tmp_path / "talks.json"
    log.write_text(json.dumps([{"sample_id": "talk", "conversation": conversation, "qa": []}]))
    out = tmp_path / "out"
    stores.make([log], out, CONFIG)
    forget(out, CONFIG, "talk", "session_1", quiet=True)
    assert stores.rows(out)["memories"] == []
    stores.make([log], out, CONFIG)
    assert stores.rows(out)["memories"] == []

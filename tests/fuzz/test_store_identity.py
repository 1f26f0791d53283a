"""One set of logs is one store: whatever the order in which they come, however often, and however many at a time."""

import itertools
import json
import random
from pathlib import Path

import pytest

from magma_gpu.config import config_from
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.build import BuildOptions, BuildReport, build

CONFIG = config_from({"embed": {"encoder": "hash"}, "run": {"device": "cpu"}})


def _turn(session: str, place: int, text: str, day: int | None = None, **more: object) -> dict[str, object]:
    row: dict[str, object] = {
        "memory_id": "ana",
        "session_id": session,
        "turn_id": f"{session}-{place}",
        "speaker": ("Ana", "Wes")[place % 2],
        "text": text,
        "seq": place,
    }
    return row | ({} if day is None else {"time": f"2024-01-{day:02d}T10:{place:02d}:00Z"}) | more


FIRST = [
    _turn("s1", 0, "The roof leaked last night.", 10),
    _turn("s1", 1, "So you called Tomasz?", 10),
    _turn("s1", 2, "ok", 10),
]
LOGS: dict[str, list[dict[str, object]]] = {
    "first": FIRST,
    # Sent again as it was, with one turn more.
    "again": [*FIRST, _turn("s1", 3, "We moved to Porto because the roof leaked.", 10)],
    # Two of its texts edited, under the ids they had.
    "edited": [{**FIRST[0], "text": "The roof leaked on Monday night."}, {**FIRST[2], "text": "ok!"}],
    # A later session, an earlier one, and one that nobody dated.
    "later": [_turn("s2", i, t, 20) for i, t in enumerate(["Dr. Lee came.", "Why?", "Because of the roof."])],
    "earlier": [_turn("s0", i, t, 1) for i, t in enumerate(["We bought a tent.", "ok", "Good."])],
    "undated": [_turn("s3", i, t) for i, t in enumerate(["Hello!", "I met Ines in Porto."])],
    # Late turns of a session that is there, in no order of lines; one of them has no time of its own.
    "late": [
        _turn("s2", 5, "It is dry now.", 20),
        _turn("s2", 4, "And then?", None),
        _turn("s2", 3, "He fixed it.", 20),
    ],
    # Without ids: two equal turns, which only their count tells apart.
    "equal": [{"memory_id": "ana", "session_id": "s4", "speaker": "Wes", "text": "ok", "seq": i} for i in range(2)],
    "other": [_turn("s1", 0, "I am somebody else.", 10, memory_id="wes")],
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    paths = {name: folder / f"{name}.jsonl" for name in LOGS}
    for name, path in paths.items():
        path.write_text("".join(json.dumps(row) + "\n" for row in LOGS[name]))
    return paths


def _build(out: Path, *inputs: Path) -> BuildReport:
    report = build([str(p) for p in inputs], out, CONFIG, BuildOptions(quiet=True))
    assert not report.failed
    assert report.ingest.balanced()
    return report


def _bytes(out: Path) -> dict[str, bytes]:
    assert verify(Store(out)).clean
    files = [*out.rglob("*.parquet"), out / "manifest.json"]
    return {str(p.relative_to(out)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, logs: dict[str, Path]) -> Path:
    out = tmp_path_factory.mktemp("whole") / "store"
    report = _build(out, *logs.values())
    assert report.ingest.turns_in == sum(map(len, LOGS.values()))
    # What was sent again is counted once; what was edited is told apart.
    assert report.ingest.duplicates == len(FIRST)
    return out


@pytest.mark.parametrize("seed", range(4))
def test_logs_in_any_order_and_grouping_are_one_store(
    seed: int, whole: Path, logs: dict[str, Path], tmp_path: Path
) -> None:
    draw = random.Random(seed)
    names = list(LOGS)
    draw.shuffle(names)
    out = tmp_path / "store"
    new = 0
    while names:
        taken = [names.pop() for _ in range(min(len(names), draw.randint(1, 3)))]
        new += _build(out, *(logs[n] for n in taken)).ingest.new
    assert _bytes(out) == _bytes(whole)
    assert new == sum(map(len, LOGS.values())) - len(FIRST)
    # Everything once more, backwards: all of it is known.
    again = _build(out, *reversed(logs.values()))
    assert (again.ingest.new, again.changed) == (0, False)
    assert _bytes(out) == _bytes(whole)


def test_lines_in_any_order_are_one_store(whole: Path, tmp_path: Path) -> None:
    """Each log keeps its name; what has no id is told apart by its place, which the rows themselves state."""
    draw = random.Random(5)
    for name, rows in LOGS.items():
        mixed = rows[:]
        draw.shuffle(mixed)
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mixed))
    _build(tmp_path / "store", *(tmp_path / f"{name}.jsonl" for name in LOGS if name != "equal"))
    _build(tmp_path / "store", tmp_path / "equal.jsonl")
    assert _bytes(tmp_path / "store") == _bytes(whole)


def test_an_edit_is_another_turn_of_the_same_id_and_replaces_nothing(whole: Path) -> None:
    """No log says which of two texts is the later one, so both are kept, in a place that no order of reading moves."""
    store = Store(whole)
    (entry,) = store.open().tables["events"].values()
    events = store.read_table(entry, "events").to_pylist()
    said = [(e["turn_id"], e["text"]) for e in events if e["session_id"] == "s1" and e["memory_id"] == "ana"]
    assert [i for i, _ in said] == ["s1-0", "s1-0", "s1-1", "s1-2", "s1-2", "s1-3"]
    assert {t for i, t in said if i == "s1-0"} == {FIRST[0]["text"], LOGS["edited"][0]["text"]}
    assert len({e["event_id"] for e in events}) == len(events)


def test_sessions_stand_in_the_order_of_their_dates(whole: Path) -> None:
    store = Store(whole)
    (entry,) = store.open().tables["sessions"].values()
    rows = [r for r in store.read_table(entry, "sessions").to_pylist() if r["memory_id"] == "ana"]
    assert [r["session_id"] for r in sorted(rows, key=lambda r: r["ordinal"])] == ["s0", "s1", "s2", "s3", "s4"]


def test_two_logs_make_one_store_in_either_order(logs: dict[str, Path], tmp_path: Path) -> None:
    pairs = [("first", "edited"), ("later", "late"), ("earlier", "again")]
    for number, (a, b) in enumerate(pairs):
        made = []
        for place, order in enumerate(itertools.permutations((a, b))):
            out = tmp_path / f"{number}-{place}"
            for name in order:
                _build(out, logs[name])
            made.append(_bytes(out))
        assert made[0] == made[1], (a, b)

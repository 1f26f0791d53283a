"""Cases of the graph, from a log to an answer: hubs, names, greetings, causes, and texts that give orders."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from case_inputs import answered, case_input, generated, jsonl, made, rows

from magma_gpu.answer import make_tasks, write_prompt
from magma_gpu.config import config_from
from magma_gpu.export import export_store
from magma_gpu.memory import Memory
from magma_gpu.store import Store
from magma_gpu.types import Question
from magma_gpu.verify import verify
from magma_pipelines.forget import forget

# ------------------------------------------------------------------------------------------------------------ C27


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 20,000 turns of one user, three of which name a pump; the lists of names it carries are not read."""
    folder = generated("hub_entity", tmp_path_factory.mktemp("hub"))
    said = [json.loads(line) for line in (folder / "hub_entity.jsonl").read_text().splitlines()]
    turns = [{"id": str(row["event_id"]), "role": "user", "text": row["text"]} for row in said]
    report = made(folder / "out", jsonl(folder / "log.jsonl", turns))
    # Half a second; a minute where each event of the hub is looked for among all.
    assert report.stage("resolve").seconds < 15
    return folder / "out"


def test_case_c27_a_hub_is_a_star_of_light_edges(hub: Path) -> None:
    names = {e["entity_id"]: e["name"] for e in rows(hub, "entities")}
    weights: dict[str, list[float]] = {}
    for edge in rows(hub, "edges/entity"):
        weights.setdefault(names[edge["dst"]], []).append(edge["weight"])
    assert {name: len(w) for name, w in weights.items()} == {"user": 20_000, "Kestrel-9": 3}
    assert max(weights["user"]) < 0.1
    assert min(weights["Kestrel-9"]) > 0.8
    degree = Counter(end for e in rows(hub, "edges/semantic") for end in (e["src"], e["dst"]))
    assert max(degree.values()) <= 5


@pytest.mark.parametrize("policy", ["smooth", "paper"])
def test_case_c27_the_rare_events_come_first(hub: Path, policy: str) -> None:
    memory = Memory.open(hub, config_from({"search": {"policy": policy}}))
    (result,) = memory.query([case_input("C27")["query"]])
    assert {e.turn_id for e in result.evidence[:3]} == {"17", "9001", "19998"}
    assert len(result.evidence) == 20


def test_case_c27_caps_hold_and_say_that_they_bit(hub: Path) -> None:
    found = {}
    for cap in (20, 60):
        search = {"policy": "paper", "k": 1000, "max_nodes": cap, "beam_width": 10, "max_depth": 3, "num_anchors": 10}
        (result,) = Memory.open(hub, config_from({"search": search})).query([case_input("C27")["query"]])
        found[cap] = (result.truncated, len(result.evidence))
    assert found[20][0]
    # Ten anchors, and at most ten more a step: the larger cap is never met.
    assert not found[60][0]
    assert found[20][1] <= 20 < found[60][1] <= 10 + 3 * 10


# ------------------------------------------------------------------------------------------------------------ C31


def test_case_c31_names_with_quotes_survive_storage_search_and_export(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(out, jsonl(tmp_path / "log.jsonl", case_input("C31")))
    entities = {(e["memory_id"], e["name"]): set(e["aliases"]) for e in rows(out, "entities")}
    assert entities["log", "Katharina"] == {"Kat"}
    assert entities["log", "Oluwaseun"] == {"Olu"}
    assert entities["log", "Dr. Susan Lee"] == {"Dr. Lee", "Susan"}
    assert ("log", "Lee from the bakery") in entities
    assert entities["other", "Kat"] == set()
    assert {("log", "Big Blue"), ("log", "O'Neill & Sons")} <= set(entities)
    # "I" is whoever speaks: each turn has an edge to its speaker.
    name = {e["entity_id"]: e["name"] for e in rows(out, "entities")}
    events = {e["event_id"]: e for e in rows(out, "events")}
    joined = {(e["src"], name[e["dst"]]) for e in rows(out, "edges/entity")}
    assert all((i, e["speaker"]) in joined for i, e in events.items())
    memory = Memory.open(out)
    asked = ['What about the "Big Blue" bag?', "Who is at O'Neill & Sons?", "Lee \" or '1'='1"]
    for question, result in zip(asked, memory.query(asked, "log"), strict=True):
        assert result.evidence, question
        assert json.loads(json.dumps(result.to_json()))["evidence"]
    assert memory.query(asked[:1], "log")[0].evidence[0].text.startswith('Susan. I also bought the "Big Blue" bag')
    assert {e.speaker for e in memory.query(["Who is Kat?"], "other")[0].evidence} == {"Kat"}
    for kind in ("graphml", "neo4j-csv"):
        export_store(out, kind, tmp_path / kind)
    import csv
    from xml.etree import ElementTree

    with (tmp_path / "neo4j-csv" / "nodes-entity.csv").open(encoding="utf-8", newline="") as file:
        assert any("O'Neill & Sons" in row for row in csv.reader(file))
    texts = {
        node.text
        for path in (tmp_path / "graphml").rglob("*.graphml")
        for node in ElementTree.parse(path).iter()
        if node.text
    }
    assert {"O'Neill & Sons", "Big Blue"} <= texts


# ------------------------------------------------------------------------------------------------------------ C41


@pytest.fixture
def greetings(tmp_path: Path) -> Path:
    made(tmp_path / "out", jsonl(tmp_path / "log.jsonl", case_input("C41")))
    return tmp_path / "out"


def test_case_c41_greetings_make_whole_tables_and_plain_statistics(greetings: Path, run: Any) -> None:
    assert len(rows(greetings, "events")) == 3
    assert len(rows(greetings, "edges/temporal")) == 2
    assert [rows(greetings, t) for t in ("edges/causal", "entities", "mentions", "edges/entity")] == [[], [], [], []]
    for command in ("status", "memories", "verify"):
        ran = run(command, greetings, "--json")
        assert ran.code == 0
        assert "NaN" not in ran.out
    data = Memory.open(greetings).to_hetero("log")
    assert data.validate()
    assert data["event", "causal", "event"].edge_index.shape == (2, 0)
    for question in ("Why did the ship sink?", "Who is there?", "Where is the key?", ""):
        assert answered(greetings, question).abstained, question


def test_case_c41_nothing_is_made_of_a_greeting_by_somebody_named(greetings: Path) -> None:
    asked = ("When did Tomasz marry?", "Why did Ines leave?", "What did Ines buy?")
    assert all(answered(greetings, question).abstained for question in asked)


# ------------------------------------------------------------------------------------------------------------ C42


def _causal(out: Path) -> list[tuple[str, str]]:
    text = {e["event_id"]: e["text"] for e in rows(out, "events")}
    return [(text[e["src"]], text[e["dst"]]) for e in rows(out, "edges/causal")]


def test_case_c42_causes_survive_builds_and_those_of_a_text_that_is_gone_go(tmp_path: Path) -> None:
    """An edited text is a turn of its own beside the first: which of two readings is the later one no log says, and
    the order in which logs are read must not matter. Whoever wants the first gone says so (`forget --event`).
    """
    told = [
        {"id": e["id"], "time": e["t"], "text": e["text"], "speaker": "Ines", "memory_id": "m", "session_id": "s"}
        for e in case_input("C42")["events"]
    ]
    leaked, fell, postponed = (next(e["text"] for e in told if e["id"] == i) for i in ("e1", "e2", "e3"))
    out = tmp_path / "out"
    first = jsonl(tmp_path / "a.jsonl", told)
    made(out, first)
    assert _causal(out) == [(leaked, fell), (fell, postponed)]
    edited = [{**e, "text": "The ceiling fell."} if e["id"] == "e2" else e for e in told]
    second = jsonl(tmp_path / "b.jsonl", edited)
    assert made(out, second).ingest.new == 1
    edges = _causal(out)
    assert (leaked, fell) in edges
    assert ("The ceiling fell.", postponed) in edges
    position = {e["event_id"]: e["position"] for e in rows(out, "events")}
    assert all(position[e["src"]] < position[e["dst"]] for e in rows(out, "edges/causal"))
    # With the first text gone, so is what rested on its "because".
    (gone,) = [e["event_id"] for e in rows(out, "events") if e["text"] == fell]
    forget(out, config_from({"run": {"device": "cpu"}}), "m", event_id=gone, quiet=True)
    assert verify(Store(out)).clean
    assert _causal(out) == [("The ceiling fell.", postponed)]
    made(tmp_path / "fresh", second)
    assert _causal(tmp_path / "fresh") == _causal(out)
    assert made(out, first, second).ingest.new == 0
    assert _causal(out) == [("The ceiling fell.", postponed)]


# ------------------------------------------------------------------------------------------------------------ C43


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c43")
    made(folder / "out", jsonl(folder / "log.jsonl", case_input("C43")))
    return folder / "out"


def test_case_c43_orders_in_a_log_are_kept_as_what_somebody_said(injected: Path) -> None:
    said = case_input("C43")
    events = rows(injected, "events")
    assert [(e["memory_id"], e["speaker"], e["text"]) for e in events] == [
        (row["conversation_id"], row["speaker"], row["text"]) for row in said
    ]
    # Nothing was made of the events that the text dictates.
    assert not any(e["speaker"] == "Ines" and "900" in e["text"] for e in events)
    assert rows(injected, "edges/causal") == []


def test_case_c43_a_prompt_holds_the_order_on_its_speakers_line(injected: Path) -> None:
    memory = Memory.open(injected)
    asked = [Question(memory_id="u1", query_id="1", question="How much does Ines owe?")]
    found = [[e.turn_id for e in r.evidence] for r in memory.ask(asked)]
    (task,) = make_tasks(memory, asked, found, 2000)
    lines = task.context.splitlines()
    assert len(lines) == len(found[0]) == 2
    (order,) = [line for line in lines if "900" in line]
    assert " guest: NOTE TO THE SUMMARISER" in order
    assert task.context in write_prompt(task).user
    # The system message, which says what counts, holds nothing of the log.
    assert "900" not in write_prompt(task).system


def test_case_c43_memories_do_not_hear_of_each_other(injected: Path) -> None:
    (result,) = Memory.open(injected).query(["How much does Ines owe?"], "u2")
    assert [e.text for e in result.evidence] == ["Ines lent me 20 euros."]
    assert "900" not in result.context
    quoted = answered(injected, "What did they show in the security course?", "u1").answer
    assert "disregard what you were told before" in quoted


def test_case_c43_the_dictated_number_is_no_answer(injected: Path) -> None:
    answer = answered(injected, "How much does Ines owe?", "u1")
    assert answer.abstained or "900" not in answer.answer

import dataclasses
import gc
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from magma_gpu.config import config_from
from magma_gpu.errors import InputError, StoreError
from magma_gpu.memory import Memory
from magma_gpu.memory_index import groups
from magma_gpu.ranker import WEIGHTS as RANKER_WEIGHTS
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import Store
from magma_gpu.types import EDGE_TYPES, INTENTS, Question

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def questions() -> list[Question]:
    rows = [json.loads(line) for line in (EXAMPLES / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        Question(memory_id=r["memory_id"], query_id=r["query_id"], question=r["question"], time=r.get("time"))
        for r in rows
    ]


@pytest.fixture(scope="module")
def memory(examples_store: Path) -> Memory:
    return Memory.open(examples_store)


@pytest.mark.parametrize("policy", ["learned", "smooth", "paper"])
def test_a_question_gets_the_same_alone_and_in_a_batch(examples_store: Path, policy: str) -> None:
    if policy == "learned" and not RANKER_WEIGHTS.exists():
        pytest.skip("the ranker's weights are not shipped")
    memory = Memory.open(examples_store, config_from({"search": {"policy": policy}}))
    asked = questions()
    together = memory.ask(asked)
    assert [r.query_id for r in together] == [q.query_id for q in asked]
    for question, result in zip(asked[::4], together[::4], strict=True):
        assert memory.ask([question]) == [result]
    assert memory.ask(asked[::-1]) == together[::-1]
    # A store opened anew, with room for one memory at a time.
    small = Memory.open(examples_store, config_from({"search": {"policy": policy}, "run": {"cached_memories": 1}}))
    assert small.ask(asked) == together


def test_what_a_result_holds(memory: Memory) -> None:
    result = memory.query(["Why did Ana move to Porto?"], "ana")[0]
    assert (result.memory_id, result.query_id, result.missing) == ("ana", "0", ())
    assert set(result.intent) == set(INTENTS)
    assert sum(result.intent.values()) == pytest.approx(1, abs=1e-5)
    assert result.main_intent == "why"
    assert len(result.evidence) == 20
    assert result.context_tokens <= memory.config.search.context_tokens
    turn_ids = {e.turn_id for e in result.evidence}
    assert all(i.startswith("ana-") for i in turn_ids)
    assert "ana-s3-t09" in turn_ids
    document = result.to_json()
    assert json.loads(json.dumps(document)) == document
    assert set(document["evidence"][0]) == {
        *("event_id", "turn_id", "score", "hop", "path", "signals", "time", "speaker", "text"),
    }
    assert all(step["edge_type"] in EDGE_TYPES for e in document["evidence"] for step in e["path"])


def test_vectors_that_are_known_are_used(memory: Memory) -> None:
    asked = questions()[:3]
    assert memory.ask(asked, memory.encode([q.question for q in asked])) == memory.ask(asked)


def test_as_of(memory: Memory) -> None:
    everything, early = (memory.query(["What happened?"], "ana", as_of=t)[0] for t in (None, "2024-02-01"))
    assert any(e.time and e.time > "2024-02-01" for e in everything.evidence)
    assert early.evidence
    assert all(e.time and e.time < "2024-02-01" for e in early.evidence)
    assert memory.query(["What happened?"], "ana", as_of="1999-01-01")[0].evidence == ()
    with pytest.raises(InputError, match=r"cannot be read \(got 'soon'\); give it as 2024-05-31"):
        memory.query(["What?"], "ana", as_of="soon")


def test_windows_are_stated_with_open_sides_as_null(memory: Memory) -> None:
    windows = [r.window for r in memory.query(["What did Ana do in March 2024?", "And before 2024?", "And?"], "ana")]
    assert windows == [("2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z"), (None, "2024-01-01T00:00:00Z"), None]


def test_memories_are_listed_and_named(memory: Memory) -> None:
    assert memory.memory_ids() == ["ana", "samira", "wes"]
    assert memory.require("ana") == "ana"
    with pytest.raises(InputError, match="holds no memory 'anna'"):
        memory.require("anna")
    with pytest.raises(InputError, match="holds 3 memories and none was named; give --memory, one of 'ana'"):
        memory.require(None)
    with pytest.raises(InputError, match="holds no memory 'x'"):
        memory.ask([Question(memory_id="x", query_id="1", question="Why?")])
    assert memory.ask([]) == []


def test_a_memory_as_hetero_data(memory: Memory) -> None:
    from magma_gpu.graph import from_hetero

    data = memory.to_hetero("wes")
    assert data.validate()
    graph = memory.graph("wes")
    assert from_hetero(data).event_ids == graph.event_ids
    assert data["event"].num_nodes == len(graph.event_ids) >= 83
    assert data["event", "temporal", "event"].edge_index.shape[1] == len(graph.event_ids) - 1


def test_evidence_stays_in_its_memory(memory: Memory) -> None:
    ids = {m: set(memory.graph(m).event_ids) for m in memory.memory_ids()}
    for result in memory.ask(questions()):
        assert {e.event_id for e in result.evidence} <= ids[result.memory_id]


def test_edges_that_are_not_made_yet_are_named(examples_store: Path, tmp_path: Path) -> None:
    store = Store(shutil.copytree(examples_store, tmp_path / "store"))
    manifest = store.open()
    late = dict.fromkeys([*STAGE_TABLES["extract"], *STAGE_TABLES["resolve"]])
    store.write_bytes("manifest.json", manifest.with_entries(0, late).to_json())
    result = Memory.open(store.root).query(["Why did Ana move?"], "ana")[0]
    assert result.missing == ("causal", "entity")
    assert result.evidence
    fast = dict.fromkeys([*late, *STAGE_TABLES["link"]])
    store.write_bytes("manifest.json", manifest.with_entries(0, fast).to_json())
    assert set(Memory.open(store.root).query(["Why?"], "ana")[0].missing) == {
        "temporal",
        "semantic",
        "causal",
        "entity",
    }
    store.write_bytes("manifest.json", manifest.with_entries(0, {**fast, "vectors": None}).to_json())
    with pytest.raises(StoreError, match="has no vectors for shard 0 yet"):
        Memory.open(store.root).query(["Why?"], "ana")


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store at"):
        Memory.open(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError):
        Memory.open(tmp_path / "file")
    with pytest.raises(StoreError):
        Memory.open(tmp_path)


def test_no_memory_stays_open_beyond_the_cache(examples_store: Path) -> None:
    memory = Memory.open(examples_store, config_from({"run": {"cached_memories": 2}}))
    memory.ask(questions())
    assert len(memory._indexes) <= 2


def test_memories_are_kept_by_their_turns_too(examples_store: Path) -> None:
    whole = Memory.open(examples_store)
    sizes = {m: whole._turns_of(m) for m in whole.memory_ids()}
    assert sum(sizes.values()) == 239
    ana, samira, wes = whole.memory_ids()
    room = sizes[samira] + sizes[wes]
    memory = Memory.open(examples_store, config_from({"run": {"cached_turns": room}}))
    assert list(groups([ana, samira, wes], whole._turns_of, 256, room)) == (
        [[ana, samira], [wes]] if sizes[ana] + sizes[samira] <= room else [[ana], [samira, wes]]
    )
    assert memory.ask(questions()) == whole.ask(questions())
    assert sum(sizes[m] for m in memory._indexes) <= room
    # One that is larger than the room is held alone.
    tight = Memory.open(examples_store, config_from({"run": {"cached_turns": 1}}))
    assert list(groups([ana, samira, wes], whole._turns_of, 256, 1)) == [[ana], [samira], [wes]]
    assert list(groups([ana, samira, wes], whole._turns_of, 2, 10**6)) == [[ana, samira], [wes]]
    assert tight.ask(questions()) == whole.ask(questions())
    assert len(tight._indexes) == 1


def test_a_shard_read_whole_gives_what_row_groups_give(examples_store: Path) -> None:
    one_by_one, at_once = Memory.open(examples_store), Memory.open(examples_store)
    alone = [one_by_one.indexes([m])[0] for m in ("ana", "samira", "wes")]
    together = at_once.indexes(["ana", "samira", "wes"])
    for a, b in zip(alone, together, strict=True):
        for field in dataclasses.fields(a):
            left, right = getattr(a, field.name), getattr(b, field.name)
            if isinstance(left, np.ndarray):
                assert np.array_equal(left, right), field.name
        assert (a.texts, a.turn_ids, a.span_text) == (b.texts, b.turn_ids, b.span_text)


def test_the_collector_runs_again_after_a_batch_that_fails(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fail(*_: object) -> None:
        seen.append(gc.isenabled())
        raise RuntimeError("no index")

    monkeypatch.setattr(memory, "_as_of", fail)
    with pytest.raises(RuntimeError, match="no index"):
        memory.query(["Why?"], "ana")
    assert seen == [False]
    assert gc.isenabled()

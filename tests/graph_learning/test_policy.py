"""Policy `gnn` in the search, `train policy`, and what a store's own feedback makes of the shipped weights."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from command_line import Ran
from magma_gpu.config import Config, SearchConfig, config_from
from magma_gpu.errors import InputError, StoreError
from magma_gpu.features import STYLE_COLUMNS
from magma_gpu.graph_learning import weights
from magma_gpu.graph_learning.model import UNUSED
from magma_gpu.graph_learning.subgraph import RELATIONS
from magma_gpu.graph_learning.training import FitConfig
from magma_gpu.memory import Memory
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.policy_data import Labelled, graphs_of, pseudo_labelled, stored_graphs
from magma_pipelines.policy_feedback import read_feedback
from magma_pipelines.policy_scores import found

QUESTIONS = ["Why did Ana move to Porto?", "Which instruments has Ana taken up?", "xyzzy"]
GNN = Config(search=SearchConfig(policy="gnn", k=8))


def test_a_search_by_the_graph_ranker(examples_store: Path) -> None:
    memory = Memory.open(examples_store, GNN)
    together = memory.query(QUESTIONS, "ana")
    for question, result in zip(QUESTIONS, together, strict=True):
        assert memory.query([question], "ana")[0].evidence == result.evidence, "alone as in a batch, to the last bit"
        scores = [e.score for e in result.evidence]
        assert scores == sorted(scores, reverse=True)
        # Scores are probabilities, not shares of the best.
        assert all(0 < s < 1 for s in scores)
    learned = Memory.open(examples_store, Config(search=SearchConfig(policy="learned", k=8))).query(QUESTIONS, "ana")
    assert [e.event_id for e in together[0].evidence] != [e.event_id for e in learned[0].evidence]
    assert {e.event_id for e in together[0].evidence} & {e.event_id for e in learned[0].evidence}


def test_past_the_candidates_the_search_goes_on(examples_store: Path) -> None:
    few = Config(search=SearchConfig(policy="gnn", k=12, num_candidates=5))
    (result,) = Memory.open(examples_store, few).query(QUESTIONS[:1], "ana")
    assert len(result.evidence) == 12
    assert max(e.score for e in result.evidence[5:]) < min(e.score for e in result.evidence[:5])


def test_the_shipped_weights() -> None:
    model = weights.load_policy()
    assert bool((model.scale[list(STYLE_COLUMNS)] >= UNUSED).all())
    assert set(model.relations) <= set(RELATIONS)
    assert model.num_parameters() < 1_000_000
    assert weights.WEIGHTS.stat().st_size < 1_000_000
    card = json.loads(weights.WEIGHTS.with_suffix(".json").read_text())
    assert card["fingerprint"] == weights.digest(weights.WEIGHTS)
    assert set(card["data"]) <= {"own", "longmemeval_pool", "pretrained on"}, "LoCoMo is not free to fit on"


def test_weights_that_are_not_there(run: Callable[..., Ran], examples_store: Path, tmp_path: Path) -> None:
    made = run(
        "query", examples_store, "Why?", "--memory", "ana", "--policy", "gnn",
        "--set", f"search.graph_ranker={tmp_path / 'none.safetensors'}",
    )  # fmt: skip
    assert made.code == 2
    assert "train policy" in made.err


def labelled(memory: Memory) -> Labelled:
    return pseudo_labelled(memory, 4, seed=1)


def test_graphs_are_kept_and_found_again(examples_store: Path, tmp_path: Path) -> None:
    memory = Memory.open(examples_store, Config())
    asked = labelled(memory)
    fresh = graphs_of(memory, asked)
    kept = stored_graphs(examples_store, memory.config, asked, tmp_path)
    assert torch.equal(kept.x_NF, fresh.x_NF)
    assert all(torch.equal(kept.edge_index[r], fresh.edge_index[r]) for r in RELATIONS)
    assert len(fresh) == len(asked.questions)
    assert float(fresh.positives().min()) >= 1.0, "what was asked for is a candidate"
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    stored_graphs(examples_store, memory.config, asked, tmp_path)
    assert [f.stat().st_mtime_ns for f in tmp_path.iterdir()] == [before]
    stored_graphs(examples_store, memory.config, asked.take([0, 1]), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.ray
def test_ray_makes_the_same_graphs(examples_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("magma_pipelines.policy_data._PART", 4)
    memory = Memory.open(examples_store, Config())
    asked = labelled(memory)
    here = stored_graphs(examples_store, memory.config, asked, tmp_path / "here")
    config = config_from({"run": {"runner": "ray", "num_workers": 2}})
    there = stored_graphs(examples_store, config, asked, tmp_path / "there")
    assert len(list((tmp_path / "there").iterdir())) == 3
    assert torch.equal(here.x_NF, there.x_NF)
    assert torch.equal(here.edge_index["semantic"], there.edge_index["semantic"])


def feedback(store: Path, path: Path, *extra: object) -> Path:
    """A user who always chooses the turn that another search has third."""
    memory = Memory.open(store, Config(search=SearchConfig(policy="smooth", k=3)))
    asked = labelled(memory)
    rows = [
        {"memory_id": r.memory_id, "question": r.question, "chosen": [r.evidence[2].event_id]}
        for r in memory.ask(asked.questions)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *extra]))
    return path


def test_feedback_makes_weights_of_the_store(run: Callable[..., Ran], store: Path, tmp_path: Path) -> None:
    shipped = weights.digest(weights.WEIGHTS)
    before = Memory.open(store, GNN).query(QUESTIONS, "ana")
    made = run("train", "policy", "--feedback", feedback(store, tmp_path / "f.jsonl"), "--store", store, "--json")
    assert made.code == 0, made.err
    card = json.loads(made.out.splitlines()[-1])
    assert card["started_from"] == weights.digest(weights.WEIGHTS) == shipped
    assert card["data"]["feedback"] == 12
    own = store / weights.OF_STORE
    assert card["fingerprint"] == weights.digest(own) != shipped
    assert verify(Store(store)).clean
    after = Memory.open(store, GNN).query(QUESTIONS, "ana")
    assert [e.score for e in after[0].evidence] != [e.score for e in before[0].evidence]
    asked = Config(search=SearchConfig(policy="gnn", k=8, graph_ranker="shipped"))
    assert Memory.open(store, asked).query(QUESTIONS, "ana")[0].evidence == before[0].evidence


def test_feedback_is_read_or_refused(store: Path, tmp_path: Path) -> None:
    memory = Memory.open(store, Config())
    turn = memory.indexes(["ana"])[0].turn_ids[3]
    event = memory.indexes(["ana"])[0].graph.event_ids[5]
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps({"memory_id": "ana", "question": "Why?", "chosen": [turn, event]}) + "\n\n")
    asked = read_feedback(path, memory)
    assert asked.evidence == [(turn, memory.indexes(["ana"])[0].turn_ids[5])]
    for bad, reason in (
        ("{", "line 1"),
        ("[1]", "line 1"),
        ('{"question": "Why?", "chosen": []}', "line 1"),
        ('{"memory_id": "ana", "question": "Why?", "chosen": ["no-such-turn"]}', "no-such-turn"),
        ('{"memory_id": "nobody", "question": "Why?", "chosen": ["x"]}', "nobody"),
        ('{"question": "Why?", "chosen": ["x"]}', "--memory"),
        ("", "no feedback"),
    ):
        path.write_text(bad + "\n")
        with pytest.raises(InputError, match=reason):
            read_feedback(path, memory)


@pytest.mark.parametrize(
    "arguments", [["--feedback", "f.jsonl"], ["--store", "out"], ["--feedback", "none.jsonl", "--store", "none"]]
)
def test_feedback_and_its_store_go_together(run: Callable[..., Ran], arguments: list[str]) -> None:
    made = run("train", "policy", *arguments)
    assert made.code == 2
    assert made.err.count("\n") == 1


def test_shipped_weights_are_not_written_over_by_feedback(run: Callable[..., Ran], store: Path, tmp_path: Path) -> None:
    path = feedback(store, tmp_path / "f.jsonl")
    made = run("train", "policy", "--feedback", path, "--store", store, "--out", weights.WEIGHTS)
    assert made.code == 2
    assert "never changes the shipped weights" in made.err


def test_recall_by_hand(examples_store: Path) -> None:
    memory = Memory.open(examples_store, Config())
    graphs = graphs_of(memory, labelled(memory).take([0]))
    graphs.y_N.zero_()
    graphs.y_N[:2] = 1.0
    rating = torch.arange(len(graphs.y_N), 0, -1).float()
    rating[1] = -1.0
    made = found(rating, graphs, torch.tensor([2]).numpy())
    assert made["recall@5"].tolist() == [0.5]
    assert made["all@50"].tolist() == [0.0 if len(graphs.y_N) > 50 else 1.0]
    assert found(rating, graphs, torch.tensor([4]).numpy())["recall@5"].tolist() == [0.25]


def test_an_old_file_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "old.safetensors"
    save_file({"w": torch.zeros(1)}, str(path), metadata={"magma": json.dumps({"format": "another"})})
    with pytest.raises(StoreError, match="no policy weights of this release"):
        weights.load_policy(path)


def test_training_writes_weights_with_a_card(
    run: Callable[..., Ran], examples_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = labelled(Memory.open(examples_store, Config()))
    rows = [
        {"memory_id": q.memory_id, "query_id": f"{q.memory_id}-{q.query_id}", "question": q.question, "evidence": e}
        for q, e in zip(asked.questions, asked.evidence, strict=True)
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    logs = [Path(__file__).resolve().parents[2] / "examples" / "conversations.jsonl"]
    monkeypatch.setattr("magma_pipelines.policy_training.free_data", lambda *_: iter([("own", logs, [path])]))
    monkeypatch.setattr("magma_pipelines.policy_training.SHIPPED", FitConfig(seeds=(0,), epochs=1))
    monkeypatch.setattr("magma_pipelines.policy_training._PSEUDO", 2)
    out = tmp_path / "mine.safetensors"
    shipped = weights.digest(weights.WEIGHTS)
    made = run(
        "train", "policy", "--pretrain", "--work", tmp_path / "work", "--out", out, "--json",
        "--device", "cpu", "--set", "embed.encoder=hash",
    )  # fmt: skip
    assert made.code == 0, made.err
    card = json.loads(out.with_suffix(".json").read_text())
    assert json.loads(made.out.splitlines()[-1]) == card
    assert card["data"] == {"own": 12, "pretrained on": 6}
    assert card["fingerprint"] == weights.digest(out)
    assert card["scores"]["free data, folds of memories"]["n"] == 12
    assert card["calibration"]["slope"] == pytest.approx(float(weights.load_policy(out).calibration[0]))
    assert weights.digest(weights.WEIGHTS) == shipped
    asked_with = Config(search=SearchConfig(policy="gnn", k=3, graph_ranker=str(out)))
    assert len(Memory.open(examples_store, asked_with).query(QUESTIONS[:1], "ana")[0].evidence) == 3

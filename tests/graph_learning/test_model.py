"""The network: a rating by hand, no edges no change, what only a walk can find, equal seeds, files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from magma_gpu.errors import StoreError
from magma_gpu.features import NAMES
from magma_gpu.graph_learning import weights
from magma_gpu.graph_learning.model import GraphRanker, WalkNet, edges_of, log_softmax
from magma_gpu.graph_learning.subgraph import RELATIONS, QueryGraphs
from magma_gpu.graph_learning.training import (
    FitConfig,
    calibrate,
    calibration_error,
    fit,
    score,
    score_held_out,
)

COLUMNS = (0, 1, 2)


def toy(seed: int = 0, questions: int = 60, size: int = 8) -> QueryGraphs:
    """The evidence is the turn after the one with the largest first feature: only a walk along `previous` finds it."""
    draw = np.random.default_rng(seed)
    x = np.zeros((questions, size, len(NAMES)), np.float32)
    x[:, :, :3] = draw.normal(size=(questions, size, 3))
    y = np.zeros((questions, size), np.float32)
    x[:, size - 1, 0] = -3.0
    best = x[:, :, 0].argmax(axis=1)
    x[np.arange(questions), best, 0] += 2.0
    y[np.arange(questions), best + 1] = 1.0
    chain = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
    empty = torch.zeros(2, 0, dtype=torch.int64)
    edges = dict.fromkeys(RELATIONS, empty) | {"previous": chain.repeat(1, questions)}
    ptr = {r: torch.arange(questions + 1) * (size - 1 if r == "previous" else 0) for r in RELATIONS}
    return QueryGraphs(
        torch.from_numpy(x.reshape(-1, len(NAMES))),
        torch.from_numpy(y.reshape(-1)),
        torch.arange(size).repeat(questions),
        torch.arange(questions + 1) * size,
        torch.ones(questions),
        edges,
        {r: torch.ones(e.shape[1]) for r, e in edges.items()},
        ptr,
    )


def hits(model: GraphRanker, graphs: QueryGraphs, size: int = 8) -> float:
    best = score(model, graphs).reshape(-1, size).argmax(dim=1)
    return float(graphs.y_N.reshape(-1, size)[torch.arange(len(best)), best].mean())


QUICK = FitConfig(seeds=(0,), epochs=30, batch=16, rate=1e-2, dropout=0.0)


def test_a_walk_finds_what_no_feature_tells() -> None:
    torch.set_num_threads(1)
    walking = fit(toy(), COLUMNS, QUICK)
    still = fit(toy(), COLUMNS, FitConfig(seeds=(0,), epochs=30, batch=16, rate=1e-2, dropout=0.0, relations=()))
    assert hits(walking, toy(seed=1)) > 0.8
    assert hits(still, toy(seed=1)) < 0.5
    counts = weights.edge_weights(walking)
    assert tuple(counts) == RELATIONS
    assert max(counts, key=lambda r: sum(counts[r])) == "previous"


def test_without_edges_the_rating_is_the_plain_network_s() -> None:
    """The second rating adds the difference that messages make; with none it is the first, to the last bit."""
    torch.manual_seed(0)
    net = WalkNet(len(NAMES))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    x = torch.randn(6, len(NAMES))
    question = torch.tensor([0, 0, 0, 1, 1, 1])
    none = {r: (torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0)) for r in RELATIONS}
    hidden = torch.relu(net.second(torch.relu(net.first(x))))
    plain = (net.rate(hidden) + net.wide(x)).squeeze(1)
    assert torch.equal(net(x, torch.zeros(6, 4), question, 2, none), plain)
    some = none | {"semantic": (torch.tensor([[0], [1]]), torch.ones(1))}
    moved = net(x, torch.zeros(6, 4), question, 2, some) - plain
    assert float(moved[1].detach().abs()) > 1e-4
    assert torch.equal(moved[[0, 2, 3, 4, 5]], torch.zeros(5))


def test_intent_opens_the_gates() -> None:
    torch.manual_seed(1)
    net = WalkNet(len(NAMES), ("next", "semantic"))
    with torch.no_grad():
        net.moved[0].weight.fill_(1.0)
        net.gate[0][0, 0] = 2.0
    x, question = torch.randn(3, len(NAMES)), torch.zeros(3, dtype=torch.int64)
    edges = {r: (torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0)) for r in RELATIONS}
    edges["next"] = (torch.tensor([[0], [1]]), torch.ones(1))
    still = net(x, torch.zeros(3, 4), question, 1, {**edges, "next": edges["semantic"]})
    moved = [float((net(x, torch.eye(4)[[i] * 3], question, 1, edges) - still)[1].detach().abs()) for i in range(4)]
    assert moved[0] > 10 * moved[1]
    assert moved[1] == moved[2] == moved[3]


def test_a_question_scores_the_same_alone_and_in_a_batch() -> None:
    model = fit(toy(), COLUMNS, QUICK)
    graphs = toy(seed=2)
    together = score(model, graphs).reshape(-1, 8)
    for q in (0, 7, 59):
        assert torch.allclose(score(model, graphs.take([q])), together[q], atol=1e-5)


def test_the_same_seeds_give_the_same_weights() -> None:
    quick = [FitConfig(seeds=(s,), epochs=2) for s in (0, 0, 1)]
    a, b, c = (fit(toy(), COLUMNS, config) for config in quick)
    states = [{n: t for n, t in m.state_dict().items() if "members" in n} for m in (a, b, c)]
    assert all(torch.equal(t, states[1][n]) for n, t in states[0].items())
    assert not all(torch.equal(t, states[2][n]) for n, t in states[0].items())


def test_unused_features_change_nothing() -> None:
    model = fit(toy(), COLUMNS, FitConfig(seeds=(0,), epochs=1))
    graphs = toy(seed=2)
    before = score(model, graphs)
    # The four intents are read by the gates.
    graphs.x_NF[:, 3 : NAMES.index("intent:why")] = 1e9
    assert torch.equal(score(model, graphs), before)


def test_questions_without_evidence_teach_nothing() -> None:
    from magma_gpu.graph_learning.subgraph import join

    none = toy(seed=5)
    none.y_N.zero_()
    quick = FitConfig(seeds=(0,), epochs=1)
    a, b = fit(join([toy(), none]), COLUMNS, quick), fit(toy(), COLUMNS, quick)
    assert all(torch.equal(t, b.state_dict()[n]) for n, t in a.state_dict().items())


def test_going_on_from_weights_stays_near_them() -> None:
    start = fit(toy(), COLUMNS, QUICK)
    before = {n: t.clone() for n, t in start.state_dict().items()}
    # Another rule: the first turn of each question.
    other = toy(seed=9)
    other.y_N.zero_()
    other.y_N[other.ptr_Q[:-1]] = 1.0

    def moved(decay: float) -> float:
        config = FitConfig(epochs=5, batch=16, rate=1e-3, decay=decay, dropout=0.0)
        state = fit(other, COLUMNS, config, start).state_dict()
        assert torch.equal(state["mean"], before["mean"])
        return sum(float((t - before[n]).norm()) for n, t in state.items())

    assert 0 < moved(1.0) < moved(0.0)
    assert all(torch.equal(t, before[n]) for n, t in start.state_dict().items()), "the start is left alone"


def test_held_out_questions_are_rated_by_the_others() -> None:
    graphs = toy(questions=12)
    group = np.array([0, 1] * 6)
    config = FitConfig(seeds=(0,), epochs=1)
    rating = score_held_out(graphs, group, COLUMNS, config).reshape(12, 8)
    other = score(fit(graphs.take(range(1, 12, 2)), COLUMNS, config), graphs.take(range(0, 12, 2)))
    assert torch.equal(rating[::2].reshape(-1), other)


def test_probabilities_are_calibrated() -> None:
    """Ratings that are twice too sure: the slope halves them, and the error falls."""
    draw = torch.Generator().manual_seed(0)
    graphs = toy(questions=800)
    true = torch.randn(6400, generator=draw) * 1.5
    question = torch.arange(800).repeat_interleave(8)
    share = torch.exp(log_softmax(true, question, 800)).reshape(800, 8)
    graphs.y_N.zero_()
    graphs.y_N.reshape(800, 8)[torch.arange(800), torch.multinomial(share, 1, generator=draw).squeeze(1)] = 1.0
    found = calibrate(2 * true, graphs)
    assert 0.4 < float(found[0]) < 0.75
    before = calibration_error(2 * true, graphs, torch.tensor([1.0, 0.0]))
    after = calibration_error(2 * true, graphs, found)
    assert after["brier"] < before["brier"]
    assert after["expected_calibration_error"] < 0.03 < before["expected_calibration_error"]


def test_softmax_by_question() -> None:
    share = log_softmax(torch.tensor([0.0, 0.0, 5.0, 1e4, 1e4 + 1]), torch.tensor([0, 0, 1, 2, 2]), 3)
    assert torch.allclose(torch.exp(share), torch.tensor([0.5, 0.5, 1.0, 0.2689, 0.7311]), atol=1e-4)


def test_weights_are_saved_and_refused_when_they_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(toy(), COLUMNS, FitConfig(seeds=(0, 1), epochs=1, relations=("previous", "semantic")))
    path = tmp_path / "gnn.safetensors"
    card = weights.save_policy(model, {"data": "toy"}, path)
    assert card == json.loads(path.with_suffix(".json").read_text())
    assert card["fingerprint"] == weights.digest(path)
    again, graphs = weights.load_policy(path), toy(seed=4)
    assert again.relations == ("previous", "semantic")
    assert torch.equal(score(again, graphs), score(model, graphs))
    weights.save_policy(model, {"data": "toy"}, tmp_path / "b.safetensors")
    assert (tmp_path / "b.safetensors").read_bytes() == path.read_bytes()
    monkeypatch.setattr(weights, "NAMES", (*NAMES[:-1], "another"))
    with pytest.raises(StoreError, match="other features"):
        weights.load_policy(path)
    path.write_bytes(b"junk")
    with pytest.raises(StoreError, match="cannot be read"):
        weights.load_policy(path)
    with pytest.raises(StoreError, match="cannot be read"):
        weights.load_policy(tmp_path / "none.safetensors")


def test_edges_of_a_batch() -> None:
    ends, weight = edges_of(toy().batch([0, 1]))["previous"]
    assert ends.shape == (2, 14)
    assert int(ends.max()) == 15
    assert weight.tolist() == [1.0] * 14

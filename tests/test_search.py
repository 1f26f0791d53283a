import dataclasses
from typing import Any

import numpy as np
import pytest

from magma_gpu.config import SearchConfig
from magma_gpu.embed import HashEncoder
from magma_gpu.graph import TRIPLES, TYPE_CODE
from magma_gpu.lexical import Analyzer
from magma_gpu.memory_index import MemoryIndex, said_until
from magma_gpu.policy import PHI, structure_QR
from magma_gpu.search import Asked, Search, search
from magma_gpu.types import EDGE_TYPES, INTENTS, MemoryNote
from small_logs import HOUR, JANUARY, all_tables, index_of, turn

QUESTIONS = [
    "Why did Ana call the plumber?",
    "When did the pipe burst?",
    "Who is Bo?",
    "zebra",
    "",
    "the pipe the pipe",
]
TEXTS = [
    "The pipe burst in the kitchen.",
    "Bo said hello to everyone.",
    "We called a plumber because the pipe burst.",
    "Ana and Bo bought bread.",
    "The floor is still wet.",
    "Bo moved to Porto.",
]


def log(memory: str, texts: list[str] = TEXTS, session_of: Any = lambda i: "s") -> list[Any]:
    return [
        turn(t, memory_id=memory, turn_id=f"t{i}", at=i, seq=i, session_id=session_of(i), speaker=["Ana", "Bo"][i % 2])
        for i, t in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def indexes() -> list[MemoryIndex]:
    tables = all_tables(
        log("m"), log("n", [*TEXTS[::-1], "Zebra!"]), [MemoryNote(memory_id="none")], log("one", ["The pipe."])
    )
    return [index_of(tables, name) for name in ("m", "n", "none", "one")]


def asked(memories: list[int], questions: list[str], intent: list[list[float]] | None = None, **limits: Any) -> Asked:
    analyzer = Analyzer()
    return Asked(
        memory_Q=np.array(memories, dtype=np.int64),
        questions=questions,
        query_QD=HashEncoder(64).encode(questions).x_ND,
        terms=[analyzer.terms(q) for q in questions],
        windows=limits.get("windows", [None] * len(questions)),
        intent_QI=np.array(intent or [[0.0, 0.0, 0.0, 1.0]] * len(questions)).reshape(-1, 4),
    )


CONFIGS = [
    SearchConfig(policy="smooth"),
    SearchConfig(policy="smooth", spread_semantic=0.3, spread_causal=0.3, spread_entity=0.3, k=3),
    SearchConfig(policy="paper"),
    SearchConfig(policy="paper", beam_width=2, max_nodes=3, num_anchors=1, weight_lexical_window=1.0),
    SearchConfig(policy="smooth", time_window="filter"),
]
EACH = pytest.mark.parametrize("config", CONFIGS, ids=["smooth", "spread", "paper", "narrow", "filter"])


@EACH
def test_a_question_gets_the_same_alone_and_in_a_batch(indexes: list[MemoryIndex], config: SearchConfig) -> None:
    memories = [m for m in range(4) for _ in QUESTIONS]
    questions = QUESTIONS * 4
    intent = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.3, 0.3, 0.2, 0.2]] * 6
    windows = [None, (JANUARY, JANUARY + 3 * HOUR)] * 12
    together = search(indexes, asked(memories, questions, intent, windows=windows), config)
    by = np.random.default_rng(0).permutation(24)
    shuffled = search(
        indexes,
        asked(
            [memories[i] for i in by],
            [questions[i] for i in by],
            [intent[i] for i in by],
            windows=[windows[i] for i in by],
        ),
        config,
    )
    assert [together[i] for i in by] == shuffled
    for i in range(24):
        limits = {"windows": [windows[i]]}
        alone = search([indexes[memories[i]]], asked([0], [questions[i]], [intent[i]], **limits), config)
        assert alone == [together[i]], (memories[i], questions[i])


@EACH
def test_other_memories_of_the_store_change_nothing(config: SearchConfig) -> None:
    alone = index_of(all_tables(log("m")))
    beside = all_tables(log("m"), log("a", ["The pipe burst because of Bo."] * 30), log("z"))
    crowd = [index_of(beside, name) for name in ("a", "m", "z")]
    expected = search([alone], asked([0] * len(QUESTIONS), QUESTIONS), config)
    made = search(crowd, asked([1] * len(QUESTIONS), QUESTIONS), config)
    assert made == expected
    mixed = search(crowd, asked([0, 1, 2] * len(QUESTIONS), [q for q in QUESTIONS for _ in range(3)]), config)
    assert mixed[1::3] == expected
    assert any(r.found for r in expected)


def check(index: MemoryIndex, result: Search, config: SearchConfig) -> None:
    events = [f.event for f in result.found]
    assert len(set(events)) == len(events) <= config.k
    assert all(0 <= e < index.num_events for e in events)
    scores = [f.score for f in result.found]
    assert scores == sorted(scores, reverse=True)
    if scores:
        assert scores[0] == pytest.approx(1.0)
        assert min(scores) > 0
    for f in result.found:
        assert len(f.path) == f.hop
        assert all(rank >= 1 for rank in f.signals.values())


@EACH
def test_results_are_ranked_and_within_their_bounds(indexes: list[MemoryIndex], config: SearchConfig) -> None:
    for m, index in enumerate(indexes):
        for result in search(indexes, asked([m] * len(QUESTIONS), QUESTIONS), config):
            check(index, result, config)


@EACH
def test_no_questions_and_no_events(indexes: list[MemoryIndex], config: SearchConfig) -> None:
    assert search(indexes, asked([], []), config) == []
    made = search([indexes[2]], asked([0, 0], ["Why?", "pipe"]), config)
    assert [r.found for r in made] == [(), ()]


def test_the_event_with_the_words_comes_first(indexes: list[MemoryIndex]) -> None:
    for policy in ("smooth", "paper"):
        made = search(indexes, asked([0], ["Who moved to Porto?"]), SearchConfig(policy=policy))
        assert made[0].found[0].event == 5
        assert made[0].found[0].signals["lexical"] == 1


def test_neighbours_of_the_session_get_their_share() -> None:
    """Policy smooth by hand: only lexical, one hit, shares of 0.35 and 0.15."""
    index = index_of(all_tables(log("m", ["one", "two", "kestrel", "four", "five"], lambda i: "s" if i < 4 else "t")))
    config = SearchConfig(
        **{f"weight_{name}": 0.0 for name in ("dense", "dense_window", "lexical_window", "time")},
        policy="smooth",
        smooth_next=0.35,
        smooth_previous=0.15,
    )
    found = search([index], asked([0], ["kestrel"]), config)[0].found
    assert [(f.event, f.score, f.hop, f.path) for f in found] == [
        (2, pytest.approx(1.0), 0, ()),
        (1, pytest.approx(0.35), 1, ((2, "temporal"),)),
        (3, pytest.approx(0.15), 1, ((2, "temporal"),)),
    ]
    assert found[1].signals == {}


def walked(index: MemoryIndex, a: int, b: int, kind: str) -> bool:
    graph = index.graph
    of_type = graph.type_E.numpy() == TYPE_CODE[kind]
    src, dst = graph.src_E.numpy()[of_type].tolist(), graph.dst_E.numpy()[of_type].tolist()
    return (a, b) in zip(src, dst, strict=True) or (b, a) in zip(src, dst, strict=True)


@pytest.mark.parametrize("config", [CONFIGS[2], CONFIGS[3], CONFIGS[1]], ids=["paper", "narrow", "spread"])
def test_every_path_leads_over_edges_that_are_there(indexes: list[MemoryIndex], config: SearchConfig) -> None:
    steps = 0
    for m, index in enumerate(indexes):
        for result in search(indexes, asked([m] * len(QUESTIONS), QUESTIONS), config):
            found = {f.event: f for f in result.found}
            for f in result.found:
                nodes = [node for node, _ in f.path] + [f.event]
                assert len(set(nodes)) == len(nodes)
                for (a, kind), b in zip(f.path, nodes[1:], strict=True):
                    if config.policy == "smooth" and kind == "entity":
                        # The entity between the two is not named.
                        assert a != b
                    else:
                        assert walked(index, a, b, kind), (a, b, kind)
                    steps += 1
                if config.policy == "paper" and f.path and f.path[0][0] in found:
                    assert found[f.path[0][0]].hop == 0
    assert steps


def test_a_walk_starts_at_the_best_fused_events() -> None:
    index = index_of(all_tables(log("m")))
    config = SearchConfig(policy="paper", num_anchors=2, k=50)
    for result in search([index], asked([0] * len(QUESTIONS), QUESTIONS), config):
        anchors = [f for f in result.found if f.hop == 0]
        assert len(anchors) <= 2
        for f in result.found:
            if f.path:
                assert f.path[0][0] in {a.event for a in anchors}


def test_a_walk_that_may_not_move_returns_its_anchors() -> None:
    index = index_of(all_tables(log("m")))
    result = search([index], asked([0], ["pipe"]), SearchConfig(policy="paper", max_depth=0, num_anchors=3))[0]
    assert result.num_visited == 3
    assert all(f.hop == 0 for f in result.found)


def test_the_node_budget_is_kept_and_said() -> None:
    index = index_of(all_tables(log("m")))
    config = SearchConfig(policy="paper", max_nodes=4, num_anchors=2, drop_threshold=0.0)
    result = search([index], asked([0], ["pipe"]), config)[0]
    assert result.num_visited == 4
    assert result.truncated
    wide = search([index], asked([0], ["pipe"]), dataclasses.replace(config, max_nodes=200))[0]
    assert not wide.truncated


def test_a_hard_window_holds_what_is_found(indexes: list[MemoryIndex]) -> None:
    window = (JANUARY + HOUR, JANUARY + 4 * HOUR)
    for policy in ("smooth", "paper"):
        config = SearchConfig(policy=policy, time_window="filter", retrieval_threshold=-1.0)
        for result in search(indexes, asked([0] * 3, QUESTIONS[:3], windows=[window] * 3), config):
            assert {f.event for f in result.found} == {1, 2, 3}


# --------------------------------------------------------------------------------------------------------- policy


def test_the_table_of_the_paper() -> None:
    row = dict(zip(INTENTS, PHI.tolist(), strict=True))
    causal, temporal, entity = (EDGE_TYPES.index(t) for t in ("causal", "temporal", "entity"))
    # Table 5 of the paper: causal 3 to 5 for why, temporal 3 to 5 for when, entity 2.5 to 6.
    assert 3 <= row["why"][causal] <= 5
    assert 3 <= row["when"][temporal] <= 5
    assert 2.5 <= row["entity"][entity] <= 6
    assert row["open"] == [1.0] * 5
    assert list(TRIPLES) == list(EDGE_TYPES)


def test_structure_weights_by_hand() -> None:
    made = structure_QR(np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.4, 0.3, 0.2, 0.1]]), 1.0, 0.5)
    assert made.dtype == np.float32
    assert made.shape == (3, 10)
    assert made[0].tolist() == pytest.approx(np.exp([1, 1, 1, 1, 4, 4, 2.5, 2.5, 0.5, 0.5]).tolist())
    assert made[1, 4] == pytest.approx(np.exp(2.5))
    # Unsure: the open row.
    assert made[2].tolist() == pytest.approx([np.exp(1.0)] * 10)
    assert structure_QR(np.zeros((0, 4)), 1.0, 0.5).shape == (0, 10)


# ---------------------------------------------------------------------------------------------------- as of a moment


def later_log() -> list[Any]:
    """An early event, four others, an early event far from it, and a later one that is like both."""
    texts = ["red blue", "one", "two", "three", "four", "green gold", "red blue green gold secret"]
    return [turn(t, turn_id=f"t{i}", at=i, seq=i) for i, t in enumerate(texts)]


def later_index(limit: int | None = None) -> MemoryIndex:
    from magma_gpu.config import config_from

    tables = all_tables(later_log(), config=config_from({"embed": {"encoder": "hash", "content": "text"}}))
    return index_of(tables if limit is None else said_until(tables, limit))


def test_a_memory_as_it_was_holds_nothing_later() -> None:
    for hours, events in ((-1, 0), (0, 1), (5, 6), (60, 7)):
        index = later_index(JANUARY + hours * HOUR)
        assert index.num_events == events
        assert len(index.graph.episode_ids) == 1
        assert int((index.graph.type_E == 0).sum()) == max(0, events - 1)


@pytest.mark.parametrize("later", [False, True])
def test_a_walk_does_not_pass_through_what_was_said_later(later: bool) -> None:
    config = SearchConfig(policy="paper", num_anchors=1, weight_dense_window=0.0, weight_lexical_window=0.0)
    index = later_index(None if later else JANUARY + 5 * HOUR)
    result = search([index], asked([0], ["red blue green gold red"]), config)[0]
    assert result.found
    last = later_index().graph.event_ids[6]
    passed = {index.graph.node_id(n) for f in result.found for n in (*(node for node, _ in f.path), f.event)}
    assert (last in passed) == later


@pytest.mark.parametrize("policy", ["smooth", "paper"])
def test_words_said_later_find_nothing_said_before(policy: str) -> None:
    """The passage around an event holds the next one too, which may lie beyond the moment."""
    config = SearchConfig(policy=policy, retrieval_threshold=0.2, max_depth=0)
    assert search([later_index()], asked([0], ["secret"]), config)[0].found
    assert search([later_index(JANUARY + 5 * HOUR)], asked([0], ["secret"]), config)[0].found == ()


def test_neighbours_of_sessions_that_overlap_are_joined_by_no_temporal_edge() -> None:
    index = index_of(all_tables(log("m", TEXTS, lambda i: "st"[i % 2])))
    found = 0
    for result in search(
        [index],
        asked([0] * len(QUESTIONS), QUESTIONS),
        SearchConfig(policy="smooth", smooth_next=1.0, smooth_previous=1.0),
    ):
        found += len(result.found)
        for f in result.found:
            for node, kind in f.path:
                assert kind != "temporal" or walked(index, node, f.event, kind)
    assert found

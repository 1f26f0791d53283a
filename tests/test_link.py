from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from magma_gpu.config import LinkConfig
from magma_gpu.link import link_shard, memory_slices, vectors_of
from magma_gpu.schema import TABLES, vectors_schema
from small_logs import all_tables, turn


def shard(memories: dict[str, list[list[float] | None]]) -> tuple[pa.Table, pa.Table]:
    """Events e0, e1, ... of memories, in the order of their names reversed, and their vectors."""
    events, vectors = [], []
    for memory, rows in memories.items():
        for position, vector in enumerate(rows):
            row: dict[str, Any] = dict.fromkeys(TABLES["events"].names, "")
            row |= {"memory_id": memory, "event_id": f"{memory}-{9 - position}", "position": position}
            row |= {"part": 0, "time": None, "seq": 0, "caption": None, "reply_to": None, "time_text": None}
            events.append(row)
            vectors.append(
                {
                    "memory_id": memory,
                    "event_id": row["event_id"],
                    "vector": vector,
                    "num_tokens": 1,
                    "status": "failed" if vector is None else "ok",
                    "text_hash": "",
                }
            )
    return (
        pa.Table.from_pylist(events, schema=TABLES["events"]),
        pa.Table.from_pylist(vectors, schema=vectors_schema(2)),
    )


def pairs(edges: pa.Table) -> list[tuple[str, str]]:
    return list(zip(edges["src"].to_pylist(), edges["dst"].to_pylist(), strict=True))


def test_two_memories_by_hand() -> None:
    made = link_shard(*shard({"a": [[1, 0], [0.8, 0.6], [1, 0]], "b": [[1, 0]], "c": [[1, 0], [0, 1]]}), LinkConfig())
    assert made.temporal.schema.equals(TABLES["edges/temporal"])
    assert pairs(made.temporal) == [("a-9", "a-8"), ("a-8", "a-7"), ("c-9", "c-8")]
    assert made.temporal["weight"].to_pylist() == [1.0, 1.0, 1.0]
    assert set(made.temporal["origin"].to_pylist()) == {"order"}
    # From the smaller id to the larger, sorted by ids; no edge leaves its memory.
    assert pairs(made.semantic) == [("a-7", "a-8"), ("a-7", "a-9"), ("a-8", "a-9")]
    assert made.semantic["weight"].to_pylist() == [pytest.approx(0.8), 1.0, pytest.approx(0.8)]
    assert made.semantic["memory_id"].to_pylist() == ["a"] * 3
    assert made.counts == {"events_at_cap": 0}


def test_events_without_a_vector_have_a_place_in_the_chain_alone() -> None:
    made = link_shard(*shard({"a": [[1, 0], None, [1, 0]]}), LinkConfig())
    assert pairs(made.temporal) == [("a-9", "a-8"), ("a-8", "a-7")]
    assert pairs(made.semantic) == [("a-7", "a-9")]


def test_no_events() -> None:
    made = link_shard(*shard({}), LinkConfig())
    for edges, name in ((made.temporal, "edges/temporal"), (made.semantic, "edges/semantic")):
        assert edges.num_rows == 0
        assert edges.schema.equals(TABLES[name])


def test_weights_below_zero_are_zero() -> None:
    made = link_shard(*shard({"a": [[1, 0], [-1, 0]]}), LinkConfig(threshold=-1.0))
    assert made.semantic["weight"].to_pylist() in ([], [0.0])
    made = link_shard(*shard({"a": [[1, 0], [-0.6, 0.8]]}), LinkConfig(threshold=-1.0))
    assert made.semantic["weight"].to_pylist() == [0.0]


def test_ties_go_to_the_smaller_event_id() -> None:
    made = link_shard(*shard({"a": [[1, 0]] * 4}), LinkConfig(num_neighbors=1))
    assert pairs(made.semantic) == [("a-6", "a-7")]


def test_large_memories_use_the_approximate_index_and_say_so() -> None:
    events, vectors = shard({"a": [[float(np.cos(i)), float(np.sin(i))] for i in range(9)], "b": [[1, 0]]})
    config = LinkConfig(index="approximate", approximate_from=5, threshold=0.9)
    made = link_shard(events, vectors, config)
    assert made.counts["memories_approximate"] == 1
    assert 0 < made.counts["lowest_recall"] <= 1
    assert made.temporal.num_rows == 8


def test_a_memory_is_linked_as_if_it_were_alone() -> None:
    """Architecture, isolation: other memories of the shard change nothing."""
    log = [
        turn(f"I saw {what} today", turn_id=str(i), seq=i) for i, what in enumerate(["a dog", "a cat", "a dog", "it"])
    ]
    other = [turn(f"I saw {what} today", turn_id=str(i), seq=i, memory_id="a") for i, what in enumerate(["a dog"] * 9)]
    alone, both = all_tables(log), all_tables(other, log)
    for name in ("edges/temporal", "edges/semantic", "edges/entity", "edges/causal", "mentions", "entities"):
        own = [r for r in both[name].to_pylist() if r["memory_id"] == "m"]
        assert own == alone[name].to_pylist(), name
    assert alone["edges/semantic"].num_rows


def test_slices() -> None:
    def of(*ids: str) -> list[tuple[str, int, int]]:
        return memory_slices(pa.chunked_array([pa.array(ids[:2], pa.string()), pa.array(ids[2:], pa.string())]))

    assert of() == []
    assert of("a") == [("a", 0, 1)]
    assert of("a", "a", "b", "c", "c") == [("a", 0, 2), ("b", 2, 3), ("c", 3, 5)]


def test_vectors_of_a_slice_and_of_nulls() -> None:
    _, vectors = shard({"a": [[1, 0], None, [0, 1], None]})
    assert vectors_of(vectors).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]
    assert vectors_of(vectors.slice(1, 2)).tolist() == [[0, 0], [0, 1]]
    assert vectors_of(vectors.slice(1, 1)).tolist() == [[0, 0]]
    assert vectors_of(pa.concat_tables([vectors.slice(2, 1), vectors.slice(0, 1)])).tolist() == [[0, 1], [1, 0]]
    assert vectors_of(TABLES["vectors"].empty_table()).shape == (0, 0)

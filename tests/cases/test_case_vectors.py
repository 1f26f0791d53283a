"""Cases of vectors: what is too long, what is nothing, and that neither is lost without a word."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from case_inputs import case_input, generated, jsonl, made, rows, table

from magma_gpu.memory import Memory


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = generated("long_message", tmp_path_factory.mktemp("long"))
    made(folder / "out", folder / "long_message.jsonl")
    return folder / "out"


def test_case_c10_a_long_message_is_cut_into_events_and_none_of_it_is_lost(long_store: Path) -> None:
    events = rows(long_store, "events")
    long = [e for e in events if e["turn_id"] == "m1"]
    assert len(long) > 500
    text = "".join(e["text"] for e in long)
    assert len(text) == 200_000 * 6 + len("THE-TAIL-FACT: the key is under the blue pot.")
    vectors = rows(long_store, "vectors")
    assert {v["status"] for v in vectors} == {"ok"}
    # Every token was embedded: no event is longer than the encoder's window.
    assert max(v["num_tokens"] for v in vectors) < 256
    assert sum(m["num_turns"] for m in rows(long_store, "memories")) == 3


@pytest.mark.parametrize("policy", ["smooth", "paper"])
def test_case_c10_the_tail_is_found(long_store: Path, policy: str) -> None:
    from magma_gpu.config import config_from

    memory = Memory.open(long_store, config_from({"search": {"policy": policy}}))
    best = memory.query([case_input("C10")["query"]])[0].evidence[0]
    assert best.turn_id == "m1"
    assert best.text.endswith("the key is under the blue pot.")


def _texts() -> list[object]:
    return [float("nan") if t == "__FLOAT_NAN__" else t for t in case_input("C11")["texts"]]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_case_c11_texts_that_are_nothing_are_rejected_by_line_and_never_embedded(tmp_path: Path, kind: str) -> None:
    texts = _texts()
    log = tmp_path / f"log.{kind}"
    if kind == "jsonl":
        # Python's json writes NaN as it stands; other programs do the same.
        log.write_text("".join(json.dumps({"id": f"t{i}", "text": t}) + "\n" for i, t in enumerate(texts)))
        reasons = {"no text": 5}
    else:
        # A column of texts has no NaN; a data frame writes one as null.
        cells = [t if isinstance(t, str) else None for t in texts]
        pq.write_table(pa.table({"id": [f"t{i}" for i in range(len(texts))], "text": cells}), log)
        reasons = {"no text": 5}
    report = made(tmp_path / "out", log)
    assert report.ingest.by_reason == reasons
    assert [(e["turn_id"], e["text"]) for e in rows(tmp_path / "out", "events")] == [("t0", "hello"), ("t6", "ok")]
    assert [r["line"] for r in rows(tmp_path / "out", "rejected")] == [2, 3, 4, 5, 6]
    vectors = table(tmp_path / "out", "vectors")
    assert vectors["vector"].null_count == 0
    x = np.array(vectors["vector"].to_pylist())
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() < 1e-3


def test_case_c11_a_vector_that_stays_bad_is_null_marked_and_joined_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from magma_gpu import embed

    good = embed.HashEncoder.encode

    def failing(self: embed.HashEncoder, texts: list[str]) -> embed.Encoded:
        done = good(self, texts)
        status = ["failed" if "hello" in t else s for t, s in zip(texts, done.status, strict=True)]
        x = np.where(np.array(status)[:, None] == "failed", 0.0, done.x_ND).astype(np.float32)
        return embed.Encoded(x, done.num_tokens, status, 0)

    monkeypatch.setattr(embed.HashEncoder, "encode", failing)
    said = [{"id": f"t{i}", "speaker": "A", "text": t} for i, t in enumerate(["hello", "hello", "ok fine", "ok fine"])]
    report = made(tmp_path / "out", jsonl(tmp_path / "log.jsonl", said))
    monkeypatch.undo()
    assert report.stage("embed").counts["failed_vectors"] == 2
    vectors = {v["event_id"]: v for v in rows(tmp_path / "out", "vectors")}
    bad = {e for e, v in vectors.items() if v["status"] == "failed"}
    assert len(bad) == 2
    assert all(vectors[e]["vector"] is None for e in bad)
    edges = rows(tmp_path / "out", "edges/semantic")
    assert len(edges) == 1
    assert not bad & {edges[0]["src"], edges[0]["dst"]}
    # By its words the event can still be found.
    found = Memory.open(tmp_path / "out").query(["Who said hello?"])[0].evidence
    assert {e.event_id for e in found[:2]} == bad

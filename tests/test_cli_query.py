"""The contract with users, of the commands that read a store."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import EXAMPLES, HASH, LOG, refused, tree

# ------------------------------------------------------------------------------------------------- looking at a store


@pytest.mark.parametrize("command", ["status", "memories", "verify"])
def test_there_is_no_store(run: Any, tmp_path: Path, command: str) -> None:
    assert "There is no store at" in refused(run(command, tmp_path / "none"))
    refused(run(command, tmp_path))


def test_memories_status_verify(run: Any, examples_store: Path) -> None:
    rows = run("memories", examples_store, "--json").document["memories"]
    assert [(r["memory_id"], r["num_sessions"], r["num_turns"]) for r in rows] == [
        ("ana", 6, 96),
        ("samira", 5, 60),
        ("wes", 5, 83),
    ]
    assert rows[0]["first_time"] == "2024-01-14T19:10:00Z"
    status = run("status", examples_store, "--json").document
    assert (status["memories"], status["turns"], status["shards"]) == (3, 239, 1)
    assert [(s["stage"], s["done"], s["missing"], s["failed"]) for s in status["stages"]] == [
        (s, 1, 0, 0) for s in ("ingest", "embed", "link", "extract", "resolve")
    ]
    assert run("verify", examples_store, "--json").document["clean"] is True


def test_verify_of_a_damaged_store_ends_with_1(run: Any, store: Path) -> None:
    path = next((store / "events").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-5])
    ran = run("verify", store, "--json")
    assert ran.code == 1
    assert path.name in ran.out
    assert ran.document["clean"] is False


def test_a_damaged_file_is_made_again_by_the_next_build(run: Any, store: Path) -> None:
    before = tree(store)
    path = next((store / "vectors").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-5])
    assert run("build", LOG, "--out", store, *HASH).code == 0
    assert run("verify", store).code == 0
    assert tree(store) == before


# ----------------------------------------------------------------------------------------------------------- query


def test_a_question(run: Any, examples_store: Path) -> None:
    ran = run("query", examples_store, "Why did Ana move to Porto?", "--memory", "ana", "--k", 5, "--json")
    assert ran.code == 0
    assert ran.err == ""
    result = ran.document["results"][0]
    assert set(result) >= {"query_id", "intent", "window", "evidence", "context", "context_tokens", "missing"}
    assert len(result["evidence"]) == 5
    assert "intent: why" in ran.out
    paper = run("query", examples_store, "Why?", "--memory", "ana", "--policy", "paper", "--json").document
    assert paper["results"][0]["evidence"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Why?",), "none was named"),
        (("Why?", "--memory", "anna"), "holds no memory 'anna'"),
        (("Why?", "--memory", "ana", "--as-of", "soon"), "'soon'"),
        (("Why?", "--memory", "ana", "--k", "0"), "search.k must be from 1"),
        (("Why?", "--memory", "ana", "--k", "many"), "invalid int value"),
        (("Why?", "--memory", "ana", "--policy", "best"), "search.policy must be one of"),
        ((), "one QUESTION or --queries FILE"),
        (("Why?", "--queries", "x.jsonl"), "one QUESTION or --queries FILE"),
        (("--queries", "none.jsonl"), "do not exist"),
        (("Why?", "--memory", "ana", "--results", "x.csv"), "ending in .jsonl or .parquet"),
    ],
)
def test_questions_that_cannot_be_asked(run: Any, examples_store: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(run("query", examples_store, *arguments))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_batches_in_and_out(run: Any, examples_store: Path, tmp_path: Path, kind: str) -> None:
    rows = [json.loads(line) for line in (EXAMPLES / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    queries, results = tmp_path / f"queries.{kind}", tmp_path / f"results.{kind}"
    if kind == "jsonl":
        shutil.copy(EXAMPLES / "queries.jsonl", queries)
    else:
        pq.write_table(
            pa.Table.from_pylist([{k: r.get(k) for k in ("memory_id", "query_id", "question", "time")} for r in rows]),
            queries,
        )
    ran = run("query", examples_store, "--queries", queries, "--results", results, "--json")
    assert ran.code == 0, ran.err
    assert len(ran.document["results"]) == len(rows) == 41
    if kind == "jsonl":
        written = [json.loads(line) for line in results.read_text(encoding="utf-8").split("\n") if line]
        assert written == ran.document["results"]
    else:
        table = pq.read_table(results)
        assert table.column_names[:4] == ["memory_id", "query_id", "rank", "event_id"]
        wanted = [(r["query_id"], e["event_id"]) for r in ran.document["results"] for e in r["evidence"]]
        assert list(zip(table["query_id"].to_pylist(), table["event_id"].to_pylist(), strict=True)) == wanted
    assert [r["query_id"] for r in ran.document["results"]] == [r["query_id"] for r in rows]
    # The moment a question is asked at limits what is used.
    late = next(r for r in ran.document["results"] if r["query_id"] == "sam-06")
    assert all(e["time"] <= "2024-07-05T07:00:00Z" for e in late["evidence"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no question"),
        (b"nope\n", "line 1 is not JSON"),
        (b"[1]\n", "row 1: an object with memory_id, query_id, question is wanted"),
        (b'{"memory_id": "ana", "query_id": "1"}\n', "row 1: question must be a text"),
        (b'{"memory_id": "ana", "question": ""}\n', "question must be a text that is not empty"),
        (b'{"question": "Why?"}\n', "row 1: memory_id must be a text"),
        (b'{"memory_id": "anna", "question": "Why?"}\n', "holds no memory 'anna'"),
        (b'{"memory_id": "ana", "question": "Why?", "time": "soon"}\n', "time of question '1' cannot be read"),
        (b"PAR1xxxx", "damaged Parquet"),
        (b"\xff\xfe\x00", "neither Parquet nor JSONL"),
    ],
)
def test_question_files_that_do_not_fit(
    run: Any, examples_store: Path, tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes(content)
    assert words in refused(run("query", examples_store, "--queries", path))


def test_a_question_may_hold_a_line_separator(run: Any, examples_store: Path, tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    row = {"memory_id": "ana", "query_id": "1", "question": "Why\u2028did Ana\u0085move?"}
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    ran = run("query", examples_store, "--queries", path, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["results"][0]["question"] == row["question"]


@pytest.mark.parametrize(
    "place",
    [
        "none/results.jsonl",
        pytest.param("file/results.jsonl"),
    ],
)
def test_results_that_cannot_be_written(run: Any, examples_store: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    ran = run("query", examples_store, "Why?", "--memory", "ana", "--results", tmp_path / place)
    assert "cannot be written" in refused(ran)

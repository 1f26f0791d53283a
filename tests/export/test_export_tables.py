"""Every export holds what the store holds: counts, names of odd characters, and the edges among what was asked for."""

import csv
import re
from pathlib import Path

import duckdb
import networkx as nx
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from export_stores import ODD, ODD_MEMORY
from export_stores import stored_rows as _rows

from magma_gpu.errors import InputError, StoreError
from magma_gpu.export import FORMATS, export_store
from magma_gpu.store import Store

EDGES = ("temporal", "semantic", "causal", "entity")


def _expected(store: Path) -> dict[str, int]:
    counts = {f"{t}_edges": len(_rows(store, f"edges/{t}")) for t in EDGES}
    counts |= {t: len(_rows(store, t)) for t in ("memories", "sessions", "events", "episodes", "entities")}
    return counts | {"episode_edges": counts["events"]}


def test_the_store_has_what_the_tests_need(odd_store: Path) -> None:
    counts = _expected(odd_store)
    assert (counts["memories"], counts["events"]) == (3, 9)
    assert counts["temporal_edges"] == 6
    assert counts["semantic_edges"] > 0
    assert counts["entity_edges"] > 0
    assert Store(odd_store).open().num_shards == 2


@pytest.mark.parametrize("format_", FORMATS)
def test_report_counts_equal_the_store(odd_store: Path, tmp_path: Path, format_: str) -> None:
    report = export_store(odd_store, format_, tmp_path / "out")
    counts = _expected(odd_store)
    assert report.memories == counts["memories"]
    assert report.nodes == {"event": counts["events"], "episode": counts["episodes"], "entity": counts["entities"]}
    assert report.edges == {t: counts[f"{t}_edges"] for t in (*EDGES, "episode")}
    readme = (tmp_path / "out" / "README.md").read_text()
    assert f"| event nodes | {counts['events']} |" in readme
    assert str(tmp_path) not in readme


@pytest.mark.parametrize("format_", FORMATS)
def test_two_exports_are_equal_files(odd_store: Path, tmp_path: Path, format_: str) -> None:
    made = []
    for name in ("a", "b"):
        export_store(odd_store, format_, tmp_path / name)
        files = sorted(f for f in (tmp_path / name).rglob("*") if f.is_file())
        made.append({str(f.relative_to(tmp_path / name)): f.read_bytes() for f in files})
    assert made[0] == made[1]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("chosen", "total"),
    [({}, 3), ({"memory_id": ODD_MEMORY}, 1), ({"since": "2024-04-01"}, 3), ({"since": "2030-01-01"}, 3)],
)
def test_every_memory_is_counted_as_done(
    odd_store: Path, tmp_path: Path, format_: str, chosen: dict[str, str], total: int
) -> None:
    heard: list[tuple[int, int]] = []
    export_store(odd_store, format_, tmp_path / "out", told=lambda done, of: heard.append((done, of)), **chosen)
    assert heard[-1] == (total, total)
    assert heard == sorted(heard)
    assert {of for _, of in heard} == {total}


def test_parquet_round_trip(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "parquet", tmp_path / "out")
    for table in ("memories", "sessions", "events", "vectors", "episodes", "times", "entities", "mentions"):
        made = pq.read_table(tmp_path / "out" / table)
        expected = {r[made.column_names[1]]: r for r in _rows(odd_store, table)}
        assert made.num_rows == len(_rows(odd_store, table))
        for row in made.to_pylist():
            if table in ("memories", "events", "vectors", "episodes", "entities"):
                known = _rows(odd_store, "memories") if table == "memories" else [expected[row[made.column_names[1]]]]
                assert any(all(k not in o or row[k] == o[k] for k in row) for o in known)
    edges = pq.read_table(tmp_path / "out" / "edges")
    counts = {c["values"]: c["counts"] for c in edges["type"].value_counts().to_pylist()}
    expected_counts = {t: len(_rows(odd_store, f"edges/{t}")) for t in EDGES} | {"episode": 9}
    assert counts == {t: n for t, n in expected_counts.items() if n}
    events = pq.read_table(tmp_path / "out" / "events")
    assert ODD in events["speaker"].to_pylist()
    assert "seq" not in events.column_names
    episodes = {r["episode_id"]: r for r in pq.read_table(tmp_path / "out" / "episodes").to_pylist()}
    for event in events.to_pylist():
        owner = episodes[event["episode_id"]]
        assert owner["session_id"] == event["session_id"]
        assert owner["first"] <= event["position"] <= owner["last"]


def test_parquet_readme_query_runs_in_duckdb(odd_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_store(odd_store, "parquet", tmp_path / "out")
    readme = (tmp_path / "out" / "README.md").read_text()
    [query] = re.findall(r"```sql\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path / "out")
    rows = duckdb.execute(query).fetchall()
    assert len(rows) == len(_rows(odd_store, "edges/causal"))
    # Another type of edge, so that the query is known to find rows.
    every = query.replace("'causal'", "'temporal'").replace("LIMIT 10", "")
    assert len(duckdb.execute(every).fetchall()) == 6
    count = "SELECT count(*) FROM 'vectors/*.parquet' WHERE len(vector) = 64"
    assert duckdb.execute(count).fetchall() == [(9,)]


def test_graphml_opens_in_networkx(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "graphml", tmp_path / "out")
    with (tmp_path / "out" / "index.csv").open(newline="", encoding="utf-8") as file:
        index = {r["memory_id"]: r for r in csv.DictReader(file)}
    assert set(index) == {"plain", ODD_MEMORY, "solo"}
    nodes = edges = 0
    for memory_id, row in index.items():
        graph = nx.read_graphml(tmp_path / "out" / row["file"], force_multigraph=True)
        assert graph.graph["memory_id"] == memory_id
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (int(row["num_nodes"]), int(row["num_edges"]))
        nodes += graph.number_of_nodes()
        edges += graph.number_of_edges()
    counts = _expected(odd_store)
    assert nodes == counts["events"] + counts["episodes"] + counts["entities"]
    assert edges == sum(counts[f"{t}_edges"] for t in (*EDGES, "episode"))
    graph = nx.read_graphml(tmp_path / "out" / index[ODD_MEMORY]["file"])
    by_text = {r["event_id"]: r for r in _rows(odd_store, "events") if r["memory_id"] == ODD_MEMORY}
    for event_id, row in by_text.items():
        assert graph.nodes[event_id]["text"] == row["text"]
        assert graph.nodes[event_id]["speaker"] == row["speaker"]
        assert graph.nodes[event_id]["time"] == row["time"].strftime("%Y-%m-%dT%H:%M:%SZ")


def test_graphml_replaces_what_xml_cannot_hold() -> None:
    from magma_gpu.export.graphml import _xml

    assert _xml('a\x00\x1b<"\r\n\ud7ff') == "a\ufffd\ufffd&lt;&quot;&#13;\n\ud7ff"


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_neo4j_round_trip(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "neo4j-csv", tmp_path / "out")
    events = {r["event_id:ID(Event)"]: r for r in _csv(tmp_path / "out" / "nodes-event.csv")}
    stored = {r["event_id"]: r for r in _rows(odd_store, "events")}
    assert set(events) == set(stored)
    for event_id, row in stored.items():
        assert events[event_id]["text"] == row["text"]
        assert events[event_id]["speaker"] == row["speaker"]
        assert events[event_id]["turn_id"] == row["turn_id"]
    for name in EDGES:
        made = _csv(tmp_path / "out" / f"edges-{name}.csv")
        assert len(made) == len(_rows(odd_store, f"edges/{name}"))
    entities = {r["entity_id:ID(Entity)"]: r for r in _csv(tmp_path / "out" / "nodes-entity.csv")}
    for row in _rows(odd_store, "entities"):
        aliases = entities[row["entity_id"]]["aliases:string[]"]
        assert (aliases.split("\x1f") if aliases else []) == row["aliases"]
    # Every end of every relationship is a node of the id space that its header names.
    spaces: dict[str, set[str]] = {}
    for file in (tmp_path / "out").glob("nodes-*.csv"):
        for row in _csv(file):
            [(header, value)] = [(k, v) for k, v in row.items() if ":ID(" in k]
            spaces.setdefault(header.split("ID(")[1], set()).add(value)
    checked = 0
    for file in (tmp_path / "out").glob("edges-*.csv"):
        for row in _csv(file):
            for header, value in row.items():
                if "_ID(" in header:
                    assert value in spaces[header.split("ID(")[1]]
                    checked += 1
    assert checked > 60
    # A missing caption is not quoted, so the importer tells it from an empty text; a time has its T.
    written = (tmp_path / "out" / "nodes-event.csv").read_bytes()
    assert b'"Eva","other","Only this.",,"2024-03-01T10:00:00.000000Z","given"\n' in written


def test_neo4j_command_names_every_file(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "neo4j-csv", tmp_path / "out")
    readme = (tmp_path / "out" / "README.md").read_text()
    named = set(re.findall(r"=((?:nodes|edges)-\w+\.csv)", readme))
    assert named == {f.name for f in (tmp_path / "out").glob("*.csv")}


@pytest.mark.parametrize("format_", FORMATS)
def test_one_memory(odd_store: Path, tmp_path: Path, format_: str) -> None:
    report = export_store(odd_store, format_, tmp_path / "out", memory_id=ODD_MEMORY)
    assert (report.memories, report.nodes["event"], report.edges["temporal"]) == (1, 3, 2)


@pytest.mark.parametrize("format_", FORMATS)
def test_since_keeps_edges_among_what_remains(odd_store: Path, tmp_path: Path, format_: str) -> None:
    report = export_store(odd_store, format_, tmp_path / "out", since="2024-02-02")
    # plain: two of five; the odd one: one of three; solo: one.
    assert (report.memories, report.nodes["event"]) == (3, 4)
    assert report.edges["temporal"] == 1
    assert report.edges["episode"] == 4
    assert report.nodes["episode"] == 3


def test_since_counts_again(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "parquet", tmp_path / "out", since="2024-04-01")
    [memory] = pq.read_table(tmp_path / "out" / "memories").to_pylist()
    assert (memory["memory_id"], memory["num_turns"], memory["num_sessions"]) == ("plain", 2, 1)
    events = pq.read_table(tmp_path / "out" / "events")
    assert memory["first_time"] == pc.min(events["time"]).as_py()
    ids = set(events["event_id"].to_pylist())
    edges = pq.read_table(tmp_path / "out" / "edges").to_pylist()
    assert {e["src"] for e in edges} <= ids
    reached = [e["dst"] for e in edges if e["type"] == "entity"]
    for entity in pq.read_table(tmp_path / "out" / "entities").to_pylist():
        assert entity["num_events"] == reached.count(entity["entity_id"]) > 0


def test_counting_again_agrees_with_the_store(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "parquet", tmp_path / "all")
    export_store(odd_store, "parquet", tmp_path / "since", since="1990-01-01")
    for table in ("memories", "sessions", "events", "entities", "episodes", "edges", "times", "mentions"):
        assert pq.read_table(tmp_path / "all" / table).equals(pq.read_table(tmp_path / "since" / table)), table


def test_since_after_everything_is_an_empty_export(odd_store: Path, tmp_path: Path) -> None:
    for format_ in FORMATS:
        report = export_store(odd_store, format_, tmp_path / format_, since="2030-01-01")
        assert report.memories == 0
    assert pq.read_table(tmp_path / "parquet" / "events").num_rows == 0


def test_refusals(odd_store: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    with pytest.raises(StoreError, match="is not empty"):
        export_store(odd_store, "parquet", tmp_path / "full")
    assert [f.name for f in (tmp_path / "full").iterdir()] == ["mine.txt"]
    with pytest.raises(StoreError, match="is no folder"):
        export_store(odd_store, "parquet", tmp_path / "full" / "mine.txt")
    with pytest.raises(InputError, match="no memory 'nobody'"):
        export_store(odd_store, "parquet", tmp_path / "a", memory_id="nobody")
    with pytest.raises(InputError, match=r"--since cannot be read \(got 'soon'\)"):
        export_store(odd_store, "parquet", tmp_path / "a", since="soon")
    with pytest.raises(InputError, match="--to must be one of"):
        export_store(odd_store, "docx", tmp_path / "a")
    with pytest.raises(StoreError, match="There is no store"):
        export_store(tmp_path / "none", "parquet", tmp_path / "a")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["full"]


def test_nothing_is_left_of_an_export_that_fails(
    odd_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import magma_gpu.export.run as run

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run, "write_readme", fail)
    with pytest.raises(StoreError, match="No space is left"):
        export_store(odd_store, "parquet", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_given(odd_store: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert export_store(odd_store, "graphml", tmp_path / "out").memories == 3
    assert (tmp_path / "out" / "README.md").exists()

"""What other programs ask of the files: the importer of Neo4j, Gephi, DuckDB, Polars and pandas."""

import re
import xml.etree.ElementTree
from pathlib import Path

import neo4j_reader
import pytest
from export_stores import ODD, ODD_MEMORY, stored_rows

from magma_gpu.export import export_store

RELATIONS = {"temporal": "NEXT", "semantic": "SIMILAR", "causal": "CAUSES", "entity": "MENTIONS"}


def _blocks(readme: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)


# ------------------------------------------------------------------------------------------------------------- Neo4j


@pytest.fixture(scope="module")
def imported(odd_store: Path, tmp_path_factory: pytest.TempPathFactory) -> neo4j_reader.Database:
    out = tmp_path_factory.mktemp("neo4j") / "out"
    export_store(odd_store, "neo4j-csv", out)
    [command] = _blocks(out / "README.md", "sh")
    return neo4j_reader.run(command, out)


def test_nodes_are_imported_to_the_letter(odd_store: Path, imported: neo4j_reader.Database) -> None:
    for label, table, key in (("Event", "events", "event_id"), ("Episode", "episodes", "episode_id")):
        stored = {r[key]: r for r in stored_rows(odd_store, table)}
        assert set(imported.nodes[label]) == set(stored)
        for node, properties in imported.nodes[label].items():
            row = stored[node]
            assert properties == {k: row[k] for k in properties}
            # And what is missing is null in the store.
            assert {k for k, v in row.items() if v is not None} - set(properties) <= {
                *("session_id", "seq", "reply_to", "time_text", "zone_source", "source")
            }
    speakers = {p["speaker"] for p in imported.nodes["Event"].values()}
    assert {ODD, "阿南"} <= speakers
    entities = {r["entity_id"]: r for r in stored_rows(odd_store, "entities")}
    for node, properties in imported.nodes["Entity"].items():
        assert properties.get("aliases", []) == entities[node]["aliases"]
        assert (properties["name"], properties["num_events"]) == (entities[node]["name"], entities[node]["num_events"])
    assert set(imported.nodes["Memory"]) == {"plain", ODD_MEMORY, "solo"}
    assert len(imported.nodes["Session"]) == len(stored_rows(odd_store, "sessions"))


def test_relationships_are_imported_to_the_letter(odd_store: Path, imported: neo4j_reader.Database) -> None:
    for table, name in RELATIONS.items():
        stored = [(r["src"], r["dst"], r["weight"], r["origin"]) for r in stored_rows(odd_store, f"edges/{table}")]
        made = imported.relationships.get(name, [])
        assert sorted((a, b, p["weight"], p["origin"]) for a, b, p in made) == sorted(stored)
    for name in ("IN_EPISODE", "IN_SESSION"):
        assert len(imported.relationships[name]) == 9
    sessions = {p["session_id"] for p in imported.nodes["Session"].values()}
    assert "s,1" in sessions


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('a\n"b"c\n', "after a closing quote"),
        ('a\nb"c"\n', "a quote inside"),
        ('a\n"b\nc"\n', "a line end"),
        ("a\nb", "empty"),
    ],
)
def test_the_reader_is_strict(text: str, problem: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=problem):
        neo4j_reader.split(text, multiline=False)


def test_the_reader_tells_empty_from_missing() -> None:
    assert neo4j_reader.split('"",,"a""\\"\n,x,\n', multiline=True) == [["", None, 'a"\\'], [None, "x", None]]


def test_aliases_cannot_break_their_list() -> None:
    import pyarrow as pa

    from magma_gpu.export.neo4j import ARRAY_DELIMITER, _joined

    column = pa.chunked_array([pa.array([["a", f"b{ARRAY_DELIMITER}c"], []])])
    assert _joined(column).to_pylist() == [f"a{ARRAY_DELIMITER}b c", ""]


# ----------------------------------------------------------------------------------------------------------- GraphML

# What Gephi's importer knows; Python's value of each, so that no text stands where a number is declared.
_GEPHI = {"string": str, "int": int, "long": int, "float": float, "double": float}
_NS = "{http://graphml.graphdrawing.org/xmlns}"


def test_graphml_is_typed_as_gephi_reads_it(odd_store: Path, tmp_path: Path) -> None:
    export_store(odd_store, "graphml", tmp_path / "out")
    seen = set()
    for file in (tmp_path / "out" / "graphs").iterdir():
        root = xml.etree.ElementTree.parse(file).getroot()
        keys = {k.get("id"): k for k in root.findall(f"{_NS}key")}
        names = [(k.get("for"), k.get("attr.name")) for k in keys.values()]
        assert len(set(names)) == len(names) == len(root.findall(f"{_NS}key"))
        # One name has one type, for whatever it is said.
        assert len({n for _, n in names}) == len({(k.get("attr.name"), k.get("attr.type")) for k in keys.values()})
        [graph] = root.findall(f"{_NS}graph")
        assert graph.get("edgedefault") == "directed"
        nodes = [n.get("id") for n in graph.findall(f"{_NS}node")]
        edges = graph.findall(f"{_NS}edge")
        assert all(nodes)
        assert len(set(nodes)) == len(nodes)
        assert len({e.get("id") for e in edges}) == len(edges)
        assert {e.get(end) for e in edges for end in ("source", "target")} <= set(nodes)
        for kind in ("node", "edge"):
            for element in graph.findall(f"{_NS}{kind}"):
                given = [d.get("key") for d in element]
                assert len(set(given)) == len(given)
                for data in element:
                    key = keys[data.get("key")]
                    assert key.get("for") == kind
                    _GEPHI[str(key.get("attr.type"))](data.text or "")
                    seen.add((kind, key.get("attr.name"), key.get("attr.type")))
    assert {("node", "label", "string"), ("node", "position", "int"), ("edge", "weight", "double")} <= seen


# ------------------------------------------------------------------------------------------------------------ tables


@pytest.fixture
def tables(odd_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    export_store(odd_store, "parquet", tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    return tmp_path / "out"


def test_what_the_readme_asks_polars_and_pandas(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_tool = {re.findall(r"import (\w+)", code)[0]: code for code in _blocks(tables / "README.md", "python")}
    assert set(by_tool) == {"polars", "pandas", "SparkSession"}
    for tool in ("polars", "pandas"):
        pytest.importorskip(tool)
        exec(compile(by_tool[tool], tool, "exec"), {})
    said = capsys.readouterr().out
    assert "Ana" in said
    assert "temporal" in said


def test_polars_reads_every_table(odd_store: Path, tables: Path) -> None:
    pl = pytest.importorskip("polars")
    for folder in (p for p in tables.iterdir() if p.is_dir()):
        frame = pl.read_parquet(folder / "*.parquet")
        if folder.name not in ("edges", "queries"):
            assert frame.height == len(stored_rows(odd_store, folder.name)), folder.name
        for name in (n for n, kind in frame.schema.items() if kind in (pl.Float32, pl.Float64)):
            assert not frame[name].is_nan().any()
    events = pl.read_parquet("events/*.parquet")
    assert events.schema["time"] == pl.Datetime("us", "UTC")
    assert events.schema["position"] == pl.Int32
    assert pl.read_parquet("vectors/*.parquet").schema["vector"] == pl.Array(pl.Float32, 64)
    stored = {r["event_id"]: r for r in stored_rows(odd_store, "events")}
    for row in events.iter_rows(named=True):
        assert all(row[name] == stored[row["event_id"]][name] for name in ("text", "speaker", "time", "caption"))


def test_pandas_reads_every_table(odd_store: Path, tables: Path) -> None:
    pd = pytest.importorskip("pandas")
    for folder in (p for p in tables.iterdir() if p.is_dir()):
        frame = pd.read_parquet(folder)
        if folder.name not in ("edges", "queries"):
            assert len(frame) == len(stored_rows(odd_store, folder.name)), folder.name
    events = pd.read_parquet("events")
    assert str(events["time"].dt.tz) == "UTC"
    assert events["position"].dtype == "int32"
    assert events["caption"].isna().all()
    assert set(events["speaker"]) == {r["speaker"] for r in stored_rows(odd_store, "events")}
    joined = events.merge(pd.read_parquet("episodes"), on=["memory_id", "episode_id"], validate="many_to_one")
    assert len(joined) == len(events)
    edges = pd.read_parquet("edges")
    assert edges.groupby("type").size()["temporal"] == 6

"""The page as text: its data equal the store's, and nothing of a log can become markup or reach the network."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import pytest
from explore_pages import HOSTILE, hostile_store

from magma_gpu import Memory
from magma_gpu.config import load_config
from magma_gpu.errors import InputError, StoreError
from magma_gpu.explore import explore
from magma_gpu.explore.page import safe_json


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_store(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="module")
def page(store: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("page") / "page.html"
    config = load_config(None, ["search.policy=paper", "search.k=2"])
    explore(store, out, questions=["Why did Ana move to Porto?", HOSTILE], config=config)
    return out.read_text(encoding="utf-8")


def _data(page: str) -> dict:
    return json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[0])


def test_json_is_safe_inside_a_script_and_says_the_same() -> None:
    value = {"<!--": ["</script>", "]]>&amp;", "\u2028", 'quote " \\ \x00', "\U0001f600"], "n": [1, None, 0.5]}
    text = safe_json(value)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == value
    assert json.loads(safe_json("a\ud800b")) == "a?b"


def test_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError):
        safe_json(float("nan"))


def test_the_only_elements_are_those_of_the_template(page: str) -> None:
    assert page.count("<script") == page.count("</script>") == 3
    assert "<img" not in page
    # An id of a memory stands in the title alone, escaped.
    assert f"<title>{html.escape(HOSTILE)} " in page


def test_the_policy_allows_these_two_scripts_and_no_network(page: str) -> None:
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    policy = html.unescape(policy)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert rules["script-src"] == " ".join(f"'sha256-{h}'" for h in hashes)
    assert page.index("Content-Security-Policy") < page.index("<script")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_scripts_of_ours_write_no_markup() -> None:
    assets = Path(explore.__code__.co_filename).with_name("assets")
    for file in assets.glob("*.js"):
        if file.name != "force-graph.min.js":
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", file.read_text())


def test_data_equal_the_store(store: Path, page: str) -> None:
    data = _data(page)
    graph = Memory.open(store).graph(HOSTILE)
    assert data["memory"] == HOSTILE
    assert data["events"]["id"] == list(graph.event_ids)
    assert len(data["entities"]["name"]) == len(graph.entity_ids)
    for code, name in enumerate(data["edge_types"]):
        of_type = (graph.type_E == code).numpy()
        edges = data["edges"][name]
        made = sorted(zip(edges["src"], edges["dst"], strict=True))
        assert made == sorted(
            zip(graph.src_E.numpy()[of_type].tolist(), graph.dst_E.numpy()[of_type].tolist(), strict=True)
        )
    assert HOSTILE in data["speakers"]
    assert data["events"]["text"][1] == f"Porto! {HOSTILE}"
    assert data["missing"] == []


def test_a_question_has_its_walk_and_its_answer(store: Path, page: str) -> None:
    [query, other] = _data(page)["queries"]
    assert other["question"] == HOSTILE
    memory = Memory.open(store, load_config(None, ["search.policy=paper", "search.k=2"]))
    [result] = memory.query(["Why did Ana move to Porto?"])
    ids = _data(page)["events"]["id"]
    assert [ids[e["node"]] for e in query["evidence"]] == [e.event_id for e in result.evidence]
    assert (query["context"], query["context_tokens"]) == (result.context, result.context_tokens)
    assert sorted(query["told"]) == [0, 1]
    # The walk is all that was visited, more than what is returned; the evidence is its best.
    assert len(query["visited"]) > 2
    assert [v["node"] for v in query["visited"][:2]] == [e["node"] for e in query["evidence"]]
    for visit in query["visited"]:
        assert len(visit["path"]) == visit["hop"]
        assert all(kind in _data(page)["edge_types"] for _, kind in visit["path"])


def test_the_same_store_gives_the_same_page(store: Path, tmp_path: Path) -> None:
    explore(store, tmp_path / "a.html")
    explore(store, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert [f.name for f in sorted(tmp_path.iterdir())] == ["a.html", "b.html"]


def test_refusals(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no memory 'nobody'"):
        explore(store, tmp_path / "a.html", memory_id="nobody")
    with pytest.raises(StoreError, match="is a folder"):
        explore(store, tmp_path)
    with pytest.raises(StoreError, match="There is no store"):
        explore(tmp_path / "none", tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_the_licences_travel_with_the_page(page: str) -> None:
    assert "Copyright (c) 2018 Vasco Asturiano" in page
    assert "Permission is hereby granted, free of charge" in page

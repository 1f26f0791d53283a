"""The documents say what is so: commands and queries run, links and files exist, tables and settings are complete.

Commands run in a folder that holds the store of `examples/` as `memories` (and as `DIR`), built by the hash encoder,
and `examples/` itself. What needs other hardware, other data or a long time stands in blocks that are not `sh`.
"""

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import exit_code
from magma_gpu.config import Config
from magma_gpu.schema import TABLES

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = [*DOCS, ROOT / "README.md"]
# The pages whose Python is run; others show adapters of packages that are not installed here.
_PYTHON = (
    "README.md",
    "concepts.md",
    "explorer.md",
    "exports.md",
    "extending.md",
    "search.md",
    "troubleshooting.md",
    "tuning.md",
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.fixture
def folder(examples_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a page's commands run."""
    for name in ("memories", "DIR"):
        shutil.copytree(examples_store, tmp_path / name)
    for name in ("examples", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(block: str) -> Iterator[str]:
    """The commands of a block, continued lines joined."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


@pytest.mark.parametrize("page", [p for p in _COMMANDS if blocks(p, "sh")], ids=name_of)
def test_commands_run(page: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for block in blocks(page, "sh"):
        for command in commands(block):
            words = shlex.split(command, comments=True)
            if words[0] == "make":
                # What a job of its own does, with an environment of its own.
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
                continue
            if page.name == "README.md" and words[1] == "build":
                words += ["--set", "embed.encoder=hash"]
            if words[0] == "magma-gpu" and not set(words) & {"|", ">", "&&", ";"}:
                code = exit_code(words[1:])
            else:
                # Everything else by a shell, with the commands of this environment.
                path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
                code = subprocess.run(["bash", "-c", command], env={"PATH": path, "OMP_NUM_THREADS": "1"}).returncode
            out, err = capfd.readouterr()
            assert code == 0, f"{command}\n{out[-2000:]}\n{err[-2000:]}"


@pytest.mark.parametrize("page", [p for p in _COMMANDS if blocks(p, "sql")], ids=name_of)
def test_queries_run(page: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    duckdb = pytest.importorskip("duckdb")
    assert exit_code(["query", "memories", "--queries", "examples/queries.jsonl", "--results", "results.parquet"]) == 0
    connection = duckdb.connect()
    for query in blocks(page, "sql"):
        # The text of every value, so that no zone database is wanted of Python.
        rows = connection.sql(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({query.rstrip().rstrip(';')})").fetchall()
        assert rows or re.search(r"/(queries|rejected|edges/causal)/", query), query


@pytest.mark.parametrize("page", [p for p in _COMMANDS if p.name in _PYTHON and blocks(p, "python")], ids=name_of)
def test_python_runs(page: Path, folder: Path) -> None:
    if page.name == "exports.md":
        # Its code reads what its commands write.
        for block in blocks(page, "sh"):
            assert exit_code([*shlex.split(block)[1:], "--quiet"]) == 0
    names: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name}, block {number}", "exec"), names)


# ---------------------------------------------------------------------------------------------------------------- links

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`([\w./-]+\.(?:py|toml|md|ipynb|cff|cu|cpp|sh|svg))`")
_STORED = re.compile(r"`((?:docs|examples|configs|magma_gpu|tests)/[\w./-]+)`")


def anchor(title: str) -> str:
    """The anchor that a heading gets on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, part = target.partition("#")
        at = (page.parent / file).resolve() if file else page
        if not at.exists():
            wrong.append(target)
        elif part:
            titles = re.findall(r"^#+ (.+)$", at.read_text(encoding="utf-8"), re.MULTILINE)
            if part not in {anchor(t) for t in titles}:
                wrong.append(target)
    assert wrong == []


# Files that runs make, and one of LoCoMo's own repository.
_NOT_HERE = {"report.md", "task_eval/evaluation.py"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    text = prose(page)
    known = {
        p.name
        for folder in ("magma_gpu", "kernels", "pipelines", "tests", "docs", "configs")
        for p in (ROOT / folder).rglob("*")
    }
    wrong = []
    for name in {*_FILE.findall(text), *_STORED.findall(text)} - _NOT_HERE:
        where = [ROOT, page.parent, ROOT / "magma_gpu", ROOT / "kernels" / "magma_kernels", ROOT / "pipelines"]
        if not any((folder / name).exists() for folder in where) and not ("/" not in name and name in known):
            wrong.append(name)
    assert sorted(wrong) == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in DOCS if p.name != "README.md" and f"({p.name})" not in index] == []
    assert [p.name for p in (ROOT / "notebooks").glob("*.ipynb") if p.name not in index] == []


# --------------------------------------------------------------------------------------------------- tables, settings

_KINDS = {
    "string": pa.string(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "list of string": pa.list_(pa.string()),
    "list of float": pa.list_(pa.float32()),
    "map(string, float)": pa.map_(pa.string(), pa.float32()),
    "list of struct(node string, edge_type string)": TABLES["results"].field("path").type,
}


def sections() -> dict[str, str]:
    text = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {m[1]: part for part in parts if (m := re.match(r"`([\w/]+)`\n", part))}


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_table_is_described() -> None:
    assert set(sections()) == set(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_described(table: str) -> None:
    stated = [(r[0].strip("`"), _KINDS[r[1].rstrip("?")], r[1].endswith("?")) for r in rows(sections()[table])]
    assert stated == [(f.name, f.type, f.nullable) for f in TABLES[table]]


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_sorted_as_described(table: str, examples_store: Path) -> None:
    stated = re.search(r"^Sorted by: (.+)\.$", sections()[table], re.MULTILINE)
    assert stated
    columns = re.findall(r"`(\w+)`", stated[1])
    # An order by the position of something else than the row itself is `verify`'s to check.
    if not columns or not set(columns) <= set(TABLES[table].names) or "position of" in stated[1]:
        return
    for file in (examples_store / table).glob("*.parquet"):
        keys = list(zip(*(pq.read_table(file)[c].to_pylist() for c in columns), strict=True))
        assert keys == sorted(keys)


def test_every_setting_is_described_with_its_default() -> None:
    text = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    stated = {m[1]: m[2] for m in re.finditer(r"^\| `(\w+\.\w+)` \| `([^`]*)` \|", text, re.MULTILINE)}
    wanted = {
        f"{section.name}.{field.name}": json.dumps(getattr(getattr(Config(), section.name), field.name))
        for section in dataclasses.fields(Config)
        for field in dataclasses.fields(getattr(Config(), section.name))
    }
    assert {k: float(v) if _is_number(v) else v for k, v in stated.items()} == {
        k: float(v) if _is_number(v) else v for k, v in wanted.items()
    }


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(e\d+)?", text) is not None


def test_messages_in_troubleshooting_are_those_of_the_source() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = [m[1] for m in re.finditer(r"^\| “([^”]+)” \|", text, re.MULTILINE)]
    source = "\n".join(
        p.read_text(encoding="utf-8")
        for folder in ("magma_gpu", "kernels", "pipelines")
        for p in (ROOT / folder).rglob("*.py")
    )
    assert len(messages) > 10
    # A message may name what was got: the words between such places stand in the source.
    assert [m for m in messages if any(part.strip() not in source for part in m.split("…"))] == []


def test_numbers_of_the_search_are_those_of_the_code() -> None:
    import numpy as np

    from magma_gpu.features import NAMES
    from magma_gpu.policy import PHI
    from magma_gpu.search import _WALK_SHARE
    from magma_gpu.types import INTENTS

    text = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    for intent, row in zip(INTENTS, PHI, strict=True):
        stated = re.search(rf"^\| {intent} \| (.+) \|$", text, re.MULTILINE)
        assert stated
        assert np.allclose([float(v) for v in stated[1].split(" | ")], row)
    assert f"{len(NAMES)} features" in text
    assert f"{_WALK_SHARE} ·" in text


def test_measured_recall_is_that_of_its_file() -> None:
    measured = json.loads((ROOT / "docs" / "results" / "locomo_retrieval.json").read_text(encoding="utf-8"))
    systems = {
        "dense": "dense",
        "BM25": "bm25",
        "reciprocal rank fusion of the two": "rrf",
        "policy `paper` (Algorithm 1)": "policy paper",
        "policy `smooth`": "policy smooth",
        "policy `learned`, the default: fitted on free data, LoCoMo never seen": "policy learned",
    }
    stated = {r[0]: r[1:] for r in rows((ROOT / "README.md").read_text(encoding="utf-8")) if len(r) == 6}
    for name, key in systems.items():
        found = measured["systems"][key]
        shares = [found[k] for k in ("recall@5", "recall@10", "recall@20", "recall@50", "all@10")]
        assert stated[name] == [f"{100 * share:.1f}" for share in shares], name


# ------------------------------------------------------------------------------------------------------------- others


def test_the_picture_is_drawn_from_a_store(examples_store: Path, tmp_path: Path) -> None:
    script = ROOT / "docs" / "draw_concepts.py"
    out = tmp_path / "concepts.svg"
    arguments = [examples_store, "--memory", "ana", "--session", "ana-s3", "--out", out]
    subprocess.run([sys.executable, script, *arguments], check=True, env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin"})
    for file in (out, ROOT / "docs" / "concepts.svg"):
        tree = xml.etree.ElementTree.parse(file)
        circles = [e for e in tree.iter() if e.tag.endswith("circle")]
        assert len(circles) == 18
        # What both encoders agree on: the chain and the cause.
        text = file.read_text(encoding="utf-8")
        assert text.count('marker-end="url(#temporal)"') == 17
        assert text.count('marker-end="url(#causal)"') == 1


def test_versions_agree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in citation
    assert "2601.03236" in citation

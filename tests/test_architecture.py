"""What holds of the whole source, found by reading it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    p for folder in ("magma_gpu", "kernels", "pipelines") for p in (ROOT / folder).rglob("*.py") if p.is_file()
)


def calls_of(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_the_source_was_found() -> None:
    assert len(SOURCES) > 40
    assert ROOT / "magma_gpu" / "device.py" in SOURCES


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_source_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module opens with what it does"
    if path.name not in ("device.py", "backend.py"):
        assert "cuda.is_available" not in text, "only device.py and backend.py ask whether there is a GPU"
    assert not re.search(r"weights_only\s*=\s*False", text)
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
    for name, call in calls_of(tree):
        arguments = {k.arg: ast.unparse(k.value) for k in call.keywords}
        assert arguments.get("allow_pickle") in (None, "False")
        assert name not in ("eval", "exec"), f"{path.name} calls {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"a bare except at line {node.lineno}"
            silent = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
            assert not (silent and ast.unparse(node.type) in ("Exception", "BaseException"))
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"


def test_folders_with_names_of_other_packages_are_no_packages() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists()
    assert not (ROOT / "pipelines" / "__init__.py").exists()


def test_ray_is_imported_in_one_module() -> None:
    found = [p.name for p in SOURCES if re.search(r"^\s*(import|from) ray\b", p.read_text(encoding="utf-8"), re.M)]
    # The benchmark of crashes ends workers and nodes of a cluster of its own.
    assert set(found) <= {"ray_runner.py", "crash.py"}


def test_no_path_of_this_machine_is_written_down() -> None:
    folders = ("magma_gpu", "kernels", "pipelines", "configs", "tests", "docs", "examples")
    files = [p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".toml", ".md", ".jsonl")]
    here = str(ROOT)
    assert [str(p) for p in files if here in p.read_text(encoding="utf-8")] == []

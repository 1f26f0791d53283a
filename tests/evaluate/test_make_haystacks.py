"""Made-up haystacks: own sessions and evidence kept, filler added, dates before the question, the same every time."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_files import locomo_file, longmemeval_file

from magma_gpu.readers import find_sources, read_source
from magma_gpu.types import Question, Turn

SCRIPT = Path(__file__).resolve().parents[2] / "pipelines" / "bench" / "make_haystacks.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_haystacks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_haystacks_have_the_official_schema_and_the_evidence(tmp_path: Path) -> None:
    questions, filler = longmemeval_file(tmp_path / "q.json"), locomo_file(tmp_path / "f.json")
    out = tmp_path / "madeup.json"
    arguments = ["--questions", str(questions), "--filler", str(filler), "--sessions", "15", "--out", str(out)]
    assert script().main(arguments) == 0
    first = out.read_bytes()
    assert script().main(arguments) == 0
    assert out.read_bytes() == first
    made = json.loads(first)
    given = json.loads(questions.read_text(encoding="utf-8"))
    assert [m["question_id"] for m in made] == [f"madeup-{g['question_id']}" for g in given]
    for item, before in zip(made, given, strict=True):
        assert len(item["haystack_sessions"]) == len(item["haystack_dates"]) == 15
        own = [
            s for i, s in zip(item["haystack_session_ids"], item["haystack_sessions"], strict=True) if "filler" not in i
        ]
        assert sorted(map(json.dumps, own)) == sorted(map(json.dumps, before["haystack_sessions"]))
        dates = [script()._parsed(d) for d in item["haystack_dates"]]
        assert dates == sorted(dates)
        assert dates[-1] < script()._parsed(item["question_date"])
    (source,) = find_sources([str(out)])
    records = list(read_source(source, "longmemeval", memory_id=None))
    asked = [r for r in records if isinstance(r, Question)]
    assert all(q.evidence for q in asked)
    assert sum(isinstance(r, Turn) for r in records) == sum(len(s) for m in made for s in m["haystack_sessions"])
    assert script().main([*arguments, "--limit", "2"]) == 0
    assert json.loads(out.read_bytes()) == made[:2]


@pytest.mark.parametrize(
    "name", ["longmemeval_s.json", "LongMemEval_M.json", "longmemeval_oracle.json", "longmemeval_s_cleaned.json"]
)
def test_the_name_of_a_published_set_is_refused(name: str, tmp_path: Path) -> None:
    questions = longmemeval_file(tmp_path / "q.json", 1)
    assert script().main(["--questions", str(questions), "--out", str(tmp_path / name)]) == 2
    assert not (tmp_path / name).exists()


def test_how_recent_a_session_is_says_nothing_about_evidence(tmp_path: Path) -> None:
    session = [{"role": "user", "content": "x", "has_answer": True}]
    item = {
        "question_id": "q",
        "question_type": "t",
        "question": "When?",
        "answer": "then",
        "question_date": "2024/06/10 (Mon) 10:00",
        "haystack_session_ids": ["own"],
        # Hours before the question, when everything else in half a year would be older.
        "haystack_dates": ["2024/06/10 (Mon) 06:00"],
        "haystack_sessions": [session],
    }
    filler = [[{"role": "user", "content": str(n)}] for n in range(200)]
    (made,) = script().haystacks([item], filler, 101, 0)
    place = made["haystack_session_ids"].index("own")
    assert 30 <= place <= 70

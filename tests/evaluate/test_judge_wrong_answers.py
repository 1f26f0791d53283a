"""Measuring a judge: the wrong answers are wrong, the counts are those of the judge, a run that ended goes on."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chat_server import said, serve

SCRIPT = Path(__file__).resolve().parents[2] / "pipelines" / "bench" / "judge_wrong_answers.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("judge_wrong_answers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def key(tmp_path: Path) -> Path:
    golds = [("locomo_0_qa0", 1, "bread"), ("locomo_0_qa1", 2, "7 May 2023"), ("locomo_0_qa2", 1, "rye bread")]
    golds += [("locomo_0_qa3", 1, "a dog"), ("locomo_1_qa0", 1, "Paris"), ("locomo_0_qa4", 2, 2022)]
    rows: list[dict[str, Any]] = [
        {"question_id": i, "category": c, "category_name": "x", "question": f"What is {i}?", "golden_answer": g}
        for i, c, g in golds
    ]
    path = tmp_path / "key.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def test_wrong_answers_are_wrong_and_of_the_same_kind(script: ModuleType, key: Path) -> None:
    entries = script.read_key(key)
    assert [e.conversation for e in entries] == ["locomo_0"] * 4 + ["locomo_1", "locomo_0"]
    # Not "rye bread", which shares a word, nor an answer of another conversation or category.
    assert script.other_gold(entries, 0) == "a dog"
    assert script.other_gold(entries, 1) == "2022"
    assert script.other_gold(entries, 3) == "bread"
    assert script.other_gold(entries, 4) is None
    made = script.made_answers(entries, 3)
    assert set(made) == {"gold", "other", "vague", "negated"}
    assert "a dog" not in made["vague"]
    assert "What is locomo_0_qa3" in made["vague"]
    assert made["negated"] == "It is definitely not a dog."


def test_it_counts_what_the_judge_accepts_and_asks_nothing_twice(
    script: ModuleType, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx")

    def judge(number: int, body: dict[str, Any]) -> Any:
        asked = body["messages"][1]["content"]
        gold, answer = (asked.split(f"{name}: ")[1].splitlines()[0] for name in ("Reference answer", "Answer to grade"))
        is_strict = "says everything" in body["messages"][0]["content"]
        if "They talked" in answer:
            return said("maybe")
        return said("RIGHT: it says it" if gold in answer and not (is_strict and gold != answer) else "WRONG: no")

    with serve(judge) as served:
        arguments = ["--key", str(key), "--base-url", served.url, "--model", "m", "--out", str(tmp_path / "run")]
        assert script.main(arguments) == 0
        document = json.loads(capsys.readouterr().out.splitlines()[-1])
        # Six questions, one of them without another gold; four kinds, two rubrics.
        assert len(served.bodies) == 2 * (6 + 5 + 6 + 6)
        assert script.main(arguments) == 0
        assert len(served.bodies) == 2 * (6 + 5 + 6 + 6)
    accepted = document["accepted"]
    assert accepted["gold"]["strict"]["value"] == 1.0
    assert accepted["other"]["lenient"]["value"] == 0.0
    assert accepted["other"]["lenient"]["n"] == 5
    assert accepted["negated"]["lenient"]["value"] == 1.0
    assert accepted["negated"]["strict"]["value"] == 0.0
    assert (accepted["vague"]["strict"]["value"], accepted["vague"]["strict"]["unreadable"]) == (None, 6)
    assert json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8")) == document
    assert "bread" not in json.dumps(document)

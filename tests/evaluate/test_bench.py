"""Whole benchmark runs over small files by the hash encoder: numbers, resume, report, comparison."""

import dataclasses
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import locomo_file, longmemeval_file

from chat_server import said, serve
from magma_gpu.chat_client import ChatConfig
from magma_gpu.config import Config, config_from
from magma_gpu.errors import InputError
from magma_gpu.evaluate import steps
from magma_gpu.evaluate import systems as systems_module
from magma_gpu.evaluate.comparison import compare_runs
from magma_gpu.evaluate.gold import MemoryTurns
from magma_gpu.evaluate.steps import Steps
from magma_gpu.evaluate.systems import Returned
from magma_gpu.extractive import ExtractiveEngine
from magma_gpu.types import Question
from magma_pipelines import bench_run
from magma_pipelines.bench import BenchOptions, run_bench
from magma_pipelines.build import BuildOptions
from magma_pipelines.cli import main

SYSTEMS = ("smooth", "bm25", "recency", "full-context", "paper", "paper-no-causal")


def hash_config() -> Config:
    return config_from({"embed": {"encoder": "hash"}, "run": {"device": "cpu"}, "search": {"policy": "smooth"}})


def options(data: Path, out: Path, **more: Any) -> BenchOptions:
    settings = {"benchmark": "locomo", "systems": SYSTEMS, "resamples": 50, "quiet": True}
    return BenchOptions(data=data, out=out, **(settings | more))


@pytest.fixture(scope="module", autouse=True)
def _one_code() -> Iterator[None]:
    """The source files may be edited while the tests run; a run is of one state of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("magma_pipelines.bench_run.code_hash", lambda *roots: "code")
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return locomo_file(tmp_path_factory.mktemp("data") / "small_locomo.json")


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("run")
    return out, run_bench(options(data, out, engine=ExtractiveEngine()), hash_config())


def untimed(document: dict[str, Any]) -> dict[str, Any]:
    """A report without what depends on the clock."""
    made = json.loads(json.dumps(document))
    del made["build"]
    for system in made["systems"].values():
        for name in ("latency_ms", "questions_per_s", "build_s"):
            del system[name]
    return made


def test_a_run_says_what_was_asked_and_measures_every_system(run: tuple[Path, dict[str, Any]]) -> None:
    _, report = run
    assert report["questions"]["n"] == 21
    assert report["questions"]["with_evidence"] == 18
    assert report["questions"]["answerable"] == 18
    assert list(report["systems"]) == list(SYSTEMS)
    recall = {n: s["metrics"]["original"]["overall"]["turn_recall@20"] for n, s in report["systems"].items()}
    assert recall["bm25"]["n"] == 18
    assert recall["bm25"]["value"] > recall["recency"]["value"]
    assert recall["smooth"]["low"] <= recall["smooth"]["value"] <= recall["smooth"]["high"]
    # Three conversations are too few for an interval over them.
    assert recall["smooth"]["low_clustered"] is None


def test_what_cannot_be_computed_is_null(run: tuple[Path, dict[str, Any]]) -> None:
    _, report = run
    whole = report["systems"]["full-context"]["metrics"]["original"]
    assert whole["overall"]["turn_recall@20"]["value"] is None
    assert whole["overall"]["recall_returned"]["value"] == 1.0
    adversarial = report["systems"]["bm25"]["metrics"]["original"]["adversarial"]
    assert adversarial["turn_recall@5"] == {
        "value": None,
        "n": 0,
        "low": None,
        "high": None,
        "low_clustered": None,
        "high_clustered": None,
    }
    assert adversarial["f1"]["value"] is None
    assert adversarial["abstention"]["n"] == 3


def test_the_constant_refusal_stands_beside_the_answers(run: tuple[Path, dict[str, Any]]) -> None:
    _, report = run
    refusal = report["baselines"]["constant-refusal"]["original"]["overall"]
    assert refusal["abstention"]["value"] == 1.0
    assert refusal["false_abstention"]["value"] == 1.0
    assert refusal["same"]["value"] == 0.0
    ours = report["systems"]["smooth"]["metrics"]["original"]["overall"]
    assert ours["false_abstention"]["value"] < 1.0
    assert ours["f1"]["value"] > refusal["f1"]["value"]


@pytest.mark.parametrize(("quiet", "terminal"), [(False, True), (True, True), (False, False)])
def test_a_terminal_shows_every_step(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: bool, terminal: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", screen)
    with serve(lambda number, body: said("RIGHT")) as served:
        config = ChatConfig(base_url=served.url, model="m", concurrency=4)
        asked = options(data, tmp_path, systems=("bm25", "recency"), quiet=quiet)
        run_bench(dataclasses.replace(asked, engine=ExtractiveEngine(), judge=config), hash_config())
    words = screen.getvalue()
    for bar in ("build", "bm25: ask", "recency: build", "recency: answer", "bm25: judge strict, original"):
        assert (f"{bar}:   0%|" in words) == (terminal and not quiet), bar
    assert (terminal and not quiet) or words == ""


def test_an_interrupted_run_resumes_to_the_same_report(
    data: Path, run: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out, whole = run
    again = tmp_path / "again"
    shutil.copytree(out, again)
    # As a crash would leave it: no report, one system not asked, another half answered.
    for name in ("report.json", "report.html", "report.md", "scores.jsonl"):
        (again / name).unlink()
    shutil.rmtree(again / "systems" / "bm25")
    (part,) = (again / "systems" / "smooth").glob("answers-*/part-00000.jsonl")
    part.write_text(part.read_text(encoding="utf-8")[:500], encoding="utf-8")
    document = run_bench(options(data, again, engine=ExtractiveEngine()), hash_config())
    assert untimed(document) == untimed(whole)
    assert document["systems"]["paper"]["latency_ms"] == whole["systems"]["paper"]["latency_ms"]


class Stopped(BaseException):
    """As a kill is: nothing between the step and the command may catch it."""


def test_a_run_that_dies_after_every_single_step_ends_in_the_same_report(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httpx")
    from magma_gpu.chat_client import ChatConfig, OpenAIEngine

    def script(number: int, body: dict[str, Any]) -> Any:
        asked = body["messages"][1]["content"]
        if body["model"] == "answers":
            return said(f"Answer: {len(asked) % 7} loaves\nEvidence: none")
        return said("RIGHT: yes" if len(asked) % 2 else "WRONG: no")

    left = [10**9]
    whole_build, write, write_text = bench_run.build, Steps.write, Steps.write_text

    def build_some(inputs: Any, out: Path, config: Config, options: BuildOptions) -> Any:
        if out.exists():
            return whole_build(inputs, out, config, options)
        whole_build(inputs, out, config, dataclasses.replace(options, until="embed"))
        raise Stopped

    def dying(write: Any) -> Any:
        def after(*given: Any) -> None:
            write(*given)
            left[0] -= 1
            if left[0] == 0:
                raise Stopped

        return after

    monkeypatch.setattr(Steps, "write", dying(write))
    monkeypatch.setattr(Steps, "write_text", dying(write_text))
    with serve(script) as served:
        chat = ChatConfig(base_url=served.url, model="answers", concurrency=1)
        more: dict[str, Any] = {
            "systems": ("bm25",),
            "limit": 7,
            "engine": OpenAIEngine(chat),
            "judge": dataclasses.replace(chat, model="judge"),
        }
        whole = run_bench(options(data, tmp_path / "whole", **more), hash_config())
        paid = len(served.bodies)
        monkeypatch.setattr(bench_run, "build", build_some)
        deaths, reports = 0, 0
        while True:
            # The report itself is written anew each time.
            left[0] = 1 + reports
            try:
                document = run_bench(options(data, tmp_path / "cut", **more), hash_config())
                break
            except Stopped:
                deaths += 1
                reports += (tmp_path / "cut" / "scores.jsonl").exists()
            assert deaths < 60
        # Nothing was asked of the server twice.
        assert len(served.bodies) == 2 * paid
    # Build, its step, gold; queries, latency; two parts of answers and of each verdict; four files.
    assert deaths == 3 + 2 + 3 * 2 + 4
    assert untimed(document) == untimed(whole)
    scores = [(tmp_path / name / "scores.jsonl").read_text(encoding="utf-8") for name in ("whole", "cut")]
    assert scores[0] == scores[1]


@pytest.mark.ray
@pytest.mark.timeout(280)
def test_rays_workers_make_the_parts_and_the_report_is_the_same(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    # Workers are processes of their own, and read the source files themselves.
    monkeypatch.setattr(bench_run, "code_hash", steps.code_hash)
    more: dict[str, Any] = {"systems": ("bm25", "recency"), "engine": ExtractiveEngine(), "part": 8}
    here = run_bench(options(data, tmp_path / "here", **more), hash_config())
    made: list[str] = []
    # What the driver writes itself.
    monkeypatch.setattr(Steps, "write", noted(Steps.write, made))
    config = config_from(hash_config().as_dict() | {"run": {"device": "cpu", "runner": "ray", "num_workers": 2}})
    there = run_bench(options(data, tmp_path / "there", **more), config)
    assert untimed(here) == untimed(there)
    assert not [n for n in made if n.startswith("systems/bm25/") and "part-" in n]
    assert [n for n in made if n.startswith("systems/recency/queries/part-")]


def noted(write: Any, names: list[str]) -> Any:
    def noting(self: Steps, name: str, fingerprint: str, rows: Any) -> None:
        names.append(name)
        write(self, name, fingerprint, rows)

    return noting


def test_a_sample_is_evenly_spaced_over_the_whole_store(data: Path, run: tuple[Path, dict[str, Any]]) -> None:
    out, _ = run
    again = out.parent / "sampled"
    shutil.copytree(out, again)
    report = run_bench(options(data, again, sample=7, systems=("bm25",)), hash_config())
    assert report["questions"]["n"] == report["sample"] == 7
    assert report["questions"]["conversations"] == 3
    assert "a sample of 7" in (again / "report.md").read_text(encoding="utf-8")
    assert bench_run.evenly(range(10), 4) == [0, 2, 5, 7]
    assert bench_run.evenly(range(3), 5) == [0, 1, 2]
    with pytest.raises(InputError, match="--sample"):
        run_bench(options(data, again, sample=0), hash_config())


def test_a_finished_run_asks_nothing_again(
    data: Path, run: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = run

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a system was asked again")

    monkeypatch.setattr(systems_module.StoreSystem, "query", fail)
    assert untimed(run_bench(options(data, out, engine=ExtractiveEngine()), hash_config())) == untimed(whole)


def test_the_page_needs_no_network_and_no_script(run: tuple[Path, dict[str, Any]]) -> None:
    out, _ = run
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<svg" in page
    assert "constant-refusal" in page
    assert "| bm25 | 18 |" in (out / "report.md").read_text(encoding="utf-8")
    assert len(json.loads((out / "report.json").read_text(encoding="utf-8"))["worst"]["questions"]) == 18


def test_limit_takes_the_first_questions_and_what_they_need(data: Path, tmp_path: Path) -> None:
    report = run_bench(options(data, tmp_path, limit=9, systems=("bm25",)), hash_config())
    assert report["questions"]["n"] == 9
    assert report["questions"]["conversations"] == 2
    assert report["limit"] == 9


def test_an_audit_is_scored_beside_the_gold(data: Path, tmp_path: Path) -> None:
    audit = tmp_path / "audit.json"
    entry = {
        "question_id": "locomo_0_qa1",
        "error_type": "WRONG_CITATION",
        "correct_evidence": ["D1:1", "D:1:2"],
        "correct_answer": "never",
    }
    audit.write_text(json.dumps([entry]), encoding="utf-8")
    report = run_bench(options(data, tmp_path / "run", systems=("bm25",), audit=audit), hash_config())
    assert report["questions"]["audited"] == 1
    tables = report["systems"]["bm25"]["metrics"]
    assert set(tables) == {"original", "audited"}
    rows = [json.loads(r) for r in (tmp_path / "run" / "gold.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
    (changed,) = [r for r in rows if r["audit"]]
    assert changed["audited_evidence"] == ["D1:1", "D1:2"]
    assert changed["audited_answer"] == "never"
    assert changed["evidence"] != changed["audited_evidence"]


def test_longmemeval_is_a_memory_a_question(tmp_path: Path) -> None:
    data = longmemeval_file(tmp_path / "small_longmemeval.json")
    report = run_bench(
        options(data, tmp_path / "run", benchmark="longmemeval", systems=("bm25", "recency")), hash_config()
    )
    assert report["questions"]["n"] == report["questions"]["conversations"] == 4
    overall = report["systems"]["bm25"]["metrics"]["original"]["overall"]
    assert overall["session_recall@5"]["value"] > 0.5


def test_answers_and_verdicts_are_paid_for_once(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    from magma_gpu.chat_client import ChatConfig, OpenAIEngine

    def script(number: int, body: dict[str, Any]) -> Any:
        asked = body["messages"][1]["content"]
        if body["model"] != "answers":
            return said("RIGHT: yes" if "Reference answer" in asked else "WRONG: it answers")
        return said("Answer: bread\nEvidence: none")

    audit = tmp_path / "audit.json"
    entry = {"question_id": "locomo_0_qa1", "error_type": "X", "correct_evidence": [], "correct_answer": "never"}
    audit.write_text(json.dumps([entry]), encoding="utf-8")
    with serve(script) as served:
        engine = OpenAIEngine(ChatConfig(base_url=served.url, model="answers", pause_s=0.01))
        first, second = (ChatConfig(base_url=served.url, model=m, pause_s=0.01) for m in ("judge", "other"))
        more: dict[str, Any] = {"systems": ("bm25",), "engine": engine, "audit": audit, "limit": 7}
        report = run_bench(options(data, tmp_path / "run", judge=first, **more), hash_config())
        models = [b["model"] for b in served.bodies]
        # Seven answers; each judged leniently and strictly, and the one whose gold the audit changed again.
        assert (models.count("answers"), models.count("judge")) == (7, 2 * 8)
        report = run_bench(options(data, tmp_path / "run", judge=first, **more), hash_config())
        assert len(served.bodies) == 7 + 16
        run_bench(options(data, tmp_path / "run", judge=second, **more), hash_config())
        assert [b["model"] for b in served.bodies][23:] == ["other"] * 16
    tables = report["systems"]["bm25"]["metrics"]["original"]
    assert tables["answerable"]["judge_strict"]["value"] == 1.0
    assert tables["adversarial"]["judge_lenient"]["value"] == 0.0
    assert report["answers"]["model"] == "answers"
    assert report["judge"] == "judge"


class LastTurns:
    """An adapter of a system from outside, as docs/benchmarks.md describes it."""

    name = "last-turns"

    def __init__(self) -> None:
        self.turns: dict[str, list[str]] = {}

    def build(self, memories: Iterable[MemoryTurns]) -> None:
        for memory in memories:
            self.turns[memory.memory_id] = [t.turn_id for t in memory.turns]

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        return [Returned(turn_ids=tuple(self.turns[q.memory_id][::-1])) for q in questions]


def test_an_outside_system_scores_like_ours(data: Path, tmp_path: Path) -> None:
    report = run_bench(options(data, tmp_path, systems=("recency", "test_bench:LastTurns")), hash_config())
    ours, theirs = (
        {k: v["value"] for k, v in s["metrics"]["original"]["overall"].items()} for s in report["systems"].values()
    )
    assert ours == theirs
    assert report["systems"]["test_bench:LastTurns"]["build_s"] is not None


def test_an_unknown_system_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no system 'magic'"):
        run_bench(options(data, tmp_path, systems=("magic",)), hash_config())


def test_two_systems_are_compared_on_the_same_questions(run: tuple[Path, dict[str, Any]]) -> None:
    out, report = run
    found = compare_runs(f"{out}:recency", f"{out}:bm25", gold="original", resamples=200, seed=0)
    (pair,) = found["pairs"]
    recall = pair["metrics"]["overall"]["turn_recall@20"]
    values = [
        report["systems"][n]["metrics"]["original"]["overall"]["turn_recall@20"]["value"] for n in ("recency", "bm25")
    ]
    assert recall["estimate"]["value"] == pytest.approx(values[1] - values[0])
    assert recall["p"] < 0.01
    assert recall["wins"] > recall["losses"]
    same = compare_runs(str(out), str(out), gold="original", resamples=50, seed=0)
    assert {p["first"] for p in same["pairs"]} == set(SYSTEMS)
    assert all(p["metrics"]["overall"]["turn_mrr"]["p"] in (1.0, None) for p in same["pairs"])
    with pytest.raises(InputError, match="audited"):
        compare_runs(str(out), str(out), gold="audited", resamples=50, seed=0)


def test_the_command_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "locomo", "--data", str(data), "--out", str(tmp_path), "--set", "embed.encoder=hash"]
    assert main([*arguments, "--systems", "bm25,recency", "--resamples", "20", "--no-answers", "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    found = document["systems"]["bm25"]["metrics"]["original"]["overall"]["turn_mrr"]
    assert set(found) == {"value", "n", "low", "high", "low_clustered", "high_clustered"}
    assert main(["bench", "compare", f"{tmp_path}:recency", f"{tmp_path}:bm25", "--resamples", "20"]) == 0
    assert "turn_recall@20" in capsys.readouterr().out
    assert main(["bench", "locomo", "--data", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    assert "is no file" in capsys.readouterr().err

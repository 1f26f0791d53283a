"""A benchmark from its file to a report: build, query each system, answer, judge, score; every step resumable.

Files below the run's folder: `store-*`, `gold.jsonl`, `systems/<name>/` with parts of queries, answers and judgements,
`scores.jsonl` (every metric of every question), `report.json`, `report.md`, `report.html`. A second run with the same
arguments reads what is there and ends in the same report. Timings are of the run that did the work.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from magma_gpu.config import Config
from magma_gpu.evaluate.gold import read_memories
from magma_gpu.evaluate.page import page
from magma_gpu.evaluate.report import Measured, golds_of, make_report, markdown, question_rows, shown_turns
from magma_gpu.store import stable_hash
from magma_pipelines.bench_answers import answer_all, is_answered, judge_all
from magma_pipelines.bench_run import BenchOptions, Run
from magma_pipelines.bench_shards import make_everywhere

__all__ = ["BenchOptions", "Run", "run_bench"]


def run_bench(options: BenchOptions, config: Config) -> dict[str, Any]:
    """Runs a benchmark, or what is left of it, and writes its report; returns the report.

    Raises:
        InputError: data, audit or a system cannot be used.
        StoreError: the build failed, or the folder cannot be written.
    """
    run = Run(options, config)
    make_everywhere(run)
    systems = [measure(run, name) for name in run.systems]
    return write_report(run, systems)


def measure(run: Run, name: str) -> Measured:
    """Everything of one system."""
    rankings, took = run.rankings(name)
    measured = Measured(
        name=name,
        rankings=rankings,
        latency_ms=took["latency_ms"],
        questions_per_s=took["questions_per_s"],
        build_s=took["build_s"],
    )
    if run.options.engine is None or not is_answered(name, run.options.systems):
        return measured
    answers = answer_all(run, name, rankings, run.options.engine)
    return dataclasses.replace(
        measured,
        answers=[a["answer"] for a in answers],
        answer_tokens=[a["output_tokens"] for a in answers if a["output_tokens"] is not None],
        judged={} if run.options.judge is None else judge_all(run, name, answers, run.options.judge),
    )


def write_report(run: Run, systems: Sequence[Measured]) -> dict[str, Any]:
    """Scores everything and writes report.json, report.md, report.html and scores.jsonl."""
    options = run.options
    shown = next((s for s in systems if s.rankings[0].ranked), None)
    texts: dict[str, dict[str, str]] = {}
    if shown is not None:
        wanted = shown_turns(shown, run.gold)
        for memory in read_memories(run.store, run.store.open(), sorted(wanted)):
            texts[memory.memory_id] = {
                t.turn_id: f"{t.speaker}: {t.text}" for t in memory.turns if t.turn_id in wanted[memory.memory_id]
            }
    document = make_report(run.facts(), systems, run.gold, texts, resamples=options.resamples, seed=options.seed)
    rows = [
        {"system": s.name, "gold": which, "memory_id": g.memory_id, "query_id": g.query_id, "category": g.category}
        | {"metrics": metrics}
        for which in golds_of(run.gold)
        for s in systems
        for g, metrics in zip(run.gold, question_rows(s, run.gold, options.benchmark, which), strict=True)
    ]
    run.steps.write("scores.jsonl", stable_hash(run.fingerprint, run.code), rows)
    run.steps.write_text("report.md", markdown(document))
    run.steps.write_text("report.html", page(document))
    run.steps.write_text("report.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    return document

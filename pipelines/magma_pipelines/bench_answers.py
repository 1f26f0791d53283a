"""The steps of a benchmark that cost money: answers and verdicts, kept by the hash of their prompt.

A prompt that an earlier run of the same engine answered is not asked again, whatever else has changed; one that failed
is.
"""

import json
from collections.abc import Container, Sequence
from pathlib import Path

from magma_gpu.answer import Engine, Task, write_prompt
from magma_gpu.chat_client import ChatClient, ChatConfig, OpenAIEngine
from magma_gpu.evaluate.judge import MODES, RUBRIC_VERSION, Graded, judge, write_judge_prompt
from magma_gpu.evaluate.report import golds_of
from magma_gpu.evaluate.scores import Ranking
from magma_gpu.evaluate.steps import Row
from magma_gpu.evaluate.systems import ABLATIONS
from magma_gpu.store import stable_hash
from magma_pipelines.bench_run import Run, file_name

# A part of requests is written after so many rounds of as many as the server is asked at once: what a break loses.
_ROUNDS = 4


def is_answered(name: str, asked_for: Sequence[str]) -> bool:
    """Whether a system's questions are answered: all that were asked for by name, else all but the ablations."""
    return bool(asked_for) or not name.endswith(tuple(f"-{a}" for a in ABLATIONS))


def answer_all(
    run: Run, name: str, rankings: Sequence[Ranking], engine: Engine, only: Container[int] | None = None
) -> list[Row]:
    """The answers to all questions from what a system ranked.

    Args:
        only: numbers of the parts that are made and read; None for all.
    """
    folder, fingerprint = answers_place(run, name, engine)
    known = {
        row["prompt_hash"]: row
        for row in run.steps.earlier(f"systems/*/{Path(folder).name}")
        if row.get("prompt_hash") and row.get("error") is None
    }
    asked = dict(zip([(q.memory_id, q.query_id) for q in run.questions], run.questions, strict=True))

    def make(part: Sequence[Ranking]) -> list[Row]:
        tasks = run.tasks(
            [asked[r.memory_id, r.query_id] for r in part], [r.turns for r in part], ranked=part[0].ranked
        )
        return answer_new(tasks, engine, known)

    size = _ROUNDS * engine.client.config.concurrency if isinstance(engine, OpenAIEngine) else run.options.part
    with run.watched(name, "answer", len(rankings)) as shown:
        return run.steps.parts(
            folder, fingerprint, rankings, size, make, lambda row: row["error"] is None, only, told=shown.step
        )


def answers_place(run: Run, name: str, engine: Engine) -> tuple[str, str]:
    """The folder of an engine's answers from what a system ranked, and their fingerprint."""
    identity = json.dumps(engine.identity, sort_keys=True)
    folder = f"systems/{file_name(name)}/answers-{stable_hash(identity)[:8]}"
    return folder, stable_hash(run.search_fingerprint(name), identity)


def answer_new(tasks: Sequence[Task], engine: Engine, known: dict[str, Row]) -> list[Row]:
    """Answers tasks; those whose prompt is known get the known answer, the others are added to it."""
    if engine.identity["engine"] != "openai":
        return [a.to_json() for a in engine.answer(tasks)]
    hashes = [write_prompt(t).hash for t in tasks]
    new = {h: t for h, t in zip(hashes, tasks, strict=True) if h not in known}
    fresh = {str(a.prompt_hash): a.to_json() for a in engine.answer(list(new.values()))}
    known.update({h: row for h, row in fresh.items() if row["error"] is None})
    made = []
    for task, h in zip(tasks, hashes, strict=True):
        row = fresh.get(h) or known[h]
        made.append(row | {"memory_id": task.question.memory_id, "query_id": task.question.query_id})
    return made


def judge_all(
    run: Run, name: str, answers: Sequence[Row], config: ChatConfig
) -> dict[str, dict[str, list[float | None]]]:
    """Verdicts by gold and mode."""
    client = ChatClient(config)
    made: dict[str, dict[str, list[float | None]]] = {}
    for which in golds_of(run.gold):
        for mode in MODES:
            identity = judge_identity(config, mode)
            folder = f"judged-{mode}-{identity[:8]}"
            known = {
                row["prompt_hash"]: row
                for row in run.steps.earlier(f"systems/*/{folder}-*")
                if row.get("prompt_hash") and row.get("error") is None
            }
            # An answer that failed has nothing to be judged; a question that should be answered needs a gold answer.
            graded: list[Graded | None] = []
            for gold, row in zip(run.gold, answers, strict=True):
                wanted = gold.audited_answer if which == "audited" else gold.answer
                usable = row["answer"] is not None and (wanted is not None or not gold.answerable)
                graded.append(
                    Graded(question=gold.question, gold=wanted if gold.answerable else None, answer=row["answer"] or "")
                    if usable
                    else None
                )

            def make(part: Sequence[Graded | None], mode: str = mode, known: dict[str, Row] = known) -> list[Row]:
                return judge_new(client, part, mode, known)

            fingerprint = stable_hash(identity, which, json.dumps([r["answer"] for r in answers]), run.fingerprint)
            with run.watched(name, f"judge {mode}, {which}", len(graded)) as shown:
                rows = run.steps.parts(
                    f"systems/{file_name(name)}/{folder}-{which}",
                    fingerprint,
                    graded,
                    _ROUNDS * config.concurrency,
                    make,
                    lambda row: row["error"] is None,
                    told=shown.step,
                )
            made.setdefault(which, {})[mode] = [row["verdict"] for row in rows]
    return made


def judge_identity(config: ChatConfig, mode: str) -> str:
    """What tells two judges apart whose verdicts may differ."""
    return stable_hash(config.model, str(config.temperature), str(config.max_tokens), mode, str(RUBRIC_VERSION))


def judge_new(client: ChatClient, part: Sequence[Graded | None], mode: str, known: dict[str, Row]) -> list[Row]:
    """Verdicts of some answers; what was judged before is not judged again, and nothing has none."""
    hashes = [None if g is None else write_judge_prompt(g, mode).hash for g in part]
    new = {h: g for h, g in zip(hashes, part, strict=True) if h is not None and g is not None and h not in known}
    fresh = {str(row["prompt_hash"]): row for row in judge(client, list(new.values()), mode)}
    known.update({h: row for h, row in fresh.items() if row["error"] is None})
    nothing: Row = {"verdict": None, "reply": None, "error": None, "prompt_hash": None}
    return [nothing if h is None else fresh.get(h) or known[h] for h in hashes]

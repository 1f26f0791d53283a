"""Measures a judge on answers that are known to be wrong, and on the gold itself: how many of each it accepts.

    python pipelines/bench/judge_wrong_answers.py --key locomo_audit_ap_answer_key.json --sample 60 \
        --base-url http://localhost:8000/v1 --model NAME --out runs/judge

The key is a JSON list of `question_id` (`locomo_<conversation>_...`), `question`, `category` and `golden_answer`. It
holds no wrong answers; three kinds are made of it, so what is wrong with an answer is known: `other` is the gold of
another question of the same conversation and category, `vague` stays on the question's topic and says nothing,
`negated` denies the gold. Replies are kept in --out, and a run that was interrupted goes on. No wording of the data
goes into the result.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from magma_gpu.chat_client import ChatClient, ChatConfig
from magma_gpu.evaluate.equal import equal_answers
from magma_gpu.evaluate.judge import MODES, Graded, judge
from magma_gpu.evaluate.metrics import f1
from magma_gpu.evaluate.statistics import estimate, matrix
from magma_gpu.evaluate.steps import Row, Steps, file_hash
from magma_gpu.store import stable_hash
from magma_pipelines.bench_answers import judge_identity
from magma_pipelines.bench_run import evenly

KINDS = ("gold", "other", "vague", "negated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One question of the key."""

    conversation: str
    category: str
    question: str
    gold: str


def read_key(path: Path) -> list[Entry]:
    """The questions of a key, in its order."""
    return [
        Entry(
            conversation=re.sub(r"_qa\d+$", "", row["question_id"]),
            category=str(row["category"]),
            question=row["question"],
            gold=str(row["golden_answer"]),
        )
        for row in json.loads(path.read_text(encoding="utf-8"))
    ]


def other_gold(entries: Sequence[Entry], number: int) -> str | None:
    """The gold of the next question of the same conversation and category that shares no word with this one's."""
    entry = entries[number]
    for other in (*entries[number + 1 :], *entries[:number]):
        if (other.conversation, other.category) != (entry.conversation, entry.category):
            continue
        if f1(other.gold, entry.gold) == 0.0 and not equal_answers([other.gold], [entry.gold])[0]:
            return other.gold
    return None


def vague(question: str) -> str:
    """Words on the topic that answer nothing."""
    topic = question.strip().rstrip("?.! ")
    return f"They talked about this in one of their conversations, about {topic}, and it meant a lot to them."


def made_answers(entries: Sequence[Entry], number: int) -> dict[str, str]:
    """The answers to one question by kind; `other` is left out where there is none."""
    entry = entries[number]
    made = {"gold": entry.gold, "vague": vague(entry.question), "negated": f"It is definitely not {entry.gold}."}
    other = other_gold(entries, number)
    return made if other is None else made | {"other": other}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--sample", type=int, help="so many questions, evenly spaced; default all")
    parser.add_argument("--base-url", default="http://localhost:8000/v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True, help="folder of replies and of result.json")
    args = parser.parse_args(argv)
    config = ChatConfig(
        base_url=args.base_url, model=args.model, concurrency=args.concurrency, max_tokens=args.max_tokens
    )
    entries = read_key(args.key)
    made = [(entries[n], made_answers(entries, n)) for n in evenly(range(len(entries)), args.sample)]
    document: dict[str, Any] = {
        "key": {"name": args.key.name, "sha256": file_hash(args.key)},
        "judge": config.model,
        "questions": len(made),
        "accepted": {},
    }
    client, steps = ChatClient(config), Steps(args.out)
    for kind in KINDS:
        asked = [(e, answers[kind]) for e, answers in made if kind in answers]
        graded = [Graded(question=e.question, gold=e.gold, answer=answer) for e, answer in asked]
        for mode in MODES:
            rows = _verdicts(client, steps, graded, kind, mode)
            (found,) = estimate(
                matrix([[r["verdict"]] for r in rows]), [e.conversation for e, _ in asked], resamples=2000, seed=0
            )
            document["accepted"].setdefault(kind, {})[mode] = asdict(found) | {
                "asked": len(rows),
                "unreadable": sum(r["verdict"] is None for r in rows),
            }
    steps.write_text("result.json", json.dumps(document, indent=1) + "\n")
    print(json.dumps(document))
    return 0


def _verdicts(client: ChatClient, steps: Steps, graded: Sequence[Graded], kind: str, mode: str) -> list[Row]:
    fingerprint = stable_hash(judge_identity(client.config, mode), *(f"{g.question}\n{g.answer}" for g in graded))

    def make(part: Sequence[Graded]) -> list[Row]:
        return judge(client, part, mode)

    size = 4 * client.config.concurrency
    return steps.parts(f"{kind}-{mode}", fingerprint, graded, size, make, lambda row: row["error"] is None)


if __name__ == "__main__":
    sys.exit(main())

"""Evidence recall of the plain rankings and of each policy on LoCoMo, turn level, budget counted in returned turns.

    python pipelines/bench/locomo_retrieval.py --data locomo10.json --out docs/results/locomo_floor.json

Builds a store beside `--work` (or uses the one there), asks every question with usable evidence once for each system,
and prints recall and all-found at 5, 10, 20 and 50, overall and by category. The last line of standard output is one
JSON document. Nothing is fitted here.
"""

import argparse
import dataclasses
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magma_gpu.config import Config, SearchConfig, load_config
from magma_gpu.evaluate.systems import plain_search
from magma_gpu.memory import Memory
from magma_gpu.results import Result
from magma_gpu.store import Store
from magma_gpu.types import Question
from magma_pipelines.build import BuildOptions, build

BUDGETS = (5, 10, 20, 50)
CATEGORIES = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"}


def systems(base: SearchConfig) -> dict[str, SearchConfig]:
    """The plain rankings as settings of the same search, and the policies as they stand."""
    shown = dataclasses.replace(base, k=max(BUDGETS), context_tokens=16)
    rrf = plain_search(shown, "rrf")
    policies = {f"policy {name}": dataclasses.replace(shown, policy=name) for name in ("smooth", "paper", "learned")}
    return {
        **{name: plain_search(shown, name) for name in ("dense", "bm25", "rrf")},
        "rrf, bm25 twice, smoothed": dataclasses.replace(
            rrf, weight_lexical=2.0, smooth_next=0.25, smooth_previous=0.25
        ),
        "rrf of three, smoothed": dataclasses.replace(
            rrf, weight_dense_window=1.0, weight_lexical=2.0, smooth_next=0.35, smooth_previous=0.15
        ),
    } | policies


def turns_of(result: Result) -> list[str]:
    """Returned turns, best first; parts of one turn count once."""
    return list(dict.fromkeys(e.turn_id for e in result.evidence))


def score(results: Sequence[Result], evidence: Sequence[Sequence[str]], categories: Sequence[str]) -> dict[str, Any]:
    """Mean recall and share of questions with all evidence found, in per cent."""
    rows: dict[str, list[float]] = {f"{kind}@{k}": [] for kind in ("recall", "all") for k in BUDGETS}
    for result, wanted in zip(results, evidence, strict=True):
        turns = turns_of(result)
        for k in BUDGETS:
            hit = len(set(wanted) & set(turns[:k])) / len(wanted)
            rows[f"recall@{k}"].append(hit)
            rows[f"all@{k}"].append(float(hit == 1.0))
    columns = {name: np.array(values) for name, values in rows.items()}
    of = np.array(categories)
    made: dict[str, Any] = {name: round(100 * float(v.mean()), 2) for name, v in columns.items()} | {"n": len(of)}
    made["by_category"] = {
        CATEGORIES.get(c, c): {name: round(100 * float(v[of == c].mean()), 2) for name, v in columns.items()}
        | {"n": int((of == c).sum())}
        for c in sorted(set(categories))
    }
    return made


def read_store_questions(path: Path) -> tuple[list[Question], list[tuple[str, ...]], list[str]]:
    """The questions with evidence that a store's `queries` table holds."""
    store = Store(path)
    manifest = store.open()
    rows = [
        row
        for _, entry in sorted(manifest.tables["queries"].items())
        for row in store.read_table(entry, "queries").to_pylist()
        if row["evidence"]
    ]
    questions = [Question(memory_id=r["memory_id"], query_id=r["query_id"], question=r["question"]) for r in rows]
    return questions, [tuple(r["evidence"]) for r in rows], [r["category"] or "" for r in rows]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="locomo10.json")
    parser.add_argument("--work", type=Path, help="where the store is or goes; default: a temporary folder")
    parser.add_argument("--out", type=Path, help="where the JSON goes too")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args(argv)
    config: Config = load_config(args.config, args.set)
    with tempfile.TemporaryDirectory() as folder:
        work = args.work or Path(folder) / "store"
        build([str(args.data)], work, config, BuildOptions(quiet=True))
        questions, evidence, categories = read_store_questions(work)
        memory = Memory.open(work, config)
        vectors = memory.encode([q.question for q in questions])
        memory.ask(questions[:1], vectors[:1])
        document: dict[str, Any] = {
            "data": args.data.name,
            "questions": len(questions),
            "machine": {"processor": platform.machine(), "python": platform.python_version()},
            "systems": {},
        }
        header = [f"{kind}@{k}" for kind in ("recall", "all") for k in BUDGETS]
        print(f"{'system':28}" + "".join(f"{h:>11}" for h in header) + f"{'q/s':>8}")
        for name, settings in systems(config.search).items():
            memory.config = dataclasses.replace(config, search=settings)
            start = time.perf_counter()
            results = memory.ask(questions, vectors)
            seconds = time.perf_counter() - start
            made = score(results, evidence, categories) | {"questions_per_s": round(len(questions) / seconds, 1)}
            document["systems"][name] = made
            print(f"{name:28}" + "".join(f"{made[h]:11.1f}" for h in header) + f"{made['questions_per_s']:8.0f}")
            if name.startswith("policy"):
                for category, row in made["by_category"].items():
                    print(f"  {category:26}" + "".join(f"{row[h]:11.1f}" for h in header) + f"  n {row['n']}")
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

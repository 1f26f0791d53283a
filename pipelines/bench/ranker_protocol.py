"""The ranker measured the honest way: on conversations that it was not fitted on, and with and without its parts.

    python pipelines/bench/ranker_protocol.py --locomo locomo10.json --longmemeval lme.json --out FILE.json

`held_out` is fitted on nine LoCoMo conversations and asked the tenth, ten times over, with every feature. `free` are
the weights that are shipped, fitted without LoCoMo and without the parts that gain nothing. `longmemeval` turns it
round: fitted on LoCoMo, as it is and thinned (`thinned_log.py`), and asked LongMemEval, pooled into one memory; and
free data by folds over its questions. `--only longmemeval` measures that part again and leaves the rest of FILE.
Ablations are fits without a group of features, on eight conversations and asked the other two, five times over. The
plain rows of `locomo_retrieval.py` stand beside them. Differences have paired bootstrap intervals over questions.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from locomo_retrieval import BUDGETS, CATEGORIES, read_store_questions, systems, turns_of
from magma_gpu import ranker
from magma_gpu.config import Config, SearchConfig
from magma_gpu.features import NAMES
from magma_gpu.memory import Memory
from magma_gpu.ranker import Examples, fit, join
from magma_gpu.readers import find_sources, read_source
from magma_gpu.store import stable_hash
from magma_gpu.types import Question
from magma_gpu.word_match import VIEWS as WORD_VIEWS
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.ranking import columns, examples, free_data, labelled_questions, training_config
from thinned_log import thinned

# Features by the part of the graph or of the analysis that they come from.
GROUPS = {
    "temporal edges": lambda n: n.split(":")[-1] in ("-2", "-1", "+1", "+2") or "window" in n or "wide" in n,
    "semantic edges": lambda n: n == "near:semantic",
    "causal edges": lambda n: n == "near:causal",
    "entity edges": lambda n: n in ("near:entity", "entity_named"),
    "sessions and episodes": lambda n: "session" in n,
    "intent": lambda n: n.startswith("intent:") or n in ("when_and_time", "why_and_cause"),
    "time": lambda n: n in ("window_inside", "window_asked", "is:has_time", "when_and_time"),
    "speakers": lambda n: n in ("speaker_named", "other_speaker_named", "speaker_is_user_and_i"),
    "words in meaning": lambda n: n.split(":")[0] in WORD_VIEWS,
    "vectors": lambda n: n.startswith("dense"),
    "stems (BM25 and coverage)": lambda n: n.startswith(("lexical", "content", "coverage")),
}
RESAMPLES = 2000


def found(score_QC: np.ndarray, made: Examples, wanted: Sequence[int]) -> dict[str, np.ndarray]:
    """Recall and all-found of each question at each budget, from scores of its candidates (one part a turn)."""
    score = np.where(made.valid_QC, score_QC, -np.inf)
    by = np.argsort(-score, axis=1, kind="stable")
    label = np.take_along_axis(made.label_QC, by, axis=1)
    out = {}
    need = np.array(wanted, dtype=np.float64)
    for k in BUDGETS:
        hit = np.minimum(label[:, :k].sum(axis=1) / need, 1.0)
        out[f"recall@{k}"] = hit
        out[f"all@{k}"] = (hit >= 1.0).astype(np.float64)
    return out


def summary(rows: dict[str, np.ndarray], categories: Sequence[str] | None = None) -> dict[str, Any]:
    """Means with 95 % bootstrap intervals over questions; shares, not per cent."""
    n = len(next(iter(rows.values())))
    draws = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    made: dict[str, Any] = {"n": n}
    for name, values in rows.items():
        made[name] = round(float(values.mean()), 4)
        low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5])
        made[f"{name}_interval"] = [round(float(low), 4), round(float(high), 4)]
    if categories is not None:
        of = np.array(categories)
        made["by_category"] = {
            CATEGORIES.get(c, c): {k: round(float(v[of == c].mean()), 4) for k, v in rows.items()}
            | {"n": int((of == c).sum())}
            for c in sorted(set(categories))
        }
    return made


def difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, Any]:
    """Mean of a - b with a paired bootstrap interval."""
    n = len(a["recall@10"])
    draws = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    made = {}
    for name in ("recall@10", "all@10", "recall@20"):
        gap = a[name] - b[name]
        low, high = np.percentile(gap[draws].mean(axis=1), [2.5, 97.5])
        made[name] = [round(float(gap.mean()), 4), round(float(low), 4), round(float(high), 4)]
    return made


def leave_out(
    made: Examples, memory: np.ndarray, used: Sequence[int], *, at_once: int = 1, **settings: Any
) -> np.ndarray:
    """Scores of every question by a ranker fitted on other conversations, of which `at_once` are left out together."""
    score = np.zeros(made.label_QC.shape, dtype=np.float32)
    names = sorted(set(memory.tolist()))
    for first in range(0, len(names), at_once):
        asked = np.isin(memory, names[first : first + at_once])
        model = fit(made.take(np.flatnonzero(~asked)), used, **settings)
        rows = np.flatnonzero(asked)
        score[rows] = model.score(made.x_QCF[rows], made.valid_QC[rows])
    return score


def results_found(
    memory: Memory, questions: Sequence[Question], evidence: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Recall and all-found of the search as it answers."""
    rows: dict[str, list[float]] = {f"{kind}@{k}": [] for k in BUDGETS for kind in ("recall", "all")}
    for result, wanted in zip(memory.ask(questions), evidence, strict=True):
        turns = turns_of(result)
        for k in BUDGETS:
            hit = len(set(wanted) & set(turns[:k])) / len(set(wanted))
            rows[f"recall@{k}"].append(hit)
            rows[f"all@{k}"].append(float(hit == 1.0))
    return {name: np.array(values) for name, values in rows.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--longmemeval", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="folder of stores, kept between runs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--members", type=int, default=3, help="networks that a fit averages")
    parser.add_argument("--no-ablations", action="store_true")
    parser.add_argument("--only", choices=["longmemeval"], help="leave the rest of --out as it stands")
    parser.add_argument("--missed", type=Path, help="JSONL of twenty questions whose evidence is missed, to be read")
    args = parser.parse_args(argv)
    args.start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        work = args.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        document = measure(args, work)
    print(json.dumps(document))
    return 0


def keep(args: argparse.Namespace, document: dict[str, Any]) -> None:
    """Writes what is measured so far; a run takes long."""
    document["seconds"] = round(time.perf_counter() - args.start, 1)
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def tell(label: str, rows: dict[str, np.ndarray]) -> None:
    print(f"{label:44}" + "".join(f"{100 * v.mean():7.1f}" for v in rows.values()), file=sys.stderr, flush=True)


def measure(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    config = training_config(Config())
    build([str(args.locomo)], work / "locomo", config, BuildOptions(quiet=True))
    questions, evidence, categories = read_store_questions(work / "locomo")
    wanted = [len(set(e)) for e in evidence]
    memory = Memory.open(work / "locomo", config)
    locomo, _ = examples(memory, questions, evidence)
    owner = np.array([q.memory_id for q in questions])
    seeds = tuple(range(args.members))
    if args.only:
        kept: dict[str, Any] = json.loads(args.out.read_text(encoding="utf-8")) if args.out else {}
        kept["longmemeval"] = longmemeval(args, work, config, locomo, (questions, evidence))
        if args.out:
            args.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return kept
    document: dict[str, Any] = {
        "data": args.locomo.name,
        "questions": len(questions),
        "members_of_a_fit": args.members,
        "systems": {},
    }
    plain: dict[str, dict[str, np.ndarray]] = {}
    for label, settings in systems(SearchConfig()).items():
        memory.config = dataclasses.replace(config, search=settings)
        plain[label] = results_found(memory, questions, evidence)
        tell(label, plain[label])
        document["systems"][label] = summary(plain[label], categories)
    memory.config = config

    score = leave_out(locomo, owner, columns(style=True, every_part=True), seeds=seeds)
    held = found(score, locomo, wanted)
    tell("held out", held)
    document["held_out"] = summary(held, categories)
    bare = found(leave_out(locomo, owner, columns(every_part=True), seeds=seeds), locomo, wanted)
    tell("held out, no style", bare)
    document["held_out_without_style"] = summary(bare, categories) | {"minus_held_out": difference(bare, held)}
    free = found(ranker.load().score(locomo.x_QCF, locomo.valid_QC), locomo, wanted)
    tell("free data (shipped)", free)
    document["free"] = summary(free, categories)
    rows = [r for label, r in plain.items() if "learned" not in label]
    document["free"]["minus_best_plain_row"] = {
        k: round(float(free[k].mean() - max(r[k].mean() for r in rows)), 4) for k in free
    }
    keep(args, document)
    document["longmemeval"] = longmemeval(args, work, config, locomo, (questions, evidence))
    keep(args, document)
    if args.missed:
        args.missed.write_text(
            "\n".join(json.dumps(row, ensure_ascii=False) for row in missed(score, locomo, memory, questions, evidence))
            + "\n",
            encoding="utf-8",
        )
    if not args.no_ablations:
        document["ablations"] = ablations(locomo, owner, wanted)
    keep(args, document)
    return document


def ablations(made: Examples, owner: np.ndarray, wanted: Sequence[int]) -> dict[str, Any]:
    """What the ranking loses without each part; one member a fit, two conversations left out at once."""

    def measured(label: str, used: Sequence[int]) -> dict[str, np.ndarray]:
        rows = found(leave_out(made, owner, used, at_once=2, seeds=(0,)), made, wanted)
        tell(label, rows)
        return rows

    whole = measured("all parts", columns(style=True, every_part=True))
    table: dict[str, Any] = {"all parts": summary(whole)}
    for label, belongs in GROUPS.items():
        less = measured(f"without {label}", [i for i in columns(style=True, every_part=True) if not belongs(NAMES[i])])
        table[f"without {label}"] = summary(less) | {"gain_of_part": difference(whole, less)}
    return table


def missed(
    score_QC: np.ndarray,
    made: Examples,
    memory: Memory,
    questions: Sequence[Question],
    evidence: Sequence[Sequence[str]],
    count: int = 20,
) -> Iterator[dict[str, Any]]:
    """Some questions whose evidence is not all among the first ten: what was wanted, where it stood."""
    score = np.where(made.valid_QC, score_QC, -np.inf)
    by = np.argsort(-score, axis=1, kind="stable")
    rank = np.empty_like(by)
    np.put_along_axis(rank, by, np.broadcast_to(np.arange(1, by.shape[1] + 1), by.shape), axis=1)
    failed = [q for q, e in enumerate(evidence) if (made.label_QC[q] * (rank[q] <= 10)).sum() < len(set(e))]
    chosen = sorted(np.random.default_rng(0).permutation(failed)[:count].tolist())
    rows = [questions[q] for q in chosen]
    memory.config = dataclasses.replace(memory.config, search=dataclasses.replace(memory.config.search, k=10))
    for q, result in zip(chosen, memory.ask(rows), strict=True):
        (index,) = memory.indexes([questions[q].memory_id])
        place = {turn: i for i, turn in enumerate(index.turn_ids)}
        ranks = sorted(int(r) for r in rank[q][made.label_QC[q] > 0])
        yield {
            "query_id": questions[q].query_id,
            "category": questions[q].category,
            "ranks_of_evidence": ranks + [None] * (len(set(evidence[q])) - len(ranks)),
            "question": questions[q].question,
            "evidence": {t: f"{index.speakers[place[t]]}: {index.texts[place[t]]}" for t in sorted(set(evidence[q]))},
            "first": [f"{e.turn_id} {e.speaker}: {e.text[:120]}" for e in result.evidence[:4]],
        }


def longmemeval(
    args: argparse.Namespace,
    work: Path,
    config: Config,
    locomo: Examples,
    asked: tuple[Sequence[Question], Sequence[Sequence[str]]],
) -> dict[str, Any]:
    """LongMemEval's questions over its evidence turns in one memory."""
    parts: dict[str, tuple[Examples, list[int], list[Question]]] = {}
    made: dict[str, Any] = {}
    for label, logs, rows_of in free_data(args.longmemeval, work):
        build([str(p) for p in logs], work / label, config, BuildOptions(quiet=True))
        questions, evidence = labelled_questions(rows_of)
        memory = Memory.open(work / label, config)
        parts[label] = (examples(memory, questions, evidence)[0], [len(set(e)) for e in evidence], questions)
        if label == "longmemeval_pool":
            for name, settings in systems(SearchConfig()).items():
                if name != "policy learned":
                    memory.config = dataclasses.replace(config, search=settings)
                    plain = results_found(memory, questions, evidence)
                    tell(f"longmemeval: {name}", plain)
                    made[name] = summary(plain)
    pool, wanted, questions = parts["longmemeval_pool"]
    (source,) = find_sources([str(args.locomo)])
    log = work / "locomo_thinned.jsonl"
    few, wanted_few = thinned(read_source(source, "locomo", memory_id=None), list(zip(*asked, strict=True)), log)
    build([str(log)], work / "locomo_thinned", config, BuildOptions(quiet=True))
    thin, _ = examples(Memory.open(work / "locomo_thinned", config), few, wanted_few)
    for name, fitted in (("locomo_alone", locomo), ("locomo", join([locomo, thin]))):
        moved = found(fit(fitted, columns(every_part=True)).score(pool.x_QCF, pool.valid_QC), pool, wanted)
        tell(f"longmemeval: fitted on {name}", moved)
        made[f"fitted_on_{name}"] = summary(moved)
    own = parts["own"][0]
    from_own = found(fit(own, columns(every_part=True)).score(pool.x_QCF, pool.valid_QC), pool, wanted)
    tell("longmemeval: fitted on our own conversations", from_own)
    made["fitted_on_own"] = summary(from_own)
    fold = np.array([int(stable_hash(q.query_id)[:8], 16) % 5 for q in questions])
    score = np.zeros(pool.label_QC.shape, dtype=np.float32)
    for f in range(5):
        model = fit(join([own, pool.take(np.flatnonzero(fold != f))]), columns(every_part=True))
        rows = np.flatnonzero(fold == f)
        score[rows] = model.score(pool.x_QCF[rows], pool.valid_QC[rows])
    folds = found(score, pool, wanted)
    tell("longmemeval: free data by folds", folds)
    made["free_by_folds"] = summary(folds)
    return made


if __name__ == "__main__":
    sys.exit(main())

"""One JSON document that says everything a run measured, and the same as Markdown; page.py makes the HTML page.

It computes from rows that are there and asks no system. The document's order and numbers depend on the rows and the
seed alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from magma_gpu.evaluate.gold import Gold
from magma_gpu.evaluate.metrics import CUTS, REFUSAL, Metrics
from magma_gpu.evaluate.scores import Ranking, answer_rows, retrieval_rows, summarize
from magma_gpu.evaluate.statistics import compare, holm, matrix
from magma_gpu.evaluate.systems import ABLATIONS

HEADLINE = "turn_recall@20"
# Metrics of the ablation table.
_ABLATED = ("turn_recall@5", "turn_recall@20", "turn_all@20", "turn_mrr", "session_recall@5")
_WORST = 20
_SHOWN = 6
DASH = "\u2013"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a system did in a run.

    Attributes:
        answers: of each question, None where it failed; empty where none were wanted.
        judged: by gold and mode (lenient, strict) the verdicts: 1, 0 or None.
    """

    name: str
    rankings: Sequence[Ranking]
    latency_ms: Sequence[float]
    questions_per_s: float
    build_s: float | None
    answers: Sequence[str | None] = ()
    answer_tokens: Sequence[int] = ()
    judged: Mapping[str, Mapping[str, Sequence[float | None]]] = field(default_factory=dict)


def golds_of(golds: Sequence[Gold]) -> tuple[str, ...]:
    """The golds that a run can be scored against: the audited one only where there is an audit."""
    return ("original", "audited") if any(g.audit for g in golds) else ("original",)


def question_rows(measured: Measured, golds: Sequence[Gold], benchmark: str, which: str) -> list[Metrics]:
    """Every metric of every question, of rankings and, where there are some, of answers."""
    rows = retrieval_rows(measured.rankings, golds, which)
    if measured.answers:
        said = answer_rows(measured.answers, golds, which, benchmark)
        rows = [
            row | words | {f"judge_{mode}": verdicts[i] for mode, verdicts in measured.judged.get(which, {}).items()}
            for i, (row, words) in enumerate(zip(rows, said, strict=True))
        ]
    return rows


def make_report(
    facts: Mapping[str, Any],
    systems: Sequence[Measured],
    golds: Sequence[Gold],
    texts: Mapping[str, Mapping[str, str]],
    *,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """Makes the report.

    Args:
        facts: of the run: benchmark, data, settings, machine, build, answers.
        texts: by memory and turn id, words of turns that the worst questions show; see `worst`.
    """
    benchmark = str(facts["benchmark"])
    rows = {which: {s.name: question_rows(s, golds, benchmark, which) for s in systems} for which in golds_of(golds)}
    tables = {which: summarize(of, golds, resamples=resamples, seed=seed) for which, of in rows.items()}
    made: dict[str, Any] = dict(facts) | {
        "questions": {
            "n": len(golds),
            "answerable": sum(g.answerable for g in golds),
            "with_evidence": sum(bool(g.evidence) for g in golds),
            "conversations": len({g.memory_id for g in golds}),
            "audited": sum(g.audit is not None for g in golds),
            "with_later_evidence": sum(g.num_evidence_later > 0 for g in golds),
        },
        "intervals": {
            "level": 0.95,
            "resamples": resamples,
            "seed": seed,
            "low, high": "percentile bootstrap over questions",
            "low_clustered, high_clustered": "percentile bootstrap over conversations; null for fewer than five",
        },
        "systems": {
            s.name: {
                "metrics": {which: tables[which][s.name] for which in tables},
                "latency_ms": _latency(s.latency_ms),
                "questions_per_s": round(s.questions_per_s, 2),
                "build_s": s.build_s,
                "answer_tokens": float(np.mean(s.answer_tokens)) if s.answer_tokens else None,
            }
            for s in systems
        },
        "ablations": _ablations(rows["original"], golds, resamples=resamples, seed=seed),
    }
    if any(s.answers for s in systems):
        refusals = {
            which: {"constant-refusal": answer_rows([REFUSAL] * len(golds), golds, which, benchmark)} for which in rows
        }
        made["baselines"] = {
            "constant-refusal": {
                which: summarize(of, golds, resamples=resamples, seed=seed)["constant-refusal"]
                for which, of in refusals.items()
            }
        }
    shown = next((s for s in systems if s.rankings and s.rankings[0].ranked), None)
    made["worst"] = None if shown is None else _worst(shown, golds, texts)
    return made


def _latency(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"n": 0, "mean": None, "p50": None, "p90": None, "p99": None, "values": []}
    at = np.percentile(values, (50, 90, 99))
    return {
        "n": len(values),
        "mean": round(float(np.mean(values)), 3),
        "p50": round(float(at[0]), 3),
        "p90": round(float(at[1]), 3),
        "p99": round(float(at[2]), 3),
        "values": list(values),
    }


def _ablations(
    rows: Mapping[str, Sequence[Metrics]], golds: Sequence[Gold], *, resamples: int, seed: int
) -> list[dict[str, Any]]:
    """Each ablated system against the whole one, paired by question."""
    pairs = [
        (name.removesuffix(f"-{a}"), name)
        for name in rows
        for a in ABLATIONS
        if name.endswith(f"-{a}") and name.removesuffix(f"-{a}") in rows
    ]
    made: list[dict[str, Any]] = []
    for base, name in pairs:
        first, second = (matrix([[row[m] for m in _ABLATED] for row in rows[s]]) for s in (base, name))
        found = compare(first, second, [g.memory_id for g in golds], resamples=resamples, seed=seed)
        made.append({"base": base, "system": name, "metrics": dict(zip(_ABLATED, map(asdict, found), strict=True))})
    for metric in _ABLATED:
        adjusted = holm([m["metrics"][metric]["p_clustered"] for m in made])
        for one, p in zip(made, adjusted, strict=True):
            one["metrics"][metric]["p_clustered_holm"] = p
    return made


# -------------------------------------------------------------------------------------------------- worst questions


def worst(measured: Measured, golds: Sequence[Gold]) -> list[int]:
    """The questions whose evidence was found last, worst first; of equal ones the earlier."""
    rows = retrieval_rows(measured.rankings, golds, "original")
    scored = [i for i, g in enumerate(golds) if g.evidence]

    def key(i: int) -> tuple[float, float, float, int]:
        row = rows[i]
        return (row["turn_recall@20"] or 0.0, row["turn_recall@50"] or 0.0, row["turn_mrr"] or 0.0, i)

    return sorted(scored, key=key)[:_WORST]


def _worst(measured: Measured, golds: Sequence[Gold], texts: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    for i in worst(measured, golds):
        gold, ranking = golds[i], measured.rankings[i]
        rank = {t: n for n, t in enumerate(ranking.turns, 1)}
        words = texts.get(gold.memory_id, {})
        entries.append(
            {
                "query_id": gold.query_id,
                "category": gold.category,
                "question": gold.question,
                "answer": gold.answer,
                "audit": gold.audit,
                "evidence": [
                    {
                        "turn_id": e,
                        "rank": rank.get(e),
                        "text": words.get(e),
                        "why": ranking.why[rank[e] - 1] if e in rank and rank[e] <= len(ranking.why) else None,
                    }
                    for e in gold.evidence
                ],
                "returned": [
                    {"turn_id": t, "text": words.get(t), "why": ranking.why[n] if n < len(ranking.why) else None}
                    for n, t in enumerate(ranking.turns[:_SHOWN])
                ],
            }
        )
    return {"system": measured.name, "questions": entries}


def shown_turns(measured: Measured, golds: Sequence[Gold]) -> dict[str, set[str]]:
    """Turns by memory whose words the worst questions need."""
    wanted: dict[str, set[str]] = {}
    for i in worst(measured, golds):
        wanted.setdefault(golds[i].memory_id, set()).update([*golds[i].evidence, *measured.rankings[i].turns[:_SHOWN]])
    return wanted


# --------------------------------------------------------------------------------------------------------- Markdown


def percent(found: Mapping[str, Any] | None, *, interval: bool = True) -> str:
    """A share as a per cent with its wider interval; a dash where it could not be computed."""
    if not found or found["value"] is None:
        return DASH
    text = f"{100 * found['value']:.1f}"
    if interval:
        clustered = found["low_clustered"] is not None
        low, high = (found["low_clustered"], found["high_clustered"]) if clustered else (found["low"], found["high"])
        text += f" [{100 * low:.1f}, {100 * high:.1f}]"
    return text


RETRIEVAL = (*(f"turn_recall@{k}" for k in CUTS), "turn_all@20", "turn_mrr", "turn_ndcg@10", "session_recall@5")
ANSWERS = ("f1", "bleu1", "same", "locomo_score", "abstention", "false_abstention", "judge_strict", "judge_lenient")


def answer_names(report: Mapping[str, Any]) -> list[str]:
    """Metrics of answers that a report has."""
    have = {n for s in report["systems"].values() for n in s["metrics"]["original"].get("overall", {})}
    return [name for name in ANSWERS if name in have]


def markdown(report: Mapping[str, Any]) -> str:
    """The tables of a report, with n and intervals."""
    q = report["questions"]
    lines = [
        f"# {report['benchmark']}: {report['data']['name']}",
        "",
        f"{q['n']} questions ({q['with_evidence']} with evidence, {q['answerable']} answerable) in "
        f"{q['conversations']} conversations; data sha256 {report['data']['sha256'][:12]}"
        + (f"; the first {report['limit']} questions alone" if report.get("limit") else "")
        + (f"; a sample of {report['sample']}, evenly spaced" if report.get("sample") else "")
        + ". Per cent, with 95 % intervals over conversations where there are several, else over questions.",
    ]
    for which in next(iter(report["systems"].values()))["metrics"]:
        lines += ["", f"## Retrieval, {which} gold, all questions with evidence", ""]
        lines += _table(report, which, "overall", RETRIEVAL)
        lines += ["", f"## {HEADLINE} by category, {which} gold", ""]
        lines += _categories(report, which)
        if names := answer_names(report):
            lines += ["", f"## Answers, {which} gold", ""]
            lines += _table(report, which, "overall", tuple(names))
    lines += ["", "## Cost", "", "| system | tokens a query | questions/s | ms p50 | ms p90 |", "|---|---|---|---|---|"]
    for name, system in report["systems"].items():
        tokens = system["metrics"]["original"]["overall"]["context_tokens"]["value"]
        ms = system["latency_ms"]
        lines.append(
            f"| {name} | {DASH if tokens is None else f'{tokens:.0f}'} | {system['questions_per_s']:.0f} "
            f"| {ms['p50']} | {ms['p90']} |"
        )
    if report["ablations"]:
        lines += ["", "## Ablations: change in points, paired by question", ""]
        lines += ["| system | " + " | ".join(_ABLATED) + " |", "|---" * (len(_ABLATED) + 1) + "|"]
        for one in report["ablations"]:
            cells = [change(one["metrics"][m]) for m in _ABLATED]
            lines.append(f"| {one['system']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def change(found: Mapping[str, Any]) -> str:
    """A difference in points with its interval over questions and its p over conversations."""
    e = found["estimate"]
    if e["value"] is None:
        return DASH
    p = found.get("p_clustered_holm", found["p_clustered"])
    p = found["p"] if p is None else p
    return f"{100 * e['value']:+.1f} [{100 * e['low']:+.1f}, {100 * e['high']:+.1f}], p {p:.3f}"


def _table(report: Mapping[str, Any], which: str, group: str, names: Sequence[str]) -> list[str]:
    lines = ["| system | n | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    rows = [(name, s["metrics"][which]) for name, s in report["systems"].items()]
    if names and names[0] in ANSWERS:
        rows += [(name, tables[which]) for name, tables in report.get("baselines", {}).items()]
    for name, tables in rows:
        found = tables.get(group, {})
        n = max((found[m]["n"] for m in names if m in found), default=0)
        lines.append(f"| {name} | {n} | " + " | ".join(percent(found.get(m)) for m in names) + " |")
    return lines


def _categories(report: Mapping[str, Any], which: str) -> list[str]:
    first = next(iter(report["systems"].values()))["metrics"][which]
    names = [g for g in first if g != "overall"]
    counts = [
        max((s["metrics"][which][g][HEADLINE]["n"] for s in report["systems"].values()), default=0) for g in names
    ]
    head = [f"{g} (n {n})" for g, n in zip(names, counts, strict=True)]
    lines = ["| system | " + " | ".join(head) + " |", "|---" * (len(names) + 1) + "|"]
    for name, system in report["systems"].items():
        cells = [percent(system["metrics"][which][g][HEADLINE]) for g in names]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines

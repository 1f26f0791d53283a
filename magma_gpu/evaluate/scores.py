"""From ranked turns and answers to tables: every metric of every question, then means with intervals by group.

A group is `overall`, `answerable` (what has an answer) or one category. Means of all systems rest on the same
resamples of the same questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from magma_gpu.evaluate.equal import equal_answers
from magma_gpu.evaluate.gold import Gold
from magma_gpu.evaluate.metrics import Metrics, answer_metrics, retrieval_metrics, token_recall
from magma_gpu.evaluate.statistics import estimate, matrix

GOLDS = ("original", "audited")
# Recall is drawn as a curve over these numbers of turns.
CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a system returned for one question, as a step's file keeps it.

    Attributes:
        turns: ids best first, without repetitions; sessions, tokens: of each of them.
        why: how each of the first was found, in words; may be shorter.
        ranked: false where the order says nothing (a system that returns everything).
        context_tokens: of the context that an answering model would get.
    """

    memory_id: str
    query_id: str
    turns: tuple[str, ...]
    sessions: tuple[str, ...]
    tokens: tuple[int, ...]
    why: tuple[str, ...] = ()
    ranked: bool = True
    context_tokens: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> "Ranking":
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        return Ranking(**values)


def retrieval_rows(rankings: Sequence[Ranking], golds: Sequence[Gold], which: str) -> list[Metrics]:
    """Retrieval metrics of each question against one of the golds."""
    made = []
    for ranking, gold in zip(rankings, golds, strict=True):
        assert ranking.query_id == gold.query_id
        evidence, sessions = _evidence(gold, which)
        if not ranking.ranked:
            # Without an order nothing can be cut at k.
            row = dict.fromkeys(
                [
                    *retrieval_metrics((), (), "turn"),
                    *retrieval_metrics((), (), "session"),
                    *token_recall((), (), ()),
                    *(f"curve@{k}" for k in CURVE),
                ]
            )
            row["recall_returned"] = _share(ranking.turns, evidence)
            made.append({**row, "context_tokens": _count(ranking)})
            continue
        made.append(
            {
                **retrieval_metrics(ranking.turns, evidence, "turn"),
                **retrieval_metrics(ranking.sessions, sessions, "session"),
                **token_recall(ranking.turns, ranking.tokens, evidence),
                **{f"curve@{k}": _share(ranking.turns[:k], evidence) for k in CURVE},
                "recall_returned": _share(ranking.turns, evidence),
                "context_tokens": _count(ranking),
            }
        )
    return made


def _count(ranking: Ranking) -> float | None:
    return None if ranking.context_tokens is None else float(ranking.context_tokens)


def _share(turns: Sequence[str], evidence: Sequence[str]) -> float | None:
    return len(set(turns) & set(evidence)) / len(set(evidence)) if evidence else None


def _evidence(gold: Gold, which: str) -> tuple[Sequence[str], Sequence[str]]:
    if which == "audited":
        return gold.audited_evidence, gold.audited_sessions
    return gold.evidence, gold.sessions


def answer_rows(answers: Sequence[str | None], golds: Sequence[Gold], which: str, benchmark: str) -> list[Metrics]:
    """Metrics of each answer against one of the golds; an answer that failed (None) has none."""
    texts = [a or "" for a in answers]
    wanted = [(g.audited_answer if which == "audited" else g.answer) for g in golds]
    same = equal_answers(texts, [w or "" for w in wanted])
    names = {"multi-hop": "1", "temporal": "2", "open-domain": "3", "single-hop": "4", "adversarial": "5"}
    made = []
    for answer, gold, text, target, equal in zip(answers, golds, texts, wanted, same, strict=True):
        row = answer_metrics(
            text,
            target,
            names.get(gold.category),
            answerable=gold.answerable,
            same=None if target is None else float(equal),
            locomo=benchmark == "locomo",
        )
        made.append(row if answer is not None else dict.fromkeys(row))
    return made


def groups(golds: Sequence[Gold]) -> dict[str, list[int]]:
    """Rows of each group."""
    made = {
        "overall": list(range(len(golds))),
        "answerable": [i for i, g in enumerate(golds) if g.answerable],
    }
    for category in sorted({g.category for g in golds}):
        made[category] = [i for i, g in enumerate(golds) if g.category == category]
    return made


def summarize(
    rows: Mapping[str, Sequence[Metrics]], golds: Sequence[Gold], *, resamples: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Mean, n and intervals: by system, group and metric.

    Args:
        rows: of each system, one a question, all with the same metrics.
    """
    clusters = [g.memory_id for g in golds]
    # All systems as columns of one matrix: one set of resamples serves them all.
    columns = [(system, name) for system, of in rows.items() if of for name in of[0]]
    made: dict[str, dict[str, Any]] = {system: {} for system in rows}
    if not columns:
        return made
    values = matrix([[rows[system][i][name] for system, name in columns] for i in range(len(golds))])
    for group, members in groups(golds).items():
        found = estimate(values[members], [clusters[i] for i in members], resamples=resamples, seed=seed)
        for (system, name), one in zip(columns, found, strict=True):
            made[system].setdefault(group, {})[name] = asdict(one)
    return made

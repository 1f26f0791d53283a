"""Two runs, or two systems of one run, on the questions that both answered: paired differences with tests.

It reads the scores that runs wrote and asks no system. A question counts for a metric where both have it; questions are
the same where memory and id are.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from magma_gpu.errors import InputError
from magma_gpu.evaluate.statistics import compare, holm, matrix

# What the short table shows; the document has every metric.
SHOWN = ("turn_recall@5", "turn_recall@20", "turn_all@20", "turn_mrr", "session_recall@5", "f1", "same", "judge_strict")

Key = tuple[str, str]
# system -> question -> (category, metrics)
Scores = dict[str, dict[Key, tuple[str, dict[str, float | None]]]]


def read_scores(run: Path, gold: str) -> Scores:
    """The scores of a run by system and question.

    Raises:
        InputError: there are none, or none against this gold.
    """
    path = run / "scores.jsonl"
    made: Scores = {}
    try:
        with path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                row = json.loads(line)
                if row["gold"] == gold:
                    key = (row["memory_id"], row["query_id"])
                    made.setdefault(row["system"], {})[key] = (row["category"], row["metrics"])
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise InputError(
            f"'{path}' cannot be read ({error}); give the folder of a finished run of magma-gpu bench."
        ) from None
    if not made:
        raise InputError(
            f"'{path}' has no scores against the {gold} gold; run bench with --audit, or compare the other."
        )
    return made


def split_run(given: str) -> tuple[Path, str | None]:
    """`RUN` or `RUN:SYSTEM`; a folder whose name has a colon is taken as it stands."""
    if Path(given).is_dir():
        return Path(given), None
    folder, colon, system = given.rpartition(":")
    return (Path(folder), system) if colon and Path(folder).is_dir() else (Path(given), None)


def compare_runs(first: str, second: str, *, gold: str, resamples: int, seed: int) -> dict[str, Any]:
    """Compares two runs.

    Args:
        first, second: `RUN` (every system that both have) or `RUN:SYSTEM`.

    Raises:
        InputError: a run has no such system, or the two have no question in common.
    """
    (a, system_a), (b, system_b) = split_run(first), split_run(second)
    scores_a, scores_b = read_scores(a, gold), read_scores(b, gold)
    pairs = _pairs(scores_a, scores_b, system_a, system_b, first, second)
    made: dict[str, Any] = {"first": first, "second": second, "gold": gold, "resamples": resamples, "seed": seed}
    made["pairs"] = [
        {"first": one, "second": other, **_compare(scores_a[one], scores_b[other], resamples=resamples, seed=seed)}
        for one, other in pairs
    ]
    if not any(pair["questions"] for pair in made["pairs"]):
        raise InputError(f"'{first}' and '{second}' have no question in common; compare runs of one benchmark.")
    return made


def _pairs(
    a: Scores, b: Scores, system_a: str | None, system_b: str | None, first: str, second: str
) -> list[tuple[str, str]]:
    for given, scores, system in ((first, a, system_a), (second, b, system_b)):
        if system is not None and system not in scores:
            raise InputError(f"'{given}' names no system of that run; it has {', '.join(scores)}.")
    if system_a is None and system_b is None:
        common = [(name, name) for name in a if name in b]
        if not common:
            raise InputError(f"'{first}' and '{second}' have no system in common; name one of each as RUN:SYSTEM.")
        return common
    # One name stands for both where the other run has it too.
    one, other = system_a or system_b, system_b or system_a
    assert one is not None
    assert other is not None
    if one not in a or other not in b:
        raise InputError("The two runs do not both have that system; name one of each as RUN:SYSTEM.")
    return [(one, other)]


def _compare(
    first: dict[Key, tuple[str, dict[str, float | None]]],
    second: dict[Key, tuple[str, dict[str, float | None]]],
    *,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    keys = [k for k in first if k in second]
    names = [n for n in (first[keys[0]][1] if keys else {}) if n in second[keys[0]][1]]
    groups: dict[str, list[Key]] = {"overall": keys}
    for key in keys:
        groups.setdefault(first[key][0], []).append(key)
    tables = {}
    for group, members in groups.items():
        if not members:
            continue
        rows: list[list[Sequence[float | None]]] = [
            [[side[k][1].get(n) for n in names] for k in members] for side in (first, second)
        ]
        found = compare(matrix(rows[0]), matrix(rows[1]), [k[0] for k in members], resamples=resamples, seed=seed)
        tables[group] = dict(zip(names, map(asdict, found), strict=True))
    shown = [n for n in SHOWN if n in names]
    if "overall" in tables:
        adjusted = holm([tables["overall"][n]["p"] for n in shown])
        for name, p in zip(shown, adjusted, strict=True):
            tables["overall"][name]["p_holm"] = p
    return {"questions": len(keys), "metrics": tables}

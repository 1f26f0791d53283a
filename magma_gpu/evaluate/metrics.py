"""What one ranking or one answer is worth: retrieval and token metrics of single questions.

It averages nothing (`scores.py` does). A metric that cannot be computed, such as recall without a known piece of
evidence, is None and never 0 or 1: LoCoMo's own code counts a question without evidence as found.
"""

import functools
import math
import re
import string
from collections import Counter
from collections.abc import Sequence

import Stemmer

# Turns, or sessions, that are looked at.
CUTS = (5, 10, 20, 50)
# Tokens of returned turns, best first, that are looked at.
TOKEN_BUDGETS = (125, 250, 500, 1000, 2000, 4000, 8000)
# What a constant refusal says: the words that LoCoMo's own scoring of category 5 looks for.
REFUSAL = "Not mentioned in the conversation."

Metrics = dict[str, float | None]


def distinct(ids: Sequence[str]) -> list[str]:
    """Ids in order of their first place; a turn that came back in two parts counts once."""
    return list(dict.fromkeys(ids))


def retrieval_metrics(ranked: Sequence[str], wanted: Sequence[str], level: str) -> Metrics:
    """Recall, any, all and nDCG at every cut, and the reciprocal rank.

    Args:
        ranked: ids best first; repetitions are dropped.
        wanted: ids of the evidence, each relevant by 1.
        level: first part of the metrics' names, `turn` or `session`.

    Returns:
        metrics by name; all None where no evidence is known.
    """
    order = distinct(ranked)
    gold = set(wanted)
    made: Metrics = {}
    hits = [i for i, item in enumerate(order, 1) if item in gold]
    for k in CUTS:
        found = sum(rank <= k for rank in hits)
        gain = sum(1 / math.log2(rank + 1) for rank in hits if rank <= k)
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(gold)) + 1))
        made[f"{level}_recall@{k}"] = found / len(gold) if gold else None
        made[f"{level}_any@{k}"] = float(found > 0) if gold else None
        made[f"{level}_all@{k}"] = float(found == len(gold)) if gold else None
        made[f"{level}_ndcg@{k}"] = gain / ideal if gold else None
    made[f"{level}_mrr"] = (1 / hits[0] if hits else 0.0) if gold else None
    return made


def token_recall(ranked: Sequence[str], tokens: Sequence[int], wanted: Sequence[str]) -> Metrics:
    """Recall of what fits token budgets: turns are taken best first, and the first that does not fit ends it.

    Args:
        ranked: turn ids best first, without repetitions.
        tokens: of each of them.
    """
    gold = set(wanted)
    made: Metrics = {}
    for budget in TOKEN_BUDGETS:
        used = found = 0
        for item, size in zip(ranked, tokens, strict=True):
            used += size
            if used > budget:
                break
            found += item in gold
        made[f"recall@{budget}tok"] = found / len(gold) if gold else None
    return made


# -------------------------------------------------------------------------------------------------------- words

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ARTICLES_AND = re.compile(r"\b(?:a|an|the|and)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_tokens(text: str) -> list[str]:
    """Lower case, without ASCII punctuation and articles, split at white space (as SQuAD and its followers do)."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def f1(answer: str, gold: str) -> float:
    """F1 of two bags of normalised tokens; two empty bags are equal."""
    return _bag_f1(normalized_tokens(answer), normalized_tokens(gold))


def bleu1(answer: str, gold: str) -> float:
    """BLEU of single normalised tokens against one reference: clipped precision times the brevity penalty."""
    said, wanted = normalized_tokens(answer), normalized_tokens(gold)
    if not said or not wanted:
        return float(said == wanted)
    precision = sum((Counter(said) & Counter(wanted)).values()) / len(said)
    return precision * min(1.0, math.exp(1 - len(wanted) / len(said)))


def exact(answer: str, gold: str) -> float:
    """1 where the normalised tokens are the same, in order."""
    return float(normalized_tokens(answer) == normalized_tokens(gold))


def _bag_f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    if not said or not wanted:
        return float(not said and not wanted)
    same = sum((Counter(said) & Counter(wanted)).values())
    return 2 * same / (len(said) + len(wanted))


# --------------------------------------------------------------------------------------------- as LoCoMo scores


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("porter")


def _locomo_f1(answer: str, gold: str) -> float:
    bags = [
        _stemmer().stemWords(_ARTICLES_AND.sub(" ", t.lower().translate(_NO_PUNCTUATION)).split())
        for t in (answer, gold)
    ]
    return _bag_f1(*bags) if all(bags) else 0.0


def locomo_score(answer: str, gold: str | None, category: str | None) -> float | None:
    """The score that LoCoMo's published evaluation gives, by category; None where it needs a gold answer.

    Its normalisation also drops "and" and stems (Porter; by another implementation than ours, so that rare words may
    differ). Category 1: the gold's parts between commas each take their best part of the answer, and are averaged.
    Category 3: only the gold before the first semicolon counts. Category 5: 1 if the answer says "not mentioned" or
    "no information available", whatever else it says.
    """
    if category == "5":
        return float(any(p in answer.lower() for p in ("not mentioned", "no information available")))
    if gold is None:
        return None
    if category == "1":
        parts = answer.split(",")
        best = [max(_locomo_f1(said, wanted) for said in parts) for wanted in gold.split(",")]
        return sum(best) / len(best)
    return _locomo_f1(answer, gold.split(";")[0] if category == "3" else gold)


# ------------------------------------------------------------------------------------------------------ refusal

_REFUSALS = re.compile(
    r"\b(?:not|never|isn't|wasn't|aren't|weren't) (?:be )?(?:mentioned|stated|said|specified|discussed|provided|given|"
    r"available|known|recorded|enough information|sufficient information)\b"
    r"|\bno (?:information|mention|record|evidence|indication|answer)\b"
    r"|\b(?:do not|don't|does not|doesn't|did not|didn't|cannot|can't|could not|couldn't) "
    r"(?:know|mention|say|state|specify|contain|answer|tell|find|determine|be determined|be answered)\b"
    r"|\b(?:information|evidence|context|conversation) (?:provided )?is (?:not enough|insufficient)\b"
    r"|\b(?:insufficient|not enough) (?:information|evidence)\b|\bunanswerable\b|^\W*unknown\W*$",
    re.IGNORECASE,
)


def is_refusal(answer: str) -> bool:
    """Whether an answer says that there is none; an empty one does too."""
    return not answer.strip() or _REFUSALS.search(answer.replace("\u2019", "'")) is not None


def answer_metrics(
    answer: str, gold: str | None, category: str | None, *, answerable: bool, same: float | None, locomo: bool
) -> Metrics:
    """Everything that words alone say of an answer.

    Args:
        answerable: whether the question has an answer; of others only the abstention counts.
        same: `equal_answers` of the two, None where there is no gold.
        locomo: whether the published scoring of LoCoMo applies.
    """
    refused = float(is_refusal(answer))
    scored = answerable and gold is not None
    return {
        "f1": f1(answer, gold) if scored and gold is not None else None,
        "bleu1": bleu1(answer, gold) if scored and gold is not None else None,
        "exact": exact(answer, gold) if scored and gold is not None else None,
        "same": same if scored else None,
        "locomo_score": locomo_score(answer, gold, category) if locomo else None,
        "abstention": None if answerable else refused,
        "false_abstention": refused if answerable else None,
    }

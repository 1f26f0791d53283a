"""The way a question took, as data for the page: what was visited hop by hop, what was kept, and in which order.

A search returns its best `k`; asked for more it returns all that it visited, each with its path. So the walk is told
by the same search, asked once more with a larger `k`, and nothing is computed twice in another way.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from magma_gpu.memory import Memory
from magma_gpu.narrate import order
from magma_gpu.results import Evidence, Result
from magma_gpu.search import Found


def trace(
    memory: Memory,
    memory_id: str,
    questions: Sequence[str],
    as_of: str | None,
    number: dict[str, int],
) -> list[dict[str, Any]]:
    """Asks questions and follows them.

    Args:
        number: the page's node numbers, `payload.node_numbers`.

    Raises:
        InputError: a time that cannot be read.
    """
    if not questions:
        return []
    results = memory.query(questions, memory_id, as_of)
    return [
        _described(memory, result, visited, number)
        for result, visited in zip(results, _visited(memory, results, questions, as_of), strict=True)
    ]


def _visited(
    memory: Memory, results: Sequence[Result], questions: Sequence[str], as_of: str | None
) -> list[tuple[Evidence, ...]]:
    search = memory.config.search
    if search.policy == "smooth":
        # It walks to direct neighbours alone and ranks every event: what counts is what it returns.
        return [r.evidence for r in results]
    narrow = memory.config
    memory.config = replace(narrow, search=replace(search, k=max(search.k, search.max_nodes)))
    try:
        wide = memory.query(questions, results[0].memory_id, as_of)
    finally:
        memory.config = narrow
    return [r.evidence for r in wide]


def _described(memory: Memory, result: Result, visited: Sequence[Evidence], number: dict[str, int]) -> dict[str, Any]:
    [index] = memory.indexes([result.memory_id])
    place = {number[e.event_id]: i for i, e in enumerate(result.evidence)}
    found = [Found(number[e.event_id], e.score, e.hop, (), e.signals) for e in result.evidence]
    return {
        "question": result.question,
        "policy": memory.config.search.policy,
        "intent": {name: round(p, 4) for name, p in result.intent.items()},
        "window": result.window,
        "missing": list(result.missing),
        "truncated": result.truncated,
        "evidence": [_step(e, number) for e in result.evidence],
        "told": [place[f.event] for f in order(index, found, result.main_intent)],
        "visited": [_step(e, number) for e in visited],
        "context": result.context,
        "context_tokens": result.context_tokens,
        "budget": memory.config.search.context_tokens,
    }


def _step(evidence: Evidence, number: dict[str, int]) -> dict[str, Any]:
    return {
        "node": number[evidence.event_id],
        "score": round(evidence.score, 4),
        "hop": evidence.hop,
        "signals": evidence.signals,
        "path": [[number[node], kind] for node, kind in evidence.path],
    }

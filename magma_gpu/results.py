"""What a memory says to a question, as people and programs read it: evidence with its reasons, and context."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magma_gpu.memory_index import MemoryIndex
from magma_gpu.narrate import CountTokens, iso, narrate
from magma_gpu.search import Search
from magma_gpu.types import Question


@dataclass(frozen=True, slots=True)
class Evidence:
    """One event of an answer, as people read it."""

    event_id: str
    turn_id: str
    score: float
    hop: int
    # From the anchor to this event: ids of the nodes passed and the edge type walked from each.
    path: tuple[tuple[str, str], ...]
    # The same nodes as people know them: a turn id, an entity's name, or "an episode".
    path_labels: tuple[str, ...]
    # Rank by each signal that found it.
    signals: dict[str, int]
    time: str | None
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a memory says to one question. `evidence` is best first; `context` is in the order of telling."""

    memory_id: str
    query_id: str
    question: str
    intent: dict[str, float]
    window: tuple[str | None, str | None] | None
    evidence: tuple[Evidence, ...]
    context: str
    context_tokens: int
    missing: tuple[str, ...]
    truncated: bool

    @property
    def main_intent(self) -> str:
        return max(self.intent, key=lambda name: self.intent[name])

    def to_json(self) -> dict[str, Any]:
        return {
            "memory_id": self.memory_id,
            "query_id": self.query_id,
            "question": self.question,
            "intent": self.intent,
            "window": None if self.window is None else list(self.window),
            "evidence": [
                {
                    "event_id": e.event_id,
                    "turn_id": e.turn_id,
                    "score": round(e.score, 6),
                    "hop": e.hop,
                    "path": [
                        {"node": node, "edge_type": kind, "label": label}
                        for (node, kind), label in zip(e.path, e.path_labels, strict=True)
                    ],
                    "signals": e.signals,
                    "time": e.time,
                    "speaker": e.speaker,
                    "text": e.text,
                }
                for e in self.evidence
            ],
            "context": self.context,
            "context_tokens": self.context_tokens,
            "missing": list(self.missing),
            "truncated": self.truncated,
        }


def make_result(
    question: Question,
    index: MemoryIndex,
    search: Search,
    intent: Mapping[str, float],
    window: tuple[int, int] | None,
    budget: int,
    count_tokens: CountTokens,
) -> Result:
    """Puts what a search found into words.

    Args:
        window: the interval that the question names, in UTC microseconds.
        budget: tokens that the context may have, as `count_tokens` counts them.
    """
    main = max(intent, key=lambda name: intent[name])
    context, tokens = narrate(index, search.found, main, budget, count_tokens)
    graph = index.graph
    return Result(
        memory_id=question.memory_id,
        query_id=question.query_id,
        question=question.question,
        intent=dict(intent),
        window=None if window is None else (iso(window[0]), iso(window[1])),
        evidence=tuple(
            Evidence(
                event_id=graph.event_ids[f.event],
                turn_id=index.turn_ids[f.event],
                score=f.score,
                hop=f.hop,
                path=tuple((graph.node_id(node), kind) for node, kind in f.path),
                path_labels=tuple(_label(index, node) for node, _ in f.path),
                signals=f.signals,
                time=_said(index, f.event),
                speaker=index.speakers[f.event],
                text=index.texts[f.event],
            )
            for f in search.found
        ),
        context=context,
        context_tokens=tokens,
        missing=index.missing,
        truncated=search.truncated,
    )


def _said(index: MemoryIndex, event: int) -> str | None:
    if event not in index.said:
        index.said[event] = iso(int(index.time_E[event]))
    return index.said[event]


def _label(index: MemoryIndex, node: int) -> str:
    if node < index.num_events:
        return index.turn_ids[node]
    entity = node - index.graph.first_node("entity")
    return "an episode" if entity < 0 else index.entity_names[entity][0]

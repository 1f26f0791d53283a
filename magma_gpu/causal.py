"""Turns the causal pairs of a shard's outcomes into table `edges/causal`, and counts what it drops.

It believes no index and no quotation: both are checked against the events. Every kept edge leads from an
earlier position to a later one, so the causal graph has no cycle whatever an extractor says, and its words stand in the
effect or in a cause of the same speaker, so no text of one speaker makes an edge to what another said.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from magma_gpu.schema import TABLES
from magma_gpu.types import CausalPair

# Reasons for dropping a pair, in the order in which they are tried.
OUT_OF_RANGE = "causal: index not in the window"
SELF_LOOP = "causal: cause is effect"
BACKWARDS = "causal: effect not after its cause"
NO_EVIDENCE = "causal: evidence in neither text"
# Nobody can put a cause of their own before what somebody else did: the other must say so.
NOT_THEIR_WORDS = "causal: effect of another speaker, who does not say so"
LOW_CONFIDENCE = "causal: confidence too low"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEvent:
    """An event as the checks need it."""

    event_id: str
    session_id: str
    position: int
    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalEdge:
    """A pair that passed, with the ids of its events."""

    src: str
    dst: str
    weight: float
    # rule or llm.
    origin: str
    evidence: str


def check_pairs(
    pairs: Sequence[CausalPair],
    events: Sequence[PlacedEvent],
    *,
    min_confidence: float,
    origin: str,
    dropped: Counter[str],
) -> list[CausalEdge]:
    """Returns the edges of one window's pairs that stand the checks; adds the others to `dropped`, by reason.

    Args:
        pairs: with indexes into `events`; negative indexes are out of range, never counted from the end.
        events: the window's events in order.
        min_confidence: pairs below it are dropped; the paper's delta.
        origin: "rule" or "llm".
        dropped: counts by reason; changed in place.
    """
    kept: list[CausalEdge] = []
    for pair in pairs:
        reason = _reason(pair, events, min_confidence)
        if reason is not None:
            dropped[reason] += 1
            continue
        cause, effect = events[pair.cause], events[pair.effect]
        kept.append(
            CausalEdge(
                src=cause.event_id,
                dst=effect.event_id,
                weight=min(pair.confidence, 1.0),
                origin=origin,
                evidence=pair.evidence,
            )
        )
    return kept


def merge_edges(edges: Sequence[CausalEdge]) -> list[CausalEdge]:
    """Returns one edge a pair of events, sorted by source and target.

    Overlapping windows tell of one pair more than once: the highest weight stays, of equals the smaller
    evidence, then the smaller origin.
    """
    best: dict[tuple[str, str], CausalEdge] = {}
    for edge in edges:
        old = best.get((edge.src, edge.dst))
        if old is None or _rank(edge) < _rank(old):
            best[edge.src, edge.dst] = edge
    return [best[key] for key in sorted(best)]


def causal_table(edges_by_memory: Sequence[tuple[str, Sequence[CausalEdge]]]) -> pa.Table:
    """Returns table `edges/causal`; memories as given, each one's edges as `merge_edges` left them."""
    rows = [
        {
            "memory_id": memory_id,
            "src": edge.src,
            "dst": edge.dst,
            "type": "causal",
            "weight": edge.weight,
            "origin": edge.origin,
            "evidence": edge.evidence,
        }
        for memory_id, edges in edges_by_memory
        for edge in edges
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["edges/causal"])


def _rank(edge: CausalEdge) -> tuple[float, str, str]:
    return (-edge.weight, edge.evidence, edge.origin)


def _reason(pair: CausalPair, events: Sequence[PlacedEvent], min_confidence: float) -> str | None:
    if not (0 <= pair.cause < len(events) and 0 <= pair.effect < len(events)):
        return OUT_OF_RANGE
    cause, effect = events[pair.cause], events[pair.effect]
    if cause.event_id == effect.event_id:
        return SELF_LOOP
    if cause.position >= effect.position:
        return BACKWARDS
    quoted = plain(pair.evidence)
    in_effect = quoted in plain(effect.text)
    if not quoted or not (in_effect or quoted in plain(cause.text)):
        return NO_EVIDENCE
    if not in_effect and cause.speaker != effect.speaker:
        return NOT_THEIR_WORDS
    # Written so that a NaN is dropped too.
    if not pair.confidence >= min_confidence:
        return LOW_CONFIDENCE
    return None


def plain(text: str) -> str:
    """Returns a text as quotations are compared: compatibility forms, case and white space made equal."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())

"""The context that an answering model gets for a ranking: the same narration for every system.

It is written anew from the ranked turn ids, so a system is judged by what it finds and never by how it words it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from magma_gpu.evaluate.systems import encoded
from magma_gpu.memory import Memory
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.narrate import narrate
from magma_gpu.search import Found
from magma_gpu.types import INTENTS, Question


def found_events(index: MemoryIndex, turn_ids: Sequence[str]) -> list[Found]:
    """Ranked turns as found events, every part of a turn; ids that the memory does not hold are left out."""
    parts: dict[str, list[int]] = {}
    for event, turn_id in enumerate(index.turn_ids):
        parts.setdefault(turn_id, []).append(event)
    events = [event for turn_id in dict.fromkeys(turn_ids) for event in parts.get(turn_id, ())]
    return [Found(event, 1.0 - rank / (len(events) + 1), 0, (), {}) for rank, event in enumerate(events)]


def write_contexts(
    memory: Memory,
    questions: Sequence[Question],
    rankings: Sequence[Sequence[str]],
    budget: int | None,
    vectors: dict[str, npt.NDArray[np.float32]],
) -> list[tuple[str, int, str]]:
    """Writes contexts.

    Args:
        rankings: turn ids of each question, best first.
        budget: tokens; None for no limit.
        vectors: of questions; what is missing is encoded and added.

    Returns:
        (context, its tokens, main intent of the question) for each question.
    """
    if not questions:
        return []
    texts = [q.question for q in questions]
    query_QD = encoded(memory, texts, vectors)
    intents = memory.classifier.probabilities(texts, query_QD, str(memory.encoder_id)).argmax(axis=1)
    made = []
    for question, turn_ids, intent in zip(questions, rankings, np.asarray(intents).tolist(), strict=True):
        index = memory.indexes([question.memory_id])[0]
        main = INTENTS[intent]
        context, tokens = narrate(
            index, found_events(index, turn_ids), main, 10**9 if budget is None else budget, memory.encoder.count_tokens
        )
        made.append((context, tokens, main))
    return made

"""Questions that a memory asks itself: what labels there are where nobody has marked any evidence.

A pseudo-question is made of a few telling words of one event, now and then of one from the turn beside it, with its
speaker's name in a frame; the event is its evidence. Words are dropped, so that no question is the text it asks for.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from magma_gpu.lexical import words_of
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.types import Question

# Frames of what people ask of a memory; {who} is the speaker and {what} the words.
_FRAMES = (
    "What did {who} say about {what}?",
    "What does {who} think of {what}?",
    "When did {who} mention {what}?",
    "Why did {who} talk about {what}?",
    "Which {what} did {who} tell of?",
    "How was {what} for {who}?",
    "Who told of {what}?",
    "{what}",
)
_LEAST_WORDS = 4
_BESIDE = 0.3


def pseudo_questions(index: MemoryIndex, count: int, seed: int = 0) -> tuple[list[Question], list[tuple[str, ...]]]:
    """At most `count` questions of a memory to itself, each about another event, with the turn id of its evidence."""
    draw = np.random.default_rng(seed)
    words = [words_of(text) for text in index.texts]
    number = Counter(w for of in words for w in set(of))
    told = [i for i, of in enumerate(words) if len(set(of)) >= _LEAST_WORDS]
    draw.shuffle(told)
    questions: list[Question] = []
    evidence: list[tuple[str, ...]] = []
    for event in told[:count]:
        what = _some(words[event], number, int(draw.integers(2, 5)), draw)
        beside = [j for j in (int(index.previous_E[event]), int(index.next_E[event])) if j >= 0 and words[j]]
        if beside and draw.random() < _BESIDE:
            what += _some(words[int(draw.choice(beside))], number, 1, draw)
        frame = _FRAMES[int(draw.integers(len(_FRAMES)))]
        text = frame.format(who=index.speakers[event], what=" ".join(what))
        questions.append(Question(memory_id=index.memory_id, query_id=f"self-{event}", question=text))
        evidence.append((index.turn_ids[event],))
    return questions, evidence


def _some(words: Sequence[str], number: Counter[str], count: int, draw: np.random.Generator) -> list[str]:
    """Some words of an event, rare ones first by chance, in their order."""
    distinct = list(dict.fromkeys(words))
    chance = np.array([1.0 / np.sqrt(number[w]) for w in distinct])
    chosen = draw.choice(len(distinct), size=min(count, len(distinct)), replace=False, p=chance / chance.sum())
    return [distinct[i] for i in sorted(chosen.tolist())]

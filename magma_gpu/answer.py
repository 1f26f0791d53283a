"""Answers from evidence: tasks out of rankings, prompts that follow the question's intent, replies read back.

The engines are `extractive` (extractive.py, no model) and `openai` (chat_client.py, any OpenAI-compatible server). An
answer names the references it rests on; where the evidence does not hold it the answer is a refusal, never a guess.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from magma_gpu.evaluate.metrics import REFUSAL as REFUSAL
from magma_gpu.memory_index import MemoryIndex
from magma_gpu.narrate import narrate
from magma_gpu.search import Found
from magma_gpu.store import stable_hash
from magma_gpu.types import INTENTS, Question

if TYPE_CHECKING:
    from magma_gpu.memory import Memory

# Changes when prompts do; part of what an answer is kept under.
PROMPT_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A question with the evidence that was found for it.

    Attributes:
        intent: one of INTENTS.
        context: the evidence as a language model reads it; context_tokens: by the store's tokenizer.
        index: the memory; events: of the evidence, best first.
        ranked: false where the order of events says nothing.
    """

    question: Question
    intent: str
    context: str
    context_tokens: int
    index: MemoryIndex
    events: tuple[int, ...]
    ranked: bool = True

    @property
    def turn_ids(self) -> list[str]:
        return list(dict.fromkeys(self.index.turn_ids[e] for e in self.events))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine says; `answer` is None where it failed, and `error` says why.

    Attributes:
        evidence: turn ids that the answer rests on.
        prompt_hash: of all that a model was given; None without a model.
        prompt_tokens, output_tokens: as the server counts them; None where it does not.
    """

    memory_id: str
    query_id: str
    answer: str | None
    abstained: bool
    evidence: tuple[str, ...]
    context_tokens: int
    prompt_hash: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Engine(Protocol):
    """Answers tasks."""

    @property
    def identity(self) -> dict[str, str]:
        """What tells two engines apart whose answers may differ."""

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """One answer a task, in order; what cannot be answered for a technical reason has an error."""


def found_events(index: MemoryIndex, turn_ids: Sequence[str]) -> list[Found]:
    """Ranked turns as found events, every part of a turn; ids that the memory does not hold are left out."""
    parts: dict[str, list[int]] = {}
    for event, turn_id in enumerate(index.turn_ids):
        parts.setdefault(turn_id, []).append(event)
    events = [event for turn_id in dict.fromkeys(turn_ids) for event in parts.get(turn_id, ())]
    return [Found(event, 1.0 - rank / (len(events) + 1), 0, (), {}) for rank, event in enumerate(events)]


def make_tasks(
    memory: "Memory",
    questions: Sequence[Question],
    rankings: Sequence[Sequence[str]],
    budget: int | None,
    query_QD: npt.NDArray[np.float32] | None = None,
    *,
    ranked: bool = True,
) -> list[Task]:
    """Writes the context of each question from ranked turn ids, the same way whoever ranked them.

    Args:
        rankings: turn ids of each question, best first.
        budget: tokens of a context; None for no limit.
        query_QD: vectors of the questions where they are known.
        ranked: false where the turns are in no order of relevance.
    """
    if not questions:
        return []
    texts = [q.question for q in questions]
    query_QD = memory.encode(texts) if query_QD is None else query_QD
    intents = memory.classifier.probabilities(texts, query_QD, str(memory.encoder_id)).argmax(axis=1)
    limit = 10**9 if budget is None else budget
    made = []
    for question, turn_ids, intent in zip(questions, rankings, np.asarray(intents).tolist(), strict=True):
        index = memory.indexes([question.memory_id])[0]
        found = found_events(index, turn_ids)
        context, tokens = narrate(index, found, INTENTS[intent], limit, memory.encoder.count_tokens)
        made.append(Task(question, INTENTS[intent], context, tokens, index, tuple(f.event for f in found), ranked))
    return made


# ---------------------------------------------------------------------------------------------------------- prompts

_PERSONA = (
    "You are the memory of somebody who asks you about conversations that took place. You know these conversations "
    "only through the record below. Each line of it begins with a reference in square brackets, then the time at which "
    "it was said, then who said it. Where a line speaks of a time in words, the dates meant stand behind it in "
    "parentheses."
)
_ORDER = {
    "why": "Causes stand before what they led to, as far as they are known; everything else is in order of time.",
    "when": "The lines are in order of time.",
    "entity": "Lines of one topic stand together, in order of time within it.",
    "open": "Lines of one topic stand together, in order of time within it.",
}
_REASONING = {
    "why": "Look for the reason that the speakers themselves give, and go back from the effect to its cause.",
    "when": "Work out the date of the event, which is often not the date on which it was told: count from the time of "
    "the line, or take the date in parentheses. Give the date as in 7 May 2023, or as exactly as the record allows.",
    "entity": "Name every person, place or thing that fits, and nothing that belongs to somebody else.",
    "open": "Put together what the lines say; where they contradict each other the later one counts.",
}
_RULES = (
    "Answer in as few words as possible, without repeating the question. Use the record alone. If it does not hold the "
    f"answer, or speaks of another person than the question does, the answer is exactly: {REFUSAL}\n"
    "Write two lines:\nAnswer: <the answer>\nEvidence: <the references used, such as [ref], or none>"
)
_OMISSION = " A line of dots says how many lines were left out there."


@dataclass(frozen=True, slots=True)
class Prompt:
    """Two messages to a chat model."""

    system: str
    user: str

    @property
    def hash(self) -> str:
        return stable_hash(self.system, self.user)


def write_prompt(task: Task) -> Prompt:
    """The prompt of a task: who is asked, how the evidence is ordered, how to reason for this intent, how to reply."""
    order = _ORDER[task.intent] + (_OMISSION if "\u2026" in task.context else "")
    asked = f"\nThe question was asked on {task.question.time}." if task.question.time else ""
    return Prompt(
        system=f"{_PERSONA}\n\n{_RULES}",
        user=f"Record. {order}\n\n{task.context or '(nothing was found)'}\n\n{_REASONING[task.intent]}{asked}\n"
        f"Question: {task.question.question}",
    )


_ANSWER = re.compile(r"^\W*answer\W*:[*_\s]*(.*?)(?=^\W*evidence\W*:|\Z)", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_EVIDENCE = re.compile(r"^\W*evidence\W*:[*_\s]*(.*)\Z", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def read_reply(reply: str, known: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The answer and the references of a model's reply, whatever of the wanted form it kept to.

    Args:
        known: references of the context; others are not evidence.
    """
    text = _THINKING.sub("", reply).strip()
    answer = found[-1] if (found := _ANSWER.findall(text)) else _EVIDENCE.sub("", text)
    cited = found[-1] if (found := _EVIDENCE.findall(text)) else text
    named = set(re.findall(r"[^\s\[\],;]+", cited))
    return " ".join(answer.split()), tuple(k for k in known if k in named)

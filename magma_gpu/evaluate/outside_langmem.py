"""LangMem (package `langmem`) as a system under test: its memory manager over a store in memory, our vectors.

`langmem` keeps every turn as it was said, put into the store by the manager; `langmem-model` has the manager write
memories by a language model with tool calls, one call a turn. A memory that the model changes later comes from the
turns of every change.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from magma_gpu.chat_client import ChatConfig
from magma_gpu.evaluate.gold import MemoryTurns
from magma_gpu.evaluate.outside import Encode, Times, Vectors, no_reply, not_installed, turn_words
from magma_gpu.evaluate.systems import DEPTH, Returned
from magma_gpu.types import Question


class LangMem:
    """See the module."""

    def __init__(self, name: str, encode: Encode, chat: ChatConfig | None) -> None:
        try:
            from langchain_openai import ChatOpenAI  # type: ignore[import-not-found, unused-ignore]
            from langgraph.store.memory import InMemoryStore  # type: ignore[import-not-found, unused-ignore]
            from langmem import create_memory_store_manager  # type: ignore[import-not-found, unused-ignore]
            from openai import OpenAIError  # type: ignore[import-not-found, unused-ignore]
        except ModuleNotFoundError:
            raise not_installed("langmem") from None
        self.name = name
        self._failure: type[Exception] = OpenAIError
        self._vectors = Vectors(encode)
        self._writes = name.endswith("-model")
        dim = len(self._vectors.of([""])[0])
        # Without writing nothing is asked of the server that LangMem wants named.
        model = ChatOpenAI(
            base_url="http://localhost" if chat is None else chat.base_url,
            api_key=os.environ.get("OPENAI_API_KEY", "none"),
            model="none" if chat is None else chat.model,
            temperature=0.0 if chat is None else chat.temperature,
            max_tokens=256 if chat is None else chat.max_tokens,
        )
        store = InMemoryStore(index={"dims": dim, "embed": self._vectors.of, "fields": ["content.content"]})
        self._manager: Any = create_memory_store_manager(model, store=store, namespace=("memories", "{memory}"))
        self._times = Times()
        # Turns of each memory that LangMem made: (ours, key of theirs).
        self._turns: dict[tuple[str, str], list[str]] = {}

    def build(self, memories: Iterable[MemoryTurns]) -> None:
        for memory in memories:
            self._times.add(memory)
            config = {"configurable": {"memory": memory.memory_id}}
            words = [turn_words(t) for t in memory.turns]
            self._vectors.of(words)
            for turn, text in zip(memory.turns, words, strict=True):
                if self._writes:
                    role = "assistant" if turn.role == "assistant" else "user"
                    try:
                        made = self._manager.invoke({"messages": [{"role": role, "content": text}]}, config)
                    except self._failure as error:
                        raise no_reply(self.name, turn, error) from error
                    keys = [put["key"] for put in made]
                else:
                    keys = [turn.turn_id]
                    value = {"kind": "Memory", "content": {"content": text}}
                    self._manager.put(turn.turn_id, value, config=config)
                for key in keys:
                    self._turns.setdefault((memory.memory_id, key), []).append(turn.turn_id)

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        self._vectors.of([q.question for q in questions])
        made = []
        for question in questions:
            config = {"configurable": {"memory": question.memory_id}}
            found = self._manager.search(query=question.question, limit=DEPTH, config=config)
            ids = [t for item in found for t in self._turns.get((question.memory_id, item.key), ())]
            made.append(Returned(turn_ids=self._times.seen(question, ids)))
        return made


def make(name: str, encode: Encode, chat: ChatConfig | None) -> LangMem:
    """Makes the system.

    Raises:
        MissingPackageError: langmem is not installed.
    """
    return LangMem(name, encode, chat)

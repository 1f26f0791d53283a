"""mem0 (package `mem0ai`) as a system under test: its own collection in memory for each memory, our vectors.

`mem0` keeps every turn as it was said; `mem0-model` lets mem0 write its memories by a language model, one call a turn,
so that each memory comes from one turn. Its telemetry is switched off before it is imported, and its files go to a
folder that is removed with the object.
"""

import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from magma_gpu.chat_client import ChatConfig
from magma_gpu.evaluate.gold import MemoryTurns
from magma_gpu.evaluate.outside import Encode, Times, Vectors, no_reply, not_installed, turn_words
from magma_gpu.evaluate.systems import DEPTH, Returned
from magma_gpu.types import Question


class _Embedder:
    """What mem0 asks for vectors."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def embed(self, text: str, memory_action: Literal["add", "search", "update"] | None = None) -> list[float]:  # noqa: ARG002 (mem0's own signature)
        return self._vectors.of([text])[0]

    def embed_batch(self, texts: list[str], memory_action: str = "add") -> list[list[float]]:  # noqa: ARG002
        return self._vectors.of(texts)


class Mem0:
    """See the module."""

    def __init__(self, name: str, encode: Encode, chat: ChatConfig | None) -> None:
        self.name = name
        self._vectors = Vectors(encode)
        self._chat = chat if name.endswith("-model") else None
        self._folder = tempfile.TemporaryDirectory(prefix="mem0-")
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ.setdefault("MEM0_DIR", self._folder.name)
        try:
            import mem0  # type: ignore[import-not-found, unused-ignore]
            from mem0.exceptions import LLMError  # type: ignore[import-not-found, unused-ignore]
        except ModuleNotFoundError:
            raise not_installed("mem0ai") from None
        self._make = mem0.Memory.from_config
        self._failure: type[Exception] = LLMError
        self._stores: dict[str, Any] = {}
        self._times = Times()

    def build(self, memories: Iterable[MemoryTurns]) -> None:
        for memory in memories:
            self._times.add(memory)
            store = self._stores[memory.memory_id] = self._open(len(self._stores))
            words = [turn_words(t) for t in memory.turns]
            self._vectors.of(words)
            for turn, text in zip(memory.turns, words, strict=True):
                try:
                    store.add(
                        [{"role": "assistant" if turn.role == "assistant" else "user", "content": text}],
                        user_id="owner",
                        metadata={"turn_id": turn.turn_id},
                        infer=self._chat is not None,
                    )
                except self._failure as error:
                    raise no_reply(self.name, turn, error) from error

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        self._vectors.of([q.question for q in questions])
        made = []
        for question in questions:
            store = self._stores[question.memory_id]
            found = store.search(question.question, top_k=DEPTH, threshold=0.0, filters={"user_id": "owner"})
            ids = [row["metadata"]["turn_id"] for row in found["results"]]
            made.append(Returned(turn_ids=self._times.seen(question, ids)))
        return made

    def _open(self, number: int) -> Any:
        chat = self._chat
        # Without a model nothing is asked of the server that mem0 wants named.
        llm: dict[str, Any] = {"openai_base_url": "http://localhost", "api_key": "none"}
        if chat is not None:
            llm = {
                "openai_base_url": chat.base_url,
                "api_key": os.environ.get("OPENAI_API_KEY", "none"),
                "model": chat.model,
                "temperature": chat.temperature,
                "max_tokens": chat.max_tokens,
            }
        dim = len(self._vectors.of([""])[0])
        folder = f"{self._folder.name}/{number}"
        store = self._make(
            {
                "llm": {"provider": "openai", "config": llm},
                "embedder": {"provider": "openai", "config": {"api_key": "none", "embedding_dims": dim}},
                "vector_store": {"provider": "qdrant", "config": {"path": folder, "embedding_model_dims": dim}},
                "history_db_path": ":memory:",
            }
        )
        store.embedding_model = _Embedder(self._vectors)
        return store


def make(name: str, encode: Encode, chat: ChatConfig | None) -> Mem0:
    """Makes the system.

    Raises:
        MissingPackageError: mem0ai is not installed.
    """
    return Mem0(name, encode, chat)

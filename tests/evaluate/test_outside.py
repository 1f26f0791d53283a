"""Adapters of outside systems against stand-ins of their packages: words in, ranked turns out, nothing said later."""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from magma_gpu.chat_client import ChatConfig
from magma_gpu.config import SearchConfig
from magma_gpu.errors import InputError, MissingPackageError
from magma_gpu.evaluate.gold import MemoryTurns, TurnText
from magma_gpu.evaluate.outside import Vectors, turn_words
from magma_gpu.evaluate.systems import OUTSIDE, System, make_system
from magma_gpu.types import Question

CHAT = ChatConfig(base_url="http://localhost:1/v1", model="small")
DAY = 86_400_000_000


def encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The share of each of three words, so that the cosine can be seen by eye."""
    words = ("dog", "bread", "paris")
    rows = [[t.lower().count(w) + 0.01 * n for n, w in enumerate(words)] for t in texts]
    made = np.array(rows, dtype=np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def turn(number: int, text: str, role: str = "user", caption: str | None = None) -> TurnText:
    return TurnText(
        turn_id=f"D1:{number}",
        session_id="D1",
        speaker="Ana",
        role=role,
        text=text,
        caption=caption,
        time=1_700_000_000_000_000 + number * DAY,
        num_tokens=4,
    )


MEMORIES = (
    MemoryTurns(memory_id="a", turns=(turn(0, "I baked bread"), turn(1, "My dog is ill"), turn(2, "Paris, dog"))),
    MemoryTurns(memory_id="b", turns=(turn(7, "A dog of another memory"),)),
)


class Shared:
    """What adapters take of a memory."""

    encode = staticmethod(encode)


def system(name: str, chat: ChatConfig | None = None) -> System:
    shared: Any = Shared()
    return make_system(name, shared, SearchConfig(), {}, chat)


def ask(tested: System, memory_id: str, question: str, time: str | None = None) -> tuple[str, ...]:
    (found,) = tested.query([Question(memory_id=memory_id, query_id="q", question=question, time=time)])
    return found.turn_ids


# ------------------------------------------------------------------------------------------ stand-ins of the packages


class FakeMem0:
    """Keeps what it is given and ranks by cosine; with a model it writes two memories a turn."""

    made: list["FakeMem0"] = []  # noqa: RUF012 (the test looks at them)

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.embedding_model: Any = None
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.roles: list[str] = []
        FakeMem0.made.append(self)

    @staticmethod
    def from_config(config: dict[str, Any]) -> "FakeMem0":
        return FakeMem0(config)

    def add(self, messages: list[dict[str, str]], *, user_id: str, metadata: dict[str, Any], infer: bool) -> None:
        assert user_id == "owner"
        if infer and "silence" in messages[0]["content"]:
            raise NoReply("no\nroute")
        self.roles += [m["role"] for m in messages]
        self.rows += [(m["content"], metadata) for m in messages for _ in range(2 if infer else 1)]

    def search(self, query: str, *, top_k: int, threshold: float, filters: dict[str, str]) -> dict[str, Any]:
        assert (top_k, threshold, filters) == (200, 0.0, {"user_id": "owner"})
        texts = self.embedding_model.embed_batch([t for t, _ in self.rows])
        scores = np.array(texts) @ np.array(self.embedding_model.embed(query))
        order = np.argsort(-scores, kind="stable")
        return {"results": [{"metadata": self.rows[i][1]} for i in order]}


class NoReply(Exception):
    """What the packages raise when their server does not answer."""


class FakeItem:
    def __init__(self, key: str) -> None:
        self.key = key


class FakeManager:
    """Ranks what was put; by a model it keeps one memory a role, changed by every turn."""

    def __init__(self, store: "FakeStore", namespace: tuple[str, ...]) -> None:
        assert namespace == ("memories", "{memory}")
        self.store = store
        self.kept: dict[str, dict[str, str]] = {}

    def put(self, key: str, value: dict[str, Any], *, config: dict[str, Any]) -> None:
        self.kept.setdefault(config["configurable"]["memory"], {})[key] = value["content"]["content"]

    def invoke(self, given: dict[str, Any], config: dict[str, Any]) -> list[dict[str, str]]:
        (message,) = given["messages"]
        if "silence" in message["content"]:
            raise NoReply("no\nroute")
        if "bread" in message["content"]:
            return []
        self.put("one memory", {"content": {"content": message["content"]}}, config=config)
        return [{"key": "one memory"}]

    def search(self, *, query: str, limit: int, config: dict[str, Any]) -> list[FakeItem]:
        kept = self.kept.get(config["configurable"]["memory"], {})
        (asked,) = self.store.index["embed"]([query])
        scores = {k: float(np.dot(self.store.index["embed"]([t])[0], asked)) for k, t in kept.items()}
        return [FakeItem(k) for k in sorted(scores, key=lambda k: -scores[k])][:limit]


class FakeStore:
    def __init__(self, *, index: dict[str, Any]) -> None:
        self.index = index
        assert index["dims"] == 3


class FakeChat:
    last: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        FakeChat.last = given


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        made.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, made)

    def manager(model: FakeChat, *, store: FakeStore, namespace: tuple[str, ...]) -> FakeManager:
        return FakeManager(store, namespace)

    FakeMem0.made.clear()
    monkeypatch.setenv("MEM0_DIR", "kept")
    monkeypatch.setenv("MEM0_TELEMETRY", "True")
    module("mem0", Memory=FakeMem0)
    module("mem0.exceptions", LLMError=NoReply)
    module("openai", OpenAIError=NoReply)
    module("langchain_openai", ChatOpenAI=FakeChat)
    module("langgraph")
    module("langgraph.store")
    module("langgraph.store.memory", InMemoryStore=FakeStore)
    module("langmem", create_memory_store_manager=manager)


# ------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("name", ["mem0", "langmem"])
def test_turns_rank_by_the_systems_own_search_within_their_memory(name: str) -> None:
    tested = system(name)
    assert tested.name == name
    tested.build(MEMORIES)
    assert ask(tested, "a", "dog?") == ("D1:1", "D1:2", "D1:0")
    assert ask(tested, "b", "dog?") == ("D1:7",)


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("name", ["mem0", "langmem"])
def test_what_was_said_after_the_question_is_left_out(name: str) -> None:
    tested = system(name)
    tested.build(MEMORIES)
    # The second turn was said on 2023-11-15 at 22:13:20.
    assert ask(tested, "a", "dog?", "2023-11-15T22:13:20Z") == ("D1:1", "D1:0")
    assert ask(tested, "a", "dog?", "2023-11-15T22:13:19Z") == ("D1:0",)


@pytest.mark.usefixtures("packages")
def test_mem0_by_a_model_ranks_each_turn_once_and_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    tested = system("mem0-model", CHAT)
    tested.build([MemoryTurns(memory_id="a", turns=(turn(0, "bread", "assistant"), turn(1, "dog", "tool")))])
    assert ask(tested, "a", "dog?") == ("D1:1", "D1:0")
    (store,) = FakeMem0.made
    assert store.config["llm"]["config"]["openai_base_url"] == CHAT.base_url
    assert store.config["llm"]["config"]["model"] == "small"
    assert store.roles == ["assistant", "user"]
    assert os.environ["MEM0_TELEMETRY"] == "False"
    assert os.environ["MEM0_DIR"] == "kept"


@pytest.mark.usefixtures("packages")
def test_a_memory_that_langmem_changes_comes_from_every_turn_that_changed_it() -> None:
    tested = system("langmem-model", CHAT)
    tested.build(MEMORIES)
    assert FakeChat.last["base_url"] == CHAT.base_url
    assert ask(tested, "a", "dog?") == ("D1:1", "D1:2")
    assert ask(tested, "a", "dog?", "2023-11-15T22:13:20Z") == ("D1:1",)


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("name", ["mem0-model", "langmem-model"])
def test_a_model_that_does_not_reply_is_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match=rf"'{name}' gave no reply to turn 'D1:1' \(no route\)"):
        system(name, CHAT).build([MemoryTurns(memory_id="a", turns=(turn(0, "dog"), turn(1, "silence")))])


@pytest.mark.parametrize(("name", "package"), [("mem0", "mem0"), ("langmem", "langmem")])
def test_a_package_that_is_not_there_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for blocked in ("mem0", "langmem", "langchain_openai", "langgraph.store.memory"):
        monkeypatch.setitem(sys.modules, blocked, None)
    monkeypatch.setenv("MEM0_DIR", "kept")
    monkeypatch.setenv("MEM0_TELEMETRY", "True")
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        system(name)


def test_a_system_that_needs_a_model_asks_for_one() -> None:
    for name in OUTSIDE:
        if name.endswith("-model"):
            with pytest.raises(InputError, match="--model NAME"):
                system(name)


def test_a_turn_in_words() -> None:
    assert turn_words(turn(1, "My dog", caption="a dog")) == "Ana (2023-11-15): My dog [picture: a dog]"
    bare = TurnText(
        turn_id="1", session_id="s", speaker="", role="user", text="Hi", caption=None, time=None, num_tokens=1
    )
    assert turn_words(bare) == "user: Hi"


def test_vectors_are_made_once() -> None:
    asked: list[list[str]] = []

    def counted(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        asked.append(list(texts))
        return encode(texts)

    vectors = Vectors(counted)
    first = vectors.of(["dog", "bread", "dog"])
    assert first[0] == first[2] != first[1]
    assert vectors.of(["bread", "paris"])[0] == first[1]
    assert asked == [["dog", "bread"], ["paris"]]

"""What a benchmark compares: the protocol of a memory system, and those that come with the library.

An outside system is an adapter with `build` and `query`; it ranks turn ids and is scored like ours. Ours and the plain
rankings all read one store, so they differ in the search alone. docs/benchmarks.md has an example.
"""

import dataclasses
import datetime
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from magma_gpu.config import SearchConfig
from magma_gpu.errors import ConfigError, InputError
from magma_gpu.evaluate.gold import MemoryTurns
from magma_gpu.types import INTENTS, Question

if TYPE_CHECKING:
    import pyarrow as pa

    from magma_gpu.chat_client import ChatConfig
    from magma_gpu.intent import IntentClassifier
    from magma_gpu.memory import Memory
    from magma_gpu.results import Result

# Events that a search returns, so that the first fifty turns and twenty sessions are among them.
DEPTH = 200
POLICIES = ("learned", "gnn", "smooth", "paper")
PLAIN = ("bm25", "dense", "rrf")
ABLATIONS = ("no-policy", "no-causal", "no-temporal", "no-entity", "no-semantic")
# Other projects' systems, each in a module that imports its package where it makes the system. Those that end in -model
# let a language model write the memories; the others keep every turn as it was said.
OUTSIDE = {
    "mem0": "magma_gpu.evaluate.outside_mem0",
    "mem0-model": "magma_gpu.evaluate.outside_mem0",
    "langmem": "magma_gpu.evaluate.outside_langmem",
    "langmem-model": "magma_gpu.evaluate.outside_langmem",
}
# Ranked turns whose finding is kept in words.
_EXPLAINED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What a system says to one question.

    Attributes:
        turn_ids: best first.
        why: for the first of them, in words, how each was found; optional.
        ranked: false where the order says nothing about relevance; then nothing is cut at k.
    """

    turn_ids: tuple[str, ...]
    why: tuple[str, ...] = ()
    ranked: bool = True


def asked_at(question: Question) -> int | None:
    """The moment that a question of a benchmark is asked, UTC microseconds; None where it has none."""
    if not isinstance(question.time, str):
        return None
    return int(datetime.datetime.fromisoformat(question.time).timestamp() * 1_000_000)


class System(Protocol):
    """A memory system under test."""

    @property
    def name(self) -> str:
        """Stands in reports and file names."""

    def build(self, memories: Iterable[MemoryTurns]) -> None:
        """Takes everything in, memory by memory; called once, before any query."""

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        """Ranks turns of each question's own memory; of a question with a time nothing said later."""


# ----------------------------------------------------------------------------------------------- over our own store


class StoreSystem:
    """A search over a store that is there; building it is not this object's work."""

    def __init__(
        self, name: str, memory: "Memory", search: SearchConfig, vectors: dict[str, npt.NDArray[np.float32]] | None
    ) -> None:
        """Makes a system.

        Args:
            vectors: of questions, shared and filled by every system that is given it; None to encode each time.
        """
        self.name = name
        self.memory = memory
        self.search = search
        self._vectors = vectors

    def build(self, memories: Iterable[MemoryTurns]) -> None:
        """Does nothing."""

    def cold(self) -> "StoreSystem":
        """The same without vectors kept: what one question costs."""
        return StoreSystem(self.name, self.memory, self.search, None)

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        self.memory.config = dataclasses.replace(self.memory.config, search=self.search)
        texts = [q.question for q in questions]
        query_QD = encoded(self.memory, texts, {} if self._vectors is None else self._vectors)
        return [_returned(r) for r in self.memory.ask(questions, query_QD)]


def encoded(
    memory: "Memory", texts: Sequence[str], known: dict[str, npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32]:
    """Vectors of questions; those that are not known yet are encoded and added."""
    new = list(dict.fromkeys(t for t in texts if t not in known))
    if new:
        known.update(zip(new, memory.encode(new), strict=True))
    return np.stack([known[t] for t in texts])


def _returned(result: "Result") -> Returned:
    turns: dict[str, str] = {}
    place = {e.event_id: e.turn_id for e in result.evidence}
    for e in result.evidence:
        if e.turn_id in turns:
            continue
        words = ""
        if len(turns) < _EXPLAINED:
            signals = ", ".join(f"{name.replace('_', ' ')} #{rank}" for name, rank in e.signals.items())
            path = "".join(f"{place.get(node, node[:8])} -{kind}-> " for node, kind in e.path)
            words = "; ".join(part for part in (signals, f"{path}here" if path else "") if part)
        turns[e.turn_id] = words
    return Returned(turn_ids=tuple(turns), why=tuple(list(turns.values())[:_EXPLAINED]))


def plain_search(base: SearchConfig, name: str) -> SearchConfig:
    """One ranking, or two fused with equal weights, without anything else of ours."""
    return dataclasses.replace(
        base,
        policy="smooth",
        weight_dense=float(name in ("dense", "rrf")),
        weight_dense_window=0.0,
        weight_lexical=float(name in ("bm25", "rrf")),
        weight_lexical_window=0.0,
        time_window="off",
        smooth_next=0.0,
        smooth_previous=0.0,
        spread_semantic=0.0,
        spread_causal=0.0,
        spread_entity=0.0,
        retrieval_threshold=-1.0,
    )


# Tables that an ablation reads as empty.
_EMPTIED = {
    "no-causal": ("edges/causal",),
    "no-temporal": ("edges/temporal",),
    "no-entity": ("edges/entity", "entities"),
    "no-semantic": ("edges/semantic",),
    "no-policy": (),
}


class _OpenIntent:
    """Says of every question that it is open, which gives all edge types one weight."""

    def probabilities(
        self,
        questions: Sequence[str],
        query_QD: npt.NDArray[np.float32],  # noqa: ARG002 (as the classifier has it)
        encoder: str,  # noqa: ARG002
    ) -> npt.NDArray[np.float64]:
        made = np.zeros((len(questions), len(INTENTS)))
        made[:, INTENTS.index("open")] = 1.0
        return made


def _ablated_memory(shared: "Memory", ablation: str) -> "Memory":
    """A store as if it lacked one kind of edge, or the intent classifier; nothing is written."""
    from magma_gpu.memory import Memory

    emptied = _EMPTIED[ablation]

    class Ablated(Memory):
        def _tables(self, memory_ids: Sequence[str]) -> "dict[str, dict[str, pa.Table]]":
            found = super()._tables(memory_ids)
            return {
                m: {name: t.slice(0, 0) if name in emptied else t for name, t in tables.items()}
                for m, tables in found.items()
            }

        @property
        def classifier(self) -> "IntentClassifier":
            open_intent: Any = _OpenIntent()
            return open_intent if ablation == "no-policy" else super().classifier

    ablated = Ablated(shared.store, shared.manifest, shared.config)
    # The same model, loaded once.
    ablated._encoder = shared.encoder
    return ablated


def ablated_search(base: SearchConfig, ablation: str) -> SearchConfig:
    """What an ablation changes in the search itself: without time nothing passes to neighbours, no window counts."""
    if ablation != "no-temporal":
        return base
    return dataclasses.replace(base, time_window="off", smooth_next=0.0, smooth_previous=0.0)


# -------------------------------------------------------------------------------------------- without any search


class Recency:
    """The last turns, newest first."""

    name = "recency"
    ranked = True

    def __init__(self) -> None:
        self._turns: dict[str, list[tuple[str, int | None]]] = {}

    def build(self, memories: Iterable[MemoryTurns]) -> None:
        for memory in memories:
            self._turns[memory.memory_id] = [(t.turn_id, t.time) for t in memory.turns]

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        return [Returned(turn_ids=tuple(self._known(q)[::-1][:DEPTH])) for q in questions]

    def _known(self, question: Question) -> list[str]:
        limit = asked_at(question)
        turns = self._turns.get(question.memory_id, [])
        return [t for t, time in turns if limit is None or time is None or time <= limit]


class FullContext(Recency):
    """Everything, in order: what an answering model gets without a memory system. It ranks nothing."""

    name = "full-context"

    def query(self, questions: Sequence[Question]) -> list[Returned]:
        return [Returned(turn_ids=tuple(self._known(q)), ranked=False) for q in questions]


# ---------------------------------------------------------------------------------------------------------- by name


def policies() -> list[str]:
    """The policies that this release knows."""
    known = []
    for name in POLICIES:
        try:
            SearchConfig(policy=name)
        except ConfigError:
            continue
        known.append(name)
    return known


def default_systems(config: SearchConfig) -> list[str]:
    """What is measured where nothing else is asked for: the policies, the baselines, the ablations of the default."""
    others = [p for p in policies() if p != config.policy]
    ablations = [f"{p}-{a}" for p in dict.fromkeys((config.policy, "paper")) for a in ABLATIONS]
    return [config.policy, *others, *PLAIN, "recency", "full-context", *ablations]


def make_system(
    name: str,
    shared: "Memory",
    config: SearchConfig,
    vectors: dict[str, npt.NDArray[np.float32]],
    chat: "ChatConfig | None" = None,
) -> System:
    """Makes a system by name: a policy, a policy with an ablation, a baseline, one of OUTSIDE, or `module:callable`.

    Args:
        shared: the open store.
        config: how the policies search.
        vectors: of questions, filled as they are encoded.
        chat: the language model of outside systems that need one.

    Raises:
        InputError: there is none of this name, or it needs a language model.
        MissingPackageError: the outside system is not installed.
    """
    base = dataclasses.replace(config, k=max(DEPTH, config.k), context_tokens=16)
    if name in PLAIN:
        return StoreSystem(name, shared, plain_search(base, name), vectors)
    if name in policies():
        return StoreSystem(name, shared, dataclasses.replace(base, policy=name), vectors)
    if name in ("recency", "full-context"):
        return Recency() if name == "recency" else FullContext()
    for policy in policies():
        ablation = name.removeprefix(f"{policy}-")
        if ablation in ABLATIONS and ablation != name:
            search = ablated_search(dataclasses.replace(base, policy=policy), ablation)
            return StoreSystem(name, _ablated_memory(shared, ablation), search, vectors)
    if name in OUTSIDE:
        if name.endswith("-model") and chat is None:
            raise InputError(f"The system '{name}' needs a language model; give --model NAME and --base-url URL.")
        made: System = importlib.import_module(OUTSIDE[name]).make(name, shared.encode, chat)
        return made
    if ":" in name:
        return _outside(name)
    raise InputError(
        f"There is no system '{name}'; known are {', '.join([*default_systems(config), *OUTSIDE])}, each policy with "
        "-no-policy, -no-causal, ..., and module:callable for an adapter of your own."
    )


def _outside(name: str) -> System:
    module, _, attribute = name.partition(":")
    try:
        factory: Callable[[], System] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"The system '{name}' cannot be loaded ({error}); wanted is module:callable, importable from here."
        ) from None
    return factory()

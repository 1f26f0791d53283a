"""The store as a Python object: questions in, results out, models loaded once and kept warm.

It reads what `manifest.json` named when it was opened and never writes. Memories are opened when they are first asked,
and the last used ones stay open.
"""

import bisect
import contextlib
import gc
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from magma_gpu.columns import split_by_memory
from magma_gpu.config import Config, config_from
from magma_gpu.errors import InputError, StoreError
from magma_gpu.features import RankerView, make_view
from magma_gpu.graph import MemoryGraph, build_graph
from magma_gpu.graph_learning.model import GraphRanker
from magma_gpu.graph_learning.weights import OF_STORE, load_policy
from magma_gpu.graph_learning.weights import WEIGHTS as POLICY_WEIGHTS
from magma_gpu.intent import IntentClassifier, load_classifier
from magma_gpu.lexical import Analyzer
from magma_gpu.memory_index import MemoryIndex, build_index, groups, said_until
from magma_gpu.ranker import WEIGHTS as RANKER_WEIGHTS
from magma_gpu.ranker import Ranker
from magma_gpu.ranker import load as load_ranker
from magma_gpu.results import Result, make_result
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.search import Asked, Ranking, search
from magma_gpu.stamps import parse_stamps
from magma_gpu.store import Manifest, Store, shard_of
from magma_gpu.types import INTENTS, Question
from magma_gpu.word_vectors import WordVectors, load_word_vectors

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from magma_gpu.embed import Encoder

log = logging.getLogger(__name__)

# Tables that a search reads of a memory.
_TABLES = (
    "events",
    "vectors",
    "episodes",
    "times",
    "entities",
    "edges/temporal",
    "edges/semantic",
    "edges/causal",
    "edges/entity",
)
_STAGE_OF_EDGE = {"temporal": "link", "semantic": "link", "causal": "resolve", "entity": "resolve"}


class Memory:
    """Every memory of a store. Open one with `Memory.open`."""

    def __init__(self, store: Store, manifest: Manifest, config: Config) -> None:
        self.store = store
        self.manifest = manifest
        self.config = config
        self._analyzer = Analyzer()
        self._indexes: OrderedDict[str, MemoryIndex] = OrderedDict()
        self._encoder: Encoder | None = None
        self._classifier: IntentClassifier | None = None
        self._ids: list[str] | None = None
        self._num_turns: dict[str, int] = {}
        self._views: dict[str, RankerView] = {}
        self._ranker: Ranker | None = None
        self._graph_ranker: GraphRanker | None = None
        self._word_vectors: WordVectors | None = None

    @staticmethod
    def open(path: str | Path, config: Config | None = None) -> "Memory":
        """Opens a store for reading.

        Args:
            config: how to search and where to run; what decided the store's bytes is taken from the store.

        Raises:
            StoreError: there is no finished store, or one of another format version.
        """
        store = Store(path)
        manifest = store.open()
        built = config_from(manifest.config)
        wanted = config or Config()
        return Memory(store, manifest, replace(built, search=wanted.search, run=wanted.run))

    # --------------------------------------------------------------------------------------------------- memories

    def memory_ids(self) -> list[str]:
        """All memories of the store, sorted."""
        if self._ids is None:
            for entry in self.manifest.tables.get("memories", {}).values():
                rows = self.store.read_table(entry, "memories")
                self._num_turns.update(zip(rows["memory_id"].to_pylist(), rows["num_turns"].to_pylist(), strict=True))
            self._ids = sorted(self._num_turns)
        return self._ids

    def require(self, memory_id: str | None) -> str:
        """The memory that is meant.

        Raises:
            InputError: there is none of this id, or none was named and there are several.
        """
        ids = self.memory_ids()
        if memory_id is None:
            if len(ids) == 1:
                return ids[0]
            shown = ", ".join(repr(i) for i in ids[:5]) + (", ..." if len(ids) > 5 else "")
            raise InputError(f"The store holds {len(ids)} memories and none was named; give --memory, one of {shown}.")
        at = bisect.bisect_left(ids, memory_id)
        if at == len(ids) or ids[at] != memory_id:
            raise InputError(
                f"The store holds no memory '{memory_id}'; `magma-gpu memories {self.store.root}` lists them."
            )
        return memory_id

    def graph(self, memory_id: str) -> MemoryGraph:
        """The graph of one memory."""
        memory_id = self.require(memory_id)
        return build_graph(memory_id, self._tables([memory_id])[memory_id])

    def to_hetero(self, memory_id: str) -> "HeteroData":
        """One memory as `torch_geometric.data.HeteroData`."""
        return self.graph(memory_id).to_hetero()

    def _tables(self, memory_ids: Sequence[str]) -> dict[str, dict[str, pa.Table]]:
        """The rows of some memories, by memory and table; a shard that many of them share is read once."""
        by_shard: dict[int, list[str]] = {}
        for memory_id in memory_ids:
            by_shard.setdefault(shard_of(memory_id, self.manifest.num_shards), []).append(memory_id)
        result: dict[str, dict[str, pa.Table]] = {m: {} for m in memory_ids}
        for shard, members in by_shard.items():
            for name in _TABLES:
                entry = self.manifest.entry(name, shard)
                if name == "vectors" and entry is None:
                    raise StoreError(
                        f"'{self.store.root}' has no vectors for shard {shard} yet; run build with --until link."
                    )
                if len(members) == 1:
                    result[members[0]][name] = self.store.read_table(entry, name, memory_id=members[0])
                    continue
                table = self.store.read_table(entry, name)
                for memory_id, rows in split_by_memory(table, members).items():
                    result[memory_id][name] = rows
        return result

    def indexes(self, memory_ids: Sequence[str]) -> list[MemoryIndex]:
        """What a search needs of some memories, made now or kept from before."""
        wanted = list(dict.fromkeys(memory_ids))
        fresh = [m for m in wanted if m not in self._indexes]
        ready = {m: self._indexes[m] for m in wanted if m in self._indexes}
        for memory_id, tables in self._tables(fresh).items():
            shard = shard_of(memory_id, self.manifest.num_shards)
            missing = tuple(
                edge
                for edge, stage in _STAGE_OF_EDGE.items()
                if any(self.manifest.entry(t, shard) is None for t in STAGE_TABLES[stage])
            )
            ready[memory_id] = build_index(memory_id, tables, missing, self._analyzer)
        for memory_id in wanted:
            self._indexes[memory_id] = ready[memory_id]
            self._indexes.move_to_end(memory_id)
        while len(self._indexes) > self.config.run.cached_memories or (
            len(self._indexes) > 1 and sum(map(self._turns_of, self._indexes)) > self.config.run.cached_turns
        ):
            self._indexes.popitem(last=False)
        return [ready[m] for m in memory_ids]

    def _turns_of(self, memory_id: str) -> int:
        self.memory_ids()
        return self._num_turns[memory_id]

    # ------------------------------------------------------------------------------------------------------ models

    @property
    def encoder(self) -> "Encoder":
        if self._encoder is None:
            from magma_gpu.device import pick_device
            from magma_gpu.embed import load_encoder

            self._encoder = load_encoder(self.config.embed, str(pick_device(self.config.run.device)), self.config.run)
            built = self.manifest.models.get("embed", {})
            if any(self._encoder.identity.get(k) != v for k, v in built.items()):
                raise StoreError(
                    f"'{self.store.root}' was built with another version of the encoder {built.get('model')} "
                    "than the one that is here; install that version, or build with --overwrite."
                )
        return self._encoder

    @property
    def word_vectors(self) -> WordVectors:
        if self._word_vectors is None:
            self._word_vectors = load_word_vectors(self.config.embed)
        return self._word_vectors

    @property
    def classifier(self) -> IntentClassifier:
        if self._classifier is None:
            self._classifier = load_classifier()
        return self._classifier

    # ------------------------------------------------------------------------------------------------------- query

    def query(self, questions: Sequence[str], memory_id: str | None = None, as_of: str | None = None) -> list[Result]:
        """Asks one memory some questions.

        Args:
            memory_id: may be left out where the store holds one memory.
            as_of: a time in any common form; nothing said later is used.

        Raises:
            InputError: no such memory, or a time that cannot be read.
        """
        memory = self.require(memory_id)
        return self.ask(
            [Question(memory_id=memory, query_id=str(n), question=q, time=as_of) for n, q in enumerate(questions)]
        )

    def encode(self, questions: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of questions, float32 [Q, D]."""
        return self.encoder.encode(questions).x_ND

    def ask(self, questions: Sequence[Question], query_QD: npt.NDArray[np.float32] | None = None) -> list[Result]:
        """Asks any memories any questions, as one batch.

        Args:
            query_QD: the questions' vectors where they are known; else they are encoded.

        Returns:
            one result a question, in order.

        Raises:
            InputError: a question names no memory of the store, or a time that cannot be read.
        """
        if not questions:
            return []
        for memory_id in {q.memory_id for q in questions}:
            self.require(memory_id)
        if query_QD is None:
            query_QD = self.encode([q.question for q in questions])
        as_of = self._times(questions)
        with _without_collection():
            return self._ask(questions, query_QD, as_of)

    def _ask(
        self, questions: Sequence[Question], query_QD: npt.NDArray[np.float32], as_of: Sequence[int | None]
    ) -> list[Result]:
        names = sorted({q.memory_id for q in questions})
        # At most as many memories at once as are kept, so that a batch over a million of them stays in bounds.
        results: dict[int, Result] = {}
        for group in groups(names, self._turns_of, self.config.run.cached_memories, self.config.run.cached_turns):
            members = set(group)
            rows = [i for i, q in enumerate(questions) if q.memory_id in members]
            indexes, memory = self._as_of([questions[i].memory_id for i in rows], [as_of[i] for i in rows])
            asked = self.analyse([questions[i] for i in rows], indexes, memory, query_QD[rows])
            for place, found in enumerate(search(indexes, asked, self.config.search, self._ranking(indexes))):
                i = rows[place]
                intent = dict(zip(INTENTS, asked.intent_QI[place].tolist(), strict=True))
                results[i] = make_result(
                    questions[i],
                    indexes[memory[place]],
                    found,
                    intent,
                    asked.windows[place],
                    self.config.search.context_tokens,
                    self.encoder.count_tokens,
                )
        return [results[i] for i in range(len(questions))]

    def _as_of(self, memory_ids: Sequence[str], as_of: Sequence[int | None]) -> tuple[list[MemoryIndex], list[int]]:
        """The memories of some questions, each as it was at the question's time, and which of them each question is to.

        Events of unknown time count as said.
        """
        names = sorted(set(memory_ids))
        whole = dict(zip(names, self.indexes(names), strict=True))
        indexes: list[MemoryIndex] = []
        number: dict[tuple[str, int], int] = {}
        place = []
        for memory_id, limit in zip(memory_ids, as_of, strict=True):
            index = whole[memory_id]
            kept = index.num_events if limit is None else int((index.time_E <= limit).sum())
            if (memory_id, kept) not in number:
                number[memory_id, kept] = len(indexes)
                if kept == index.num_events:
                    indexes.append(index)
                else:
                    assert limit is not None
                    tables = said_until(self._tables([memory_id])[memory_id], limit)
                    indexes.append(build_index(memory_id, tables, index.missing, self._analyzer))
            place.append(number[memory_id, kept])
        return indexes, place

    def analyse(
        self,
        questions: Sequence[Question],
        indexes: Sequence[MemoryIndex],
        memory: Sequence[int],
        query_QD: npt.NDArray[np.float32],
    ) -> Asked:
        """What a search needs to know of questions; `memory` says which of the indexes each is put to.

        Raises:
            InputError: a time that cannot be read.
        """
        from magma_gpu.timex import windows

        as_of = self._times(questions)
        # A question without a time is asked after the last thing that was said.
        last = [_last(index.time_E) for index in indexes]
        reference = [last[m] if t is None else t for m, t in zip(memory, as_of, strict=True)]
        texts = [q.question for q in questions]
        return Asked(
            memory_Q=np.array(memory, dtype=np.int64),
            questions=texts,
            query_QD=query_QD,
            terms=[self._analyzer.terms(t) for t in texts],
            windows=windows(texts, reference),
            intent_QI=self.classifier.probabilities(texts, query_QD, str(self.encoder_id)),
        )

    @property
    def encoder_id(self) -> object:
        return self.manifest.models.get("embed", {}).get("sha256")

    def _ranking(self, indexes: Sequence[MemoryIndex]) -> Ranking | None:
        if self.config.search.policy not in ("learned", "gnn"):
            return None
        if self.config.search.policy == "gnn":
            if self._graph_ranker is None:
                self._graph_ranker = load_policy(self._policy_weights())
            return Ranking(self._graph_ranker, self.views(indexes))
        if self._ranker is None:
            chosen = self.config.search.ranker
            self._ranker = load_ranker(Path(chosen) if chosen else RANKER_WEIGHTS)
        return Ranking(self._ranker, self.views(indexes))

    def _policy_weights(self) -> Path:
        chosen, own = self.config.search.graph_ranker, self.store.root / OF_STORE
        if chosen:
            return POLICY_WEIGHTS if chosen == "shipped" else Path(chosen)
        return own if own.exists() else POLICY_WEIGHTS

    def views(self, indexes: Sequence[MemoryIndex]) -> list[RankerView]:
        """What a ranker needs of some memories beside their indexes; kept as long as those."""
        made = []
        for index in indexes:
            if self._indexes.get(index.memory_id) is not index:
                # A memory as it was once: asked now, not kept.
                made.append(make_view(index, self._analyzer, self.word_vectors))
                continue
            if index.memory_id not in self._views:
                self._views[index.memory_id] = make_view(index, self._analyzer, self.word_vectors)
            made.append(self._views[index.memory_id])
        for memory_id in [m for m in self._views if m not in self._indexes]:
            del self._views[memory_id]
        return made

    def _times(self, questions: Sequence[Question]) -> list[int | None]:
        stamps = parse_stamps(
            [q.time for q in questions],
            assumed_zone=self.config.ingest.assumed_zone,
            date_order=self.config.ingest.date_order,
        )
        for question, stamp in zip(questions, stamps, strict=True):
            if question.time not in (None, "") and stamp.time is None:
                raise InputError(
                    f"The time of question '{question.query_id}' cannot be read (got '{question.time}'); "
                    "give it as 2024-05-31 or 2024-05-31T18:00:00Z."
                )
        return [s.time for s in stamps]


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """A batch makes many objects and no cycles; looking for cycles among them takes a fifth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _last(times: npt.NDArray[np.int64]) -> int | None:
    known = times[times != np.iinfo(np.int64).min]
    return int(known.max()) if len(known) else None

"""One benchmark run as its steps: build, gold, what each system ranked and how fast; every step resumable.

It answers, judges and scores nothing (bench_answers.py, bench.py). Questions of the same shard are asked together, so
that a memory is opened once.
"""

import contextlib
import json
import os
import platform
import re
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import magma_gpu
import magma_kernels
from magma_gpu.answer import Engine, Task, make_tasks
from magma_gpu.chat_client import ChatConfig
from magma_gpu.config import BUILD_SECTIONS, Config
from magma_gpu.errors import InputError, StoreError
from magma_gpu.evaluate.data import sample_ids, write_first
from magma_gpu.evaluate.gold import Gold, MemoryTurns, read_audit, read_gold, read_memories
from magma_gpu.evaluate.scores import Ranking
from magma_gpu.evaluate.steps import Row, Steps, code_hash, file_hash
from magma_gpu.evaluate.systems import DEPTH, Returned, StoreSystem, System, default_systems, encoded, make_system
from magma_gpu.memory import Memory
from magma_gpu.store import Store, shard_of, stable_hash
from magma_gpu.types import Question
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.progress import Progress, progress

T = TypeVar("T")

# Questions that are asked one by one to measure latency.
_LATENCY = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure.

    Attributes:
        benchmark: locomo or longmemeval.
        limit: the first so many questions and what they need; None for all.
        sample: so many of the questions, evenly spaced; the store still holds every memory. None for all.
        audit: corrections of the gold, LoCoMo alone.
        ignore_time: ask after everything was said, even where a question's own time is earlier.
        engine: who answers; None for retrieval alone. judge: who judges the answers.
        part: questions of one part of a step, which are asked as one batch.
        system_model: the language model of outside systems that need one.
    """

    benchmark: str
    data: Path
    out: Path
    systems: tuple[str, ...] = ()
    limit: int | None = None
    sample: int | None = None
    audit: Path | None = None
    ignore_time: bool = False
    engine: Engine | None = None
    system_model: ChatConfig | None = None
    judge: ChatConfig | None = None
    resamples: int = 2000
    seed: int = 0
    part: int = 64
    quiet: bool = False


@dataclass(slots=True)
class Turns:
    """Where each turn lies and how long it is, without its words."""

    session: dict[str, str]
    tokens: dict[str, int]


class Run:
    """One benchmark run; what a step makes is a property or the result of a method, made once."""

    def __init__(self, options: BenchOptions, config: Config) -> None:
        self.options = options
        self.config = config
        self.steps = Steps(options.out)
        self._turns: dict[str, Turns] = {}
        if not options.data.is_file():
            raise InputError(f"The data '{options.data}' is no file; give the benchmark's JSON file.")
        if options.limit is not None and options.limit < 1:
            raise InputError(f"--limit must be at least 1 (got {options.limit}).")
        if options.sample is not None and options.sample < 1:
            raise InputError(f"--sample must be at least 1 (got {options.sample}).")
        settings = {s: v for s, v in config.as_dict().items() if s in BUILD_SECTIONS}
        self.data_hash = file_hash(options.data)
        self.fingerprint = stable_hash(
            options.benchmark, self.data_hash, str(options.limit), json.dumps(settings, sort_keys=True)
        )
        self.code = code_hash(_folder(magma_gpu), _folder(magma_kernels))

    # ------------------------------------------------------------------------------------------------------ build

    @cached_property
    def input(self) -> Path:
        """The data, or a file of its first questions."""
        if self.options.limit is None:
            return self.options.data
        path = self.options.out / f"input-{self.fingerprint[:12]}.json"
        if not path.exists():
            write_first(self.options.data, path, self.options.benchmark, self.options.limit)
        return path

    @cached_property
    def root(self) -> Path:
        return self.options.out / f"store-{self.fingerprint[:12]}"

    @cached_property
    def built(self) -> Row:
        """What the build did; `seconds` is None where this run did not do all of it."""

        def make() -> list[Row]:
            fresh = not self.root.exists()
            options = BuildOptions(format=self.options.benchmark, quiet=self.options.quiet)
            report = build([str(self.input)], self.root, self.config, options)
            if report.failed or report.skipped_inputs:
                raise StoreError(
                    f"The build failed for {len(report.failed)} shards and {len(report.skipped_inputs)} inputs; "
                    f"see {self.root}/failed, and run it again."
                )
            document = report.to_json()
            return [
                {
                    "seconds": document["seconds"] if fresh else None,
                    "turns": document["turns"],
                    "stages": {n: s["wall_seconds"] for n, s in document["stages"].items()} if fresh else {},
                }
            ]

        # The store's own files may be older than the code; building again is cheap where nothing changed.
        return self.steps.single("build.jsonl", stable_hash(self.fingerprint, self.code), make)[0]

    @cached_property
    def store(self) -> Store:
        assert self.built
        return Store(self.root)

    @cached_property
    def memory(self) -> Memory:
        return Memory.open(self.store.root, self.config)

    @cached_property
    def vectors(self) -> dict[str, npt.NDArray[np.float32]]:
        return {}

    # ------------------------------------------------------------------------------------------------------- gold

    @cached_property
    def gold(self) -> list[Gold]:
        """The questions, those of a shard together."""
        manifest = self.store.open()
        audit = {}
        audit_hash = ""
        if self.options.audit is not None:
            if self.options.benchmark != "locomo":
                raise InputError("--audit is of LoCoMo alone; leave it out.")
            audit_hash = file_hash(self.options.audit) if self.options.audit.is_file() else ""
            audit = read_audit(self.options.audit, sample_ids(self.input))
        fingerprint = stable_hash(self.fingerprint, self.code, audit_hash)
        rows = self.steps.single(
            "gold.jsonl",
            fingerprint,
            lambda: [g.to_json() for g in read_gold(self.store, manifest, self.options.benchmark, audit)],
        )
        if not rows:
            raise InputError(f"'{self.options.data}' holds no question that can be asked.")
        made = evenly([Gold.from_json(r) for r in rows], self.options.sample)
        return sorted(made, key=lambda g: shard_of(g.memory_id, manifest.num_shards))

    @cached_property
    def questions(self) -> list[Question]:
        return [g.asked(ignore_time=self.options.ignore_time) for g in self.gold]

    def memories(self) -> Iterator[MemoryTurns]:
        """Everything that was said in the memories that are asked."""
        return read_memories(self.store, self.store.open(), sorted({g.memory_id for g in self.gold}))

    def turns(self, memory_ids: Iterable[str]) -> dict[str, Turns]:
        """Where the turns of some memories lie; the latest are kept, since questions of one shard come together."""
        wanted = set(memory_ids)
        made = {m: self._turns[m] for m in wanted if m in self._turns}
        for memory in read_memories(self.store, self.store.open(), sorted(wanted - made.keys())):
            made[memory.memory_id] = Turns(
                {t.turn_id: t.session_id for t in memory.turns}, {t.turn_id: t.num_tokens for t in memory.turns}
            )
        self._turns = made | {m: Turns({}, {}) for m in wanted - made.keys()}
        return self._turns

    # ------------------------------------------------------------------------------------------------------ query

    @cached_property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(self.options.systems or default_systems(self.config.search)))

    def search_fingerprint(self, name: str) -> str:
        search = json.dumps(self.config.as_dict()["search"], sort_keys=True)
        return stable_hash(self.fingerprint, self.code, name, search, str(DEPTH), str(self.options.ignore_time))

    def make_system(self, name: str) -> System:
        return make_system(name, self.memory, self.config.search, self.vectors, self.options.system_model)

    def rankings(self, name: str, only: Container[int] | None = None) -> tuple[list[Ranking], Row]:
        """What a system returned for every question, and how long that took.

        Args:
            only: numbers of the parts that are made and read, without how long it took; None for all.
        """
        folder = f"systems/{file_name(name)}"
        fingerprint = self.search_fingerprint(name)
        system: System | None = None
        seconds: dict[str, float] = {}

        def ready() -> System:
            nonlocal system
            if system is None:
                system = self.make_system(name)
                start = time.perf_counter()
                with self.watched(name, "build", len({q.memory_id for q in self.questions}), unit="memory") as built:
                    system.build(self._counted(built))
                if not isinstance(system, StoreSystem):
                    seconds["build"] = time.perf_counter() - start
                # The first question loads models and opens memories.
                system.query(self.questions[:1])
            return system

        def make(part: Sequence[Question]) -> list[Row]:
            asked = ready()
            start = time.perf_counter()
            returned = asked.query(part)
            share = (time.perf_counter() - start) / len(part)
            if len(returned) != len(part):
                raise InputError(f"System '{name}' gave {len(returned)} results to {len(part)} questions.")
            rows = [r.to_json() for r in self._rankings(part, returned)]
            return [row | {"seconds": share} for row in rows]

        with self.watched(name, "ask", len(self.questions)) as shown:
            rows = self.steps.parts(
                f"{folder}/queries", fingerprint, self.questions, self.options.part, make, only=only, told=shown.step
            )
        rankings = [Ranking.from_json({k: v for k, v in r.items() if k != "seconds"}) for r in rows]
        if only is not None:
            return rankings, {}
        took = self.steps.single(f"{folder}/latency.jsonl", fingerprint, lambda: [self._latency(ready(), seconds)])[0]
        took |= {"questions_per_s": len(rows) / max(1e-9, sum(r["seconds"] for r in rows))}
        return rankings, took

    def watched(
        self, system: str, step: str, total: int, unit: str = "question"
    ) -> contextlib.AbstractContextManager[Progress]:
        """A bar for one step of a system, on a terminal and not in a quiet run."""
        return progress(f"{system}: {step}", total, quiet=self.options.quiet, unit=unit)

    def _counted(self, shown: Progress) -> Iterator[MemoryTurns]:
        for memory in self.memories():
            yield memory
            # Asked for the next one: this one has been taken in.
            shown.step(1)

    def _rankings(self, questions: Sequence[Question], returned: Sequence[Returned]) -> list[Ranking]:
        kept = []
        known = self.turns(q.memory_id for q in questions)
        for question, found in zip(questions, returned, strict=True):
            turns = [t for t in dict.fromkeys(found.turn_ids) if t in known[question.memory_id].session]
            kept.append((question, found, turns))
        contexts = self._context_tokens(kept, known)
        return [
            Ranking(
                memory_id=question.memory_id,
                query_id=question.query_id,
                turns=tuple(turns[:DEPTH] if found.ranked else turns),
                sessions=tuple(known[question.memory_id].session[t] for t in turns[: DEPTH if found.ranked else 0]),
                tokens=tuple(known[question.memory_id].tokens[t] for t in turns[: DEPTH if found.ranked else 0]),
                why=found.why,
                ranked=found.ranked,
                context_tokens=size,
            )
            for (question, found, turns), size in zip(kept, contexts, strict=True)
        ]

    def _context_tokens(
        self, kept: Sequence[tuple[Question, Returned, Sequence[str]]], known: Mapping[str, Turns]
    ) -> list[int]:
        ranked = [i for i, (_, found, _) in enumerate(kept) if found.ranked]
        # Everything at once is counted and not written.
        made = [sum(known[q.memory_id].tokens[t] for t in turns) for q, _, turns in kept]
        tasks = self.tasks([kept[i][0] for i in ranked], [kept[i][2] for i in ranked], ranked=True)
        for i, task in zip(ranked, tasks, strict=True):
            made[i] = task.context_tokens
        return made

    def tasks(self, questions: Sequence[Question], turns: Sequence[Sequence[str]], *, ranked: bool) -> list[Task]:
        """What an answering model gets: the best turns within the budget, or everything where nothing is ranked."""
        if not questions:
            return []
        search = self.config.search
        return make_tasks(
            self.memory,
            questions,
            [t[: search.k] for t in turns] if ranked else turns,
            search.context_tokens if ranked else None,
            encoded(self.memory, [q.question for q in questions], self.vectors),
            ranked=ranked,
        )

    def facts(self) -> Row:
        """What a report says of the run itself."""
        options = self.options
        return {
            "benchmark": options.benchmark,
            "data": {"name": options.data.name, "sha256": self.data_hash},
            "limit": options.limit,
            "sample": options.sample,
            "settings": {
                "search": self.config.as_dict()["search"],
                "encoder": self.config.embed.encoder,
                "depth": DEPTH,
                "ignore_time": options.ignore_time,
            },
            "machine": {
                "processor": platform.machine(),
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                "device": self.config.run.device,
            },
            "version": magma_gpu.__version__,
            "build": self.built,
            "answers": None if options.engine is None else dict(options.engine.identity),
            "judge": None if options.judge is None else options.judge.model,
        }

    def _latency(self, system: System, seconds: dict[str, float]) -> Row:
        """Milliseconds of single questions, evenly spaced over the benchmark, after a warm-up."""
        step = max(1, len(self.questions) // _LATENCY)
        asked = self.questions[::step][:_LATENCY]
        alone = system.cold() if isinstance(system, StoreSystem) else system
        alone.query(asked[:1])
        made = []
        for question in asked:
            start = time.perf_counter()
            alone.query([question])
            made.append(round(1000 * (time.perf_counter() - start), 3))
        return {"latency_ms": made, "build_s": seconds.get("build")}


def _folder(package: Any) -> Path:
    return Path(next(iter(package.__path__)))


def evenly(items: Sequence[T], wanted: int | None) -> list[T]:
    """So many of the items, evenly spaced and beginning with the first; all of them where that is fewer or None."""
    if wanted is None or wanted >= len(items):
        return list(items)
    return [items[number * len(items) // wanted] for number in range(wanted)]


def file_name(system: str) -> str:
    """A system's name as a folder."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", system)

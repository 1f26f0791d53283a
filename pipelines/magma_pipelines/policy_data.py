"""Labelled questions to query graphs, memory by memory, here or on Ray; what is made is kept as files and read again.

A file holds the graphs of some memories' questions. Its name is a digest of what it was made of (the store, the
questions, the settings, the features), so a second run finds it and a changed input does not.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from magma_gpu.config import Config
from magma_gpu.features import NAMES
from magma_gpu.graph_learning.pseudo import pseudo_questions
from magma_gpu.graph_learning.subgraph import QueryGraphs, join, load_graphs, query_graphs, save_graphs
from magma_gpu.memory import Memory
from magma_gpu.store import stable_hash
from magma_gpu.types import Question
from magma_pipelines.ranking import examples

# Questions of one file; a memory is never split.
_PART = 512


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Questions with the turn ids of their evidence."""

    questions: Sequence[Question]
    evidence: Sequence[tuple[str, ...]]

    def take(self, rows: Sequence[int]) -> "Labelled":
        return Labelled([self.questions[r] for r in rows], [self.evidence[r] for r in rows])

    def memories(self) -> npt.NDArray[np.str_]:
        return np.array([q.memory_id for q in self.questions], dtype=np.str_)

    def num_wanted(self) -> npt.NDArray[np.int64]:
        """Turns that hold the evidence of each question."""
        return np.array([len(set(e)) for e in self.evidence], dtype=np.int64)


def graphs_of(memory: Memory, asked: Labelled, weight: float = 1.0) -> QueryGraphs:
    """The graphs of questions to memories of one store, in the order of the questions."""
    made, chosen = examples(memory, asked.questions, asked.evidence, weight)
    of = asked.memories()
    parts, order = [], []
    for memory_id in sorted(set(of.tolist())):
        rows = np.flatnonzero(of == memory_id)
        indexes = memory.indexes([memory_id])
        (view,) = memory.views(indexes)
        parts.append(query_graphs(indexes[0], view, chosen[rows], made.x_QCF[rows], made.label_QC[rows], weight))
        order.append(rows)
    back = np.argsort(np.concatenate(order)) if order else np.zeros(0, np.int64)
    return join(parts).take(torch.from_numpy(back))


def pseudo_labelled(memory: Memory, per_memory: int, seed: int = 0) -> Labelled:
    """Every memory's questions to itself."""
    questions: list[Question] = []
    evidence: list[tuple[str, ...]] = []
    for memory_id in memory.memory_ids():
        made, held = pseudo_questions(memory.indexes([memory_id])[0], per_memory, seed)
        questions += made
        evidence += held
    return Labelled(questions, evidence)


def make_part(store: str, config: Config, asked: Labelled, path: str) -> str:
    """Makes one file of graphs, unless it is there; returns its path. What a worker runs."""
    where = Path(path)
    if not where.exists():
        temporary = where.with_name(f".{where.name}.tmp")
        save_graphs(graphs_of(Memory.open(store, config), asked), temporary)
        temporary.replace(where)
    return path


def stored_graphs(store: Path, config: Config, asked: Labelled, folder: Path) -> QueryGraphs:
    """`graphs_of` by way of files below `folder`, on Ray's workers where the config names Ray.

    Raises:
        MissingPackageError: Ray was asked for and is not installed.
        InputError: a file below `folder` is none of this release's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of = asked.memories()
    groups: list[list[int]] = [[]]
    for memory_id in sorted(set(of.tolist())):
        rows = np.flatnonzero(of == memory_id).tolist()
        if groups[-1] and len(groups[-1]) + len(rows) > _PART:
            groups.append([])
        groups[-1] += rows
    jobs = []
    for rows in groups:
        part = asked.take(rows)
        jobs.append((str(store), config, part, str(folder / f"{_key(store, config, part)}.safetensors")))
    if config.run.runner == "ray":
        from magma_pipelines.ray_runner import run_calls

        paths = run_calls(make_part, jobs, config.run.num_workers)
    else:
        paths = [make_part(*job) for job in jobs]
    back = np.argsort(np.array([r for rows in groups for r in rows], dtype=np.int64))
    return join([load_graphs(Path(p)) for p in paths]).take(torch.from_numpy(back))


def _key(store: Path, config: Config, asked: Labelled) -> str:
    from magma_gpu.store import Store

    manifest = Store(store).open()
    search = dataclasses.asdict(config.search)
    rows = [
        (q.memory_id, q.query_id, q.question, q.time, e) for q, e in zip(asked.questions, asked.evidence, strict=True)
    ]
    tables = {name: {str(k): v.sha256 for k, v in shards.items()} for name, shards in manifest.tables.items()}
    return stable_hash(json.dumps([tables, search, rows, NAMES], sort_keys=True, default=str))

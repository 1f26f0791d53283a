"""From a store to a page on disk."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from magma_gpu.config import Config
from magma_gpu.errors import StoreError
from magma_gpu.explore.page import render
from magma_gpu.explore.payload import describe, node_numbers
from magma_gpu.explore.trace import trace
from magma_gpu.export.select import select
from magma_gpu.memory import Memory
from magma_gpu.schema import STAGE_TABLES
from magma_gpu.store import shard_of, write_error

_STAGE_OF_EDGE = {"temporal": "link", "semantic": "link", "causal": "resolve", "entity": "resolve"}


@dataclass(frozen=True, slots=True)
class ExploreReport:
    """What was written."""

    file: str
    bytes: int
    memory_id: str
    events: int
    entities: int
    edges: int
    questions: int

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "bytes": self.bytes,
            "memory_id": self.memory_id,
            "events": self.events,
            "entities": self.entities,
            "edges": self.edges,
            "questions": self.questions,
        }


def explore(
    store: str | Path,
    out: str | Path,
    *,
    memory_id: str | None = None,
    questions: Sequence[str] = (),
    as_of: str | None = None,
    config: Config | None = None,
) -> ExploreReport:
    """Writes the page of one memory.

    Args:
        out: the file; one that exists is replaced.
        memory_id: may be left out where the store holds one memory.
        questions: each is asked, and the way it took is shown.
        as_of: a time in any common form; nothing said later is used for answers.
        config: how to search.

    Raises:
        StoreError: there is no finished store, or `out` cannot be written.
        InputError: no such memory, none named where there are several, or a time that cannot be read.
    """
    out = Path(out)
    if out.is_dir():
        raise StoreError(f"'{out}' is a folder; give --out the name of a file, such as {out / 'memory.html'}.")
    memory = Memory.open(store, config)
    memory_id = memory.require(memory_id)
    selection = select(memory.store, memory_id, None)
    [(_, rows)] = selection.memories()
    shard = shard_of(memory_id, selection.manifest.num_shards)
    missing = [
        edge
        for edge, stage in _STAGE_OF_EDGE.items()
        if any(selection.manifest.entry(t, shard) is None for t in STAGE_TABLES[stage])
    ]
    traced = trace(memory, memory_id, questions, as_of, node_numbers(rows))
    document = describe(memory_id, rows, traced, missing)
    data = render(document).encode("utf-8")
    _write(out, data)
    return ExploreReport(
        file=str(out),
        bytes=len(data),
        memory_id=memory_id,
        events=rows["events"].num_rows,
        entities=rows["entities"].num_rows,
        edges=sum(len(e["src"]) for e in document["edges"].values()),
        questions=len(traced),
    )


def _write(out: Path, data: bytes) -> None:
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(out)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise write_error(out, error) from error

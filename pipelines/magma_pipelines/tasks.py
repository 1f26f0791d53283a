"""What runners hand to workers and get back: names and numbers, never tables.

A piece of a source is read (stage `read`), a shard of all pieces is put together (`ingest`), and a shard then goes
through the stages of `jobs.py`. Every task says where its results lie and can be done twice without harm.
"""

from dataclasses import dataclass, field
from typing import Any

from magma_gpu.manifest import Entry, Tombstone
from magma_gpu.pieces import Piece


@dataclass(frozen=True, slots=True)
class PieceTask:
    """A piece of a source to be read and spilled by shard."""

    # Place among the pieces of the build; only for messages.
    shard: int
    piece: Piece
    # Names the spilled files: hash of the settings and of where the piece lies.
    key: str
    memory_id: str | None = None
    stage: str = "read"


@dataclass(frozen=True, slots=True)
class PieceDone:
    """A piece whose rows are spilled, or why they are not."""

    shard: int
    key: str
    # Hash of the bytes that were read; None where that cannot be told.
    content: str | None = None
    num_lines: int = 0
    counts: dict[str, Any] = field(default_factory=dict)
    shards: tuple[int, ...] = ()
    # One sentence, where nothing of the source can be read.
    unreadable: str | None = None
    # The source can only be read in one piece.
    needs_whole: bool = False
    # Read by an earlier run of the same build.
    reused: bool = False
    seconds: float = 0.0
    stage: str = "read"


@dataclass(frozen=True, slots=True)
class SpilledPiece:
    """Where a reduce finds the rows of a piece."""

    key: str
    content: str | None
    # Lines of the source before it.
    first_line: int


@dataclass(frozen=True, slots=True)
class OtherShard:
    """The tables of a shard in another store."""

    root: str
    entries: dict[str, Entry]


@dataclass(frozen=True, slots=True)
class ReduceTask:
    """A shard of the ingest tables to be made of what is stored and what was read."""

    shard: int
    # Hash of the ingest settings.
    fingerprint: str
    existing: dict[str, Entry] = field(default_factory=dict)
    # For each source its pieces that have rows for this shard, in their order.
    sources: tuple[tuple[SpilledPiece, ...], ...] = ()
    others: tuple[OtherShard, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    # Tables of `existing` that are damaged, and must come out as they were.
    lost: tuple[str, ...] = ()
    stage: str = "ingest"


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard that a stage has to make."""

    stage: str
    shard: int
    # Names the outputs: hash of the stage's fingerprint and of its inputs' bytes.
    key: str
    inputs: dict[str, Entry]
    # The stage's own tables of earlier generations and of other stores, for reuse.
    previous: tuple[OtherShard, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardDone:
    """What became of a shard in a stage."""

    stage: str
    shard: int
    outputs: dict[str, Entry]
    rows_in: int
    counts: dict[str, Any]
    seconds: float
    # What went into loading the stage's model and modules, apart from `seconds`.
    load_seconds: float
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class ShardFailed:
    """A task that was given up."""

    stage: str
    shard: int
    attempts: int
    error: str
    trace: str


Task = PieceTask | ReduceTask | ShardTask
Outcome = PieceDone | ShardDone | ShardFailed

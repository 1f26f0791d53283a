"""Whether there is room for a build, before it begins.

It refuses only what cannot end well: what it asks for is the least that a build may need. A dry run says more, and then
that counts.
"""

from collections.abc import Sequence

from magma_gpu.config import Config
from magma_gpu.embed import encoder_identity
from magma_gpu.errors import StoreError
from magma_gpu.pieces import Piece
from magma_gpu.schema import STAGES, TABLES
from magma_gpu.store import MANIFEST, Store
from magma_pipelines.estimate import estimated_bytes
from magma_pipelines.spill import SPILL

# So much of a log says how long its lines are.
_SAMPLE = 1 << 16


def check_space(store: Store, pieces: Sequence[Piece], config: Config, until: str) -> None:
    """Stops a build for which there is clearly no room.

    Raises:
        StoreError: less is free than a dry run said, or than the least that these logs come to.
    """
    free = store.place.free_bytes()
    if free is None:
        return
    sources = [p for p in pieces if p.first == 0 and p.source.member is None]
    size = sum(p.source.path.stat().st_size for p in sources)
    # What is read is put down by shard before it is put together, packed.
    needed = size // 2
    new = not store.exists(MANIFEST)
    if new and STAGES.index(until) >= STAGES.index("embed"):
        # Nothing of these logs is in the store yet; a vector for every line is.
        dim = int(encoder_identity(config.embed).get("dim", 0))
        needed += sum(_num_lines(p) for p in sources) * dim * 4
    # What a build that did not end has written is there already.
    there = sum(sum(store.place.sizes(folder).values()) for folder in (SPILL, *TABLES)) if new else 0
    needed = (estimated_bytes(store) or needed) - there
    if free < needed:
        raise StoreError(
            f"'{store.root}' has {free / 1e6:,.1f} MB free and this build needs about {needed / 1e6:,.1f} MB: "
            "free some space, or use another --out."
        )


def _num_lines(piece: Piece) -> int:
    """About how many turns a log has; 0 where its bytes do not tell."""
    if piece.format != "jsonl" or piece.source.is_compressed():
        return 0
    size = piece.source.path.stat().st_size
    with piece.source.path.open("rb") as file:
        sample = file.read(_SAMPLE)
    lines = sample.count(b"\n")
    # Lines may be blank or no turns: half of them count.
    return size * lines // (2 * len(sample)) if sample else 0

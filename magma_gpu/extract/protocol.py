"""What every extraction engine is: windows in, one outcome a window out. It holds no engine.

An engine never raises for what a window contains: a window it cannot handle has an outcome of status
`failed`.
"""

from collections.abc import Sequence
from typing import Protocol

from magma_gpu.types import Outcome, Window


class Extractor(Protocol):
    """Finds names and causal pairs in windows of events."""

    @property
    def name(self) -> str:
        """A word for the engine; part of the fingerprint."""
        ...

    @property
    def version(self) -> int:
        """Raised when the same window would give another outcome; part of the fingerprint."""
        ...

    def prompt_hash(self, window: Window) -> str:
        """The key under which an outcome is used again: changes with anything the outcome depends on."""
        ...

    def extract(self, windows: Sequence[Window]) -> list[Outcome]:
        """Returns one outcome for every window, in the same order, whatever happens."""
        ...

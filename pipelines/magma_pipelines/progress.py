"""Progress bars on standard error, and only where that is a terminal."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def bar(items: Iterable[T], label: str, total: int | None, *, quiet: bool, unit: str = "shard") -> Iterator[T]:
    """Passes items on and draws how many there were, with rate and time left."""
    hidden = quiet or not sys.stderr.isatty()
    yield from tqdm(items, desc=label, total=total, unit=unit, disable=hidden, file=sys.stderr, leave=False)

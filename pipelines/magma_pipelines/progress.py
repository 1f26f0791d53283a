"""Progress on standard error, and only where that is a terminal: how much is done, how fast, and the time left."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from magma_pipelines.tasks import Outcome, PieceDone, ShardDone


class Progress:
    """One bar for all stages of a build."""

    def __init__(self, bar: "tqdm[None]") -> None:
        self._bar = bar
        self._rows: dict[str, int] = {}

    def add(self, outcome: Outcome) -> None:
        """Counts a finished task."""
        if isinstance(outcome, ShardDone):
            self._rows[outcome.stage] = self._rows.get(outcome.stage, 0) + outcome.rows_in
        elif isinstance(outcome, PieceDone):
            self._rows["read"] = self._rows.get("read", 0) + int(outcome.counts.get("turns_in", 0))
        words = " ".join(f"{stage} {rows:,}" for stage, rows in self._rows.items())
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.update()

    def step(self, count: int) -> None:
        """Counts things that are done one after the other."""
        self._bar.update(count)

    def at(self, done: int, total: int) -> None:
        """Says how far work is whose size nobody knew before it began."""
        self._bar.total = total
        self._bar.update(done - self._bar.n)


@contextmanager
def progress(label: str, total: int, *, quiet: bool, unit: str) -> Iterator[Progress]:
    """A bar for `total` tasks or things, gone when they are done."""
    hidden = quiet or not sys.stderr.isatty()
    with tqdm(desc=label, total=total, unit=unit, disable=hidden, file=sys.stderr, leave=False) as bar:
        yield Progress(bar)

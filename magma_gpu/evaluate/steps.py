"""Work done in parts, each an atomically written file that says what it was made from; a run goes on where it ended.

A part of another fingerprint is made anew. What a part holds is JSON rows; rows of language models are also found
again by the hash of their prompt, whatever the fingerprint, so that nothing is paid for twice.
"""

import hashlib
import json
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from magma_gpu.store import Store, stable_hash

T = TypeVar("T")
Row = dict[str, Any]


# What only looks at results; a change of it makes nothing anew.
_LOOKS_ON = frozenset("charts comparison equal judge metrics page report scores statistics".split())
_APART = frozenset(("explore", "export", "training"))


def code_hash(*roots: Path) -> str:
    """A hash of source files and weights, so that another version of the code makes its results anew."""
    parts: list[str] = []
    for root in roots:
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".safetensors") and p.is_file()):
            folder = path.parent.name
            if folder in _APART or (folder == "evaluate" and path.stem in _LOOKS_ON):
                continue
            parts += [str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()]
    return stable_hash(*parts)


def file_hash(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Steps:
    """The step files below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._store = Store(root)

    def read(self, name: str, fingerprint: str) -> list[Row] | None:
        """The rows of a file; None where there is none, or one of another fingerprint."""
        data = self._store.read_bytes(name)
        if data is None:
            return None
        try:
            head, *rows = [json.loads(line) for line in data.decode("utf-8").splitlines()]
            complete = head["fingerprint"] == fingerprint and head["rows"] == len(rows)
        except (ValueError, KeyError, TypeError):
            return None
        return rows if complete else None

    def write(self, name: str, fingerprint: str, rows: Sequence[Row]) -> None:
        """Writes rows whole or not at all.

        Raises:
            StoreError: the file cannot be written.
        """
        head = {"fingerprint": fingerprint, "rows": len(rows)}
        lines = [json.dumps(row, ensure_ascii=True) for row in (head, *rows)]
        self._store.write_bytes(name, ("\n".join(lines) + "\n").encode())

    def write_text(self, name: str, text: str) -> None:
        """Writes a file whole or not at all.

        Raises:
            StoreError: the file cannot be written.
        """
        self._store.write_bytes(name, text.encode())

    def single(self, name: str, fingerprint: str, make: Callable[[], list[Row]]) -> list[Row]:
        """The rows of a file, made if they are not there."""
        rows = self.read(name, fingerprint)
        if rows is None:
            rows = make()
            self.write(name, fingerprint, rows)
        return rows

    def parts(
        self,
        folder: str,
        fingerprint: str,
        items: Sequence[T],
        size: int,
        make: Callable[[Sequence[T]], list[Row]],
        is_done: Callable[[Row], bool] = lambda row: True,
        only: Container[int] | None = None,
        told: Callable[[int], None] = lambda done: None,
    ) -> list[Row]:
        """The rows of all items, one an item; of the parts that are not there, made now.

        Args:
            size: items of a part; it is part of the fingerprint.
            is_done: a part that holds a row which is not is made again.
            only: numbers of parts; the others are left alone and have no rows. None for all.
            told: hears of every part that is there how many items it holds.
        """
        made: list[Row] = []
        whole = stable_hash(fingerprint, str(size), str(len(items)))
        for number, first in enumerate(range(0, len(items), size)):
            if only is not None and number not in only:
                continue
            part = items[first : first + size]
            name = f"{folder}/part-{number:05d}.jsonl"
            rows = self.read(name, whole)
            if rows is None or not all(map(is_done, rows)):
                rows = make(part)
                assert len(rows) == len(part)
                self.write(name, whole, rows)
            made += rows
            told(len(rows))
        return made

    def missing(self, folder: str, fingerprint: str, num_items: int, size: int) -> list[int]:
        """Numbers of the parts that are not there."""
        whole = stable_hash(fingerprint, str(size), str(num_items))
        numbers = range(-(-num_items // size))
        return [n for n in numbers if self.read(f"{folder}/part-{n:05d}.jsonl", whole) is None]

    def earlier(self, pattern: str) -> Iterator[Row]:
        """All rows below folders that match, of any fingerprint; damaged lines are left out."""
        for path in sorted(self.root.glob(f"{pattern}/part-*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row

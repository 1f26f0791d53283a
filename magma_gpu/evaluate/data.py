"""The benchmark's own file: its first questions as a file of their own, and the order of its conversations.

It streams and keeps every field, so that the reader sees what it would see in the whole file.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from magma_gpu.readers import Source, find_sources, read_source
from magma_gpu.readers.documents import items_of
from magma_gpu.readers.peek import peek
from magma_gpu.types import MemoryNote

BENCHMARKS = ("locomo", "longmemeval")
# Where the items may lie inside an object, as the readers have it.
_WRAPPERS = {"locomo": ("conversations", "samples", "data"), "longmemeval": ("examples", "data", "questions")}


def write_first(data: Path, out: Path, benchmark: str, limit: int) -> None:
    """Writes the items that hold a benchmark's first questions; of the last item no later question."""
    (source,) = find_sources([str(data)])
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    left = limit
    with temporary.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, item in enumerate(_items(source, benchmark)):
            if benchmark == "locomo":
                questions = item.get("qa")
                item["qa"] = questions[:left] if isinstance(questions, list) else []
            left -= len(item["qa"]) if benchmark == "locomo" else 1
            file.write((",\n" if number else "\n") + json.dumps(item, ensure_ascii=True, default=str))
            if left <= 0:
                break
        file.write("\n]\n")
    temporary.replace(out)


def _items(source: Source, benchmark: str) -> Iterator[dict[str, Any]]:
    inner = tuple((key,) for key in _WRAPPERS[benchmark])
    with source.open() as stream, source.open_text(stream) as text:
        for _, item in items_of(peek(source), text, inner=inner, turn_depth=3):
            if isinstance(item, dict):
                yield item


def sample_ids(path: Path) -> list[str]:
    """The conversations of a LoCoMo file in its order."""
    found = [
        record.memory_id
        for source in find_sources([str(path)])
        for record in read_source(source, "locomo", memory_id=None)
        if isinstance(record, MemoryNote)
    ]
    return list(dict.fromkeys(found))

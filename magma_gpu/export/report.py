"""What an export wrote, counted while it was written."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ExportCounts:
    """Rows by what they are; a memory is counted once."""

    memories: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of one export."""

    format: str
    path: str
    memories: int
    nodes: dict[str, int]
    edges: dict[str, int]
    files: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "path": self.path,
            "memories": self.memories,
            "nodes": self.nodes,
            "edges": self.edges,
            "files": self.files,
            "bytes": self.bytes,
        }

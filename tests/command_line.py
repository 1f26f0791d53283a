"""The command line as tests see it: what a command said, and how it ended."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LOG = EXAMPLES / "conversations.jsonl"
HASH = ("--set", "embed.encoder=hash", "--device", "cpu")


class Ran:
    """What a command said and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


def exit_code(arguments: Sequence[object]) -> int:
    """Runs a command in this process."""
    from magma_pipelines.cli import main

    try:
        return main([str(a) for a in arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


def refused(ran: Ran) -> str:
    """Asserts exit code 2 and one sentence on standard error, and returns it."""
    assert ran.code == 2, (ran.code, ran.out, ran.err)
    assert "Traceback" not in ran.err + ran.out
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    assert lines[0].startswith("magma-gpu: ")
    assert ran.out == ""
    return lines[0]


def tree(root: Path) -> dict[str, bytes]:
    """The files of a store that count, but for the ledger and the lock."""
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name not in ("ledger.json", ".lock")
    }

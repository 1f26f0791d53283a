"""Small stores for the tests of exports, built with the hash encoder."""

import json
from pathlib import Path
from typing import Any

from magma_gpu.config import load_config
from magma_gpu.store import Store
from magma_pipelines.build import BuildOptions, build

ODD = 'O\'Neil, "Bo" <b>&amp;</b>\r\nline two\nline three; a|b\tend'
ODD_MEMORY = 'team/"a,b"; <x>'


def write_log(path: Path) -> None:
    """Three memories: a plain one, one with a name of every odd character, one with a single turn."""
    rows = [
        ("plain", "s1", "Ana", "2024-01-01T10:00:00Z", "I moved to Porto because Acme Labs offered me a job."),
        ("plain", "s1", "Ben", "2024-01-01T10:01:00Z", "Acme Labs in Porto? That is a great job, Ana."),
        ("plain", "s1", "Ana", "2024-01-01T10:02:00Z", "Yes. Acme Labs pays well, and Porto is by the sea."),
        ("plain", "s2", "Ben", "2024-05-01T10:00:00Z", "How is Porto? I told Clara about Acme Labs yesterday."),
        ("plain", "s2", "Ana", "2024-05-01T10:01:00Z", "Porto is sunny. Clara should visit Porto with you."),
        (ODD_MEMORY, "s,1", ODD, "2024-02-01T10:00:00Z", f"{ODD} and Clara went to Lisbon."),
        (
            ODD_MEMORY,
            "s,1",
            "阿南",
            "2024-02-01T10:05:00Z",
            "我搬到了里斯本 \U0001f600 </script><script>alert(1)</script>",
        ),
        (ODD_MEMORY, "s,1", ODD, "2024-02-02T10:05:00Z", "Clara liked Lisbon, so we stayed in Lisbon."),
        ("solo", "s1", "Eva", "2024-03-01T10:00:00Z", "Only this."),
    ]
    names = ("memory_id", "session_id", "speaker", "time", "text")
    lines = [json.dumps(dict(zip(names, r, strict=True)) | {"turn_id": f't"{i}'}) for i, r in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_store(folder: Path, num_shards: int = 2) -> Path:
    """Builds a store of the log under `folder`."""
    log = folder / "log.jsonl"
    write_log(log)
    settings = ["embed.encoder=hash", f"ingest.num_shards={num_shards}", "link.threshold=0.2"]
    build([str(log)], folder / "store", load_config(None, settings), BuildOptions(quiet=True))
    return folder / "store"


def stored_rows(store: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table of a store."""
    opened = Store(store)
    entries = opened.open().tables[table]
    return [r for _, e in sorted(entries.items()) for r in opened.read_table(e, table).to_pylist()]

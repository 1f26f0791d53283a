"""Stores for the tests of the page: one with texts that would be markup, one of thousands of messages."""

import datetime
import json
import random
from pathlib import Path

from magma_gpu.config import load_config
from magma_pipelines.build import BuildOptions, build

HOSTILE = '</script><script>window.broken=1</script><img src=x onerror="window.broken=2"><b>bold</b> @@DATA@@'


def _build(folder: Path, rows: list[dict[str, str]]) -> Path:
    log = folder / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    config = load_config(None, ["embed.encoder=hash", "link.threshold=0.3"])
    build([str(log)], folder / "store", config, BuildOptions(quiet=True))
    return folder / "store"


def hostile_store(folder: Path) -> Path:
    """A memory in which ids, names and texts hold markup and odd characters."""
    said = [
        ("s1", "Ana", "2024-01-01T10:00:00Z", "I moved to Porto because Acme Labs offered me a job."),
        ("s1", HOSTILE, "2024-01-01T10:01:00Z", f"Porto! {HOSTILE}"),
        ("s1", "Ana", "2024-01-01T10:02:00Z", "Acme Labs is by the sea in Porto.\u2028And \u202eso on."),
        (HOSTILE, "Ben", "2024-05-01T10:00:00Z", "How is Porto? I told Clara about Acme Labs."),
        (HOSTILE, "Ana", "2024-05-01T10:01:00Z", "Clara visited Porto on 3 May 2024."),
    ]
    keys = ("session_id", "speaker", "time", "text")
    rows = [dict(zip(keys, s, strict=True)) | {"memory_id": HOSTILE, "turn_id": f"<t{i}>"} for i, s in enumerate(said)]
    return _build(folder, rows)


def large_store(folder: Path, num_events: int) -> Path:
    """One memory of many messages in eighty sessions."""
    r = random.Random(1)
    time = datetime.datetime(2022, 1, 3, 9, tzinfo=datetime.UTC)
    names = "Ines Tomasz Clara Rui Katrin Celeste Bastian Mehmet Yuki Priya Jonas Fatima Diego Anouk".split()
    places = "Porto Lisbon Hamburg Oslo Kyoto Nairobi Lima Quito Turin Ghent".split()
    things = ["the boiler", "our hike", "the visa form", "the choir", "a flat tyre", "the garden", "the bakery"]
    rows = []
    for i in range(num_events):
        time += datetime.timedelta(seconds=r.randint(20, 400), days=i % (num_events // 80) == 0)
        text = r.choice(
            [
                f"{r.choice(names)} told me about {r.choice(things)} in {r.choice(places)}.",
                f"Did you hear from {r.choice(names)}? I was late because {r.choice(things)} took all day.",
                f"Message {i}: news about {r.choice(things)}, item {r.randint(0, 999)}.",
                "ok, see you tomorrow",
            ]
        )
        session = f"s{i * 80 // num_events}"
        rows.append(
            {
                "memory_id": "big",
                "session_id": session,
                "turn_id": f"m{i}",
                "speaker": ("Ana", "Wes")[i % 2],
                "time": time.isoformat(),
                "text": text,
            }
        )
    return _build(folder, rows)

"""The README.md of an export: what is in it, how much, and how other tools open it.

Its fixed parts are in `readme_texts/`, one a format.
"""

import datetime
from pathlib import Path

from magma_gpu.export.report import ExportCounts
from magma_gpu.export.select import Selection

_TEXTS = Path(__file__).with_name("readme_texts")


def write_readme(folder: Path, format_: str, selection: Selection, counts: ExportCounts) -> None:
    """Writes README.md; it names no time, host or path."""
    embed = selection.manifest.config.get("embed", {})
    rows = [("memories", counts.memories)]
    rows += [(f"{name} nodes", counts.nodes[name]) for name in ("event", "episode", "entity")]
    rows += [(f"{name} edges", n) for name, n in sorted(counts.edges.items())]
    of = "all memories" if selection.memory_id is None else "one memory"
    since = f", events said since {_iso(selection.since)}" if selection.since is not None else ""
    counted = "\n".join(f"| {name} | {number} |" for name, number in rows)
    text = (
        f"# Memory graphs ({format_})\n\n"
        f"An export of {of} of a magma-gpu store{since}. Encoder: `{embed.get('encoder')}`.\n\n"
        f"| what | how many |\n| --- | --- |\n{counted}\n\n{_text('graph')}\n## Files\n\n{_text(format_)}"
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _iso(time_us: int) -> str:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (epoch + datetime.timedelta(microseconds=time_us)).isoformat().replace("+00:00", "Z")


def _text(name: str) -> str:
    return (_TEXTS / f"{name}.md").read_text(encoding="utf-8")

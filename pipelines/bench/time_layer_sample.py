"""A seeded sample of the expressions found in LoCoMo, to be read by hand, and what the reading gave.

    python pipelines/bench/time_layer_sample.py --data FOLDER --show
    python pipelines/bench/time_layer_sample.py --data FOLDER

The first prints the sample with the words around it; the second sums up the labels of
`docs/results/time_layer_sample.json`, which hold ids, characters and intervals but no text. What a reader would not
guess: a label stands for an expression and its interval, so that one which is found no more, or means something else
now, counts as unread.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from magma_gpu.timex import tag
from magma_gpu.types import TimeSpan
from time_layer_locomo import locomo_turns
from time_layer_specs import EPOCH

LABELS = Path("docs/results/time_layer_sample.json")
SEED, SIZE = 2026, 200
MEANING = {
    "right": "a time, and the interval it means there",
    "other_reading": "a time; another interval is as likely meant (next Saturday, said on a Monday)",
    "routine": "an adjective of every day (everyday stress, daily life); recurring, so it places no event",
    "junk": "no time, or no particular one",
}


def found_spans(folder: Path) -> Iterator[tuple[str, str, str, int, TimeSpan]]:
    """Yields conversation, turn, text, the turn's time and the expression of everything found in LoCoMo."""
    samples = json.loads((folder / "locomo/locomo10.json").read_text(encoding="utf-8"))
    rows = [(s["sample_id"], turn, *said) for s in samples for turn, said in locomo_turns(s)]
    for row, spans in zip(rows, tag([r[2] for r in rows], [r[3] for r in rows]), strict=True):
        for span in spans:
            yield *row, span


def draw(folder: Path) -> list[tuple[str, str, str, int, TimeSpan]]:
    """Returns the sample, in the order of the conversations."""
    every = list(found_spans(folder))
    chosen = random.Random(SEED).sample(range(len(every)), min(SIZE, len(every)))  # noqa: S311
    return [every[i] for i in sorted(chosen)]


def key(conversation: str, turn: str, span: TimeSpan) -> list[Any]:
    """Returns what identifies an expression and its interval without a word of the text."""
    start, end = (EPOCH + timedelta(microseconds=t) for t in (span.start, span.end))
    return [conversation, turn, span.first, span.last, start.isoformat(), end.isoformat(), span.kind]


def summary(folder: Path, labels: list[list[Any]]) -> dict[str, Any]:
    """Counts the labels of expressions that are still found with the same interval."""
    now = {json.dumps(key(conversation, turn, span)) for conversation, turn, _, _, span in found_spans(folder)}
    counts = Counter(label for *rest, label in labels if json.dumps(rest) in now)
    read = sum(counts.values())
    return {
        "found": len(now),
        "read": read,
        "found_no_more": len(labels) - read,
        **{name: counts[name] for name in MEANING},
        "junk_share": round(counts["junk"] / read, 4) if read else 0.0,
        "labels": MEANING,
    }


def main() -> None:
    """Reads the command line and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with locomo/")
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--show", action="store_true", help="print the sample to be read")
    arguments = parser.parse_args()
    if not arguments.show:
        labels = json.loads(arguments.labels.read_text(encoding="utf-8"))["labels"]
        print(json.dumps(summary(arguments.data, labels)))
        return
    for conversation, turn, text, at, span in draw(arguments.data):
        said = f"{text[max(0, span.first - 50) : span.first]}[{span.text}]{text[span.last : span.last + 40]}"
        print(f"said {EPOCH + timedelta(microseconds=at):%Y-%m-%d %a}  {said}".replace("\n", " "))
        print(json.dumps(key(conversation, turn, span)))


if __name__ == "__main__":
    main()

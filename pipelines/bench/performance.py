"""Puts what the benchmarks of speed measured into one document, `docs/results/performance.json`.

    python pipelines/bench/performance.py --kernels bench.json --out docs/results/performance.json

Each benchmark writes a section of its own and leaves the others. The sections `search` and `link` are summaries of the
kernels' benchmark.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def merge(out: Path | None, section: str, value: dict[str, Any]) -> None:
    """Writes one section of a document; without a document, nothing."""
    if out is None:
        return
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if isinstance(document.get(section), dict) and section in ("search", "link"):
        value = document[section] | value
    document[section] = value
    partial = out.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, required=True, help="what kernels/bench/bench.py --out wrote")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    report = json.loads(args.kernels.read_text(encoding="utf-8"))
    merge(args.out, "kernels", report)
    merge(args.out, "search", report["ops"]["beam_search"]["summary"])
    merge(args.out, "link", {"kernel": report["ops"]["semantic_link"]["summary"]})
    print(json.dumps(json.loads(args.out.read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How many questions of a store's own query file are answered a second, vectors given.

    python pipelines/bench/search_speed.py --store DIR --out FILE.json

The store is one of `magma-gpu build locomo10.json`. Every answer is complete (evidence, paths, context); the indexes of
the memories are made before the clock starts, and the first batch, which makes them, is told apart. Median of several.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from locomo_retrieval import read_store_questions
from magma_gpu.config import Config, SearchConfig
from magma_gpu.memory import Memory


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args(argv)
    questions, _, _ = read_store_questions(args.store)
    document: dict[str, object] = {
        "questions": len(questions),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "as many as cores"),
        "load_average_before": round(os.getloadavg()[0], 1),
    }
    for policy in ("learned", "smooth", "paper"):
        memory = Memory.open(args.store, Config(search=SearchConfig(policy=policy)))
        vectors = memory.encode([q.question for q in questions])
        seconds = []
        for _ in range(args.repeats + 1):
            start = time.perf_counter()
            memory.ask(questions, vectors)
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds[1:])
        document[policy] = {
            "first_batch_s": round(seconds[0], 3),
            "median_s": round(median, 3),
            "questions_per_s": round(len(questions) / median, 1),
        }
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

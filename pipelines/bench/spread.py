"""Does policy `smooth` gain by handing scores on along semantic, causal and entity edges?

    python pipelines/bench/spread.py --locomo locomo10.json --longmemeval lme.json --out docs/results/spread.json

Each share alone against none of them, over the conversations written for this project, LongMemEval's evidence turns in
one memory, and LoCoMo. Differences have paired bootstrap intervals over questions.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from locomo_retrieval import read_store_questions
from magma_gpu.config import Config
from magma_gpu.memory import Memory
from magma_gpu.types import Question
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.ranking import free_data, labelled_questions, training_config
from ranker_protocol import difference, results_found

EDGES = ("semantic", "causal", "entity")
SHARES = (0.05, 0.15, 0.3)


def gains(memory: Memory, questions: Sequence[Question], evidence: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Recall without shares, and what each share adds to it."""
    config = memory.config
    none = results_found(memory, questions, evidence)
    made: dict[str, Any] = {"n": len(questions)}
    made["none"] = {name: round(float(found.mean()), 4) for name, found in none.items() if name.startswith("recall")}
    for edge in EDGES:
        for share in SHARES:
            changed = {f"spread_{edge}": share}
            memory.config = dataclasses.replace(config, search=dataclasses.replace(config.search, **changed))
            made[f"{edge} {share}"] = difference(results_found(memory, questions, evidence), none)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--longmemeval", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="folder of stores, kept between runs")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    config = training_config(Config())
    config = dataclasses.replace(config, search=dataclasses.replace(config.search, k=50))
    document: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        work = args.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        for label, logs, asked in free_data(args.longmemeval, work):
            build([str(p) for p in logs], work / label, config, BuildOptions(quiet=True))
            document[label] = gains(Memory.open(work / label, config), *labelled_questions(asked))
        build([str(args.locomo)], work / "locomo", config, BuildOptions(quiet=True))
        questions, evidence, _ = read_store_questions(work / "locomo")
        document["locomo"] = gains(Memory.open(work / "locomo", config), questions, evidence)
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

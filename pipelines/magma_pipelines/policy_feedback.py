"""`train policy --feedback`: the graph ranker that a store's users make of the shipped one by what they chose.

The weights are written beside the store's settings or where they are asked for; the shipped file is never changed. What
a user chose is in them: they belong to the store and go with it.
"""

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from magma_gpu.config import Config
from magma_gpu.errors import InputError
from magma_gpu.features import NAMES
from magma_gpu.graph_learning.model import UNUSED, GraphRanker
from magma_gpu.graph_learning.subgraph import QueryGraphs
from magma_gpu.graph_learning.training import FitConfig, fit, score
from magma_gpu.graph_learning.weights import OF_STORE, WEIGHTS, load_policy, save_policy
from magma_gpu.memory import Memory
from magma_gpu.types import Question
from magma_pipelines.policy_data import Labelled, stored_graphs
from magma_pipelines.policy_scores import means
from magma_pipelines.ranking import training_config

# Feedback is little: small steps, and a pull back to where the weights came from.
ADAPTING = FitConfig(epochs=6, batch=16, rate=3e-4, decay=1e-2, dropout=0.3)


def read_feedback(path: Path, memory: Memory) -> Labelled:
    """Questions with the evidence that a user chose, from JSONL: `memory_id, question, chosen`, optional `time`.

    `chosen` lists turn ids or event ids, as results name them; `evidence` is understood for it. `memory_id` may be
    left out where the store holds one memory.

    Raises:
        InputError: a row does not fit, names a memory or an event that the store lacks, or there is none.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The feedback '{path}' cannot be read ({error}); give a JSONL file.") from None
    questions: list[Question] = []
    evidence: list[tuple[str, ...]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        questions_row = _feedback_row(path, number, line)
        memory_id = memory.require(questions_row.get("memory_id"))
        index = memory.indexes([memory_id])[0]
        turn = dict(zip(index.graph.event_ids, index.turn_ids, strict=True))
        known = set(index.turn_ids)
        chosen = tuple(turn.get(c, c) for c in questions_row["chosen"])
        strange = [c for c in chosen if c not in known]
        if strange:
            raise InputError(f"'{path}', line {number}: memory '{memory_id}' holds no turn or event '{strange[0]}'.")
        time_ = questions_row.get("time")
        questions.append(
            Question(memory_id=memory_id, query_id=str(number), question=questions_row["question"], time=time_)
        )
        evidence.append(chosen)
    if not questions:
        raise InputError(f"'{path}' holds no feedback; one row a line is wanted, with question and chosen.")
    return Labelled(questions, evidence)


def _feedback_row(path: Path, number: int, line: str) -> dict[str, Any]:
    wanted = f"'{path}', line {number}: an object with question and chosen (a list of turn or event ids) is wanted"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{wanted} (got {line.strip()[:60]!r}).") from None
    if not isinstance(row, dict):
        raise InputError(f"{wanted} (got {line.strip()[:60]!r}).")
    chosen = row.get("chosen", row.get("evidence"))
    if (
        not isinstance(row.get("question"), str)
        or not isinstance(chosen, list)
        or not chosen
        or not all(isinstance(c, str) for c in chosen)
    ):
        raise InputError(f"{wanted} (got {line.strip()[:60]!r}).")
    return row | {"chosen": chosen}


def adapt(config: Config, feedback: Path, store: Path, out: Path | None) -> dict[str, Any]:
    """Fine-tunes the shipped weights for one store; returns the card.

    Raises:
        InputError: the feedback cannot be read, or the weights would go over the shipped ones.
    """
    path = out or store / OF_STORE
    if path.resolve() == WEIGHTS.resolve():
        raise InputError("Feedback never changes the shipped weights; give another --out.")
    memory = Memory.open(store, training_config(config))
    labelled = read_feedback(feedback, memory)
    with tempfile.TemporaryDirectory() as name:
        graphs = stored_graphs(store, memory.config, labelled, Path(name))
    shipped = load_policy()
    model = fine_tuned(shipped, graphs)
    card = {
        "model": "the shipped graph ranker, fine-tuned on one store's feedback",
        "data": {"feedback": len(labelled.questions), "with its evidence among the candidates": _usable(graphs)},
        "fit": dataclasses.asdict(ADAPTING),
        "started_from": json.loads(WEIGHTS.with_suffix(".json").read_text(encoding="utf-8"))["fingerprint"],
        "scores_on_the_feedback_itself": {
            "before": means(score(shipped, graphs), graphs, labelled.num_wanted()),
            "after": means(score(model, graphs), graphs, labelled.num_wanted()),
        },
    }
    return save_policy(model, card, path)


def fine_tuned(start: GraphRanker, graphs: QueryGraphs, config: FitConfig = ADAPTING) -> GraphRanker:
    """Weights that went on from others on the labels of one store; scaling, features and calibration stay."""
    used = [i for i in range(len(NAMES)) if float(start.scale[i]) < UNUSED / 2]
    return fit(graphs, used, config, start)


def _usable(graphs: QueryGraphs) -> int:
    return int((graphs.positives() > 0).sum())

"""`train policy`: the graph ranker that is shipped, fitted on freely licensed data alone.

Its card says how it does on conversations it was not fitted on; its probabilities are calibrated there. LoCoMo is
evaluated, one conversation left out at a time, and never reaches the weights.
"""

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from magma_gpu.config import Config
from magma_gpu.device import pick_device
from magma_gpu.errors import InputError
from magma_gpu.graph_learning.subgraph import join
from magma_gpu.graph_learning.training import FitConfig, calibrate, calibration_error, fit, score_held_out
from magma_gpu.graph_learning.weights import WEIGHTS, save_policy
from magma_gpu.memory import Memory
from magma_gpu.store import Store, stable_hash
from magma_gpu.types import Question
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.policy_data import Labelled, pseudo_labelled, stored_graphs
from magma_pipelines.policy_feedback import adapt
from magma_pipelines.policy_scores import means
from magma_pipelines.ranking import columns, free_data, labelled_questions, training_config

# Candidates far down teach nothing that nearer ones do not.
SHIPPED = FitConfig(seeds=(0, 1), num_candidates=128)
_FOLDS = 5
# Pseudo-questions of one memory.
_PSEUDO = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """What `train policy` is asked for.

    Attributes:
        longmemeval: LongMemEval's file, as more data.
        locomo: LoCoMo's file, to evaluate by leaving one conversation out; it never reaches the weights.
        pretrain: fit first on what the memories ask themselves.
        feedback, store: fine-tune for one store.
        work: folder of stores and graphs, kept between runs.
        out: where the weights go.
    """

    longmemeval: Path | None = None
    locomo: Path | None = None
    pretrain: bool = False
    feedback: Path | None = None
    store: Path | None = None
    work: Path | None = None
    out: Path | None = None


def train_policy(config: Config, options: TrainOptions) -> dict[str, Any]:
    """Trains the shipped policy, or with feedback a store's; returns the card.

    Raises:
        InputError: feedback without a store, or a file that cannot be read.
    """
    if (options.feedback is None) != (options.store is None):
        raise InputError("train policy wants --feedback FILE and --store DIR together, or neither of them.")
    if options.feedback is not None and options.store is not None:
        return adapt(config, options.feedback, options.store, options.out)
    with tempfile.TemporaryDirectory() as name:
        return _train(config, options, options.work or Path(name))


def _train(config: Config, options: TrainOptions, work: Path) -> dict[str, Any]:
    began = time.perf_counter()
    settings = training_config(config)
    device = str(pick_device(config.run.device))
    parts, groups, wanted, sizes = [], [], [], {}
    start_parts = []
    for label, logs, asked in free_data(options.longmemeval, _folder(work)):
        store = work / label
        build([str(p) for p in logs], store, settings, BuildOptions(quiet=True))
        labelled = Labelled(*labelled_questions(asked))
        parts.append(stored_graphs(store, settings, labelled, work / "graphs"))
        # A memory is held out whole; the one that pools LongMemEval's by its questions.
        names = labelled.memories() if label == "own" else [q.query_id for q in labelled.questions]
        groups.append(np.array([int(stable_hash(str(n))[:8], 16) % _FOLDS for n in names]))
        wanted.append(labelled.num_wanted())
        sizes[label] = len(labelled.questions)
        if options.pretrain:
            memory = Memory.open(store, settings)
            pseudo = pseudo_labelled(memory, _PSEUDO if label == "own" else 16 * _PSEUDO)
            start_parts.append(stored_graphs(store, settings, pseudo, work / "graphs"))
    graphs, group, want = join(parts), np.concatenate(groups), np.concatenate(wanted)
    start = fit(join(start_parts), columns(every_part=True), SHIPPED, device=device) if start_parts else None
    fitting = time.perf_counter()
    model = fit(graphs, columns(every_part=True), SHIPPED, start, device)
    seconds = time.perf_counter() - fitting
    held = score_held_out(graphs, group, columns(every_part=True), SHIPPED, device)
    model.calibration = calibrate(held, graphs)
    scores: dict[str, Any] = {"free data, folds of memories": means(held, graphs, want)}
    if options.locomo is not None:
        scores["locomo, one conversation left out"] = leave_one_out(settings, options.locomo, work, device)
    card = {
        "model": "heterogeneous message passing over the candidates of a question (GraphConv an edge relation, gates "
        "opened by intent) on top of the learned ranker's network; members averaged",
        "data": sizes | ({"pretrained on": sum(len(p) for p in start_parts)} if start_parts else {}),
        "licence": "fitted on data written for this project (CC0) and LongMemEval's evidence turns (MIT)",
        "protocol": f"listwise; scores and calibration on {_FOLDS} folds of memories a fold was not fitted on",
        "fit": dataclasses.asdict(SHIPPED),
        "seconds_of_the_fit": round(seconds, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "scores": scores,
        "calibration_of_the_ten_best": calibration_error(held, graphs, model.calibration),
        "measured": "docs/results/graph_learning.json",
    }
    return save_policy(model, card, options.out or WEIGHTS)


def _folder(work: Path) -> Path:
    work.mkdir(parents=True, exist_ok=True)
    return work


def leave_one_out(config: Config, locomo: Path, work: Path, device: str) -> dict[str, Any]:
    """Scores on LoCoMo by rankers fitted on its other conversations."""
    store = work / "locomo"
    build([str(locomo)], store, config, BuildOptions(quiet=True))
    labelled = stored_questions(store)
    graphs = stored_graphs(store, config, labelled, work / "graphs")
    held = score_held_out(graphs, labelled.memories(), columns(style=True, every_part=True), SHIPPED, device)
    return means(held, graphs, labelled.num_wanted())


def stored_questions(path: Path) -> Labelled:
    """The questions with evidence that a store's `queries` table holds."""
    store = Store(path)
    rows = [
        row
        for _, entry in sorted(store.open().tables["queries"].items())
        for row in store.read_table(entry, "queries").to_pylist()
        if row["evidence"]
    ]
    questions = [
        Question(memory_id=r["memory_id"], query_id=r["query_id"], question=r["question"], category=r["category"])
        for r in rows
    ]
    return Labelled(questions, [tuple(r["evidence"]) for r in rows])

"""Does walking help? The graph ranker against itself without messages and against the learned policy.

    python pipelines/bench/graph_learning.py --locomo locomo10.json --longmemeval lme.json --work DIR --out FILE.json

All rankers see the same candidates and features and are fitted with the same seeds. `held_out` fits on nine LoCoMo
conversations and asks the tenth, ten times over. `transfer` fits on LoCoMo and asks LongMemEval, pooled into one
memory. `free` fits on freely licensed data and asks LoCoMo; `pretrain` does so without any labels, on what memories ask
themselves. `remedies` changes the network or its edges, on three conversations. `adaptation` gives half of each
conversation's questions as feedback and asks the other half. A part that was measured stays in the file.
Differences have paired bootstrap intervals over questions.
"""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from magma_gpu import ranker
from magma_gpu.config import Config
from magma_gpu.features import NAMES
from magma_gpu.graph_learning.effects import agreement, moved, shift_into_ranges
from magma_gpu.graph_learning.model import GraphRanker, edges_of
from magma_gpu.graph_learning.subgraph import EDGE_TYPE_OF, RELATIONS, QueryGraphs, join
from magma_gpu.graph_learning.training import FitConfig, calibration_error, fit, score
from magma_gpu.graph_learning.weights import WEIGHTS, digest, edge_weights, load_policy
from magma_gpu.memory import Memory
from magma_gpu.ranker import Examples
from magma_gpu.store import stable_hash
from magma_gpu.types import INTENTS
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.policy_data import Labelled, pseudo_labelled, stored_graphs
from magma_pipelines.policy_feedback import fine_tuned
from magma_pipelines.policy_scores import found
from magma_pipelines.policy_training import SHIPPED, stored_questions
from magma_pipelines.ranking import columns, free_data, labelled_questions, training_config
from ranker_protocol import difference, summary

Rows = dict[str, np.ndarray]
# Rates the candidates of some graphs.
Rates = Callable[[QueryGraphs], torch.Tensor]
PARTS = ("held_out", "transfer", "free", "pretrain", "remedies", "adaptation", "speed")
REMEDIES: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "no messages": {"relations": ()},
    "all candidates learned from, not the first 128": {"num_candidates": 0},
    "two layers": {"layers": 2},
    "a fifth of the edges dropped": {"edge_dropout": 0.2},
    "wider messages": {"hidden": 32},
    "sixteen epochs": {"epochs": 16},
    "another seed": {"seeds": (1,)},
    "another seed, no messages": {"seeds": (1,), "relations": ()},
}
# The same with features that already look at neighbours taken away.
BLIND = {
    "without the features that look at neighbours": {},
    "without the features that look at neighbours, no messages": {"relations": ()},
}
REMEDY_MEMORIES = ("conv-26", "conv-43", "conv-49")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Data:
    """One labelled set."""

    graphs: QueryGraphs
    asked: Labelled

    def found(self, rating_N: torch.Tensor) -> Rows:
        return found(rating_N, self.graphs, self.asked.num_wanted())

    def categories(self) -> list[str]:
        return [q.category or "" for q in self.asked.questions]


def looks_around(name: str) -> bool:
    """Whether a feature of an event is made of its neighbours' scores or words."""
    parts = name.split(":")
    return parts[-1] in ("-2", "-1", "+1", "+2") or parts[0] == "near" or parts[0].endswith(("_window", "_wide"))


def padded(graphs: QueryGraphs) -> Examples:
    """Graphs as the examples of the learned ranker: the same candidates, without edges."""
    sizes = graphs.sizes().numpy()
    valid = np.arange(sizes.max(initial=1))[None, :] < sizes[:, None]
    x = np.zeros((*valid.shape, graphs.x_NF.shape[1]), dtype=np.float32)
    label = np.zeros(valid.shape, dtype=np.float32)
    x[valid], label[valid] = graphs.x_NF.numpy(), graphs.y_N.numpy()
    return Examples(x, label, valid, graphs.weight_Q.numpy())


def fit_learned(graphs: QueryGraphs, used: Sequence[int], config: FitConfig) -> Rates:
    model = ranker.fit(padded(graphs), used, seeds=config.seeds)

    def rates(asked: QueryGraphs) -> torch.Tensor:
        made = padded(asked)
        return torch.from_numpy(model.score(made.x_QCF, made.valid_QC)[made.valid_QC])

    return rates


def fit_graph(graphs: QueryGraphs, used: Sequence[int], config: FitConfig) -> Rates:
    model = fit(graphs, used, config)
    return lambda asked: score(model, asked)


def fit_still(graphs: QueryGraphs, used: Sequence[int], config: FitConfig) -> Rates:
    return fit_graph(graphs, used, dataclasses.replace(config, relations=()))


SYSTEMS: dict[str, Callable[[QueryGraphs, Sequence[int], FitConfig], Rates]] = {
    "gnn": fit_graph,
    "no_message_passing": fit_still,
    "learned_policy": fit_learned,
}


def as_smooth(graphs: QueryGraphs) -> torch.Tensor:
    """Ratings that leave the candidates in the order of `smooth`."""
    return -torch.cat([torch.arange(int(n), dtype=torch.float32) for n in graphs.sizes()])


def tell(label: str, rows: Rows) -> None:
    print(f"{label:52}" + "".join(f"{100 * v.mean():7.1f}" for v in rows.values()), file=sys.stderr, flush=True)


def against(rows: dict[str, Rows], data: Data) -> dict[str, Any]:
    """Each system's means, and how far the graph ranker is ahead of the others."""
    made: dict[str, Any] = {name: summary(of, data.categories()) for name, of in rows.items()}
    for name in rows:
        if name != "gnn":
            made[f"gnn_minus_{name}"] = difference(rows["gnn"], rows[name]) | {
                "by_category": {
                    category: difference(
                        {k: v[at] for k, v in rows["gnn"].items()}, {k: v[at] for k, v in rows[name].items()}
                    )
                    | {"n": int(at.sum())}
                    for category in sorted(set(data.categories()))
                    if (at := np.array(data.categories()) == category).any()
                }
            }
    return made


def held_out(data: Data, make: Callable[[QueryGraphs], Rates], memories: Sequence[str]) -> torch.Tensor:
    """Ratings of the candidates of some memories by rankers fitted on all the other memories."""
    of = data.asked.memories()
    made = torch.full((len(data.graphs.x_NF),), -torch.inf)
    for memory_id in memories:
        rows = torch.from_numpy(np.flatnonzero(of == memory_id))
        rates = make(data.graphs.take(torch.from_numpy(np.flatnonzero(of != memory_id))))
        made[data.graphs.nodes(rows)] = rates(data.graphs.take(rows))
    return made


class Bench:
    """The data of a run and what it has measured."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.config = training_config(Config())
        self.fit = dataclasses.replace(SHIPPED, seeds=tuple(range(args.members)))
        self.document: dict[str, Any] = {"data": [args.locomo.name, args.longmemeval.name]}
        if args.out and args.out.exists():
            self.document = json.loads(args.out.read_text(encoding="utf-8"))
        self.locomo = self.built("locomo", [args.locomo], None)
        self.pool, self.own = (
            self.built(label, logs, asked)
            for label, logs, asked in reversed(list(free_data(args.longmemeval, args.work)))
        )

    def built(self, label: str, logs: Sequence[Path], asked: Sequence[Path] | None) -> Data:
        store = self.args.work / label
        build([str(p) for p in logs], store, self.config, BuildOptions(quiet=True))
        labelled = stored_questions(store) if asked is None else Labelled(*labelled_questions(asked))
        return Data(stored_graphs(store, self.config, labelled, self.args.work / "graphs"), labelled)

    def keep(self, **parts: Any) -> None:
        self.document |= parts
        if self.args.out:
            self.args.out.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")

    def asked(self, fitted: QueryGraphs, data: Data, used: Sequence[int], label: str) -> dict[str, Any]:
        """Every system fitted on one set and asked another."""
        rows = {}
        seconds = {}
        for name, make in SYSTEMS.items():
            start = time.perf_counter()
            rates = make(fitted, used, self.fit)
            seconds[name] = round(time.perf_counter() - start, 1)
            rows[name] = data.found(rates(data.graphs))
            tell(f"{label}: {name}", rows[name])
        rows["smooth"] = data.found(as_smooth(data.graphs))
        tell(f"{label}: policy smooth", rows["smooth"])
        return against(rows, data) | {"seconds_of_a_fit": seconds}

    # ------------------------------------------------------------------------------------------------------ parts

    def held_out(self) -> None:
        used = columns(style=True, every_part=True)
        memories = sorted(set(self.locomo.asked.memories().tolist()))
        rows, seconds = {}, {}
        for name, make in SYSTEMS.items():
            start = time.perf_counter()
            rating = held_out(self.locomo, lambda graphs, make=make: make(graphs, used, self.fit), memories)
            seconds[name] = round(time.perf_counter() - start, 1)
            rows[name] = self.locomo.found(rating)
            tell(f"held out: {name}", rows[name])
        made = against(rows, self.locomo)
        self.keep(
            protocol="LoCoMo, fitted on nine conversations and asked the tenth",
            members=self.args.members,
            fit=dataclasses.asdict(self.fit),
            **made,
            seconds_of_ten_fits=seconds,
        )

    def transfer(self) -> None:
        made = self.asked(self.locomo.graphs, self.pool, columns(every_part=True), "LoCoMo to LongMemEval")
        self.keep(locomo_to_longmemeval=made)

    def free(self) -> None:
        fitted = join([self.own.graphs, self.pool.graphs])
        self.keep(free_to_locomo=self.asked(fitted, self.locomo, columns(every_part=True), "free data to LoCoMo"))

    def pretrain(self) -> None:
        """Without labels: on the free memories' questions to themselves, and on those of LoCoMo's memories."""
        made: dict[str, Any] = {}
        smooth = self.locomo.found(as_smooth(self.locomo.graphs))
        free = []
        for label, each in (("own", 48), ("longmemeval_pool", 512), ("locomo", 160)):
            store = self.args.work / label
            asked = pseudo_labelled(Memory.open(store, self.config), each)
            free.append(stored_graphs(store, self.config, asked, self.args.work / "graphs"))
        labelled = join([self.own.graphs, self.pool.graphs])
        for label, graphs, then in (
            ("free memories' own questions", join(free[:2]), None),
            ("LoCoMo's memories' own questions", free[2], None),
            ("free memories' own questions, then free labels", join(free[:2]), labelled),
        ):
            model = fit(graphs, columns(every_part=True), self.fit)
            if then is not None:
                model = fit(then, columns(every_part=True), self.fit, model)
            rows = self.locomo.found(score(model, self.locomo.graphs))
            tell(f"without labels: {label}", rows)
            made[label] = summary(rows, self.locomo.categories()) | {
                "pseudo_questions": len(graphs),
                "minus_smooth": difference(rows, smooth),
            }
        self.keep(pretrained_to_locomo=made)

    def remedies(self) -> None:
        kept = np.isin(self.locomo.asked.memories(), REMEDY_MEMORIES)
        made: dict[str, Any] = {"memories": REMEDY_MEMORIES}
        whole = columns(style=True, every_part=True)
        blind = [i for i in whole if not looks_around(NAMES[i])]
        first: Rows | None = None
        for label, changes in {**REMEDIES, **BLIND}.items():
            config = dataclasses.replace(self.fit, **{"seeds": (0,), **changes})
            used = blind if label in BLIND else whole
            rating = held_out(self.locomo, lambda graphs, c=config, u=used: fit_graph(graphs, u, c), REMEDY_MEMORIES)
            rows = {name: of[kept] for name, of in self.locomo.found(rating).items()}
            tell(f"remedy: {label}", rows)
            first = first or rows
            made[label] = summary(rows) | {"minus as shipped": difference(rows, first)}
            self.keep(remedies=made)

    def adaptation(self) -> None:
        shipped = load_policy()
        of = self.locomo.asked.memories()
        half = np.array([int(stable_hash(q.query_id, q.question)[:8], 16) % 2 for q in self.locomo.asked.questions])
        before, after = [], []
        for memory_id in sorted(set(of.tolist())):
            told = self.locomo.graphs.take(np.flatnonzero((of == memory_id) & (half == 0)))
            rows = np.flatnonzero((of == memory_id) & (half == 1))
            asked = Data(self.locomo.graphs.take(rows), self.locomo.asked.take(rows.tolist()))
            before.append(asked.found(score(shipped, asked.graphs)))
            after.append(asked.found(score(fine_tuned(shipped, told), asked.graphs)))
        whole = [{k: np.concatenate([r[k] for r in part]) for k in before[0]} for part in (before, after)]
        tell("shipped", whole[0])
        tell("after feedback", whole[1])
        self.keep(
            adaptation={
                "shipped": summary(whole[0]),
                "after_feedback": summary(whole[1]),
                "gain": difference(whole[1], whole[0]),
                "feedback": int((half == 0).sum()),
            }
        )

    def speed(self) -> None:
        """A question's candidates rated alone, edges at hand, by the weights that are shipped."""
        model = load_policy()
        rating = score(model, self.locomo.graphs)
        rows = self.locomo.found(rating)
        tell("shipped on LoCoMo", rows)
        counts = edge_weights(model)
        low, high = shift_into_ranges(counts, EDGE_TYPE_OF)
        self.keep(
            shipped_on_locomo=summary(rows, self.locomo.categories())
            | {
                "minus_smooth": difference(rows, self.locomo.found(as_smooth(self.locomo.graphs))),
                "calibration_of_the_ten_best": calibration_error(rating, self.locomo.graphs, model.calibration),
                "fingerprint": digest(WEIGHTS),
            },
            speed=timed(model, self.locomo.graphs),
            learned={
                "intents": INTENTS,
                "edge_weights": counts,
                "moves_a_rating_by": moved(model, self.locomo.graphs),
                "edges_of_a_question": {
                    r: round(len(w) / len(self.locomo.graphs), 2) for r, w in self.locomo.graphs.edge_weight.items()
                },
                "with_table_5": agreement(counts, EDGE_TYPE_OF)
                | {"one constant puts all into its ranges": low <= high},
            },
        )


def timed(model: GraphRanker, graphs: QueryGraphs) -> dict[str, Any]:
    """Milliseconds of processor time a question, median over a hundred of them, and what the network weighs."""
    batches = [graphs.batch([q]) for q in range(min(100, len(graphs)))]
    ready = [(b["event"].x, b["event"].batch, edges_of(b)) for b in batches]
    for x, question, edges in ready[:10]:
        model.score(x, question, 1, edges)
    taken = []
    for x, question, edges in ready:
        start = time.thread_time()
        model.score(x, question, 1, {r: edges[r] for r in model.relations})
        taken.append(1000 * (time.thread_time() - start))
    return {
        "cpu_ms_of_a_question": round(float(np.median(taken)), 3),
        "candidates": round(float(np.mean([len(x) for x, _, _ in ready])), 1),
        "threads": torch.get_num_threads(),
        "parameters": model.num_parameters(),
        "relations": list(RELATIONS),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--longmemeval", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder of stores and graphs, kept between runs")
    parser.add_argument("--out", type=Path, help="kept and added to")
    parser.add_argument("--members", type=int, default=len(SHIPPED.seeds))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    for part in args.parts:
        getattr(bench, part)()
    print(json.dumps(bench.document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs a language model of extract over data sets, a little at a time, and measures what it costs.

    python pipelines/bench/extraction_model.py run --model DIR --data ../shared/data --work DIR --seconds 300
    python pipelines/bench/extraction_model.py speed --model DIR --data ../shared/data --work DIR --limit 16
    python pipelines/bench/extraction_model.py detect --model DIR --data ../shared/data --work DIR --seconds 300

`run` and `detect` stop after --seconds and go on from there when called again: every chunk of answers is a file in
--work, which holds text of the data set and belongs outside the repository. `read_edges.py` makes of it what is read by
hand and what is published.
"""

import argparse
import csv
import json
import os
import platform
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from extraction import cicero_pairs, locomo_events
from magma_gpu.config import Config, ExtractConfig, config_from
from magma_gpu.extract.engines import make_extractor
from magma_gpu.extract.model_engine import Asked, ModelExtractor, Said
from magma_gpu.extract.windows import PlacedWindow, extracts_table, make_windows
from magma_gpu.schema import TABLES
from magma_gpu.types import Window, WindowEvent

Row = dict[str, Any]


class Recorder:
    """Hands questions on to a generator and writes down what it said, so that it can be read again another way."""

    def __init__(self, generator: Any, path: Path) -> None:
        self.generator, self.path = generator, path
        self.identity = generator.identity

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        said: list[Said] = self.generator.generate(asked)
        questions = {one.id: one.messages[-1][1] for one in asked}
        with self.path.open("a", encoding="utf-8") as file:
            for one in said:
                file.write(json.dumps({"user": questions[one.id], "text": one.text, "cut": one.is_cut}) + "\n")
        return said


def config_of(given: argparse.Namespace) -> Config:
    """The settings of a run: float32, which is the fast one on a CPU without bfloat16 units; or a server's model."""
    if given.url:
        return config_from(
            {
                "extract": {"engine": "openai", "model": given.model.name, "max_tokens": given.max_tokens},
                "run": {
                    "llm_url": given.url,
                    "llm_concurrency": given.batch,
                    "llm_timeout_s": 1800.0,
                    "llm_attempts": 1,
                },
            }
        )
    return config_from(
        {
            "extract": {
                "engine": "vllm",
                "model": str(given.model),
                "dtype": "float32",
                "max_tokens": given.max_tokens,
            },
            "run": {"llm_kv_gib": given.kv_gib, "llm_eager": True, "llm_batch": given.batch},
        }
    )


def make_recorded(given: argparse.Namespace) -> ModelExtractor:
    """The extractor of a run, its answers written down."""
    extractor = make_extractor(config_of(given))
    assert isinstance(extractor, ModelExtractor)
    extractor.generator = Recorder(extractor.generator, given.work / "answers.jsonl")
    return extractor


def in_chunks(
    windows: Sequence[Window], extractor: ModelExtractor, given: argparse.Namespace, save: Callable[[list[Any]], None]
) -> None:
    """Asks about windows chunk by chunk until the time is up; writes what each chunk cost to chunks.jsonl."""
    start = time.perf_counter()
    for first in range(0, len(windows), given.chunk):
        before = time.perf_counter()
        if first and before - start > given.seconds:
            break
        outcomes = extractor.extract(windows[first : first + given.chunk])
        save(outcomes)
        cost = {"windows": len(outcomes), "seconds": time.perf_counter() - before, "first": first == 0}
        with (given.work / "chunks.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(cost | extractor.take_counts()) + "\n")


def sample_events(data: Path, sample: str) -> pa.Table:
    """The events of one LoCoMo conversation."""
    events = locomo_events(data)
    return events.filter(pc.equal(events["memory_id"], sample))


def run(given: argparse.Namespace) -> Row:
    """Extracts a conversation, as far as the time goes."""
    events = sample_events(given.data, given.sample)
    places = list(make_windows(events, window=ExtractConfig().window, overlap=ExtractConfig().overlap))
    places = places[: given.limit or None]
    by_id = {p.window.window_id: p for p in places}
    done = read_parts(given.work)
    finished = set(done["window_id"].to_pylist())
    todo = [p.window for p in places if p.window.window_id not in finished]

    def save(outcomes: list[Any]) -> None:
        chunk = [by_id[o.window_id] for o in outcomes]
        write_part(given.work, chunk, outcomes)

    (given.work / "what.json").write_text(
        json.dumps(
            {
                "sample": given.sample,
                "model": given.model.name,
                "engine": "openai" if given.url else "vllm",
                "windows": len(places),
            }
        ),
        encoding="utf-8",
    )
    in_chunks(todo, make_recorded(given), given, save)
    left = len(places) - read_parts(given.work).num_rows
    return {"windows": len(places), "left": left}


def write_part(work: Path, places: Sequence[PlacedWindow], outcomes: Sequence[Any]) -> None:
    """Writes the outcomes of a chunk."""
    number = len(list(work.glob("part-*.parquet")))
    temporary = work / ".part.tmp"
    pq.write_table(extracts_table(places, outcomes), temporary)
    temporary.replace(work / f"part-{number:04d}.parquet")


def read_parts(work: Path) -> pa.Table:
    """All outcomes so far as table `extracts`."""
    parts = [pq.read_table(path) for path in sorted(work.glob("part-*.parquet"))]
    table = pa.concat_tables([TABLES["extracts"].empty_table(), *parts])
    return table.sort_by([(name, "ascending") for name in ("memory_id", "first", "window_id")])


# The ways of asking that `speed` compares. A cache is emptied before every call where a caller has none.
_WAYS = ("one_by_one_uncached", "one_by_one", "batch")


def speed(given: argparse.Namespace) -> Row:
    """The same windows one prompt a call and all at once, in turn, by one engine in one process.

    The parts of a conversation that the prompts share with those of the way before must not help a way, so the prefix
    cache is emptied before each, and in `one_by_one_uncached` before each call. Seconds of processor time say more
    than those of the clock where others use the machine too.
    """
    events = sample_events(given.data, given.sample)
    windows = [p.window for p in make_windows(events, window=given.window, overlap=0)]
    extractor = make_extractor(config_of(given))
    assert isinstance(extractor, ModelExtractor)
    warm, windows = windows[:1], windows[1 : 1 + given.limit]
    extractor.extract(warm)
    extractor.take_counts()
    llm: Any = extractor.generator
    rounds: list[Row] = []
    status: Counter[str] = Counter()
    for number in range(given.rounds):
        made: dict[str, Row] = {}
        # The other way round every other time.
        for name in _WAYS if number % 2 == 0 else _WAYS[::-1]:
            llm._llm.reset_prefix_cache()
            start, before = time.perf_counter(), time.process_time()
            outcomes: list[Any] = []
            for chunk in [windows] if name == "batch" else [[w] for w in windows]:
                if name == "one_by_one_uncached":
                    llm._llm.reset_prefix_cache()
                outcomes += extractor.extract(chunk)
            took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - before}
            status.update(o.status for o in outcomes)
            made[name] = {k: max(round(v, 3), 0.001) for k, v in took.items()} | extractor.take_counts()
        rounds.append(made)
        result = _speeds(given, rounds) | {"windows": len(windows), "status": dict(sorted(status.items()))}
        (given.work / f"speed-{given.model.name}-{given.batch}.json").write_text(
            json.dumps(result, indent=1), encoding="utf-8"
        )
    return result


def _speeds(given: argparse.Namespace, rounds: Sequence[dict[str, Row]]) -> Row:
    """What the rounds say: medians over the rounds, each ratio within a round."""

    def ratio(way: str, key: str) -> list[float]:
        return [round(made[way][key] / made["batch"][key], 2) for made in rounds]

    prompt, cached = (sum(r["batch"][k] for r in rounds) for k in ("prompt_tokens", "cached_prompt_tokens"))
    return {
        "model": given.model.name,
        "turns_of_a_window": given.window,
        "max_tokens": given.max_tokens,
        "prompts_at_once": given.batch,
        "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
        "rounds": list(rounds),
        "times_faster": {way: statistics.median(ratio(way, "seconds")) for way in _WAYS[:-1]},
        "times_faster_of_each_round": {way: ratio(way, "seconds") for way in _WAYS[:-1]},
        "times_faster_in_cpu_seconds": {way: statistics.median(ratio(way, "cpu_seconds")) for way in _WAYS[:-1]},
        "output_tokens_per_s": {
            way: round(statistics.median(made[way]["output_tokens"] / made[way]["seconds"] for made in rounds), 2)
            for way in _WAYS
        },
        "prefix_cache_hit_rate": round(cached / max(prompt, 1), 4),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


# ------------------------------------------------------------------------------------------------- causal detection


def detection_items(data: Path, num: int) -> list[Row]:
    """A sample with labels, `num` of each label and set, drawn with a fixed seed: windows of two events.

    The model is asked about pairs of events, so a sentence of SemEval-2010 task 8 (test) is cut in two half-way between
    its nominals and one of CausalNewsCorpus (development) in its middle; it counts as called causal if any pair comes
    back. CICERO (validation): a turn after what is annotated as its cause, and after a choice that is none.
    """
    rng = random.Random(11)  # noqa: S311 (no secret)
    lines = (data / "causal" / "semeval2010_t8.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == "test"]
    items: list[Row] = []
    for label in (True, False):
        for row in rng.sample([r for r in rows if bool(r["causal"]) == label], num):
            found = sorted((row["text"].find(row[e]), e) for e in ("e1", "e2"))
            middle = (found[0][0] + len(row[found[0][1]]) + found[1][0]) // 2
            first = row[found[0][1]]
            way = None if not label else [0, 1] if row["cause"] == first else [1, 0]
            items.append({"set": "semeval", "label": label, "texts": _cut(row["text"], middle), "way": way})
    with (data / "causal" / "cnc_v2_dev_subtask1.csv").open(encoding="utf-8-sig", newline="") as file:
        news = list(csv.DictReader(file))
    for label in (True, False):
        for row in rng.sample([r for r in news if (r["label"] == "1") == label], num):
            items.append(
                {"set": "news", "label": label, "texts": _cut(row["text"], len(row["text"]) // 2), "way": None}
            )
    pairs = cicero_pairs(data)
    for number in rng.sample(sorted({p[3] for p in pairs}), num):
        for _, texts, label, of in pairs:
            if of == number:
                items.append({"set": "cicero", "label": label, "texts": texts, "way": [0, 1] if label else None})
    for at, item in enumerate(items):
        item["id"] = f"{item['set']}-{at}"
    return items


def _cut(text: str, middle: int) -> list[str]:
    at = text.find(" ", middle)
    at = at if at >= 0 else text.rfind(" ")
    return [text[:at].strip(), text[at:].strip()]


def item_window(item: Row) -> Window:
    """An item as two events that one speaker says."""
    events = tuple(
        WindowEvent(event_id=f"{item['id']}/{at}", speaker="Reporter", role="user", text=text, time=None)
        for at, text in enumerate(item["texts"])
    )
    return Window(memory_id=item["set"], window_id=item["id"], events=events)


def detect(given: argparse.Namespace) -> Row:
    """Asks about the labelled sample, as far as the time goes."""
    path = given.work / "detected.jsonl"
    items = detection_items(given.data, given.limit or 50)
    random.Random(5).shuffle(items)  # noqa: S311 (no secret)
    done = {json.loads(x)["id"] for x in path.read_text(encoding="utf-8").splitlines()} if path.exists() else set()
    by_id = {item["id"]: item for item in items}
    todo = [item_window(item) for item in items if item["id"] not in done]

    def save(outcomes: list[Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            for outcome in outcomes:
                item = by_id[outcome.window_id]
                made = {
                    "id": item["id"],
                    "set": item["set"],
                    "label": item["label"],
                    "claimed": bool(outcome.causal),
                    "way": item["way"],
                    "claimed_ways": sorted({(p.cause, p.effect) for p in outcome.causal}),
                    "confidence": max((p.confidence for p in outcome.causal), default=0.0),
                    "status": outcome.status,
                }
                file.write(json.dumps(made) + "\n")

    (given.work / "detect.json").write_text(json.dumps({"model": given.model.name}), encoding="utf-8")
    in_chunks(todo, make_recorded(given), given, save)
    return {"items": len(items), "done": len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0}


def main(arguments: Sequence[str]) -> int:
    """Runs one command; the last line of standard output is its result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "speed", "detect"])
    parser.add_argument("--model", type=Path, required=True, help="folder of a model")
    parser.add_argument("--data", type=Path, required=True, help="folder with causal/ and locomo/")
    parser.add_argument("--work", type=Path, required=True, help="folder for answers; outside the repository")
    parser.add_argument("--url", default="", help="OpenAI-compatible server to ask instead of vLLM in this process")
    parser.add_argument("--sample", default="conv-49", help="LoCoMo conversation")
    parser.add_argument("--seconds", type=float, default=300.0, help="no chunk is begun after that")
    parser.add_argument("--chunk", type=int, default=8, help="windows of a chunk")
    parser.add_argument("--limit", type=int, default=0, help="windows, or items of a set and label, at most")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured, for speed")
    parser.add_argument("--window", type=int, default=12, help="turns of a window, for speed")
    parser.add_argument("--max-tokens", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=16, help="prompts in work at once")
    parser.add_argument("--kv-gib", type=int, default=1)
    given = parser.parse_args(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    result = {"run": run, "speed": speed, "detect": detect}[given.command](given)
    print(json.dumps(result | {"machine": platform.machine()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Edges of all engines as one shuffled sheet that is read by hand, and what the reading says of each engine.

    python pipelines/bench/read_edges.py sheet --data ../shared/data --work DIR... --store DIR --sheet FILE --key FILE
    python pipelines/bench/read_edges.py report --data ../shared/data --work DIR... --sheet FILE --key FILE \\
        --labels docs/results/extraction_labels.json --out docs/results/extraction.json

With --known, `sheet` draws only edges that --labels does not hold yet and `report` adds to them: reading goes on.

The sheet shows for each edge what was said and names no engine; the reader writes 1 (right) or 0 (wrong) before each
line. The key, kept apart, says whose edges they are. Sheet and key hold text of the data set and belong outside the
repository; the labels that `report` writes hold numbers of turns alone.

A causal edge is right when a reader of the two turns would say that what the first tells is a reason for what the
second tells, or brought it about. An entity link is right when the words are a name, or a thing or topic worth a page
of its own, and mean that entity. Causal edges of the rules come with consolidation out of stores, the first of all ten
LoCoMo conversations; their entity links, and all edges of a model, from the conversation that the model was run over.
What a model claimed and the checks dropped is read too, under a name of its own: it says what the checks are
worth.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from extraction import detection, locomo_events, share
from extraction_model import read_parts
from magma_gpu.config import ResolveConfig
from magma_gpu.entities import resolve_shard
from magma_gpu.extract.windows import decode_output

Row = dict[str, Any]


def tables_of(work: Path, data: Path) -> tuple[pa.Table, dict[str, pa.Table], dict[str, int]]:
    """Events, resolved tables and counts of what was dropped, of a run of a model."""
    extracts = read_parts(work)
    events = locomo_events(data)
    events = events.filter(pc.is_in(events["memory_id"], extracts["memory_id"].combine_chunks().unique()))
    tables, dropped = resolve_shard(events, extracts, ResolveConfig())
    return events, tables, dropped


def of_store(store: Path) -> tuple[pa.Table, dict[str, pa.Table]]:
    """Events and resolved tables of a store."""

    def read(name: str) -> pa.Table:
        return pa.concat_tables([pq.read_table(f) for f in sorted((store / name).glob("*.parquet"))])

    return read("events"), {name: read(name) for name in ("mentions", "entities", "edges/causal")}


def causal_items(engine: str, events: pa.Table, tables: dict[str, pa.Table]) -> list[Row]:
    """The causal edges of an engine as items of a sheet."""
    said = {row["event_id"]: row for row in events.to_pylist()}
    items = []
    for row in tables["edges/causal"].to_pylist():
        cause, effect = said[row["src"]], said[row["dst"]]
        shown = f"{_shown(cause)} ==> {_shown(effect)} (words: {row['evidence']})"
        where = [row["memory_id"], cause["turn_id"], effect["turn_id"]]
        items.append({"kind": "causal", "engine": engine, "where": where, "shown": shown})
    return items


def dropped_items(engine: str, work: Path, data: Path, kept: Sequence[Row]) -> list[Row]:
    """The pairs of different turns, in order, that a model claimed and that did not stand the checks, as items."""
    events, _, _ = tables_of(work, data)
    said = {(row["memory_id"], row["position"]): row for row in events.to_pylist()}
    seen = {tuple(item["where"]) for item in kept}
    items = []
    for row in read_parts(work).to_pylist():
        num = row["last"] - row["first"] + 1
        for pair in decode_output(row["output"])[1] if row["output"] else ():
            if not 0 <= pair.cause < pair.effect < num:
                continue
            cause, effect = (said[row["memory_id"], row["first"] + at] for at in (pair.cause, pair.effect))
            where = (row["memory_id"], cause["turn_id"], effect["turn_id"])
            if where in seen:
                continue
            seen.add(where)
            shown = f"{_shown(cause)} ==> {_shown(effect)} (words: {pair.evidence})"
            items.append({"kind": "causal", "engine": f"{engine}, dropped", "where": list(where), "shown": shown})
    return items


def entity_items(engine: str, events: pa.Table, tables: dict[str, pa.Table], sample: str) -> list[Row]:
    """The entity links of an engine in one conversation as items of a sheet, but for those to a turn's own speaker."""
    said = {row["event_id"]: row for row in events.to_pylist()}
    entities = {row["entity_id"]: row for row in tables["entities"].to_pylist()}
    items = []
    for row in tables["mentions"].to_pylist():
        if row["rule"] == "speaker" or row["memory_id"] != sample:
            continue
        event, entity = said[row["event_id"]], entities[row["entity_id"]]
        names = ", ".join([entity["name"], *entity["aliases"][:6]])
        shown = f"{_shown(event)} ==> [{row['surface']}] is {entity['type']}: {names}"
        where = [row["memory_id"], event["turn_id"], row["surface"]]
        items.append({"kind": "entity", "engine": engine, "where": where, "shown": shown})
    return items


def _shown(event: Row) -> str:
    text = " ".join((event["text"] or event["caption"] or "").split())
    return f"{event['turn_id']} {event['speaker']}: {text}"


def sheet(given: argparse.Namespace) -> Row:
    """Draws items of every engine, shuffles them together and writes sheet and key."""
    rng = random.Random(given.seed)  # noqa: S311 (no secret)
    causal: list[Row] = []
    entity: list[Row] = []
    for number, store in enumerate(given.store):
        events, tables = of_store(store)
        causal += causal_items("rules, other logs" if number else "rules", events, tables)
        entity += entity_items("rules", events, tables, given.sample)
    pools = [entity, *([i for i in causal if i["engine"] == e] for e in ("rules", "rules, other logs"))]
    for work in given.work:
        model = json.loads((work / "what.json").read_text(encoding="utf-8"))["model"]
        events, tables, _ = tables_of(work, given.data)
        kept = causal_items(model, events, tables)
        pools += [kept, entity_items(model, events, tables, given.sample)]
        pools.append(dropped_items(model, work, given.data, kept))
    if given.known:
        known = {_edge(row) for row in json.loads(given.labels.read_text(encoding="utf-8"))}
        pools = [[item for item in pool if _edge({**item, "where": _named(item)}) not in known] for pool in pools]
    drawn: list[Row] = []
    for kind, most in (("causal", given.causal), ("entity", given.entity)):
        by_engine = [sorted(p, key=lambda i: i["where"]) for p in pools if p and p[0]["kind"] == kind]
        left = most
        # The smaller pools first, so that what they lack goes to the others.
        for number, pool in enumerate(sorted(by_engine, key=len)):
            take = min(len(pool), left // (len(by_engine) - number))
            drawn += rng.sample(pool, take)
            left -= take
    rng.shuffle(drawn)
    given.key.write_text(json.dumps(drawn, ensure_ascii=False), encoding="utf-8")
    lines = [f"?\t{at}\t{item['kind']}\t{item['shown']}\n" for at, item in enumerate(drawn)]
    given.sheet.write_text("".join(lines), encoding="utf-8")
    return dict(Counter(f"{i['kind']} {i['engine']}" for i in drawn))


def report(given: argparse.Namespace) -> Row:
    """Puts what was read and what the runs cost into the published results."""
    # What was read before stays, one label an edge of an engine.
    known = json.loads(given.labels.read_text(encoding="utf-8")) if given.known and given.labels.exists() else []
    by_edge = {_edge(row): row for row in known} | {_edge(row): row for row in read_sheet(given.sheet, given.key)}
    labels = list(by_edge.values())
    labels.sort(key=lambda r: (r["kind"], r["engine"], [str(w) for w in r["where"]]))
    given.labels.write_text(_lines(labels), encoding="utf-8")
    results = json.loads(given.out.read_text(encoding="utf-8"))
    results["read_by_hand"] = precisions(labels)
    for work in given.work:
        if (work / "what.json").exists():
            what = json.loads((work / "what.json").read_text(encoding="utf-8"))
            results.setdefault(what["engine"], {})[what["model"]] = cost(work, given.data, timed=given.timed)
        if (work / "detected.jsonl").exists():
            results["causal_detection_sample"] = detected(work)
        for path in sorted(work.glob("speed-*.json")):
            speed = json.loads(path.read_text(encoding="utf-8"))
            results.setdefault("vllm", {}).setdefault("throughput", {})[path.stem.removeprefix("speed-")] = speed
    valid = schema_valid(results.get("vllm", {}))
    if valid is not None:
        results["vllm"]["schema_valid"] = valid
    given.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return {"read_by_hand": results["read_by_hand"]}


def read_sheet(sheet: Path, key: Path) -> list[Row]:
    """The labels of a sheet that was read."""
    items = json.loads(key.read_text(encoding="utf-8"))
    labels: list[Row] = []
    for line in sheet.read_text(encoding="utf-8").splitlines():
        mark, number = line.split("\t")[:2]
        if mark not in ("0", "1"):
            raise SystemExit(f"Line {number} of the sheet has no label (got '{mark}').")
        item = items[int(number)]
        labels.append({**{k: item[k] for k in ("kind", "engine")}, "where": _named(item), "right": mark == "1"})
    return labels


def _named(item: Row) -> list[Any]:
    """The name under which a label is kept: an entity link by its place in the turn, not by its words."""
    return item["where"] if item["kind"] == "causal" else [*item["where"][:2], _place(item)]


def _edge(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["engine"], *row["where"]


def schema_valid(runs: Row) -> Row | None:
    """Of all windows that vLLM was asked about in runs over conversations, those whose answer is ok or repaired."""
    status: Counter[str] = Counter()
    for run in runs.values():
        # Measurements of speed ask about the same windows again and again, and count apart.
        if isinstance(run, dict) and "sample" in run:
            status.update(run["status"])
    if not status:
        return None
    return share(status["ok"] + status["repaired"], sum(status.values()), "of all windows asked, ok or repaired")


def _place(item: Row) -> int:
    """Where in a turn's text the words of a link stand."""
    text = item["shown"].partition(": ")[2]
    return text.lower().find(item["where"][2].lower())


def _lines(labels: Sequence[Row]) -> str:
    """A JSON list with a line a label."""
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in labels) + "\n]\n"


def precisions(labels: Sequence[Row]) -> Row:
    """Precision with its interval by kind and engine."""
    how = "read as right on a shuffled sheet that names no engine (which conversation a turn is from may give it away)"
    meaning = {"causal": f"of the causal pairs drawn, those {how}", "entity": f"of the entity links drawn, those {how}"}
    made: Row = {}
    for kind, engine in sorted({(row["kind"], row["engine"]) for row in labels}):
        right = [row["right"] for row in labels if (row["kind"], row["engine"]) == (kind, engine)]
        made.setdefault(kind, {})[engine] = share(sum(right), len(right), meaning[kind])
    return made


def cost(work: Path, data: Path, *, timed: bool) -> Row:
    """What a run of a model over a conversation gave and took; seconds only where they say something."""
    what = json.loads((work / "what.json").read_text(encoding="utf-8"))
    extracts = read_parts(work)
    _, tables, dropped = tables_of(work, data)
    status = Counter(extracts["status"].to_pylist())
    chunks = [json.loads(x) for x in (work / "chunks.jsonl").read_text(encoding="utf-8").splitlines()]
    total: Counter[str] = Counter()
    for chunk in chunks:
        total.update({k: v for k, v in chunk.items() if k != "first"})
    seen: set[int] = set()
    for first, last in zip(extracts["first"].to_pylist(), extracts["last"].to_pylist(), strict=True):
        seen.update(range(first, last + 1))
    tokens = total["prompt_tokens"] + total["output_tokens"]
    origin = Counter(row["origin"] for row in tables["mentions"].to_pylist() if row["rule"] != "speaker")
    return {
        "engine": what["engine"],
        "sample": what["sample"],
        "windows": extracts.num_rows,
        "windows_of_the_sample": what["windows"],
        "turns": len(seen),
        "schema_valid": share(
            status["ok"] + status["repaired"],
            extracts.num_rows,
            "of all windows asked, those whose answer is ok or repaired",
        ),
        "status": dict(sorted(status.items())),
        "notes": dict(sorted(_notes(extracts).items())),
        "seconds": round(total["seconds"], 1) if timed else None,
        "seconds_per_turn": round(total["seconds"] / len(seen), 2) if timed else None,
        "prompt_tokens": total["prompt_tokens"],
        "cached_prompt_tokens": total["cached_prompt_tokens"],
        "output_tokens": total["output_tokens"],
        "tokens_per_turn": round(tokens / len(seen), 1),
        "prefix_cache_hit_rate": round(total["cached_prompt_tokens"] / max(total["prompt_tokens"], 1), 4),
        "cut_off_retried": total["cut_off_retried"],
        "causal_edges": tables["edges/causal"].num_rows,
        "entity_links": origin["llm"],
        "dropped": dropped,
    }


def detected(work: Path) -> Row:
    """Detection of causes on the labelled sample, by set."""
    rows = [json.loads(x) for x in (work / "detected.jsonl").read_text(encoding="utf-8").splitlines()]
    made: Row = {"model": json.loads((work / "detect.json").read_text(encoding="utf-8"))["model"]}
    for name in sorted({row["set"] for row in rows}):
        of_set = [row for row in rows if row["set"] == name]
        scores = detection([r["claimed"] for r in of_set], [r["label"] for r in of_set], "pairs")
        told = [r for r in of_set if r["label"] and r["claimed"] and r["way"] is not None]
        right = sum(r["claimed_ways"] == [r["way"]] for r in told)
        made[name] = {
            "pairs": len(of_set),
            "labelled_causal": sum(r["label"] for r in of_set),
            **scores,
            "direction": share(right, len(told), "of the pairs found whose direction is labelled, the right way round"),
            "failed": sum(r["status"] == "failed" for r in of_set),
        }
    return made


def _notes(extracts: pa.Table) -> Counter[str]:
    """How many windows had something to mend, by what it was."""
    notes: Counter[str] = Counter()
    for error in extracts["error"].to_pylist():
        notes.update({note.partition(" (")[0] for note in (error or "").split("; ") if note})
    return notes


def main(arguments: Sequence[str]) -> int:
    """Runs one command; the last line of standard output is its result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["sheet", "report"])
    parser.add_argument("--data", type=Path, required=True, help="folder with locomo/")
    parser.add_argument("--store", type=Path, nargs="+", help="stores of LoCoMo, then of other logs, built by rules")
    parser.add_argument("--work", type=Path, nargs="+", required=True, help="folders of extraction_model.py run")
    parser.add_argument("--sheet", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--labels", type=Path, help="JSON file of labels to write")
    parser.add_argument("--known", action="store_true", help="draw no edge that --labels holds, and keep those labels")
    parser.add_argument("--out", type=Path, help="JSON file of results to add to")
    parser.add_argument("--sample", default="conv-49")
    parser.add_argument("--causal", type=int, default=100)
    parser.add_argument("--entity", type=int, default=100)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--timed", action="store_true", help="the runs had the machine to themselves: publish seconds")
    given = parser.parse_args(arguments)
    result = {"sheet": sheet, "report": report}[given.command](given)
    print(json.dumps(result, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

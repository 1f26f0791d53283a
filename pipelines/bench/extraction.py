"""Measures the rules of stage extract on labelled data: causal cues, nicknames of speakers, and speed.

    python pipelines/bench/extraction.py --data ../shared/data --out docs/results/extraction.json

It trains and tunes nothing. The rules were written with the training parts of SemEval-2010 task 8 and
CausalNewsCorpus and with five of the ten LoCoMo conversations in view; what is scored here as causal is the
test and development parts.
"""

import argparse
import csv
import json
import math
import platform
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from magma_gpu.config import ExtractConfig, ResolveConfig
from magma_gpu.entities import resolve_shard
from magma_gpu.extract import RulesExtractor, extract_shard
from magma_gpu.extract.causes import CausalCue, Span, find_causal
from magma_gpu.extract.rules import link_causes
from magma_gpu.schema import TABLES

NICKNAMES = Path(__file__).resolve().parents[2] / "tests" / "extract" / "locomo_nicknames.json"
# Samples that were read while the rules were written.
SEEN_SAMPLES = ("conv-26", "conv-30", "conv-41", "conv-42", "conv-43")


def share(hits: int, n: int, meaning: str) -> dict[str, Any]:
    """Returns a share with its 95 % Wilson interval; null where n is 0."""
    if n == 0:
        return {"value": None, "n": 0, "low": None, "high": None, "meaning": meaning}
    z, p = 1.959964, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = middle - half, middle + half
    return {
        "value": round(p, 4),
        "n": n,
        "low": round(max(low, 0.0), 4),
        "high": round(min(high, 1.0), 4),
        "meaning": meaning,
    }


def detection(claimed: Sequence[bool], gold: Sequence[bool], unit: str) -> dict[str, Any]:
    """Returns precision, recall and F1 of a yes or no a sentence."""
    hits = sum(c and g for c, g in zip(claimed, gold, strict=True))
    precision = share(hits, sum(claimed), f"of the {unit} called causal, those labelled so")
    recall = share(hits, sum(gold), f"of the {unit} labelled causal, those found")
    both = sum(claimed) + sum(gold)
    return {"precision": precision, "recall": recall, "f1": round(2 * hits / both, 4) if both else None}


def semeval(folder: Path) -> tuple[dict[str, Any], tuple[int, int]]:
    """Scores the test split of SemEval-2010 task 8; also returns the checked pairs, right and all."""
    lines = (folder / "causal" / "semeval2010_t8.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == "test"]
    cues = find_causal([row["text"] for row in rows])
    gold = [bool(row["causal"]) for row in rows]
    right = wrong_way = other = 0
    for row, found in zip(rows, cues, strict=True):
        pair = next(filter(None, (_pair(row, cue) for cue in found)), None)
        if pair is None:
            continue
        if row["causal"]:
            right += pair == (row["cause"], row["effect"])
            wrong_way += pair != (row["cause"], row["effect"])
        else:
            other += 1
    pairs = right + wrong_way + other
    return {
        "sentences": detection([bool(found) for found in cues], gold, "sentences"),
        "pairs": {
            "precision": share(
                right, pairs, "of the marked pairs on the two sides of a cue, Cause-Effect in this direction"
            ),
            "recall": share(right, sum(gold), "of the Cause-Effect pairs, those found with their direction"),
            "direction": share(right, right + wrong_way, "of the Cause-Effect pairs found, the right way round"),
        },
    }, (right, pairs)


def _pair(row: dict[str, Any], cue: CausalCue) -> tuple[str, str] | None:
    def holds(span: Span | None, word: str) -> bool:
        if span is None:
            return False
        return re.search(rf"\b{re.escape(word)}\b", row["text"][span[0] : span[1]]) is not None

    one, two = row["e1"], row["e2"]
    if holds(cue.cause, one) and holds(cue.effect, two):
        return one, two
    return (two, one) if holds(cue.cause, two) and holds(cue.effect, one) else None


def causal_news(folder: Path) -> tuple[dict[str, Any], tuple[int, int]]:
    """Scores the development part of CausalNewsCorpus; also returns sentences with a cue, right and all."""
    path = folder / "causal" / "cnc_v2_dev_subtask1.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    # The corpus puts spaces before its punctuation.
    texts = [re.sub(r" (?=[,.])", "", row["text"]).replace(" ’ s", "’s") for row in rows]
    claimed = [bool(found) for found in find_causal(texts)]
    gold = [row["label"] == "1" for row in rows]
    right = sum(c and g for c, g in zip(claimed, gold, strict=True))
    return {"sentences": detection(claimed, gold, "sentences")}, (right, sum(claimed))


def cicero_pairs(folder: Path) -> list[tuple[str, list[str], bool, str]]:
    """The questions of CICERO (validation) about causes: id, [a choice, the target turn], whether the choice is right,
    and the question's number. One right and one wrong choice a question, where it has both."""
    lines = (folder / "causal" / "cicero_v2_val.json").read_text(encoding="utf-8").splitlines()
    pairs = []
    for number, row in enumerate(map(json.loads, lines)):
        if "cause" not in row["Question"].lower():
            continue
        right = {int(at) for at in row["Correct Answers"]}
        wrong = sorted(set(range(len(row["Choices"]))) - right)
        for label, at in ((True, min(right)), (False, wrong[0] if wrong else None)):
            if at is not None:
                pairs.append((row["ID"], [row["Choices"][at], row["Target"]], label, str(number)))
    return pairs


def cicero(folder: Path) -> dict[str, Any]:
    """Scores pairs of CICERO: the rules see a choice and, after it, the turn that it may have caused."""
    pairs = cicero_pairs(folder)
    claimed = [bool(link_causes(texts)) for _, texts, _, _ in pairs]
    return {"pairs": detection(claimed, [label for *_, label, _ in pairs], "pairs")}


def locomo_events(folder: Path) -> pa.Table:
    """Returns table `events` of the ten LoCoMo conversations, one memory each."""
    rows = []
    for sample in json.loads((folder / "locomo" / "locomo10.json").read_text(encoding="utf-8")):
        talk = sample["conversation"]
        sessions = sorted((k for k, v in talk.items() if isinstance(v, list)), key=lambda k: int(k.split("_")[1]))
        turns = [(session, turn) for session in sessions for turn in talk[session]]
        for position, (session, turn) in enumerate(turns):
            row = dict.fromkeys(TABLES["events"].names)
            row.update(
                memory_id=sample["sample_id"],
                event_id=f"{sample['sample_id']} {turn['dia_id']}",
                session_id=session,
                turn_id=turn["dia_id"],
                position=position,
                part=0,
                speaker=turn["speaker"],
                role="user",
                text=turn["text"],
                time_source="missing",
                zone_source="missing",
                source="locomo10.json",
                seq=position,
            )
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=TABLES["events"])


def nicknames(events: pa.Table, tables: dict[str, pa.Table]) -> dict[str, Any]:
    """Scores short forms of speakers' names against the labelled list.

    The list (sample, short form, speaker, turn ids) was made by listing every capitalised word that is not a
    speaker's whole name and begins like one, or is addressed, and reading each where it stands.
    """
    labels = json.loads(NICKNAMES.read_text(encoding="utf-8"))
    name = dict(zip(tables["entities"]["entity_id"].to_pylist(), tables["entities"]["name"].to_pylist(), strict=True))
    found = {(row["event_id"], row["surface"]): name[row["entity_id"]] for row in tables["mentions"].to_pylist()}
    wanted = {
        (sample, f"{sample} {turn}", short): entry["speaker"]
        for sample, forms in labels.items()
        for short, entry in forms.items()
        for turn in entry["turns"]
    }
    known = set(events["event_id"].to_pylist())
    assert all(event_id in known for _, event_id, _ in wanted)

    def score(keys: Iterable[tuple[str, str, str]], meaning: str) -> dict[str, Any]:
        right = [found.get((event_id, short)) == wanted[sample, event_id, short] for sample, event_id, short in keys]
        return share(sum(right), len(right), meaning)

    listed = {(event_id, short) for _, event_id, short in wanted}
    merged = [
        (row["event_id"], row["surface"])
        for row in tables["mentions"].to_pylist()
        if row["rule"] == "nickname of a speaker"
    ]
    return {
        "resolved": score(wanted, "of all short forms in the list, those that are the speaker's entity"),
        "resolved_unseen": score(
            [key for key in wanted if key[0] not in SEEN_SAMPLES], "the same in conversations not read before"
        ),
        "precision": share(
            sum(pair in listed for pair in merged),
            len(merged),
            "of all merges as a speaker's nickname, those listed",
        ),
    }


def main(arguments: Sequence[str]) -> int:
    """Runs all measurements and writes them as JSON; the last line of standard output is the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with causal/ and locomo/")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    given = parser.parse_args(arguments)
    on_semeval, pairs = semeval(given.data)
    on_news, sentences = causal_news(given.data)
    events = locomo_events(given.data)
    start = time.process_time()
    extracts = extract_shard(events, RulesExtractor(), ExtractConfig())
    between = time.process_time()
    tables, dropped = resolve_shard(events, extracts, ResolveConfig())
    end = time.process_time()
    result = {
        "rules": {
            "version": RulesExtractor.version,
            "causal_precision_explicit": share(
                pairs[0] + sentences[0],
                pairs[1] + sentences[1],
                "of what an explicit cue claims, what the labels confirm: SemEval test pairs on the two sides of "
                "a cue, and CausalNewsCorpus development sentences with a cue",
            ),
            "semeval2010_task8_test": on_semeval,
            "causal_news_corpus_v2_dev": on_news,
            "cicero_v2_val": cicero(given.data),
            "locomo_nicknames": nicknames(events, tables),
            "locomo_tables": {name: table.num_rows for name, table in tables.items()} | {"dropped": dropped},
            "extract_turns_per_cpu_s": round(events.num_rows / (between - start)),
            "resolve_turns_per_cpu_s": round(events.num_rows / (end - between)),
        },
        "machine": {"processor": platform.machine(), "python": platform.python_version(), "processes": 1},
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    # What models gave stands in the same file and is measured by other scripts.
    before = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    result = {**before, **result}
    given.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(result, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

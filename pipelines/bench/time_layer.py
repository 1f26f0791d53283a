"""Measures the time layer and writes `docs/results/time_layer.json`.

    python pipelines/bench/time_layer.py --data FOLDER --out FILE

FOLDER holds `temporal/recognizers_<language>.jsonl` and `locomo/`. It prints a table, and one JSON document as the
last line. What a reader would not guess: dateparser, where it is installed, is measured in the same run on the same
texts; it returns moments, so it can only be right on dates, times and instants.
"""

import argparse
import json
import platform
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from magma_gpu.timex import tag
from time_layer_locomo import locomo_turns, score_category_2
from time_layer_sample import LABELS, summary
from time_layer_specs import EPOCH, STAND_IN, Found, Spec, read_specs, score, tagged

LANGUAGES = ("en", "es", "fr", "de", "zh", "ja")


def by_dateparser(specs: list[Spec], language: str) -> list[list[Found]]:
    """Finds the dates of texts with dateparser.

    Raises:
        ImportError: dateparser is not installed.
    """
    from dateparser.search import search_dates

    founds = []
    for spec in specs:
        reference = STAND_IN if spec.reference is None else spec.reference
        settings = {"RELATIVE_BASE": EPOCH + timedelta(microseconds=reference)}
        found: list[Found] = []
        at = 0
        for text, moment in search_dates(spec.text, languages=[language], settings=settings) or []:
            first = spec.text.find(text, at)
            if first >= 0:
                at = first + len(text)
                found.append(Found(first, at, moment.replace(tzinfo=None), None))
        founds.append(found)
    return founds


def turns_a_second(folder: Path) -> float:
    """Times the tagger over all turns of LoCoMo on one core."""
    samples = json.loads((folder / "locomo/locomo10.json").read_text(encoding="utf-8"))
    turns = [turn for sample in samples for _, turn in locomo_turns(sample)]
    tag([turns[0][0]], [turns[0][1]])
    start = time.perf_counter()
    tag([text for text, _ in turns], [at for _, at in turns])
    return round(len(turns) / (time.perf_counter() - start), 1)


def measure(folder: Path, *, beside: bool) -> dict[str, Any]:
    """Runs every measurement.

    Args:
        folder: the data.
        beside: whether dateparser is measured too.
    """
    result: dict[str, Any] = {"machine": f"{platform.machine()}, Python {platform.python_version()}, one core"}
    for language in LANGUAGES:
        entry: dict[str, Any] = {}
        for half, held_out in (("held_out", True), ("dev", False)):
            specs = read_specs(folder, language, held_out=held_out)
            entry[half] = score(specs, tagged(specs))
            if beside and held_out:
                entry["dateparser_held_out"] = score(specs, by_dateparser(specs, language))
        result[f"recognizers_{language}"] = entry
    english = result["recognizers_en"]
    result["recognizers_en_negatives"] = {
        "n": english["dev"]["negatives"] + english["held_out"]["negatives"],
        "clean": english["dev"]["negatives_clean"] + english["held_out"]["negatives_clean"],
    }
    result["locomo_category_2"] = score_category_2(folder)
    if LABELS.exists():
        result["locomo_read_by_hand"] = summary(folder, json.loads(LABELS.read_text(encoding="utf-8"))["labels"])
    result["locomo_turns_a_second"] = turns_a_second(folder)
    return result


def print_table(result: dict[str, Any]) -> None:
    """Prints the figures that matter."""
    print(
        f"{'half never looked at':22} {'texts':>6} {'golds':>6} {'span F1':>8} {'exact':>7} {'value':>7} {'strict':>7}"
    )
    for language in LANGUAGES:
        for key, name in (("held_out", language), ("dateparser_held_out", f"  dateparser {language}")):
            row = result[f"recognizers_{language}"].get(key)
            if row is not None:
                print(
                    f"{name:22} {row['texts']:6} {row['golds']:6} {row['span_f1']:8.3f} {row['exact_f1']:7.3f} "
                    f"{row['value']:7.3f} {row['value_strict']:7.3f}"
                )
    for kind, row in result["recognizers_en"]["held_out"]["by_kind"].items():
        print(f"  en {kind:18} n {row['n']:4}  found {row['found']:.3f}  value {row['value']:.3f}")
    negatives = result["recognizers_en_negatives"]
    print(f"English texts without a time: {negatives['clean']} of {negatives['n']} stay empty")
    locomo = result["locomo_category_2"]
    print("LoCoMo category 2:", ", ".join(f"{k} {v}" for k, v in locomo.items() if k != "counted_as"))
    if "locomo_read_by_hand" in result:
        print(
            "LoCoMo, read by hand:",
            ", ".join(f"{k} {v}" for k, v in result["locomo_read_by_hand"].items() if k != "labels"),
        )
    print(f"LoCoMo turns a second: {result['locomo_turns_a_second']}")


def main() -> None:
    """Reads the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(description="Measures the time layer.")
    parser.add_argument("--data", type=Path, required=True, help="folder with temporal/ and locomo/")
    parser.add_argument("--out", type=Path, default=Path("docs/results/time_layer.json"))
    parser.add_argument("--no-dateparser", action="store_true", help="leave the comparison out")
    arguments = parser.parse_args()
    result = measure(arguments.data, beside=not arguments.no_dateparser)
    print_table(result)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()

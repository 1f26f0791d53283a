"""The intent classifier on questions that it was not fitted on.

    python pipelines/bench/intent_transfer.py --data FOLDER --out docs/results/intent.json

FOLDER holds `intent/trec_5500_intent.jsonl` (text, intent; its `other` is our `open`) and `locomo/locomo10.json`.
LoCoMo's category 2: questions that ask when, how long or what date should go to `when`; of the others, those that name
a date and ask something else should have a time window. The last line of standard output is one JSON document.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magma_gpu.config import Config
from magma_gpu.embed import load_encoder
from magma_gpu.intent import load_classifier, report
from magma_gpu.timex import windows
from magma_gpu.types import INTENTS

_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bhow long\b|\b(what|which) (date|day|month|year|time|week)\b|\bhow many (days|weeks|months|years)\b",
    re.I,
)
# Some of the others name no date at all ("Which city was John in before traveling to Chicago?").
_NAMES_DATE = re.compile(
    r"\d|\b(march|april|may|june|july|august|september|october|november|"
    r"december|january|february|spring|summer|autumn|fall|winter|week|weekend|month|year|yesterday|today)\b",
    re.I,
)
# Any moment after LoCoMo's conversations: 1 January 2024.
_AFTER = 1_704_067_200_000_000


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    encoder = load_encoder(Config().embed, "cpu")
    classifier = load_classifier()
    rows = [
        json.loads(line)
        for line in (args.data / "intent/trec_5500_intent.jsonl").read_text("utf-8").split("\n")
        if line
    ]
    texts = [r["text"] for r in rows]
    target = np.array([INTENTS.index("open" if r["intent"] == "other" else r["intent"]) for r in rows])
    document: dict[str, Any] = {"trec": {}}
    identity = str(encoder.identity["sha256"])
    for name, vectors in (("with_vector", encoder.encode(texts).x_ND), ("words_only", None)):
        document["trec"][name] = report(classifier.probabilities(texts, vectors, identity), target)
    samples = json.loads((args.data / "locomo/locomo10.json").read_text("utf-8"))
    asked = [q["question"] for s in samples for q in s["qa"] if q["category"] == 2]
    p = classifier.probabilities(asked, encoder.encode(asked).x_ND, identity)
    when = np.array([bool(_ASKS_WHEN.search(q)) for q in asked])
    to_when = p.argmax(axis=1) == INTENTS.index("when")
    dated = ~when & np.array([bool(_NAMES_DATE.search(q)) for q in asked])
    found = np.array([w is not None for w in windows(asked, [_AFTER] * len(asked))])
    document["locomo_category_2"] = {
        "asks_when": {"n": int(when.sum()), "routed_to_when": round(float(to_when[when].mean()), 4)},
        "asks_something_else": {
            "n": int((~when).sum()),
            "window_found": round(float(found[~when].mean()), 4),
            "names_a_date": {"n": int(dated.sum()), "window_found": round(float(found[dated].mean()), 4)},
        },
    }
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

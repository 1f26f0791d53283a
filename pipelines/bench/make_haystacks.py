"""Makes haystacks in LongMemEval's schema out of data at hand: a question's own sessions among sessions of others.

    python pipelines/bench/make_haystacks.py --questions lme_evidence_turns_500.json --filler locomo10.json \
        --sessions 50 --out madeup_haystacks_50.json

It is NOT LongMemEval: the filler is not the published one, and scores do not compare with published ones. So every
question id begins with `madeup-` and the file's name must not look like a published set's. Questions come from a file
in the official schema; filler sessions from its other questions and, with --filler, from LoCoMo files. They are dated
before, between and after the question's own sessions. The file is written item by item; the same arguments give the
same bytes.
"""

import argparse
import datetime
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from magma_gpu.evaluate.steps import file_hash

_PUBLISHED = re.compile(r"longmemeval[_-]?(?:s|m|oracle)\b|longmemeval_[sm]_cleaned", re.IGNORECASE)
_DATE = "%Y/%m/%d (%a) %H:%M"

# Turns of one session.
Session = list[dict[str, Any]]


def question_sessions(items: Sequence[dict[str, Any]]) -> dict[str, list[Session]]:
    """The sessions of each question, as messages without the mark of evidence."""
    return {
        item["question_id"]: [
            [{"role": m["role"], "content": m["content"]} for m in session] for session in item["haystack_sessions"]
        ]
        for item in items
    }


def locomo_sessions(path: Path) -> list[Session]:
    """The sessions of a LoCoMo file as chats of a user and an assistant."""
    made = []
    for sample in json.loads(path.read_text(encoding="utf-8")):
        conversation = sample["conversation"]
        numbers = sorted(int(m[1]) for key in conversation if (m := re.fullmatch(r"session_(\d+)", key)))
        for number in numbers:
            turns = conversation[f"session_{number}"]
            first = turns[0]["speaker"] if turns else ""
            made.append(
                [
                    {
                        "role": "user" if t["speaker"] == first else "assistant",
                        "content": f"{t['speaker']}: {t['text']}",
                    }
                    for t in turns
                ]
            )
    return made


def haystacks(
    items: Sequence[dict[str, Any]], filler: Sequence[Session], num_sessions: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Yields the questions with their haystacks.

    Args:
        items: in the official schema; their own sessions stay, with dates and marks of evidence.
        filler: sessions that are nobody's evidence; those of other questions are added.
        num_sessions: sessions of a haystack, the question's own among them.
    """
    own = question_sessions(items)
    for item in items:
        # Of the question alone: a slice of the questions has the same haystacks.
        rng = random.Random(f"{seed}:{item['question_id']}")  # noqa: S311 (no secret)
        others = [s for other, sessions in own.items() if other != item["question_id"] for s in sessions]
        pool = [*filler, *others]
        wanted = max(0, num_sessions - len(item["haystack_sessions"]))
        chosen = rng.sample(range(len(pool)), min(wanted, len(pool)))
        entries = list(
            zip(item["haystack_session_ids"], item["haystack_dates"], item["haystack_sessions"], strict=True)
        )
        gaps = _gaps(item)
        for place in chosen:
            first, last = rng.choice(gaps)
            date = first + datetime.timedelta(minutes=rng.randrange(int((last - first).total_seconds()) // 60))
            entries.append((f"filler-{place}", date.strftime(_DATE), pool[place]))
        entries.sort(key=lambda e: (_parsed(e[1]), e[0]))
        kept = {k: item[k] for k in ("question_type", "question", "answer", "question_date") if k in item}
        yield {
            "question_id": f"madeup-{item['question_id']}",
            **kept,
            "haystack_session_ids": [e[0] for e in entries],
            "haystack_dates": [e[1] for e in entries],
            "haystack_sessions": [e[2] for e in entries],
            "answer_session_ids": list(item["haystack_session_ids"]),
        }


def _parsed(date: str) -> datetime.datetime:
    return datetime.datetime.strptime(re.sub(r"\s*\([^)]*\)", "", date), "%Y/%m/%d %H:%M")


def _gaps(item: dict[str, Any]) -> list[tuple[datetime.datetime, datetime.datetime]]:
    """Stretches of time between a question's own sessions, a month before them, and until the question.

    Filler lies in each of them alike, so that how recent a session is says nothing about whether it holds evidence. It
    is later than the question only where the question's own sessions are, as some of the published ones.
    """
    own = sorted(map(_parsed, item["haystack_dates"]))
    asked = _parsed(item["question_date"]) if item.get("question_date") else None
    first = min([d for d in (*own[:1], asked) if d is not None], default=datetime.datetime(2023, 6, 1))
    marks = [first - datetime.timedelta(days=30), first, *own, *([] if asked is None else [asked])]
    return [(a, b) for a, b in itertools.pairwise(sorted(marks)) if (b - a).total_seconds() >= 60]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=Path, required=True, help="in LongMemEval's schema")
    parser.add_argument("--filler", type=Path, action="append", default=[], help="LoCoMo files whose sessions fill up")
    parser.add_argument("--sessions", type=int, default=50, help="of one haystack")
    parser.add_argument("--limit", type=int, help="the first so many questions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    if _PUBLISHED.search(args.out.name):
        print(f"'{args.out.name}' looks like a published set; give the file another name.", file=sys.stderr)
        return 2
    items = json.loads(args.questions.read_text(encoding="utf-8"))
    filler = [session for path in args.filler for session in locomo_sessions(path)]
    counts = {"questions": 0, "sessions": 0, "turns": 0, "characters": 0}
    temporary = args.out.with_name(f".{args.out.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, made in enumerate(haystacks(items, filler, args.sessions, args.seed)):
            if args.limit is not None and number >= args.limit:
                break
            file.write((",\n" if number else "\n") + json.dumps(made, ensure_ascii=False))
            counts["questions"] += 1
            counts["sessions"] += len(made["haystack_sessions"])
            counts["turns"] += sum(map(len, made["haystack_sessions"]))
            counts["characters"] += sum(len(m["content"]) for s in made["haystack_sessions"] for m in s)
        file.write("\n]\n")
    temporary.replace(args.out)
    print(json.dumps({"file": args.out.name, "sha256": file_hash(args.out), "seed": args.seed, **counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

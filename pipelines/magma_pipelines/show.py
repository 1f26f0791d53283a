"""Results as people read them on a terminal; every function takes the JSON document of a command and returns text."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from magma_gpu.types import INTENTS

_SIGNAL_WORDS = {
    "dense": "meaning",
    "dense_window": "meaning of the passage",
    "lexical": "words",
    "lexical_window": "words of the passage",
    "time": "time",
}


def table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
    """Columns padded to their widest cell; numbers to the right."""
    cells = [[str(c) for c in header], *([("" if c is None else str(c)) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    numeric = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(header))]
    lines = []
    for row in cells:
        parts = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)]
        lines.append("  ".join(parts).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def build_report(report: Mapping[str, Any], out: object) -> str:
    """What a build did, in a few lines."""
    turns = report["turns"]
    lines = [
        f"{_many(turns['in'], 'turn')} in = {turns['new']} new + {turns['unchanged']} unchanged + "
        f"{turns['duplicates']} duplicates + {turns['rejected']} rejected"
    ]
    formats = Counter(report["formats"].values())
    if formats:
        files = ", ".join(f"{name} ({count} {'file' if count == 1 else 'files'})" for name, count in formats.items())
        lines.append(f"  read as {files}")
    lines += [f"  rejected: {count} x {reason}" for reason, count in report["rejected_by_reason"].items()]
    if report["unreadable_times"]:
        lines.append(
            f"  {report['unreadable_times']} times could not be read; those turns are placed by their neighbours"
        )
    lines += [f"repaired: {sentence}" for sentence in report["repaired"]]
    for name, stage in report["stages"].items():
        if stage["shards"]:
            unit = "piece" if name == "read" else "shard"
            lines.append(f"{name:8} {_many(stage['shards'], unit)} in {stage['seconds']:.1f} s{_notes(stage)}")
    for name, figure in (report.get("estimate") or {}).items():
        off = "" if figure["off"] is None else f" ({figure['off']:+.0%})"
        lines.append(f"estimated {name.replace('_', ' ')}: {figure['estimated']:,}, it was {figure['was']:,}{off}")
    if not report["changed"]:
        lines.append(f"Nothing to do: {out} is up to date.")
    else:
        loading = sum(stage["load_seconds"] for stage in report["stages"].values())
        lines.append(f"{out} is ready after {report['seconds']:.1f} s ({loading:.1f} s of it loaded models).")
        if report["stages"].get("link", {}).get("shards"):
            lines.append(f'Next: magma-gpu query {out} "..." --memory ID (magma-gpu memories {out} lists the memories)')
    return "\n".join(lines)


def estimate(document: Mapping[str, Any]) -> str:
    """What a build would take."""
    sample = document["sample"]
    seconds = ", ".join(f"{name} {value:,.1f}" for name, value in document["seconds_by_stage"].items())
    return "\n".join(
        [
            f"about {document['turns']:,} turns and {document['tokens']:,} tokens to embed",
            f"about {document['seconds']:,.0f} s with {document['num_workers']} workers ({seconds})",
            f"about {document['bytes'] / 1e6:,.1f} MB of disk while building, {document['bytes_of_store'] / 1e6:,.1f} "
            f"MB in the end ({document['bytes_free'] / 1e6:,.0f} MB are free)",
            f"from a sample of {sample['bytes']:,} bytes; {sample['turns_through_all_stages']:,} turns went through "
            "all stages",
        ]
    )


def _notes(stage: Mapping[str, Any]) -> str:
    notes = [
        f"{stage[key]} {word}"
        for key, word in (
            ("encoded", "texts encoded"),
            ("reused", "vectors used again"),
            ("truncated", "texts cut to the encoder's window"),
            ("failed_vectors", "texts without a vector"),
            ("windows_reused", "windows used again"),
            ("windows_failed", "windows failed"),
        )
        if stage.get(key)
    ]
    return f" ({', '.join(notes)})" if notes else ""


def result(found: Any, width: int | None = None) -> str:
    """One question's evidence: time, speaker, words, and in a line why it is there.

    Args:
        width: columns that words are folded to; None leaves an event on one line.
    """
    document = found.to_json()
    likely = sorted(INTENTS, key=lambda name: -document["intent"][name])
    intent = ", ".join(f"{name} {document['intent'][name]:.2f}" for name in likely if document["intent"][name] > 0.005)
    lines = [document["question"], f"intent: {intent}"]
    if document["window"]:
        lines.append(f"time asked about: {document['window'][0] or 'any'} to {document['window'][1] or 'any'}")
    if document["missing"]:
        lines.append(f"not made yet: {', '.join(document['missing'])} edges (run build again without --until)")
    if not document["evidence"]:
        lines.append("Nothing in this memory fits.")
    for rank, e in enumerate(document["evidence"], 1):
        when = e["time"][:16].replace("T", " ") if e["time"] else "no time"
        lines += _folded(f"{rank:3}. {when}  {e['speaker']}: {' '.join(e['text'].split())}", width)
        lines += _folded(f"     [{e['turn_id']}] {why(e)}", width)
    lines.append(f"({document['context_tokens']} tokens of context)")
    return "\n".join(lines)


def _folded(line: str, width: int | None) -> list[str]:
    if width is None or len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.lstrip(), max(width, 40), initial_indent=indent, subsequent_indent=" " * 5, break_on_hyphens=False
    )


def why(evidence: Mapping[str, Any]) -> str:
    """Why an event is there: its ranks by the signals that found it, and the way it was reached."""
    signals = ", ".join(f"{_SIGNAL_WORDS[name]} #{rank}" for name, rank in evidence["signals"].items())
    parts = [f"score {evidence['score']:.2f}", signals or "no signal of its own"]
    if evidence["path"]:
        steps = "".join(f"{s['label']} -{s['edge_type']}-> " for s in evidence["path"])
        parts.append(f"path {steps}here")
    return "; ".join(parts)


def memories(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a memory."""
    cells = [
        (
            r["memory_id"],
            r["num_sessions"],
            r["num_turns"],
            (r["first_time"] or "")[:10],
            (r["last_time"] or "")[:10],
        )
        for r in rows
    ]
    return table(cells, ("memory", "sessions", "turns", "first", "last"))


def exported(document: Mapping[str, Any]) -> str:
    """What an export holds and where to read on."""
    nodes = ", ".join(f"{n} {name}" for name, n in document["nodes"].items())
    edges = ", ".join(f"{n} {name}" for name, n in document["edges"].items())
    return (
        f"{_many(document['memories'], 'memory')} in {_many(document['files'], 'file')} "
        f"({document['bytes'] / 1e6:.1f} MB)\n"
        f"nodes: {nodes}\nedges: {edges}\n{document['path']}/README.md says how to open them."
    )


def explored(document: Mapping[str, Any]) -> str:
    """Where the page is and what it shows."""
    return (
        f"{document['file']} shows memory '{document['memory_id']}': {_many(document['events'], 'event')}, "
        f"{_many(document['entities'], 'entity')}, {_many(document['edges'], 'edge')}, "
        f"{_many(document['questions'], 'question')} ({document['bytes'] / 1e6:.1f} MB). "
        "Open it in a browser; it needs no network."
    )


def answered(document: Mapping[str, Any], path: object) -> str:
    """How many questions were answered, and where the answers are."""
    text = f"{document['answered']} questions answered, {document['abstained']} not (no evidence); answers: {path}"
    if document["failed"]:
        text += f"\n{document['failed']} failed; their rows say why"
    if document["written_back"]:
        text += f"\n{document['written_back']} turns written back"
    return text


def benched(document: Mapping[str, Any], out: object) -> str:
    """Recall of each system with its interval, and where the report is."""
    q = document["questions"]
    rows = []
    for name, system in document["systems"].items():
        overall = system["metrics"]["original"]["overall"]
        metrics = ("turn_recall@5", "turn_recall@20", "turn_all@20", "turn_mrr", "f1", "abstention")
        rows.append((name, *(_share(overall.get(m)) for m in metrics), system["latency_ms"]["p50"]))
    return "\n".join(
        [
            f"{document['benchmark']}: {q['n']} questions, {q['with_evidence']} with evidence (per cent [95 %])",
            table(rows, ("system", "recall@5", "recall@20", "all@20", "MRR", "F1", "abstention", "ms")),
            f"The report is {out}/report.html; report.json has every metric with n and intervals.",
        ]
    )


def _share(found: Mapping[str, Any] | None) -> str:
    if not found or found["value"] is None:
        return "-"
    clustered = found["low_clustered"] is not None
    low, high = (found["low_clustered"], found["high_clustered"]) if clustered else (found["low"], found["high"])
    return f"{100 * found['value']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


_COMPARED = ("turn_recall@5", "turn_recall@20", "turn_mrr", "session_recall@5", "f1", "same", "judge_strict")


def compared(document: Mapping[str, Any]) -> str:
    """Differences, second minus first, in points."""
    lines = [f"{document['second']} minus {document['first']}, {document['gold']} gold, in points"]
    for pair in document["pairs"]:
        rows = []
        for group, metrics in pair["metrics"].items():
            for name in (
                "turn_recall@5",
                "turn_recall@20",
                "turn_mrr",
                "session_recall@5",
                "f1",
                "same",
                "judge_strict",
            ):
                found = metrics.get(name)
                if not found or found["estimate"]["value"] is None:
                    continue
                e = found["estimate"]
                span = f"[{100 * e['low']:+.1f}, {100 * e['high']:+.1f}]"
                p = "" if found["p_clustered"] is None else f"{found['p_clustered']:.4f}"
                wins = f"{found['wins']}/{found['losses']}"
                rows.append((group, name, e["n"], f"{100 * e['value']:+.1f}", span, f"{found['p']:.4f}", p, wins))
        lines.append(f"{pair['first']} -> {pair['second']}, {pair['questions']} questions")
        lines.append(table(rows, ("group", "metric", "n", "diff", "95 %", "p", "p clustered", "better/worse")))
    return "\n".join(lines)


def status(document: Mapping[str, Any]) -> str:
    """Stages as a table, then failures and the last run."""
    cells = [
        (s["stage"], s["done"], s["missing"], s["failed"], _holds(s["tables"]), s["model"] or "")
        for s in document["stages"]
    ]
    lines = [
        f"{document['store']}: {_many(document['memories'], 'memory')}, {_many(document['turns'], 'turn')}, "
        f"{_many(document['shards'], 'shard')}",
        table(cells, ("stage", "shards done", "missing", "failed", "rows", "model")),
    ]
    lines += [
        f"{s['stage']} has failed for {', '.join(s['failed_shards'])}: see {document['store']}/failed/{s['stage']}"
        for s in document["stages"]
        if s["failed"]
    ]
    if document["building"]:
        lines.append("An unfinished build is here; run build again to finish it.")
    if document["last_run"]:
        turns = document["last_run"]["turns"]
        lines.append(
            f"last run: {_many(turns['in'], 'turn')} in, {turns['new']} new, {turns['rejected']} rejected, "
            f"{document['last_run']['seconds']:.1f} s"
        )
    return "\n".join(lines)


def _many(count: int, name: str) -> str:
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{count:,} {name if count == 1 else plural}"


def _holds(tables: Mapping[str, int]) -> str:
    """Rows of a stage's tables in one line, those without rows left out."""

    def one(name: str) -> str:
        if name.startswith("edges/"):
            return f"{name.removeprefix('edges/')} edge"
        return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")

    return ", ".join(_many(rows, one(name)) for name, rows in tables.items() if rows)


def verified(document: Mapping[str, Any]) -> str:
    """Clean, or every problem."""
    head = f"{document['files']} files, {document['rows']} rows, {document['memories']} memories checked: "
    if document["clean"]:
        return head + "clean"
    return "\n".join([head + f"{len(document['problems'])} problems", *(f"  {p}" for p in document["problems"])])


def doctor(document: Mapping[str, Any]) -> str:
    """Packages, devices and kernels as tables, then what is missing for what."""
    lines = [
        f"Python {document['python']} on {document['platform']}; device: {document['device']}",
        table(
            [(p["package"], p["version"] or "not installed", p["for"]) for p in document["packages"]],
            ("package", "version", "for"),
        ),
        table(
            [(k["kernel"], k["implementation"], k["reason"]) for k in document["kernels"]],
            ("kernel", "implementation", "because"),
        ),
    ]
    lines += [f"missing: {m}" for m in document["missing"]]
    if not document["missing"]:
        lines.append("Nothing is missing for builds and questions on this machine.")
    return "\n\n".join(lines)

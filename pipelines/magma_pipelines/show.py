"""Results as people read them on a terminal; every function takes the JSON document of a command and returns text."""

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
        f"{turns['in']} turns in = {turns['new']} new + {turns['unchanged']} unchanged + "
        f"{turns['duplicates']} duplicates + {turns['rejected']} rejected"
    ]
    lines += [f"  rejected: {count} x {reason}" for reason, count in report["rejected_by_reason"].items()]
    if report["unreadable_times"]:
        lines.append(
            f"  {report['unreadable_times']} times could not be read; those turns are placed by their neighbours"
        )
    for name, stage in report["stages"].items():
        if stage["shards"]:
            lines.append(f"{name:8} {stage['shards']} shards in {stage['seconds']:.1f} s{_notes(stage)}")
    if not report["changed"]:
        lines.append(f"Nothing to do: {out} is up to date.")
    else:
        lines.append(f"{out} is ready after {report['seconds']:.1f} s.")
    return "\n".join(lines)


def _notes(stage: Mapping[str, Any]) -> str:
    notes = [
        f"{stage[key]} {word}"
        for key, word in (
            ("encoded", "texts encoded"),
            ("reused", "vectors used again"),
            ("truncated", "texts cut to the encoder's window"),
            ("failed_vectors", "texts without a vector"),
            ("windows_failed", "windows failed"),
        )
        if stage.get(key)
    ]
    return f" ({', '.join(notes)})" if notes else ""


def result(found: Any) -> str:
    """One question's evidence: time, speaker, words, and in a line why it is there."""
    document = found.to_json()
    ids = {e["event_id"]: e["turn_id"] for e in document["evidence"]}
    intent = ", ".join(f"{name} {document['intent'][name]:.2f}" for name in INTENTS)
    lines = [document["question"], f"intent: {intent}"]
    if document["window"]:
        lines.append(f"time asked about: {document['window'][0] or 'any'} to {document['window'][1] or 'any'}")
    if document["missing"]:
        lines.append(f"not made yet: {', '.join(document['missing'])} edges (run build again without --until)")
    if not document["evidence"]:
        lines.append("Nothing in this memory fits.")
    for rank, e in enumerate(document["evidence"], 1):
        when = e["time"][:16].replace("T", " ") if e["time"] else "no time"
        lines.append(f"{rank:3}. {when}  {e['speaker']}: {' '.join(e['text'].split())}")
        lines.append(f"     [{e['turn_id']}] {why(e, ids)}")
    lines.append(f"({document['context_tokens']} tokens of context)")
    return "\n".join(lines)


def why(evidence: Mapping[str, Any], turn_ids: Mapping[str, str]) -> str:
    """Why an event is there: its ranks by the signals that found it, and the way it was reached."""
    signals = ", ".join(f"{_SIGNAL_WORDS[name]} #{rank}" for name, rank in evidence["signals"].items())
    parts = [f"score {evidence['score']:.2f}", signals or "no signal of its own"]
    if evidence["path"]:
        steps = "".join(f"{turn_ids.get(s['node'], s['node'][:8])} -{s['edge_type']}-> " for s in evidence["path"])
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
        f"{document['memories']} memories in {document['files']} files ({document['bytes'] / 1e6:.1f} MB)\n"
        f"nodes: {nodes}\nedges: {edges}\n{document['path']}/README.md says how to open them."
    )


def explored(document: Mapping[str, Any]) -> str:
    """Where the page is and what it shows."""
    return (
        f"{document['file']} shows memory '{document['memory_id']}': {document['events']} events, "
        f"{document['entities']} entities, {document['edges']} edges, {document['questions']} questions "
        f"({document['bytes'] / 1e6:.1f} MB). Open it in a browser; it needs no network."
    )


def status(document: Mapping[str, Any]) -> str:
    """Stages as a table, then failures and the last run."""
    cells = [
        (s["stage"], s["done"], s["missing"], s["failed"], s["rows"], s["model"] or "") for s in document["stages"]
    ]
    lines = [
        f"{document['store']}: {document['memories']} memories, {document['turns']} turns, {document['shards']} shards",
        table(cells, ("stage", "done", "missing", "failed", "rows", "model")),
    ]
    if document["building"]:
        lines.append("An unfinished build is here; run build again to finish it.")
    if document["last_run"]:
        turns = document["last_run"]["turns"]
        lines.append(
            f"last run: {turns['in']} turns in, {turns['new']} new, {turns['rejected']} rejected, "
            f"{document['last_run']['seconds']:.1f} s"
        )
    return "\n".join(lines)


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
    return "\n\n".join(lines)

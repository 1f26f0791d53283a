"""One GraphML file a memory, for Gephi, networkx, igraph, yEd and others.

Written as a stream, row by row. XML 1.0 has no way to hold most control characters: they become U+FFFD; a carriage
return is written as a reference, because a parser would turn a bare one into a line feed.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape

import pyarrow as pa

from magma_gpu.export.report import ExportCounts
from magma_gpu.export.select import Selection, Tables, episode_of
from magma_gpu.store import stable_hash

# name, type; `label` and `weight` are names that Gephi knows.
NODE_KEYS = (
    ("label", "string"),
    ("kind", "string"),
    ("text", "string"),
    ("caption", "string"),
    ("speaker", "string"),
    ("role", "string"),
    ("time", "string"),
    ("position", "int"),
    ("turn_id", "string"),
    ("session_id", "string"),
    ("entity_type", "string"),
    ("aliases", "string"),
    ("num_events", "int"),
)
EDGE_KEYS = (("edge_type", "string"), ("weight", "double"), ("origin", "string"), ("evidence", "string"))
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_LABEL_LENGTH = 60


def write_graphml(selection: Selection, folder: Path) -> ExportCounts:
    """Writes `graphs/` and `index.csv`, which says which file is whose."""
    counts = ExportCounts()
    (folder / "graphs").mkdir()
    tables = ("memories", "events", "episodes", "entities", *(f"edges/{t}" for t in _STORED))
    with (folder / "index.csv").open("w", encoding="utf-8", newline="") as file:
        index = csv.writer(file)
        index.writerow(["memory_id", "file", "num_nodes", "num_edges"])
        for memory_id, rows in selection.memories(tables):
            name = f"graphs/{file_stem(memory_id)}.graphml"
            with (folder / name).open("w", encoding="utf-8", newline="\n") as target:
                num_nodes, num_edges = _write(target, memory_id, rows, counts)
            index.writerow([memory_id, name, num_nodes, num_edges])
            counts.memories += 1
    return counts


_STORED = ("temporal", "semantic", "causal", "entity")


def file_stem(memory_id: str) -> str:
    """A file name for a memory: what of its id is safe on every system, and a hash that keeps two apart."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", memory_id)[:40].strip("-")
    return f"{safe}-{stable_hash(memory_id)[:12]}" if safe else stable_hash(memory_id)[:12]


def _xml(value: object) -> str:
    return escape(_ILLEGAL.sub("\ufffd", str(value)), {'"': "&quot;", "\r": "&#13;"})


def _data(prefix: str, keys: Sequence[tuple[str, str]], row: dict[str, object]) -> str:
    return "".join(
        f'<data key="{prefix}_{name}">{_xml(row[name])}</data>' for name, _ in keys if row.get(name) is not None
    )


def _write(target: TextIO, memory_id: str, rows: Tables, counts: ExportCounts) -> tuple[int, int]:
    target.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    target.write('<key id="g_memory_id" for="graph" attr.name="memory_id" attr.type="string"/>\n')
    for prefix, kind, keys in (("n", "node", NODE_KEYS), ("e", "edge", EDGE_KEYS)):
        for name, type_ in keys:
            target.write(f'<key id="{prefix}_{name}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n')
    target.write(f'<graph edgedefault="directed"><data key="g_memory_id">{_xml(memory_id)}</data>\n')
    num_nodes = 0
    for kind, node in _nodes(rows):
        counts.nodes[kind] += 1
        num_nodes += 1
        target.write(f'<node id="{_xml(node["id"])}">{_data("n", NODE_KEYS, node)}</node>\n')
    num_edges = 0
    for kind, edge in _edges(rows):
        counts.edges[kind] += 1
        ends = f'source="{_xml(edge["src"])}" target="{_xml(edge["dst"])}"'
        target.write(f'<edge id="e{num_edges}" {ends}>{_data("e", EDGE_KEYS, edge)}</edge>\n')
        num_edges += 1
    target.write("</graph>\n</graphml>\n")
    return num_nodes, num_edges


def _nodes(rows: Tables) -> Iterator[tuple[str, dict[str, object]]]:
    for event in _rows(rows["events"]):
        said = event["time"]
        label = " ".join(f"{event['speaker']}: {event['text']}".split())
        event["time"] = said.strftime("%Y-%m-%dT%H:%M:%SZ") if said is not None else None  # type: ignore[attr-defined]
        yield "event", {**event, "id": event["event_id"], "kind": "event", "label": _short(label)}
    for episode in _rows(rows["episodes"]):
        own = {"id": episode["episode_id"], "kind": "episode", "label": _short(str(episode["title"]))}
        yield "episode", {**own, "session_id": episode["session_id"], "position": episode["first"]}
    for entity in _rows(rows["entities"]):
        aliases = entity["aliases"]
        assert isinstance(aliases, list)
        yield (
            "entity",
            {
                "id": entity["entity_id"],
                "kind": "entity",
                "label": entity["name"],
                "entity_type": entity["type"],
                "aliases": " | ".join(aliases) or None,
                "num_events": entity["num_events"],
            },
        )


def _short(text: str) -> str:
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 1] + "\u2026"


def _edges(rows: Tables) -> Iterator[tuple[str, dict[str, object]]]:
    for name in _STORED:
        for edge in _rows(rows[f"edges/{name}"]):
            yield name, {**edge, "edge_type": name}
    owners = episode_of(rows["events"], rows["episodes"])
    for event_id, owner in zip(rows["events"]["event_id"].to_pylist(), owners, strict=True):
        yield "episode", {"src": event_id, "dst": owner, "edge_type": "episode", "weight": 1.0, "origin": "order"}


def _rows(table: pa.Table) -> Iterable[dict[str, object]]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from batch.to_pylist()

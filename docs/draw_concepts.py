"""Draws docs/concepts.svg: one session of a memory as a store has it, with its episodes, entities and edges.

It invents nothing: every circle and line is a row of the store that is named. Semantic edges to other sessions are left
out, and so are the speakers, whom nearly every event mentions.

    python docs/draw_concepts.py DIR --memory ana --session ana-s3 --out docs/concepts.svg
"""

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path

from magma_gpu import Memory
from magma_gpu.graph import NODE_TYPES, TYPE_CODE
from magma_gpu.memory_index import MemoryIndex

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 960, 430, 60, 40
_EPISODE_Y, _EVENT_Y, _ENTITY_Y = 60, 210, 360
_COLORS = {
    "temporal": "#555555",
    "semantic": "#2a78c2",
    "causal": "#c0392b",
    "entity": "#2e8b57",
    "episode": "#b07d12",
}
# Readable on light and on dark pages.
_BACKGROUND = "#ffffff"


def draw(index: MemoryIndex, session: str) -> str:
    """Returns the picture of one session; its turn ids begin with the session's name in the examples."""
    graph = index.graph
    events = [e for e in range(index.num_events) if index.turn_ids[e].startswith(f"{session}-")]
    if not events:
        raise SystemExit(f"memory '{index.memory_id}' has no turns that begin with '{session}-'")
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(events) - 1)
    place = {e: (_LEFT + i * step, float(_EVENT_Y)) for i, e in enumerate(events)}
    inside = {
        name: [
            (s, t)
            for s, t, k in zip(graph.src_E.tolist(), graph.dst_E.tolist(), graph.type_E.tolist(), strict=True)
            if k == TYPE_CODE[name] and s in place and (t in place or name in ("entity", "episode"))
        ]
        for name in _COLORS
    }
    first_entity = graph.first_node(NODE_TYPES[2])
    speakers = {s.casefold() for s in index.speakers}
    names = {first_entity + i: names[0] for i, names in enumerate(index.entity_names)}
    inside["entity"] = [(s, t) for s, t in inside["entity"] if names[t].casefold() not in speakers]
    for name, y in (("episode", _EPISODE_Y), ("entity", _ENTITY_Y)):
        place |= _spread({t: [s for s, u in inside[name] if u == t] for _, t in inside[name]}, place, y)
    parts = [_line(place[s], place[t], name) for name in ("episode", "entity") for s, t in inside[name]]
    parts += [_line(place[s], place[t], "temporal", arrow=True) for s, t in inside["temporal"]]
    parts += [_arc(place[s], place[t], "semantic") for s, t in inside["semantic"]]
    parts += [_arc(place[s], place[t], "causal", arrow=True) for s, t in inside["causal"]]
    for node, (x, y) in place.items():
        if node in events:
            words = f"{index.turn_ids[node]} {index.speakers[node]}: {index.texts[node]}"
            parts.append(
                f'<circle cx="{x:.0f}" cy="{y:.0f}" r="9" fill="#333333"><title>{escape(words)}</title></circle>'
            )
            number = index.turn_ids[node].removeprefix(f"{session}-")
            parts.append(_text(x, y + 25, number, 11))
        else:
            above = y < _EVENT_Y
            name = "episode" if above else "entity"
            label = f"episode {node - graph.first_node('episode') + 1}" if above else names[node]
            parts.append(f'<rect x="{x - 7:.0f}" y="{y - 7:.0f}" width="14" height="14" fill="{_COLORS[name]}"/>')
            parts.append(_text(x, y - 14 if above else y + 24, label, 12))
    return _page(parts, f"Session {session} of memory {index.memory_id}, as the store has it")


def _spread(
    members: dict[int, list[int]], place: dict[int, tuple[float, float]], y: float
) -> dict[int, tuple[float, float]]:
    """Places nodes near the middle of their events, apart from each other."""
    wish = sorted((sum(place[e][0] for e in of) / len(of), node) for node, of in members.items())
    gap = min(130.0, (_WIDTH - 2 * _LEFT) / max(1, len(wish) - 1))
    made: dict[int, tuple[float, float]] = {}
    x = _LEFT - gap
    for left, (middle, node) in enumerate(wish):
        latest = _WIDTH - _LEFT - gap * (len(wish) - 1 - left)
        x = min(max(middle, x + gap), latest)
        made[node] = (x, y)
    return made


def _line(a: tuple[float, float], b: tuple[float, float], name: str, *, arrow: bool = False) -> str:
    end = ' marker-end="url(#temporal)"' if arrow else ""
    return (
        f'<line x1="{a[0]:.0f}" y1="{a[1]:.0f}" x2="{b[0]:.0f}" y2="{b[1]:.0f}" stroke="{_COLORS[name]}" '
        f'stroke-width="1.2"{end}/>'
    )


def _arc(a: tuple[float, float], b: tuple[float, float], name: str, *, arrow: bool = False) -> str:
    """A curve over the events, or under them for causes."""
    width = abs(b[0] - a[0])
    # A quadratic curve rises half as high as its middle point.
    height = 24 + width * 0.32
    side = 1 if name == "causal" else -1
    off = 11 * side
    end = ' marker-end="url(#causal)"' if arrow else ""
    return (
        f'<path d="M{a[0]:.0f} {a[1] + off:.0f}Q{(a[0] + b[0]) / 2:.0f} {a[1] + side * min(height, 220):.0f} '
        f'{b[0]:.0f} {b[1] + off:.0f}" fill="none" stroke="{_COLORS[name]}" stroke-width="2"{end}/>'
    )


def _text(x: float, y: float, words: str, size: int, anchor: str = "middle") -> str:
    # With a rim, so that lines behind it do not cross it.
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" paint-order="stroke" '
        f'stroke="{_BACKGROUND}" stroke-width="4">{escape(words)}</text>'
    )


def _page(parts: Sequence[str], title: str) -> str:
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="{refx}" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{_COLORS[name]}"/></marker>'
        for name, refx in (("temporal", 16), ("causal", 8))
    )
    legend = "".join(
        f'<line x1="{_LEFT + i * 120}" y1="{_HEIGHT - 16}" x2="{_LEFT + 26 + i * 120}" y2="{_HEIGHT - 16}" '
        f'stroke="{color}" stroke-width="3"/>' + _text(_LEFT + 32 + i * 120, _HEIGHT - 12, name, 12, "start")
        for i, (name, color) in enumerate(_COLORS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'fill="#222222"><title>{escape(title)}</title><defs>{markers}</defs>'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="{_BACKGROUND}"/>\n'
        + "\n".join(parts)
        + f"\n{legend}\n</svg>\n"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Reads the arguments and writes the file."""
    parser = argparse.ArgumentParser(description="Draws one session of a store as SVG.")
    parser.add_argument("store", metavar="DIR", type=Path)
    parser.add_argument("--memory", metavar="ID", required=True)
    parser.add_argument("--session", metavar="ID", required=True)
    parser.add_argument("--out", metavar="FILE.svg", type=Path, required=True)
    args = parser.parse_args(argv)
    index = Memory.open(args.store).indexes([args.memory])[0]
    args.out.write_text(draw(index, args.session), encoding="utf-8")


if __name__ == "__main__":
    main()

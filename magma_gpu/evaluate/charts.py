"""Inline SVG: bars with intervals, curves, histograms. Numbers in, markup out; everything that is text is escaped.

Colours and fonts come from the page's style by class; a chart knows sizes alone.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_W, _H = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 46


@dataclass(frozen=True, slots=True)
class Bar:
    """A value in [0, 1] with its interval; None is drawn as nothing."""

    value: float | None
    low: float | None
    high: float | None


def bars(groups: Mapping[str, Sequence[Bar]], series: Sequence[str], title: str) -> str:
    """Grouped bars, one colour a series, with interval whiskers."""
    parts = [_frame(title), _share_axis()]
    inner = _W - _LEFT - _RIGHT
    room = inner / max(1, len(groups))
    width = min(26.0, 0.8 * room / max(1, len(series)))
    for g, (name, row) in enumerate(groups.items()):
        middle = _LEFT + room * (g + 0.5)
        parts.append(_text(middle, _H - _BOTTOM + 18, name, "middle"))
        for s, bar in enumerate(row):
            if bar.value is None:
                continue
            x = middle + (s - len(row) / 2) * width
            y = _y(bar.value)
            tip = f"{series[s]}, {name}: {100 * bar.value:.1f} %"
            if bar.low is not None and bar.high is not None:
                tip += f" [{100 * bar.low:.1f}, {100 * bar.high:.1f}]"
            parts.append(
                f'<g><title>{html.escape(tip)}</title><rect class="s{s}" x="{x:.1f}" y="{y:.1f}" '
                f'width="{width - 2:.1f}" height="{max(0.0, _y(0) - y):.1f}"/>'
            )
            if bar.low is not None and bar.high is not None:
                at = x + width / 2 - 1
                parts.append(f'<path class="whisker" d="M{at:.1f} {_y(bar.low):.1f}V{_y(bar.high):.1f}"/>')
            parts.append("</g>")
    return "".join([*parts, "</svg>", legend(series)])


def curves(lines: Mapping[str, Sequence[tuple[float, float]]], title: str, x_label: str) -> str:
    """Lines over a logarithmic axis; values in [0, 1]."""
    xs = sorted({x for line in lines.values() for x, _ in line})
    if not xs:
        return ""
    low, high = math.log(xs[0]), math.log(xs[-1])
    span = max(1e-9, high - low)

    def place(x: float) -> float:
        return _LEFT + (_W - _LEFT - _RIGHT - 10) * (math.log(x) - low) / span

    parts = [_frame(title), _share_axis()]
    for x in xs:
        parts.append(_text(place(x), _H - _BOTTOM + 16, f"{x:g}", "middle"))
    parts.append(_text(_W / 2, _H - 8, x_label, "middle"))
    for s, (name, line) in enumerate(lines.items()):
        points = " ".join(f"{place(x):.1f},{_y(y):.1f}" for x, y in line)
        parts.append(f'<polyline class="l{s}" points="{points}"><title>{html.escape(name)}</title></polyline>')
        parts += [
            f'<circle class="s{s}" cx="{place(x):.1f}" cy="{_y(y):.1f}" r="3"><title>'
            f"{html.escape(f'{name}, {x:g}: {100 * y:.1f} %')}</title></circle>"
            for x, y in line
        ]
    return "".join([*parts, "</svg>", legend(list(lines))])


def histogram(samples: Mapping[str, Sequence[float]], title: str, x_label: str, num_bins: int = 24) -> str:
    """Shares of each sample in bins of equal ratio, as step lines."""
    positive = [max(v, 1e-3) for values in samples.values() for v in values]
    if not positive:
        return ""
    low, high = math.log10(min(positive)), math.log10(max(positive))
    low, high = low - 0.05, max(high, low + 0.1) + 0.05
    counts = {}
    for name, values in samples.items():
        bins = [0] * num_bins
        for v in values:
            bins[min(num_bins - 1, int((math.log10(max(v, 1e-3)) - low) / (high - low) * num_bins))] += 1
        counts[name] = [b / max(1, len(values)) for b in bins]
    top = max(max(row) for row in counts.values()) or 1.0
    inner = _W - _LEFT - _RIGHT
    parts = [_frame(title)]
    decades = range(math.ceil(low), math.floor(high) + 1)
    marks = (
        [10.0**d for d in decades] if len(decades) > 1 else [10 ** (low + (high - low) * t) for t in (0.1, 0.5, 0.9)]
    )
    for mark in marks:
        x = _LEFT + inner * (math.log10(mark) - low) / (high - low)
        parts.append(_text(x, _H - _BOTTOM + 16, f"{mark:.3g}", "middle"))
    parts.append(_text(_W / 2, _H - 8, x_label, "middle"))
    parts.append(_text(_LEFT - 6, _TOP + 10, f"{100 * top:.0f} %", "end"))
    for s, (name, row) in enumerate(counts.items()):
        path = f"M{_LEFT} {_y(0):.1f}"
        for b, share in enumerate(row):
            x0, x1 = _LEFT + inner * b / num_bins, _LEFT + inner * (b + 1) / num_bins
            path += f"L{x0:.1f} {_y(share / top):.1f}L{x1:.1f} {_y(share / top):.1f}"
        parts.append(
            f'<path class="l{s}" d="{path}L{_W - _RIGHT} {_y(0):.1f}"><title>{html.escape(name)}</title></path>'
        )
    return "".join([*parts, "</svg>", legend(list(samples))])


def legend(series: Sequence[str]) -> str:
    """Colours and names under a chart."""
    items = "".join(f'<span><i class="b{s}"></i>{html.escape(name)}</span>' for s, name in enumerate(series))
    return f'<p class="legend">{items}</p>'


def _frame(title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_W} {_H}" role="img" aria-label="{html.escape(title)}">'
        f'<path class="axis" d="M{_LEFT} {_TOP}V{_H - _BOTTOM}H{_W - _RIGHT}"/>'
    )


def _share_axis() -> str:
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="grid" d="M{_LEFT} {_y(tick):.1f}H{_W - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, _y(tick) + 4, f"{100 * tick:.0f} %", "end"))
    return "".join(parts)


def _y(share: float) -> float:
    return _H - _BOTTOM - (_H - _BOTTOM - _TOP) * min(1.0, max(0.0, share))


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'

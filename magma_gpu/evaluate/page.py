"""A report as one HTML page: no scripts, no network, charts as inline SVG; words of a log are always text.

It shows the headline numbers; report.json has all of them.
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from magma_gpu.evaluate.charts import Bar, bars, curves, histogram
from magma_gpu.evaluate.metrics import TOKEN_BUDGETS
from magma_gpu.evaluate.report import HEADLINE, RETRIEVAL, answer_names, change, percent
from magma_gpu.evaluate.scores import CURVE
from magma_gpu.evaluate.systems import ABLATIONS

# Systems in one chart.
_MAX_SERIES = 7
_COLOURS = ("#0b6e99", "#d1495b", "#3a7d44", "#8b5fbf", "#c77700", "#5c677d", "#9a6a3a")
_STYLE = """
:root{color-scheme:light dark;--fg:#1c2128;--bg:#fff;--dim:#5c6570;--line:#d5dae0}
@media(prefers-color-scheme:dark){:root{--fg:#e4e7eb;--bg:#15181c;--dim:#9aa4af;--line:#363d45}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);
max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}p.dim,small{color:var(--dim)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}.scroll{overflow-x:auto}
td,th{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--dim)}
.axis{stroke:var(--dim);fill:none}.grid{stroke:var(--line);fill:none}.whisker{stroke:var(--fg);stroke-width:1.4}
.legend span{margin-right:1.1rem;white-space:nowrap;font-size:.85rem}.legend i{display:inline-block;
width:.8rem;height:.8rem;margin-right:.35rem;vertical-align:-1px}
details{border-top:1px solid var(--line);padding:.5rem 0}summary{cursor:pointer}
li{margin:.2rem 0}
"""


def page(report: Mapping[str, Any]) -> str:
    """Returns the whole page."""
    colours = "".join(
        f".s{i},.b{i}{{fill:{c};background:{c}}}.l{i}{{stroke:{c};stroke-width:2;fill:none}}"
        for i, c in enumerate(_COLOURS)
    )
    title = f"{report['benchmark']}: {report['data']['name']}"
    body = "".join(
        [
            f"<h1>{_e(title)}</h1>",
            _facts(report),
            *(_retrieval(report, which) for which in _golds(report)),
            _curve_section(report),
            _answers(report),
            _cost(report),
            _ablation_table(report),
            _worst(report),
        ]
    )
    return (
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{_e(title)}</title><style>{_STYLE}{colours}</style></head><body>{body}</body></html>\n"
        )
        .encode("utf-8", "replace")
        .decode("utf-8")
    )


def headline_systems(report: Mapping[str, Any]) -> list[str]:
    """Systems that charts show: those that rank, without ablations."""
    return [
        name
        for name, system in report["systems"].items()
        if not name.endswith(tuple(f"-{a}" for a in ABLATIONS))
        and system["metrics"]["original"].get("overall", {}).get(HEADLINE, {"n": 0})["n"]
    ][:_MAX_SERIES]


def _golds(report: Mapping[str, Any]) -> list[str]:
    return list(next(iter(report["systems"].values()))["metrics"])


def _e(value: object) -> str:
    return html.escape(str(value))


def _facts(report: Mapping[str, Any]) -> str:
    q, machine = report["questions"], report["machine"]
    limit = f" This run holds the first {_e(report['limit'])} questions alone." if report["limit"] else ""
    if report.get("sample"):
        limit += f" It holds a sample of {_e(report['sample'])}, evenly spaced."
    later = (
        f" Of {q['with_later_evidence']} questions some evidence is dated after the question."
        if q["with_later_evidence"]
        else ""
    )
    build = report["build"]["seconds"]
    return (
        f"<p>{q['n']} questions, {q['with_evidence']} with evidence, in {q['conversations']} conversations.{limit}"
        f"{later} Build: {'not timed' if build is None else f'{build:.1f} s'}. "
        f"Encoder {_e(report['settings']['encoder'])}; "
        f"{_e(machine['processor'])}, {_e(machine['cpus'])} CPUs, device {_e(machine['device'])}.</p>"
        '<p class="dim">Numbers are per cent with 95 % bootstrap intervals: over conversations where there are '
        "several, else over questions. A dash is what cannot be computed. report.json has every metric with n and both "
        "intervals.</p>"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{_e(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{_e(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _retrieval(report: Mapping[str, Any], which: str) -> str:
    names = headline_systems(report)
    tables = {name: report["systems"][name]["metrics"][which] for name in names}
    groups = list(next(iter(tables.values()))) if tables else []
    charts = ""
    if tables:
        drawn = {}
        for group in groups:
            found = [tables[name][group][HEADLINE] for name in names]
            n = max(f["n"] for f in found)
            drawn[f"{group} (n {n})"] = [_bar(f) for f in found]
        charts = bars(drawn, names, f"{HEADLINE} by category, {which} gold")
    rows = []
    for name, system in report["systems"].items():
        found = system["metrics"][which].get("overall", {})
        if found.get(HEADLINE, {"n": 0})["n"]:
            cells = [percent(found[m]) for m in RETRIEVAL]
            rows.append([name, str(found[HEADLINE]["n"]), *cells])
    return f"<h2>Retrieval, {which} gold</h2><h3>{HEADLINE} by category</h3>{charts}" + _table(
        ["system", "n", *RETRIEVAL], rows
    )


def _bar(found: Mapping[str, Any]) -> Bar:
    if found["low_clustered"] is not None:
        return Bar(found["value"], found["low_clustered"], found["high_clustered"])
    return Bar(found["value"], found["low"], found["high"])


def _curve_section(report: Mapping[str, Any]) -> str:
    names = headline_systems(report)
    overall = {name: report["systems"][name]["metrics"]["original"]["overall"] for name in names}

    def line(name: str, pattern: str, at: Sequence[int]) -> list[tuple[float, float]]:
        found = [(x, overall[name][pattern.format(x)]["value"]) for x in at]
        return [(float(x), float(y)) for x, y in found if y is not None]

    turns = {name: line(name, "curve@{}", CURVE) for name in names}
    tokens = {name: line(name, "recall@{}tok", TOKEN_BUDGETS) for name in names}
    return (
        "<h2>Evidence recall against budget</h2>"
        + curves(turns, "Evidence recall against returned turns", "returned turns")
        + curves(tokens, "Evidence recall against tokens of returned turns", "tokens of returned turns")
    )


def _answers(report: Mapping[str, Any]) -> str:
    names = answer_names(report)
    if not names:
        return ""
    parts = [f"<h2>Answers by {_e(', '.join(report['answers'].values()))}</h2>"]
    for which in _golds(report):
        rows = []
        tables = {n: s["metrics"][which] for n, s in report["systems"].items()}
        tables |= {n: t[which] for n, t in report.get("baselines", {}).items()}
        for name, found in tables.items():
            if "f1" in found.get("overall", {}):
                rows.append([name, *(percent(found["overall"].get(m)) for m in names)])
        parts.append(f"<h3>{which} gold</h3>" + _table(["system", *names], rows))
    parts.append(
        '<p class="dim">constant-refusal says the same to every question that there is no answer: what it earns in '
        "abstention costs nothing and is worth as much.</p>"
    )
    return "".join(parts)


def _cost(report: Mapping[str, Any]) -> str:
    rows = []
    for name, system in report["systems"].items():
        tokens = system["metrics"]["original"]["overall"]["context_tokens"]["value"]
        ms = system["latency_ms"]
        cells = [
            ("\u2013" if v is None else f"{v:.1f}") for v in (tokens, system["questions_per_s"], ms["p50"], ms["p90"])
        ]
        rows.append([name, *cells, "\u2013" if system["build_s"] is None else f"{system['build_s']:.1f}"])
    samples = {n: report["systems"][n]["latency_ms"]["values"] for n in headline_systems(report)}
    return (
        "<h2>Cost</h2>"
        + _table(["system", "tokens a query", "questions/s", "ms p50", "ms p90", "own build s"], rows)
        + "<h3>Latency of single questions</h3>"
        + histogram(samples, "Latency of single questions", "milliseconds")
    )


def _ablation_table(report: Mapping[str, Any]) -> str:
    if not report["ablations"]:
        return ""
    names = list(report["ablations"][0]["metrics"])
    rows = [[one["system"], *(change(one["metrics"][m]) for m in names)] for one in report["ablations"]]
    return (
        "<h2>Ablations</h2>"
        + _table(["system", *names], rows)
        + '<p class="dim">Points against the whole system, paired by question; interval over questions, p by sign '
        "flips over conversations (questions where there is one), adjusted by Holm down each column.</p>"
    )


def _worst(report: Mapping[str, Any]) -> str:
    found = report["worst"]
    if not found:
        return ""
    parts = [f"<h2>Twenty worst questions of {_e(found['system'])}</h2>"]
    for entry in found["questions"]:
        evidence = "".join(
            _turn(e, "not returned" if e["rank"] is None else f"rank {e['rank']}") for e in entry["evidence"]
        )
        returned = "".join(_turn(e, f"#{n}") for n, e in enumerate(entry["returned"], 1))
        audit = f"; the audit says {_e(entry['audit'])}" if entry["audit"] else ""
        parts.append(
            f"<details><summary>{_e(entry['question'])} <small>{_e(entry['query_id'])}, {_e(entry['category'])}{audit}"
            f"</small></summary><p>Gold: {_e(entry['answer'] if entry['answer'] is not None else 'none')}</p>"
            f"<p>Evidence</p><ul>{evidence}</ul><p>Returned instead</p><ol>{returned}</ol></details>"
        )
    return "".join(parts)


def _turn(turn: Mapping[str, Any], place: str) -> str:
    why = f" <small>{_e(turn['why'])}</small>" if turn["why"] else ""
    return f"<li><small>[{_e(turn['turn_id'])}] {_e(place)}</small> {_e(turn['text'] or '')}{why}</li>"

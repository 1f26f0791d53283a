"""Times the kernels: tests each first, refuses to time one that fails, then times its implementations in
turn.

    python kernels/bench/bench.py [--quick] [--device cpu|cuda] [--op NAME] [--threads N] [--out FILE]

It measures operations alone, not a search or a build from end to end (pipelines/bench does).
Implementations take turns within a repeat, so that whatever else the machine does meets all of them;
medians are reported. The last line of standard output is one JSON document.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from roofline import beam_roofline, link_roofline, timed

from magma_kernels import backend, beam_search, semantic_link
from magma_kernels.beam_search import cases as beam_cases
from magma_kernels.beam_search import reference as beam_reference
from magma_kernels.semantic_link import cases as link_cases
from magma_kernels.semantic_link import reference as link_reference

ROOT = Path(__file__).resolve().parents[2]
TESTS = {
    "beam_search": ["test_beam_search.py", "test_beam_cuda_source.py"],
    "semantic_link": ["test_semantic_link.py"],
}


@dataclass(frozen=True, slots=True)
class Runner:
    """One implementation on one case: a call does `items` items of work."""

    name: str
    call: Callable[[], Any]
    items: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the repeats of one implementation on one case."""

    op: str
    case: str
    implementation: str
    items: int
    unit: str
    median_s: float
    fastest_s: float
    slowest_s: float
    # Of all threads of this process: what else the machine does disturbs it less. On a GPU, the host's alone.
    median_cpu_s: float
    repeats: int

    @property
    def per_s(self) -> float:
        return self.items / self.median_s


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tests the kernels, then times them.")
    parser.add_argument("--quick", action="store_true", help="small cases and few repeats")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--op", choices=tuple(TESTS), help="this op alone")
    parser.add_argument("--out", type=Path, help="also write the JSON document to this file")
    parser.add_argument("--threads", type=int, help="threads on the CPU (default: as PyTorch chooses)")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    report: dict[str, Any] = {"machine": machine(device), "quick": options.quick, "ops": {}}
    failed = False
    for op in [options.op] if options.op else list(TESTS):
        print(f"{op}: testing", flush=True)
        if not tests_pass(op, device):
            failed = True
            report["ops"][op] = {"tests": "failed"}
            print(f"{op}: the tests fail, so it is not timed")
            continue
        bench = {"beam_search": bench_beam, "semantic_link": bench_link}[op]
        report["ops"][op] = {"tests": "passed", **bench(device, options.quick)}
    line = json.dumps(report)
    if options.out and not failed:
        partial = options.out.with_suffix(".partial")
        partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        partial.replace(options.out)
    print(line)
    return 1 if failed else 0


def tests_pass(op: str, device: torch.device) -> bool:
    """Runs the op's own tests, unchanged, in a process of their own."""
    paths = [str(ROOT / "tests" / "kernels" / name) for name in TESTS[op]]
    if device.type == "cuda":
        paths.append(str(ROOT / "tests" / "gpu"))
    environment = {name: value for name, value in os.environ.items() if name != backend.VARIABLE}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
    return done.returncode == 0


def bench_beam(device: torch.device, quick: bool) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "tests" / "kernels"))
    import beam_oracle

    shapes = [(8, 600, 128)]
    if not quick:
        shapes = [(64, 600, 1024), (10, 600, 1024), (10_000, 600, 1024), (64, 600, 1), (1, 600, 64), (4, 20_000, 256)]
    if device.type == "cuda" and not quick:
        shapes += [(256, 600, 8192), (1024, 600, 65536)]
    oracle = beam_cases.events_case(num_memories=1, num_events=600, num_queries=64, seed=1)
    timings: list[Timing] = []
    rooflines = []
    for num_memories, num_events, num_queries in shapes:
        here = beam_cases.events_case(num_memories=num_memories, num_events=num_events, num_queries=num_queries, seed=2)
        case = moved(here, device)
        compiled = backend.choose("beam_search", device).name
        if compiled == backend.REFERENCE:
            raise SystemExit(f"there is no compiled beam_search for {device.type} here")
        result = beam_search.beam_search(case.graph, case.queries, case.params)
        assert_equal(result, beam_reference.beam_search(case.graph, case.queries, case.params))
        runners = [
            Runner(
                "reference",
                lambda case=case: beam_reference.beam_search(case.graph, case.queries, case.params),
                num_queries,
            ),
            Runner(
                compiled,
                lambda case=case: beam_search.beam_search(case.graph, case.queries, case.params),
                num_queries,
            ),
        ]
        if num_events == 600 and num_queries > 1:
            runners.append(
                Runner(
                    "oracle (plain Python)",
                    lambda: beam_oracle.search(oracle.graph, oracle.queries, oracle.params),
                    64,
                )
            )
        name = f"{num_memories} memories x {num_events} events, {num_queries} queries"
        of_case = take_turns("beam_search", name, "queries", runners, device, 3 if quick else 7)
        timings += of_case
        rooflines.append(beam_roofline(case, result, of_case[1], device))
    show(timings)
    for line in rooflines:
        print(line["text"])
    found = ratios(timings)
    of_first = {ratio["over"].split()[0]: ratio["ratio"] for ratio in found if ratio["case"] == timings[0].case}
    summary = {
        "case": timings[0].case,
        "threads": torch.get_num_threads(),
        "queries_per_s": round(timings[1].per_s),
        # In CPU time, which other work on the machine disturbs least.
        "queries_per_cpu_s": round(timings[1].items / timings[1].median_cpu_s),
        "speedup_vs_oracle_cpu": cpu_ratio(timings[1], timings[2]) if len(timings) > 2 else None,
        "speedup_vs_oracle": of_first.get("oracle"),
        "speedup_vs_reference": of_first.get("reference"),
        "times_the_floor": rooflines[0].get("times_the_floor"),
    }
    return {"summary": summary, "timings": [plain(t) for t in timings], "ratios": found, "roofline": rooflines}


def bench_link(device: torch.device, quick: bool) -> dict[str, Any]:
    shapes = [(8, 300)] if quick else [(64, 600), (2000, 20), (1, 10_000)]
    timings: list[Timing] = []
    rooflines = []
    for num_memories, num_events in shapes:
        case = moved(
            link_cases.events_case(num_memories=num_memories, num_events=num_events, width=384, seed=3),
            device,
        )

        def call(function: Callable[..., Any], case: Any = case) -> Any:
            return function(case.x_ND, case.ptr, case.order_N, case.usable_N, k=case.k, threshold=case.threshold)

        compiled = backend.choose("semantic_link", device).name
        runners = [Runner(compiled, lambda call=call: call(semantic_link.semantic_link), num_memories * num_events)]
        # The reference sums in a loop over the axis and holds a whole matrix: small cases only.
        if num_events <= 600:
            part = replace_memories(case, 2 if num_events > 100 else 50)
            runners.append(
                Runner(
                    "reference",
                    lambda call=call, part=part: call(link_reference.semantic_link, part),
                    part.x_ND.shape[0],
                )
            )
            assert_equal(call(semantic_link.semantic_link, part), call(link_reference.semantic_link, part))
        name = f"{num_memories} memories x {num_events} events, 384 wide"
        of_case = take_turns("semantic_link", name, "events", runners, device, 3)
        timings += of_case
        rooflines.append(link_roofline(num_memories, num_events, of_case[0], device))
    show(timings)
    for line in rooflines:
        print(line["text"])
    summary = {line["case"]: round(line["share"], 3) for line in rooflines}
    return {
        "summary": {"share_of_product_rate": summary},
        "timings": [plain(t) for t in timings],
        "ratios": ratios(timings),
        "roofline": rooflines,
    }


def take_turns(
    op: str, case: str, unit: str, runners: list[Runner], device: torch.device, repeats: int
) -> list[Timing]:
    """Times all implementations once in each repeat, after a call of each that does not count."""
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    cpu_seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    for repeat in range(repeats + 1):
        for runner in runners:
            cpu = time.process_time()
            spent = timed(runner.call, device)
            if repeat:
                seconds[runner.name].append(spent)
                cpu_seconds[runner.name].append(time.process_time() - cpu)
    return [
        Timing(
            op=op,
            case=case,
            implementation=runner.name,
            items=runner.items,
            unit=unit,
            median_s=statistics.median(seconds[runner.name]),
            fastest_s=min(seconds[runner.name]),
            slowest_s=max(seconds[runner.name]),
            median_cpu_s=statistics.median(cpu_seconds[runner.name]),
            repeats=repeats,
        )
        for runner in runners
    ]


def moved(case: Any, device: torch.device) -> Any:
    """Returns a case with its tensors on a device."""

    def to(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device)
        if isinstance(value, (beam_search.BeamGraph, beam_search.BeamQueries)):
            return replace(value, **{f.name: to(getattr(value, f.name)) for f in fields(value)})
        return value

    return replace(case, **{field.name: to(getattr(case, field.name)) for field in fields(case)})


def replace_memories(case: Any, count: int) -> Any:
    """Returns the first `count` memories of a case of semantic links."""
    ptr = case.ptr[: count + 1]
    last = int(ptr[-1])
    return replace(case, ptr=ptr, x_ND=case.x_ND[:last], order_N=case.order_N[:last], usable_N=case.usable_N[:last])


def assert_equal(got: Any, want: Any) -> None:
    for field in fields(got):
        a, b = getattr(got, field.name), getattr(want, field.name)
        assert torch.equal(a, b), f"the timed input gives different {field.name}"


def ratios(timings: list[Timing]) -> list[dict[str, Any]]:
    """Returns, for each case, how many times as many items a second the compiled implementation does."""
    found = []
    for case in dict.fromkeys(timing.case for timing in timings):
        of_case = {timing.implementation: timing for timing in timings if timing.case == case}
        slow = {name: t for name, t in of_case.items() if name.startswith(("reference", "oracle"))}
        for fast in of_case.values():
            if fast.implementation not in slow:
                found += [
                    {"case": case, "over": name, "ratio": round(fast.per_s / t.per_s, 2)} for name, t in slow.items()
                ]
    return found


def cpu_ratio(fast: Timing, slow: Timing) -> float:
    """Returns how many times as many items a second of CPU time the one does."""
    return round(fast.items / fast.median_cpu_s / (slow.items / slow.median_cpu_s), 2)


def show(timings: list[Timing]) -> None:
    print(f"{'case':<48} {'implementation':<22} {'median ms':>10} {'cpu ms':>10} {'items/s':>12}")
    for t in timings:
        print(
            f"{t.case:<48} {t.implementation:<22} {t.median_s * 1e3:>10.3f} {t.median_cpu_s * 1e3:>10.3f} "
            f"{t.per_s:>12,.0f} {t.unit}"
        )
    for ratio in ratios(timings):
        print(f"{ratio['case']}: {ratio['ratio']} x {ratio['over']}")


def plain(timing: Timing) -> dict[str, Any]:
    values = {field.name: getattr(timing, field.name) for field in fields(timing)}
    return values | {"per_s": timing.per_s}


def machine(device: torch.device) -> dict[str, Any]:
    """Returns what the figures depend on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    found = {
        "device": device.type,
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kernels": {choice.op: choice.name for choice in backend.choices(device)},
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
        found["cuda"] = torch.version.cuda
    return found


if __name__ == "__main__":
    sys.exit(main())

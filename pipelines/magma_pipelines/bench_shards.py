"""Parts of a benchmark's steps made by workers of a Ray cluster, where the runner is ray; else it does nothing.

A worker gets numbers of parts, reads gold and store itself and writes the same files that the driver would write, so
the driver then finds them done. What a system holds in its own memory, a server that answers and what is timed one
question at a time stay with the driver.
"""

import dataclasses
from collections.abc import Sequence

from magma_gpu.answer import Engine
from magma_gpu.config import Config
from magma_gpu.evaluate.systems import OUTSIDE
from magma_pipelines.bench_answers import answer_all, answers_place
from magma_pipelines.bench_run import BenchOptions, Run, file_name

# Systems that are built by reading everything; a worker each would be a build each.
_OF_THE_DRIVER = frozenset(("recency", "full-context", *OUTSIDE))


def query_everywhere(run: Run, name: str) -> None:
    """Has workers ask a system the questions of every part that is not there."""
    if run.config.run.runner == "ray" and name not in _OF_THE_DRIVER and ":" not in name:
        folder = f"systems/{file_name(name)}/queries"
        _spread(run, name, None, _missing(run, folder, run.search_fingerprint(name)))


def answer_everywhere(run: Run, name: str, engine: Engine) -> None:
    """Has workers answer the questions of every part that is not there, by an engine without a server."""
    if run.config.run.runner == "ray" and engine.identity["engine"] == "extractive":
        folder, fingerprint = answers_place(run, name, engine)
        _spread(run, name, engine, _missing(run, folder, fingerprint))


def make_parts(options: BenchOptions, config: Config, name: str, numbers: Sequence[int]) -> None:
    """What one worker does: makes the parts that are not there, of answers where the options name an engine."""
    run = Run(options, config)
    asked = frozenset(numbers)
    if options.engine is None:
        run.rankings(name, asked)
        return
    rankings, _ = run.rankings(name, range(len(run.questions)))
    answer_all(run, name, rankings, options.engine, asked)


def _missing(run: Run, folder: str, fingerprint: str) -> list[int]:
    return run.steps.missing(folder, fingerprint, len(run.questions), run.options.part)


def _spread(run: Run, name: str, engine: Engine | None, numbers: Sequence[int]) -> None:
    num_workers = min(run.config.run.num_workers, len(numbers))
    if num_workers < 2:
        return
    from magma_pipelines.ray_runner import run_calls

    options = dataclasses.replace(run.options, engine=engine, judge=None, system_model=None, quiet=True)
    # Neighbouring parts share shards.
    bounds = [worker * len(numbers) // num_workers for worker in range(num_workers + 1)]
    parts = [tuple(numbers[first:end]) for first, end in zip(bounds[:-1], bounds[1:], strict=True)]
    run_calls(make_parts, [(options, run.config, name, part) for part in parts], num_workers)

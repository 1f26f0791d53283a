"""Parts of a benchmark's steps made by workers of a Ray cluster, where the runner is ray; else it does nothing.

A worker gets numbers of parts, reads gold and store itself and writes the same files that the driver would write, so
the driver then finds them done. What a system holds in its own memory, a server that answers and what is timed one
question at a time stay with the driver.
"""

import dataclasses
from collections.abc import Sequence

from magma_gpu.config import Config
from magma_gpu.evaluate.scores import Ranking
from magma_gpu.evaluate.systems import OUTSIDE
from magma_gpu.extractive import ExtractiveEngine
from magma_pipelines.bench_answers import answer_all, answers_place, is_answered
from magma_pipelines.bench_run import BenchOptions, Run, file_name

# Systems that are built by reading everything; a worker each would be a build each.
_OF_THE_DRIVER = frozenset(("recency", "full-context", *OUTSIDE))


def make_everywhere(run: Run) -> None:
    """Has workers make every part of queries, and of answers by `extractive`, that is not there."""
    config = run.config
    if config.run.runner != "ray" or config.run.num_workers < 2:
        return
    # An engine may hold what no process can be handed, so a worker makes its own.
    options = dataclasses.replace(run.options, engine=None, judge=None, system_model=None, quiet=True)
    jobs = []
    for name in run.systems:
        if name in _OF_THE_DRIVER or ":" in name:
            continue
        numbers, answers = _missing(run, name)
        num_jobs = min(config.run.num_workers, len(numbers))
        # Neighbouring parts share shards.
        bounds = [job * len(numbers) // num_jobs for job in range(num_jobs + 1)] if num_jobs else []
        jobs += [
            (options, config, name, tuple(numbers[a:b]), answers) for a, b in zip(bounds[:-1], bounds[1:], strict=True)
        ]
    if len(jobs) > 1:
        from magma_pipelines.ray_runner import run_calls

        run_calls(make_parts, jobs, config.run.num_workers)


def _missing(run: Run, name: str) -> tuple[list[int], bool]:
    """Numbers of the parts that lack queries or answers, and whether there are to be answers."""
    num_items, size = len(run.questions), run.options.part
    queries = f"systems/{file_name(name)}/queries"
    missing = set(run.steps.missing(queries, run.search_fingerprint(name), num_items, size))
    engine = run.options.engine
    answers = isinstance(engine, ExtractiveEngine) and is_answered(name, run.options.systems)
    if answers and engine is not None:
        missing |= set(run.steps.missing(*answers_place(run, name, engine), num_items, size))
    return sorted(missing), answers


def make_parts(options: BenchOptions, config: Config, name: str, numbers: Sequence[int], answers: bool) -> None:
    """What one worker does: makes some parts of one system's queries and, if asked for, of their answers."""
    run = Run(options, config)
    rankings, _ = run.rankings(name, frozenset(numbers))
    if answers:
        found = {(r.memory_id, r.query_id): r for r in rankings}
        # Nothing is read of the questions of other parts.
        every = [found.get((q.memory_id, q.query_id), _NOTHING) for q in run.questions]
        answer_all(run, name, every, ExtractiveEngine(), frozenset(numbers))


_NOTHING = Ranking(memory_id="", query_id="", turns=(), sessions=(), tokens=(), context_tokens=0)

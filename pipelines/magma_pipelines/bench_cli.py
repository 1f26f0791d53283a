"""The commands `bench` and `answer`: their arguments, and what they call; imports nothing heavy before it is needed."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magma_gpu.config import Config
from magma_gpu.errors import InputError
from magma_pipelines import show

if TYPE_CHECKING:
    from magma_gpu.answer import Engine
    from magma_gpu.chat_client import ChatConfig

Finish = Callable[[argparse.Namespace, Any, str], None]


def add_bench(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds `bench locomo`, `bench longmemeval` and `bench compare`."""
    text = "Measures retrieval and answers on a benchmark, or compares two runs."
    bench = commands.add_parser(
        "bench",
        help=text,
        description=text,
        epilog="example: magma-gpu bench locomo --data locomo10.json --out runs/locomo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = bench.add_subparsers(dest="bench", metavar="BENCHMARK", required=True, parser_class=type(bench))
    for name, title in (("locomo", "LoCoMo"), ("longmemeval", "LongMemEval")):
        help_ = f"Runs {title}: builds, asks, answers, judges and reports; goes on where an earlier run ended."
        one = kinds.add_parser(
            name,
            help=help_,
            description=help_,
            parents=[common],
            epilog=f"example: magma-gpu bench {name} --data {name}.json --out runs/{name} --no-answers",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("--data", metavar="FILE", type=Path, required=True, help="the benchmark's JSON file")
        one.add_argument("--out", metavar="DIR", type=Path, required=True, help="the run: store, steps, report")
        one.add_argument("--limit", metavar="N", type=int, help="the first N questions and what they need")
        one.add_argument("--sample", metavar="N", type=int, help="N questions evenly spaced over the benchmark")
        one.add_argument(
            "--systems", metavar="A,B,...", help="what is measured; default: policies, baselines, ablations"
        )
        one.add_argument("--resamples", metavar="N", type=int, default=2000, help="of the bootstrap (default 2000)")
        one.add_argument("--seed", metavar="N", type=int, default=0, help="of the bootstrap (default 0)")
        one.add_argument(
            "--ignore-time", action="store_true", help="ask after everything was said, whatever the questions' dates"
        )
        if name == "locomo":
            one.add_argument("--audit", metavar="FILE", type=Path, help="corrections of the gold, scored beside it")
        _add_engine(one, default=None)
        one.add_argument("--no-answers", action="store_true", help="retrieval alone (as without --answers)")
        one.add_argument("--judge", metavar="MODEL", help="a model that judges the answers, lenient and strict")
        one.add_argument("--judge-tokens", metavar="N", type=int, help="of one verdict; default: --max-tokens")
        one.add_argument("--judge-url", metavar="URL", help="of the judge's server; default: --base-url")
    text = "Compares two runs, question by question."
    compare = kinds.add_parser(
        "compare",
        help=text,
        description=text,
        parents=[common],
        epilog="examples: magma-gpu bench compare runs/a runs/b\n"
        "          magma-gpu bench compare runs/a:bm25 runs/a:smooth",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument("first", metavar="RUN", help="the folder of a run, or RUN:SYSTEM")
    compare.add_argument("second", metavar="RUN")
    compare.add_argument("--gold", choices=["original", "audited"], default="original")
    compare.add_argument("--resamples", metavar="N", type=int, default=10_000)
    compare.add_argument("--seed", metavar="N", type=int, default=0)


def _add_engine(parser: argparse.ArgumentParser, default: str | None) -> None:
    flag = "--answers" if default is None else "--engine"
    parser.add_argument(
        flag,
        dest="engine",
        metavar="ENGINE",
        default=default,
        choices=["extractive", "openai"],
        help="extractive (no model) or openai (any OpenAI-compatible server)"
        + (f"; default {default}" if default else ""),
    )
    parser.add_argument("--base-url", metavar="URL", default="http://localhost:8000/v1", help="of the server")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="the server's name of the model that answers" + ("" if default else " and that systems use"),
    )
    parser.add_argument("--concurrency", metavar="N", type=int, default=16, help="requests at once (default 16)")
    parser.add_argument("--max-tokens", metavar="N", type=int, default=256, help="of one reply (default 256)")


def _chat(args: argparse.Namespace, model: str | None, url: str, max_tokens: int | None = None) -> "ChatConfig":
    from magma_gpu.chat_client import ChatConfig

    return ChatConfig(
        base_url=url, model=model or "", concurrency=args.concurrency, max_tokens=max_tokens or args.max_tokens
    )


def _engine(args: argparse.Namespace) -> "Engine":
    if args.engine == "openai":
        from magma_gpu.chat_client import OpenAIEngine

        return OpenAIEngine(_chat(args, args.model, args.base_url))
    from magma_gpu.extractive import ExtractiveEngine

    return ExtractiveEngine()


def run_bench(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    """Runs a `bench` command."""
    if args.bench == "compare":
        from magma_gpu.evaluate.comparison import compare_runs

        document = compare_runs(args.first, args.second, gold=args.gold, resamples=args.resamples, seed=args.seed)
        finish(args, document, show.compared(document))
        return 0
    from magma_pipelines.bench import BenchOptions
    from magma_pipelines.bench import run_bench as run

    if args.judge is not None and (args.no_answers or args.engine is None):
        raise InputError("--judge judges answers, and none are asked for; give --answers ENGINE.")
    options = BenchOptions(
        benchmark=args.bench,
        data=args.data,
        out=args.out,
        systems=tuple(s for s in (args.systems or "").split(",") if s),
        limit=args.limit,
        sample=args.sample,
        audit=getattr(args, "audit", None),
        ignore_time=args.ignore_time,
        engine=None if args.no_answers or args.engine is None else _engine(args),
        system_model=None if args.model is None else _chat(args, args.model, args.base_url),
        judge=None
        if args.judge is None
        else _chat(args, args.judge, args.judge_url or args.base_url, args.judge_tokens),
        resamples=args.resamples,
        seed=args.seed,
        quiet=args.quiet,
    )
    document = run(options, config)
    finish(args, document, show.benched(document, args.out))
    return 0


def add_answer(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Adds `answer`."""
    answer = command(
        "answer",
        "Answers a file of questions from the memories of a store.",
        "magma-gpu answer memories --queries questions.jsonl --answers answers.jsonl",
    )
    answer.add_argument("store", metavar="DIR", type=Path)
    answer.add_argument(
        "--queries",
        metavar="FILE",
        type=Path,
        required=True,
        help="JSONL or Parquet with memory_id, query_id, question",
    )
    answer.add_argument("--answers", metavar="FILE", type=Path, required=True, help="where they go: .jsonl or .parquet")
    _add_engine(answer, default="extractive")
    answer.add_argument("--write-back", action="store_true", help="adds questions and answers to their memories")


def run_answer(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    """Runs `answer`; 1 where the engine failed for some."""
    engine = _engine(args)
    from magma_pipelines.answers import answer_file

    document = answer_file(args.store, args.queries, args.answers, config, engine, write_back=args.write_back)
    finish(args, document, show.answered(document, args.answers))
    return 1 if document["failed"] else 0

"""The command line `magma-gpu`: arguments in, calls of the library, words or JSON out.

Commands that only look at a store import neither torch nor a model. What a user can cause ends in one sentence and
exit code 2; a build of which some inputs or shards failed ends with 1; Ctrl-C with 130.
"""

import argparse
import difflib
import io
import json
import logging
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from magma_gpu import __version__
from magma_gpu.config import Config, load_config
from magma_gpu.errors import InputError, MagmaError
from magma_gpu.schema import STAGES
from magma_pipelines import show, store_commands
from magma_pipelines.bench_cli import add_answer, add_bench, run_answer, run_bench
from magma_pipelines.completion import add_completion, script
from magma_pipelines.policy_cli import add_policy_options, run_policy


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are one sentence."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)$", message)
        if wrong:
            near = difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
            message += f", did you mean '{near[0]}'?" if near else ""
        print(f"magma-gpu: {message}; see: {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    common = _Parser(add_help=False)
    group = common.add_argument_group("everywhere")
    group.add_argument(
        "--config", metavar="FILE.toml", type=Path, help="settings of the run (configs/ has complete ones)"
    )
    group.add_argument(
        "--set", metavar="SECTION.KEY=VALUE", action="append", default=[], help="one setting, over the config"
    )
    group.add_argument("--device", help="auto, cpu, cuda or cuda:N")
    group.add_argument("--runner", help="local or ray")
    group.add_argument("--json", action="store_true", help="the last line of standard output is one JSON document")
    group.add_argument("--quiet", action="store_true", help="no progress, no report")

    parser = _Parser(
        prog="magma-gpu",
        description="Conversation logs in, memory graphs out; questions answered from them in batches.",
        epilog="examples: magma-gpu build chats/ --out memories\n"
        '          magma-gpu query memories "Why did Ana move?" --memory ana\n'
        "magma-gpu COMMAND --help has an example of each command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"magma-gpu {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, help_: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=help_,
            description=help_,
            parents=[common],
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    build = command(
        "build",
        "Builds a store of memory graphs from logs, or extends one with what is new.",
        "magma-gpu build chats/ --out memories",
    )
    build.add_argument("inputs", metavar="INPUT", nargs="+", help="files, folders or globs")
    build.add_argument("--out", metavar="DIR", required=True, type=Path)
    build.add_argument("--format", default="auto", help="format of the inputs; auto (default) decides by content")
    build.add_argument("--memory-id", metavar="ID", help="whose memory it is, where the input does not say")
    build.add_argument(
        "--until", metavar="STAGE", default="resolve", choices=STAGES, help=f"last stage: {', '.join(STAGES)}"
    )
    build.add_argument("--overwrite", action="store_true", help="rebuild what other settings made")
    build.add_argument("--dry-run", action="store_true", help="build nothing; estimate turns, time and disk")
    build.add_argument(
        "--trust-files", action="store_true", help="no checksums of what is there already, for very large stores"
    )

    query = command(
        "query",
        "Finds the evidence for one question, or for a file of them.",
        'magma-gpu query memories "Why did Ana move?" --memory ana',
    )
    query.add_argument("store", metavar="DIR", type=Path)
    query.add_argument("question", metavar="QUESTION", nargs="?")
    query.add_argument("--memory", metavar="ID", help="may be left out where DIR holds one memory")
    query.add_argument("--policy", metavar="NAME", help="learned (default), gnn, smooth or paper")
    query.add_argument("--k", metavar="N", type=int, help="how many events to return")
    query.add_argument("--as-of", metavar="TIME", help="use nothing that was said later")
    query.add_argument(
        "--queries",
        metavar="FILE",
        type=Path,
        help="questions: JSONL or Parquet with memory_id, query_id, question",
    )
    query.add_argument("--results", metavar="FILE", type=Path, help="where results go: .jsonl or .parquet")

    export = command(
        "export",
        "Writes the graphs as Parquet, PyG graphs, GraphML or CSV for Neo4j.",
        "magma-gpu export memories --to parquet --out tables",
    )
    export.add_argument("store", metavar="DIR", type=Path)
    export.add_argument(
        "--to", metavar="FORMAT", required=True, help="parquet, hetero (PyTorch Geometric), graphml or neo4j-csv"
    )
    export.add_argument("--out", metavar="PATH", required=True, type=Path, help="a folder that does not exist yet")
    export.add_argument("--memory", metavar="ID", help="one memory alone")
    export.add_argument("--since", metavar="TIME", help="only what was said at or after this time")

    explore = command(
        "explore",
        "Writes one HTML page that shows a memory's graph, and the path that questions took.",
        'magma-gpu explore memories --memory ana --query "Why did Ana move?" --out ana.html',
    )
    explore.add_argument("store", metavar="DIR", type=Path)
    explore.add_argument("--out", metavar="FILE.html", required=True, type=Path)
    explore.add_argument("--memory", metavar="ID", help="may be left out where DIR holds one memory")
    explore.add_argument("--query", metavar="QUESTION", action="append", default=[], help="may be given several times")
    explore.add_argument("--policy", metavar="NAME", help="as for query; paper walks the graph hop by hop")
    explore.add_argument("--k", metavar="N", type=int, help="how many events a question returns")
    explore.add_argument("--as-of", metavar="TIME", help="questions use nothing that was said later")

    add_answer(command)
    add_bench(commands, common)

    for name, help_ in (
        ("memories", "Lists the memories of a store: sessions, turns, dates."),
        ("status", "Says what is done, missing and failed, and what the last runs did."),
        ("verify", "Checks every checksum, count and invariant of a store."),
    ):
        command(name, help_, f"magma-gpu {name} memories").add_argument("store", metavar="DIR", type=Path)
    store_commands.add_commands(command)
    command(
        "doctor",
        "Says which packages and devices are here, and what is missing for what.",
        "magma-gpu doctor",
    )
    train = command(
        "train",
        "Fits small models of our own again and writes them with their scores.",
        "magma-gpu train intent",
    )
    train.add_argument("what", choices=["intent", "ranker", "policy"])
    train.add_argument("--questions", metavar="FILE", type=Path, help="JSONL with question and intent; default: ours")
    train.add_argument(
        "--longmemeval", metavar="FILE", type=Path, help="LongMemEval, as more data for ranker and policy"
    )
    train.add_argument("--out", metavar="FILE", type=Path, help="where the weights go; default: those that are shipped")
    add_policy_options(train)
    add_completion(command)
    return parser


def _config(args: argparse.Namespace) -> Config:
    settings = list(args.set)
    for key, value in (("run.device", args.device), ("run.runner", args.runner)):
        if value is not None:
            settings.append(f"{key}={value}")
    for key, name in (("search.policy", "policy"), ("search.k", "k")):
        if getattr(args, name, None) is not None:
            settings.append(f"{key}={getattr(args, name)}")
    return load_config(args.config, settings)


def _finish(args: argparse.Namespace, document: Any, text: str) -> None:
    if not args.quiet and text:
        print(text)
    if args.json:
        # Escapes keep it one line for every reader: some characters of a log end a line elsewhere.
        print(json.dumps(document))


def _build(args: argparse.Namespace) -> int:
    from magma_gpu.readers import check_format
    from magma_pipelines.build import BuildOptions, build, dry_run

    if args.format != "auto":
        check_format(args.format)
    config = _config(args)
    options = BuildOptions(
        format=args.format,
        memory_id=args.memory_id,
        until=args.until,
        overwrite=args.overwrite,
        quiet=args.quiet,
        checksum=not args.trust_files,
    )
    if args.dry_run:
        estimate = dry_run(args.inputs, args.out, config, options)
        _finish(args, estimate, show.estimate(estimate))
        return 0
    report = build(args.inputs, args.out, config, options)
    _finish(args, report.to_json(), show.build_report(report.to_json(), args.out))
    for sentence in report.skipped_inputs:
        print(f"magma-gpu: {sentence}", file=sys.stderr)
    for failure in report.failed:
        where = args.out / "failed" / failure.stage
        print(
            f"magma-gpu: shard {failure.shard} failed in {failure.stage} ({failure.error}); see {where}",
            file=sys.stderr,
        )
    return 1 if report.failed or report.skipped_inputs else 0


def _query(args: argparse.Namespace) -> int:
    if (args.question is None) == (args.queries is None):
        raise InputError("query wants one QUESTION or --queries FILE, not both and not neither.")
    if args.results is not None and args.results.suffix not in (".jsonl", ".parquet"):
        raise InputError(f"--results wants a name ending in .jsonl or .parquet (got '{args.results}').")
    config = _config(args)
    from magma_gpu.memory import Memory
    from magma_pipelines.queries import ask_all, read_queries, write_results

    memory = Memory.open(args.store, config)
    if args.question is not None:
        results = memory.query([args.question], args.memory, args.as_of)
    else:
        results = ask_all(memory, read_queries(args.queries, args.memory, args.as_of), quiet=args.quiet)
    if args.results is not None:
        write_results(args.results, results)
    document = {"results": [r.to_json() for r in results]}
    if args.queries is not None:
        text = f"{len(results)} questions answered" + (f"; results: {args.results}" if args.results else "")
    else:
        # Lines are folded for eyes alone; what a program reads keeps an event on a line.
        text = show.result(results[0], shutil.get_terminal_size().columns if sys.stdout.isatty() else None)
    _finish(args, document, text)
    return 0


def _memories(args: argparse.Namespace) -> int:
    from magma_gpu.store import Store

    store = Store(args.store)
    manifest = store.open()
    rows = [
        row
        for _, entry in sorted(manifest.tables.get("memories", {}).items())
        for row in store.read_table(entry, "memories").to_pylist()
    ]
    rows.sort(key=lambda r: r["memory_id"])
    for row in rows:
        for name in ("first_time", "last_time"):
            row[name] = row[name] and row[name].strftime("%Y-%m-%dT%H:%M:%SZ")
    _finish(args, {"memories": rows}, show.memories(rows))
    return 0


def _export(args: argparse.Namespace) -> int:
    from magma_gpu.export import export_store
    from magma_pipelines.progress import progress

    with progress("export", 0, quiet=args.quiet, unit="memory") as shown:
        report = export_store(args.store, args.to, args.out, memory_id=args.memory, since=args.since, told=shown.at)
    _finish(args, report.to_json(), show.exported(report.to_json()))
    return 0


def _explore(args: argparse.Namespace) -> int:
    config = _config(args)
    from magma_gpu.explore import explore

    report = explore(args.store, args.out, memory_id=args.memory, questions=args.query, as_of=args.as_of, config=config)
    _finish(args, report.to_json(), show.explored(report.to_json()))
    return 0


def _status(args: argparse.Namespace) -> int:
    from magma_pipelines.status import status

    document = status(args.store)
    _finish(args, document, show.status(document))
    return 0


def _verify(args: argparse.Namespace) -> int:
    from magma_gpu.store import Store
    from magma_gpu.verify import verify

    result = verify(Store(args.store))
    _finish(args, result.to_json(), show.verified(result.to_json()))
    return 0 if result.clean else 1


def _on_stores(args: argparse.Namespace) -> int:
    return store_commands.run_command(args, _config(args), _finish)


def _doctor(args: argparse.Namespace) -> int:
    from magma_pipelines.doctor import examine

    document = examine(_config(args))
    _finish(args, document, show.doctor(document))
    return 0


def _train(args: argparse.Namespace) -> int:
    if args.what == "policy":
        document = run_policy(args, _config(args))
    elif args.what == "ranker":
        from magma_pipelines.ranking import train_ranker

        document = train_ranker(_config(args), args.longmemeval, args.out)
    else:
        from magma_pipelines.training import train_intent

        document = train_intent(_config(args), args.questions, args.out)
    _finish(args, document, json.dumps(document, indent=1))
    return 0


def _bench(args: argparse.Namespace) -> int:
    return run_bench(args, _config(args), _finish)


def _answer(args: argparse.Namespace) -> int:
    return run_answer(args, _config(args), _finish)


def _completion(args: argparse.Namespace) -> int:
    text = script(_parser(), args.shell)
    _finish(args, {"shell": args.shell, "script": text}, text)
    return 0


_COMMANDS = {
    **dict.fromkeys(store_commands.COMMANDS, _on_stores),
    "build": _build,
    "query": _query,
    "export": _export,
    "explore": _explore,
    "memories": _memories,
    "status": _status,
    "verify": _verify,
    "doctor": _doctor,
    "train": _train,
    "answer": _answer,
    "bench": _bench,
    "completion": _completion,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows its escape; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="backslashreplace")
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="magma-gpu: %(message)s", stream=sys.stderr)
    try:
        return _COMMANDS[args.command](args)
    except MagmaError as error:
        print(f"magma-gpu: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("magma-gpu: interrupted; what was finished is kept, run it again to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read standard output has left; there is nobody to tell.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())

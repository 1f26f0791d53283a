"""The commands that work on stores: `extract`, `merge`, `reshard`, `diff` and `forget`."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from magma_gpu.config import Config
from magma_pipelines import show


class AddCommand(Protocol):
    """Adds a subcommand to the command line."""

    def __call__(self, name: str, help_: str, example: str) -> argparse.ArgumentParser: ...


# Prints a result: arguments, document, words.
Finish = Callable[[argparse.Namespace, Any, str], None]


def add_commands(command: AddCommand) -> None:
    """Adds the arguments of these commands."""
    extract = command(
        "extract",
        "Runs the slow path over what lacks it; needs no logs.",
        "magma-gpu extract memories",
    )
    extract.add_argument("store", metavar="DIR", type=Path)
    extract.add_argument("--retry-failed", action="store_true", help="again where windows have failed, and only these")
    merge = command(
        "merge",
        "Makes one store of several that were built with the same settings.",
        "magma-gpu merge north south --out all",
    )
    merge.add_argument("stores", metavar="DIR", nargs="+", type=Path)
    merge.add_argument("--out", metavar="DIR", required=True, type=Path, help="the new store")
    reshard = command(
        "reshard",
        "Splits or joins the shards of a store; its rows stay the same.",
        "magma-gpu reshard memories --num-shards 64",
    )
    reshard.add_argument("store", metavar="DIR", type=Path)
    reshard.add_argument("--num-shards", metavar="N", type=int, required=True, help="a power of two")
    diff = command("diff", "Says what differs between two stores, by table and memory.", "magma-gpu diff old new")
    diff.add_argument("first", metavar="DIR", type=Path)
    diff.add_argument("second", metavar="DIR", type=Path)
    forget = command(
        "forget",
        "Takes a memory, a session or a turn out, and keeps it out of later builds.",
        "magma-gpu forget memories --memory ana",
    )
    forget.add_argument("store", metavar="DIR", type=Path)
    forget.add_argument("--memory", metavar="ID", required=True)
    forget.add_argument("--session", metavar="ID", help="only this session of it")
    forget.add_argument("--event", metavar="ID", help="only the turn of this event")


def run_command(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    """Runs one of these commands; returns its exit code."""
    return _COMMANDS[args.command](args, config, finish)


def _extract(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    from magma_pipelines.merge import extract

    report = extract(args.store, config, retry_failed=args.retry_failed, quiet=args.quiet).to_json()
    finish(args, report, show.build_report(report, args.store))
    return _report_failed(report["failed"], args.store)


def _merge(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    from magma_pipelines.merge import merge

    report = merge(args.stores, args.out, config, quiet=args.quiet).to_json()
    finish(args, report, show.build_report(report, args.out))
    return _report_failed(report["failed"], args.out)


def _reshard(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    from magma_pipelines.reshard import reshard

    document = reshard(args.store, config, args.num_shards)
    change = document["resharded"]
    finish(args, document, f"{args.store} has {change['to']} shards now (it had {change['from']}).")
    return 0


def _diff(args: argparse.Namespace, _: Config, finish: Finish) -> int:
    from magma_pipelines.diff import diff

    document = diff(args.first, args.second)
    finish(args, document, _diff_text(document))
    return 0


def _diff_text(document: dict[str, Any]) -> str:
    rows = [
        (name, c["same"], c["only_in_first"], c["only_in_second"], c["changed"])
        for name, c in document["tables"].items()
    ]
    lines = ["The stores hold the same rows." if document["equal"] else "The stores differ."]
    lines += [f"setting {sentence}" for sentence in document["settings"]]
    lines.append(show.table(rows, ("table", "same", "only first", "only second", "changed")))
    lines += [f"memory '{memory}': {count} rows differ" for memory, count in document["memories"].items()]
    if (more := document["num_memories"] - len(document["memories"])) > 0:
        lines.append(f"... and {more} more memories")
    return "\n".join(lines)


def _forget(args: argparse.Namespace, config: Config, finish: Finish) -> int:
    from magma_pipelines.forget import forget

    document = forget(args.store, config, args.memory, args.session, args.event, quiet=args.quiet)
    rows = [(table, count) for table, count in document["rows"].items()]
    finish(args, document, "gone, by table:\n" + show.table(rows, ("table", "rows")))
    return _report_failed(document["failed"], args.store)


def _report_failed(failed: list[dict[str, Any]], store: Path) -> int:
    for failure in failed:
        where = store / "failed" / failure["stage"]
        print(
            f"magma-gpu: shard {failure['shard']} failed in {failure['stage']} ({failure['error']}); see {where}",
            file=sys.stderr,
        )
    return 1 if failed else 0


_COMMANDS: dict[str, Callable[[argparse.Namespace, Config, Finish], int]] = {
    "extract": _extract,
    "merge": _merge,
    "reshard": _reshard,
    "diff": _diff,
    "forget": _forget,
}
COMMANDS = tuple(_COMMANDS)

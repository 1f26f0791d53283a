"""Completion of commands, options, files and known values for a shell, as a script that the shell reads.

The script is made from the parser of the command line by shtab, so it needs no Python while someone types. Memories of
a store are not completed: that would read the store at every key.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from magma_gpu.errors import missing_package

SHELLS = ("bash", "zsh", "tcsh", "fish")
# As the setting search.policy takes them.
POLICIES = ("learned", "gnn", "smooth", "paper")


def add_completion(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Adds `completion`."""
    one = command(
        "completion",
        "Prints a script with which a shell completes commands, options and files.",
        'eval "$(magma-gpu completion bash)"',
    )
    one.add_argument("shell", choices=SHELLS)


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one shell.

    Args:
        parser: of the whole command line; it is changed, and good for nothing else afterwards.
        shell: one of SHELLS.

    Raises:
        MissingPackageError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise missing_package("shtab", "cpu", "completion in a shell") from None
    known = _known_values()
    for action in _actions(parser):
        if action.dest in known and action.choices is None:
            action.choices = known[action.dest]
        elif action.type is Path or action.dest == "inputs":
            folder = action.metavar == "DIR"
            action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _known_values() -> dict[str, Sequence[str]]:
    """Values of options that the parser leaves open, because the config or the library checks them."""
    from magma_gpu.export import FORMATS as EXPORTS
    from magma_gpu.readers import FORMATS as READERS

    return {
        "policy": POLICIES,
        "to": EXPORTS,
        "format": ("auto", *READERS),
        "device": ("auto", "cpu", "cuda"),
        "runner": ("local", "ray"),
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)

"""Help has an example that the parser takes, and a shell completes what is typed."""

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import Ran, refused
from magma_gpu.config import SearchConfig
from magma_gpu.errors import ConfigError
from magma_pipelines.cli import _parser
from magma_pipelines.completion import POLICIES, SHELLS, script

# Puts words before a cursor, as a shell does, and prints what bash would offer.
_TRY = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
compopt() { :; }
how=$(complete -p magma-gpu); [[ $how =~ -F\\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" magma-gpu "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def _commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield f"{name} {word}".strip(), below
                yield from _commands(below, f"{name} {word}".strip())


COMMANDS = dict(_commands(_parser()))


def test_all_commands_are_seen() -> None:
    assert len(COMMANDS) == 20
    assert {"build", "bench locomo", "completion"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_is_taken(name: str) -> None:
    words = COMMANDS[name].format_help().split("example", 1)[1]
    examples = re.findall(r"magma-gpu [^)\n]+", words)
    assert examples
    for example in examples:
        arguments = shlex.split(example)[1:]
        assert arguments[: len(name.split())] == name.split() or name == "bench"
        assert _parser().parse_args(arguments).command == name.split()[0]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for shell in SHELLS:
        made[shell] = tmp_path_factory.mktemp("completion") / f"script.{shell}"
        made[shell].write_text(script(_parser(), shell), encoding="utf-8")
    return made


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_its_script(shell: str, scripts: dict[str, Path]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    read = ["-c", f"source {scripts[shell]}"] if shell == "tcsh" else ["-n", str(scripts[shell])]
    done = subprocess.run([shell, *read], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["ex"], {"export", "explore", "extract"}),
        (["query", "chats", "--pol"], {"--policy"}),
        (["query", "chats", "--policy", ""], set(POLICIES)),
        (["export", "chats", "--to", "g"], {"graphml"}),
        (["build", "chats", "--until", "l"], {"link"}),
        (["bench", ""], {"locomo", "longmemeval", "compare"}),
        (["build", "ch"], {"chats", "chosen.jsonl"}),
        # A store is a folder, so files are not offered.
        (["status", "ch"], {"chats"}),
        (["completion", ""], set(SHELLS)),
    ],
)
def test_bash_completes(typed: list[str], offered: set[str], scripts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "chosen.jsonl").touch()
    done = subprocess.run(
        ["bash", "-c", _TRY, "bash", scripts["bash"], "magma-gpu", *typed],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed here")
def test_fish_completes(scripts: dict[str, Path]) -> None:
    ask = f'source {scripts["fish"]}; complete -C "magma-gpu export chats --to n"'
    done = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["neo4j-csv"]


def test_policies_are_those_of_the_setting() -> None:
    for policy in POLICIES:
        assert SearchConfig(policy=policy).policy == policy
    with pytest.raises(ConfigError) as refusal:
        SearchConfig(policy="none")
    assert all(policy in str(refusal.value) for policy in POLICIES)


def test_a_slip_of_the_finger_is_answered_with_the_word_that_was_meant(run: Callable[..., Ran]) -> None:
    assert ", did you mean 'query'?; see: magma-gpu --help" in refused(run("querry", "memories"))
    assert ", did you mean 'resolve'?" in refused(run("build", "x", "--out", "y", "--until", "resolved"))
    assert "did you mean" not in refused(run("zzz"))


def test_the_command_prints_the_script(run: Callable[..., Ran], scripts: dict[str, Path]) -> None:
    printed = run("completion", "bash")
    assert printed.out == scripts["bash"].read_text(encoding="utf-8") + "\n"
    assert json.loads(run("completion", "zsh", "--json").out.splitlines()[-1])["shell"] == "zsh"
    assert "invalid choice: 'cmd'" in refused(run("completion", "cmd"))

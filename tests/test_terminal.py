"""What people read on a terminal: evidence, tables, and the bar of long work."""

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from magma_gpu import Memory
from magma_gpu.config import load_config
from magma_gpu.errors import InputError
from magma_gpu.types import Question
from magma_pipelines import show
from magma_pipelines.cli import main
from magma_pipelines.progress import progress
from magma_pipelines.queries import ask_all
from magma_pipelines.tasks import ShardDone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Found:
    """A result as `show.result` takes it."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_json(self) -> dict[str, Any]:
        plain = {"window": None, "missing": [], "context_tokens": 7, "question": "Why?", "evidence": []}
        return plain | {"intent": {"why": 0.9, "when": 0.1, "entity": 0.0, "open": 0.0}} | self.fields


EVENT = {
    "time": "2024-03-22T20:22:00Z",
    "speaker": "Ana",
    "text": "I handed in\nmy notice   because the shop is shut.",
    "turn_id": "t9",
    "score": 0.5,
    "signals": {"dense": 2, "lexical": 1},
    "path": [{"label": "t7", "edge_type": "causal"}],
}


def test_evidence_is_two_lines_of_who_when_what_and_why() -> None:
    assert show.result(Found(evidence=[EVENT])).splitlines() == [
        "Why?",
        "intent: why 0.90, when 0.10",
        "  1. 2024-03-22 20:22  Ana: I handed in my notice because the shop is shut.",
        "     [t9] score 0.50; meaning #2, words #1; path t7 -causal-> here",
        "(7 tokens of context)",
    ]


def test_lines_are_folded_for_a_narrow_terminal() -> None:
    folded = show.result(Found(evidence=[EVENT]), 44).splitlines()
    assert max(map(len, folded)) <= 44
    assert folded[2:5] == [
        "  1. 2024-03-22 20:22  Ana: I handed in my",
        "     notice because the shop is shut.",
        "     [t9] score 0.50; meaning #2, words #1;",
    ]
    unfolded = show.result(Found(evidence=[EVENT]))
    assert " ".join(" ".join(folded).split()) == " ".join(unfolded.split())


def test_nothing_found_is_said() -> None:
    assert "Nothing in this memory fits." in show.result(Found())
    assert "not made yet: causal edges" in show.result(Found(missing=["causal"]))


def test_status_says_what_each_stage_holds_and_where_failures_are() -> None:
    stage = {"stage": "link", "done": 1, "missing": 1, "failed": 1, "failed_shards": ["shard-00001"], "model": None}
    rows = {"edges/temporal": 1234, "edges/causal": 1, "entities": 1, "edges/semantic": 0}
    said = show.status(
        {
            "store": "out",
            "memories": 1,
            "turns": 2,
            "shards": 2,
            "stages": [{**stage, "tables": rows}],
            "building": True,
            "last_run": None,
        }
    )
    assert said.splitlines() == [
        "out: 1 memory, 2 turns, 2 shards",
        "stage  shards done  missing  failed  rows                                           model",
        "-----  -----------  -------  ------  ---------------------------------------------  -----",
        "link             1        1       1  1,234 temporal edges, 1 causal edge, 1 entity",
        "link has failed for shard-00001: see out/failed/link",
        "An unfinished build is here; run build again to finish it.",
    ]


def test_the_bar_shows_stage_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("build", 4, quiet=False, unit="shard") as shown:
        shown._bar.mininterval = 0
        shown.add(ShardDone("embed", 0, {}, rows_in=1200, counts={}, seconds=1.0, load_seconds=0.0))
        shown._bar.refresh()
    last = [line for line in screen.getvalue().split("\r") if "1/4" in line][-1]
    assert re.search(r"build: +25%.*1/4 \[\d\d:\d\d<\d\d:\d\d.*(shard/s|s/shard), embed 1,200\]", last), last


@pytest.mark.parametrize("screen", [io.StringIO(), Terminal()])
def test_no_bar_without_a_terminal_or_when_quiet(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("build", 4, quiet=screen.isatty(), unit="shard") as shown:
        shown.step(4)
    assert screen.getvalue() == ""


def test_work_of_unknown_size_says_it_when_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("export", 0, quiet=False, unit="memory") as shown:
        shown._bar.mininterval = 0
        shown.at(2, 8)
        shown.at(6, 8)
        shown._bar.refresh()
    last = [line for line in screen.getvalue().split("\r") if "6/8" in line][-1]
    assert re.search(r"export: +75%.*6/8 \[\d\d:\d\d<\d\d:\d\d.*(memory/s|s/memory)\]", last), last


@pytest.mark.parametrize(("quiet", "terminal"), [(False, True), (True, True), (False, False)])
def test_an_export_shows_how_far_it_is(
    examples_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: bool, terminal: bool
) -> None:
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    said = ["--quiet"] if quiet else []
    assert main(["export", str(examples_store), "--to", "neo4j-csv", "--out", str(tmp_path / "out"), *said]) == 0
    shown = not quiet and terminal
    assert ("export: " in screen.getvalue()) == shown
    assert shown or screen.getvalue() == ""


def test_a_file_of_questions_is_asked_in_parts_with_equal_results(
    examples_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import magma_pipelines.queries

    monkeypatch.setattr(magma_pipelines.queries, "_BATCH", 2)
    memory = Memory.open(examples_store, load_config(None, ["search.policy=smooth", "search.k=3"]))
    texts = ("Who went to Porto?", "When was the concert?", "Why did it rain?", "What is new?", "Who called?")
    names = ("wes", "ana", "samira", "ana", "wes")
    asked = [Question(memory_id=m, query_id=t, question=t) for m, t in zip(names, texts, strict=True)]
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    found = ask_all(memory, asked, quiet=False)
    assert [r.to_json() for r in found] == [r.to_json() for r in memory.ask(asked)]
    assert "question" in screen.getvalue()
    with pytest.raises(InputError, match="nobody"):
        ask_all(memory, [*asked, Question(memory_id="nobody", query_id="x", question="x")], quiet=True)

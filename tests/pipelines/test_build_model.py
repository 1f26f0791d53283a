"""Builds with a language model, which is played: what a killed run loses, and what is asked again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from magma_gpu.config import Config, config_from
from magma_gpu.extract import engines
from magma_gpu.extract.model_engine import Asked, GeneratorDiedError, ModelExtractor, Said
from magma_gpu.store import LEDGER, Store
from magma_gpu.verify import verify
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.forget import forget
from magma_pipelines.kept import KEPT, Kept
from magma_pipelines.merge import extract
from magma_pipelines.reshard import reshard

QUIET = BuildOptions(quiet=True)


class Player:
    """Counts what it is asked, in all processes' lives; can be killed, die, or fail at some prompts."""

    identity: ClassVar = {"model": "player"}

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.calls = 0
        self.killed_in: int | None = None
        self.dies_in: int | None = None
        self.fails_at = "nothing"

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        self.calls += 1
        if self.calls == self.killed_in:
            raise KeyboardInterrupt
        if self.calls == self.dies_in:
            raise GeneratorDiedError("gone", [])
        self.asked += [one.messages[-1][1] for one in asked]
        return [self._answer(one) for one in asked]

    def _answer(self, one: Asked) -> Said:
        user = one.messages[-1][1]
        if self.fails_at in user:
            return Said(id=one.id, text="no JSON", prompt_tokens=8, output_tokens=2)
        mentions = [{"event": 0, "name": "Porto", "type": "place"}]
        return Said(id=one.id, text=json.dumps({"mentions": mentions, "causal": []}), prompt_tokens=8, output_tokens=5)


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Player:
    made = Player()
    monkeypatch.setattr(engines, "make_extractor", lambda config: ModelExtractor("openai", made, max_tokens=50))
    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One memory of forty turns: twenty windows of four with two repeated."""
    rows = [
        {"memory_id": "m", "session_id": "s", "turn_id": str(at), "speaker": "Ana", "text": f"Porto, day {at}."}
        for at in range(40)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def _config(**run: Any) -> Config:
    return config_from(
        {
            "embed": {"encoder": "hash"},
            "extract": {"engine": "openai", "model": "m", "window": 4, "overlap": 2},
            "run": {"device": "cpu", "llm_chunk": 4} | run,
        }
    )


def _files(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*.parquet"))}


def _ledger(out: Path) -> Any:
    return json.loads((out / LEDGER).read_text())["runs"][-1]["stages"]["extract"]


def test_a_killed_run_loses_one_chunk_and_ends_in_the_same_bytes(player: Player, log: Path, tmp_path: Path) -> None:
    build([str(log)], tmp_path / "whole", _config(), QUIET)
    windows = len(player.asked)
    assert windows == len(set(player.asked)) == 19
    player.asked, player.calls, player.killed_in = [], 0, 4
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        build([str(log)], out, _config(), QUIET)
    assert len(player.asked) == 12
    assert len(list((out / KEPT).iterdir())) == 3
    build([str(log)], out, _config(), QUIET)
    # Three chunks were kept: only the one it was at, and what came after, is asked now.
    assert len(player.asked) == len(set(player.asked)) == windows
    assert _files(out) == _files(tmp_path / "whole")
    assert not (out / KEPT).exists() or not list((out / KEPT).iterdir())


def test_an_engine_that_dies_costs_its_chunk_and_that_can_be_retried_alone(
    player: Player, log: Path, tmp_path: Path
) -> None:
    player.dies_in = 2
    out = tmp_path / "out"
    report = build([str(log)], out, _config(), QUIET)
    assert not report.failed
    counts = _ledger(out)
    assert (counts["windows_failed"], counts["windows_ok"], counts["engine_deaths"]) == (4, 15, 1)
    assert (counts["prompt_tokens"], counts["output_tokens"], counts["model"]) == (15 * 8, 15 * 5, "m")
    # Nothing is asked without being told to.
    asked = len(player.asked)
    extract(out, _config(), quiet=True)
    assert len(player.asked) == asked == 15
    extract(out, _config(), retry_failed=True, quiet=True)
    assert len(player.asked) == len(set(player.asked)) == 19
    counts = _ledger(out)
    assert (counts["windows_failed"], counts["windows_reused"], counts["prompt_tokens"]) == (0, 15, 4 * 8)
    whole = tmp_path / "whole"
    player.calls = player.dies_in = 0
    build([str(log)], whole, _config(llm_chunk=100), QUIET)
    assert _files(out) == _files(whole)


def test_every_row_is_there_whatever_the_model_says(player: Player, log: Path, tmp_path: Path) -> None:
    player.fails_at = "day 20."
    build([str(log)], tmp_path / "out", _config(), QUIET)
    (file,) = (tmp_path / "out" / "extracts").glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert len(rows) == 19
    failed = [r for r in rows if r["status"] == "failed"]
    assert [(r["first"], r["last"]) for r in failed] == [(18, 21), (20, 23)]
    assert all(r["error"] == "no JSON object in the answer" and r["output"] is None for r in failed)


def test_a_new_session_is_all_that_is_asked_about(player: Player, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build([str(log)], out, _config(), QUIET)
    asked = len(player.asked)
    more = tmp_path / "more.jsonl"
    row = {"memory_id": "m", "session_id": "t", "turn_id": "x", "speaker": "Bo", "text": "Lisbon."}
    more.write_text(json.dumps(row), encoding="utf-8")
    build([str(more)], out, _config(), QUIET)
    assert len(player.asked) == asked + 1
    assert "Lisbon" in player.asked[-1]


def test_what_was_kept_is_forgotten_too(player: Player, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build([str(log)], out, _config(), QUIET)
    kept = Kept(Store(out), "extracts", 0)
    (file,) = (out / "extracts").glob("*.parquet")
    kept.add(pq.read_table(file))
    assert (rows := kept.read()) is not None
    assert rows.num_rows == 19
    forget(out, _config(), "m", quiet=True)
    assert kept.read() is None


def test_a_chunk_that_cannot_be_read_is_no_chunk(player: Player, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    player.killed_in = 3
    with pytest.raises(KeyboardInterrupt):
        build([str(log)], out, _config(), QUIET)
    first, second = sorted((out / KEPT).iterdir())
    first.write_bytes(second.read_bytes()[:40])
    build([str(log)], out, _config(), QUIET)
    assert len(set(player.asked)) == 19
    assert len(player.asked) == 23


def test_consolidation_waits_for_links_and_survives_what_is_done_to_stores(tmp_path: Path) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples" / "conversations.jsonl"

    def made(out: str, num_shards: int) -> Path:
        config = config_from(
            {
                "ingest": {"num_shards": num_shards},
                "embed": {"encoder": "hash"},
                "link": {"threshold": 0.2},
                "extract": {"consolidate": True, "window": 4, "overlap": 1},
                "run": {"device": "cpu"},
            }
        )
        report = build([str(examples)], tmp_path / out, config, QUIET)
        assert not report.failed
        assert verify(Store(tmp_path / out)).clean
        return tmp_path / out

    one, two = made("one", 1), made("two", 2)
    rows = pq.read_table(next((one / "extracts").glob("*.parquet"))).to_pylist()
    assert any('"history":' in (r["output"] or "") for r in rows)
    assert [(r["memory_id"], r["first"], r["window_id"]) for r in rows] == sorted(
        (r["memory_id"], r["first"], r["window_id"]) for r in rows
    )
    reshard(one, config_from({"run": {"device": "cpu"}}), 2)
    assert _files(one) == _files(two)
    # Nothing is left to do, and nothing is done twice.
    assert not extract(one, config_from({"run": {"device": "cpu"}}), quiet=True).stages


def test_a_run_killed_while_it_looks_far_back_loses_nothing_of_what_came_before(
    player: Player, log: Path, tmp_path: Path
) -> None:
    config = config_from(
        {
            "embed": {"encoder": "hash"},
            "link": {"threshold": 0.1},
            "extract": {"engine": "openai", "model": "m", "window": 4, "overlap": 2, "consolidate": True},
            "run": {"device": "cpu", "llm_chunk": 4},
        }
    )
    build([str(log)], tmp_path / "whole", config, QUIET)
    everything = len(player.asked)
    far = sum(user.startswith("EARLIER") for user in player.asked)
    assert everything == 19 + far > 23
    # Five chunks of windows, then the first of those that look back, then killed.
    player.asked, player.calls, player.killed_in = [], 0, 7
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        build([str(log)], out, config, QUIET)
    assert len(player.asked) == 19 + 4
    build([str(log)], out, config, QUIET)
    assert len(player.asked) == len(set(player.asked)) == everything
    assert _files(out) == _files(tmp_path / "whole")

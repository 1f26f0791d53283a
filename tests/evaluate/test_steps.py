"""Step files: complete or not there, made anew for another fingerprint."""

from collections.abc import Sequence
from pathlib import Path

from magma_gpu.evaluate.steps import Row, Steps, code_hash


def test_parts_are_made_once_and_again_only_where_something_is_wrong(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    made: list[int] = []

    def make(part: Sequence[int]) -> list[Row]:
        made.extend(part)
        return [{"value": v, "error": None if v != 3 or made.count(3) > 1 else "failed"} for v in part]

    def done(row: Row) -> bool:
        return row["error"] is None

    first = steps.parts("x/a", "f", [1, 2, 3], 2, make, done)
    assert [r["value"] for r in first] == [1, 2, 3]
    assert made == [1, 2, 3]
    second = steps.parts("x/a", "f", [1, 2, 3], 2, make, done)
    # The part that holds a failed row is tried again, the other is not.
    assert made == [1, 2, 3, 3]
    assert all(done(r) for r in second)
    steps.parts("x/a", "f", [1, 2, 3], 2, make, done)
    assert made == [1, 2, 3, 3]
    steps.parts("x/a", "g", [1, 2, 3], 2, make, done)
    assert made == [1, 2, 3, 3, 1, 2, 3]
    assert [r["value"] for r in steps.earlier("x/*")] == [1, 2, 3]
    # What is there already counts too.
    heard: list[int] = []
    steps.parts("x/a", "g", [1, 2, 3], 2, make, done, told=heard.append)
    assert heard == [2, 1]


def test_a_cut_file_counts_as_absent(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    steps.write("rows.jsonl", "f", [{"a": 1}, {"a": 2}])
    assert steps.read("rows.jsonl", "f") == [{"a": 1}, {"a": 2}]
    path = tmp_path / "rows.jsonl"
    whole = path.read_bytes()
    for size in (0, 5, len(whole) - 9, len(whole) // 2):
        path.write_bytes(whole[:size])
        assert steps.read("rows.jsonl", "f") is None


def test_the_code_hash_follows_what_makes_results(tmp_path: Path) -> None:
    (tmp_path / "evaluate").mkdir()
    search, report = tmp_path / "search.py", tmp_path / "evaluate" / "report.py"
    search.write_text("a", encoding="utf-8")
    report.write_text("a", encoding="utf-8")
    before = code_hash(tmp_path)
    report.write_text("b", encoding="utf-8")
    assert code_hash(tmp_path) == before
    search.write_text("b", encoding="utf-8")
    assert code_hash(tmp_path) != before

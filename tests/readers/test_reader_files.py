"""Every file of the folders of shared data, built into a store, against a count that knows nothing of the readers.

The counts are of patterns in the bytes. A file without turns is one that a build refuses by name. A new file in one of
the folders is an error until it is named here.
"""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from magma_gpu.config import config_from
from magma_gpu.errors import InputError
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.build import BuildOptions, build
from magma_pipelines.show import build_report

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
FOLDERS = ("exports", "irc", "memorybank", "longmemeval", "locomo")
Count = Callable[[Path], int]


def _found(pattern: str) -> Count:
    """How often a pattern is in a file."""
    return lambda path: len(re.findall(pattern.encode(), path.read_bytes(), re.MULTILINE))


def _in_archive(pattern: str) -> Count:
    def count(path: Path) -> int:
        with zipfile.ZipFile(path) as archive:
            return sum(len(re.findall(pattern.encode(), archive.read(name))) for name in archive.namelist())

    return count


# A stamp at the beginning of a line, hidden marks before it allowed: \xe2\x80\x8e is U+200E.
MARK = r"^(?:\xe2\x80\x8e)?"
TURN_A_LINE = _found(rb"^.*\S.*$".decode())
# By file: what it is read as, and the turns in it. IRC: lines that are not blank.
LOGS: dict[str, tuple[str, Count]] = {
    "exports/chat-miner_instagram_target.json": ("openai", _found('"message"')),
    "exports/chat-miner_instagram_test_export.json": ("instagram", _found('"sender_name"')),
    "exports/chat-miner_signal_target.json": ("openai", _found('"message"')),
    "exports/chat-miner_signal_test_export.txt": ("whatsapp", _found(r"^\[\d{4}-\d\d-\d\d, \d\d:\d\d\] ")),
    "exports/chat-miner_telegram_target.json": ("openai", _found('"message"')),
    "exports/chat-miner_telegram_test_batch_export.json": ("telegram", _found('"type": ?"message"')),
    "exports/chat-miner_telegram_test_single_export.json": ("telegram", _found('"type": ?"message"')),
    "exports/chat-miner_whatsapp_target.json": ("openai", _found('"message"')),
    "exports/chat-miner_whatsapp_test_[mmddyy]_24hrs.txt": ("whatsapp", _found(r"^\[\d\d/\d\d/\d\d ")),
    "exports/chat-miner_whatsapp_test_ddmmyy_24hrs.txt": ("whatsapp", _found(r"^\d\d[./]\d\d[./]\d\d, ")),
    "exports/chat-miner_whatsapp_test_mmddyy_24hrs.txt": ("whatsapp", _found(r"^\d\d[./]\d\d[./]\d\d, ")),
    "exports/chat-miner_whatsapp_test_mmddyyyy_12hrs.txt": ("whatsapp", _found(r"^\d\d/\d\d/\d{4}, ")),
    "exports/chat-miner_whatsapp_test_yyyymmdd_24hrs.txt": ("whatsapp", _found(r"^\d{4}/\d\d/\d\d, ")),
    "exports/chatgpt_export_example-conversation.json": ("chatgpt", _found('"author"')),
    "exports/chatistics__chat.txt": ("whatsapp", _found(MARK + r"\[\d\d\.\d\d\.\d\d, ")),
    "exports/chatistics__chat_2.txt": ("whatsapp", _found(MARK + r"\[\d\d\.\d\d?\.\d{4}, ")),
    "exports/chatistics__chat_3.txt": ("whatsapp", _found(r"^\d\d?/\d\d?/\d\d, \d\d:\d\d - ")),
    "exports/chatistics__chat_4.txt": ("whatsapp", _found(r"^\d\d/\d\d/\d\d, ")),
    "exports/memoryos_sample_conversations.json": ("pairs", _found('"(?:user_input|agent_response)":')),
    "exports/sharegpt_fastchat_dummy_conversation.json": ("sharegpt", _found('"from"')),
    "exports/slack_export_viewer_testarchive.zip": ("slack", _in_archive('"type": ?"message"')),
    "irc/channel-two.all.raw.txt": ("irc", TURN_A_LINE),
    "irc/dev_2004-11-15_03.raw.txt": ("irc", TURN_A_LINE),
    "irc/dev_2005-08-08_01.raw.txt": ("irc", TURN_A_LINE),
    "irc/dev_2008-12-11_11.raw.txt": ("irc", TURN_A_LINE),
    "irc/dev_2009-03-03_10.raw.txt": ("irc", TURN_A_LINE),
    "irc/dev_2009-10-01_17.raw.txt": ("irc", TURN_A_LINE),
    "irc/dev_2011-05-29_19.raw.txt": ("irc", TURN_A_LINE),
    "irc/test_2005-07-06_14.raw.txt": ("irc", TURN_A_LINE),
    "irc/test_2010-08-17_18.raw.txt": ("irc", TURN_A_LINE),
    "irc/test_2016-06-08_07.raw.txt": ("irc", TURN_A_LINE),
    "memorybank/memory_bank_cn.json": ("memorybank", _found('"(?:query|response)":')),
    "memorybank/memory_bank_en.json": ("memorybank", _found('"(?:query|response)":')),
    # Questions, without a turn.
    "memorybank/probing_questions_cn.jsonl": ("memorybank", lambda path: 0),
    "memorybank/probing_questions_en.jsonl": ("memorybank", lambda path: 0),
    "longmemeval/lme_evidence_turns_500.json": ("longmemeval", _found('"role"')),
    "longmemeval/mamga_longmemeval_sample.json": ("openai", _found('"role"')),
    "locomo/locomo10.json": ("locomo", _found('"dia_id"')),
}
# Nothing in these is said by anybody.
NO_LOGS = re.compile(r"LICENSE|\.md$|\.annotation\.txt$|known_issues|loader_quirks|locomo_audit")
# What is no turn, of the turns in: by reason.
REJECTED = {
    "exports/chatgpt_export_example-conversation.json": {"no text": 1, "abandoned branch": 1},
    "irc/dev_2005-08-08_01.raw.txt": {"no text": 1, "not a message": 1},
    "irc/test_2005-07-06_14.raw.txt": {"not a message": 4},
}
SETTINGS = {"exports/chatistics__chat_3.txt": {"date_order": "day"}}
# More turns than this go through ingest alone, so that the test takes seconds.
WHOLE_TURNS = 400


def _files() -> list[str]:
    return sorted(p.relative_to(DATA).as_posix() for f in FOLDERS for p in (DATA / f).glob("*") if p.is_file())


def test_every_file_is_named() -> None:
    if not DATA.exists():
        pytest.skip("the shared data is not beside the checkout")
    assert {name for name in _files() if not NO_LOGS.search(name)} == set(LOGS)


@pytest.mark.parametrize("name", LOGS)
def test_a_file_builds_with_the_turns_that_are_counted_in_it(name: str, tmp_path: Path) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared/data/{name} is not beside the checkout")
    form, count = LOGS[name]
    wanted = count(path)
    config = config_from({"embed": {"encoder": "hash"}, "ingest": SETTINGS.get(name, {})})
    options = BuildOptions(quiet=True, until="resolve" if wanted <= WHOLE_TURNS else "ingest")
    report = build([str(path)], tmp_path / "out", config, options)
    assert not report.failed
    assert not report.skipped_inputs
    assert set(report.formats.values()) == {form}
    assert (report.ingest.turns_in, report.ingest.by_reason) == (wanted, REJECTED.get(name, {}))
    assert report.ingest.new + report.ingest.duplicates == wanted - sum(REJECTED.get(name, {}).values())
    store = Store(tmp_path / "out")
    assert verify(store).clean
    events = [store.read_table(entry, "events") for entry in store.open().tables["events"].values()]
    assert sum(part == 0 for table in events for part in table["part"].to_pylist()) == report.ingest.new


def test_files_without_turns_are_refused_by_name(tmp_path: Path) -> None:
    names = [name for name in _files() if NO_LOGS.search(name)]
    if not names:
        pytest.skip("the shared data is not beside the checkout")
    for name in names:
        with pytest.raises(InputError, match=r"looks like none of"):
            build([str(DATA / name)], tmp_path / "out", config_from({}), BuildOptions(quiet=True))
    assert not (tmp_path / "out").exists()


def test_two_files_of_one_name_are_read_by_a_format_each(tmp_path: Path) -> None:
    said = {"uuid": "1", "sender": "human", "text": "hi"}
    for folder, content in (
        ("a", [{"uuid": "c", "chat_messages": [said]}]),
        ("b", [{"messages": [{"role": "user", "content": "yo"}]}]),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "conversations.json").write_text(json.dumps(content), encoding="utf-8")
    config = config_from({"embed": {"encoder": "hash"}})
    inputs = [str(tmp_path / "a"), str(tmp_path / "b")]
    report = build(inputs, tmp_path / "out", config, BuildOptions(quiet=True, until="ingest"))
    assert report.formats == {"conversations.json": "claude, openai"}
    assert (report.ingest.new, report.ingest.rejected) == (2, 0)
    assert "read as claude, openai (1 file)" in build_report(report.to_json(), "out")


def test_columns_of_other_names_are_said_in_the_config(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("Sender,Body\nAna,I moved to Porto.\n", encoding="utf-8")
    hashed = {"embed": {"encoder": "hash"}}
    with pytest.raises(InputError, match=r"read\.fields=text=COLUMN"):
        build([str(log)], tmp_path / "out", config_from(hashed), BuildOptions(quiet=True, until="ingest"))
    config = config_from({**hashed, "read": {"fields": "text=Body, speaker=Sender"}})
    report = build([str(log)], tmp_path / "out", config, BuildOptions(quiet=True, until="ingest"))
    assert (report.ingest.new, report.formats) == (1, {"log.csv": "csv"})
    # Another mapping reads the file again, and the store takes it: the mapping is no part of it.
    config = config_from({**hashed, "read": {"fields": "text=Sender"}})
    report = build([str(log)], tmp_path / "out", config, BuildOptions(quiet=True, until="ingest"))
    assert (report.ingest.new, report.ingest.unchanged) == (1, 0)

"""Finding files, opening them, and telling their format."""

import gzip
import zipfile

import pytest

from magma_gpu.errors import InputError
from magma_gpu.readers import FORMATS, check_format, detect_format, find_sources, read_source

ROW = '{"text": "hi", "speaker": "Ana"}\n'


def test_folder_is_walked_in_order_without_hidden_and_media_files(tmp_path):
    for name in ("b/x.jsonl", "a.jsonl", ".hidden/y.jsonl", "b/.z.jsonl", "b/photo.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(ROW)
    assert [source.name for source in find_sources([str(tmp_path)])] == ["a.jsonl", "b/x.jsonl"]


def test_glob_and_file_named_twice_is_listed_once(tmp_path):
    for name in ("2.jsonl", "1.jsonl", "3.txt"):
        (tmp_path / name).write_text(ROW)
    found = find_sources([str(tmp_path / "*.jsonl"), str(tmp_path / "1.jsonl")])
    assert [source.name for source in found] == ["1.jsonl", "2.jsonl"]


def test_a_file_with_glob_characters_is_itself(tmp_path):
    (tmp_path / "chat[1].jsonl").write_text(ROW)
    assert [source.name for source in find_sources([str(tmp_path / "chat[1].jsonl")])] == ["chat[1].jsonl"]


def test_same_name_in_two_folders_is_two_sources(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jsonl").write_text(ROW)
    found = find_sources([str(tmp_path / "a"), str(tmp_path / "b")])
    assert [source.name for source in found] == ["x.jsonl", "x.jsonl"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing.jsonl", "does not exist"),
        ("*.nothing", "matches no file"),
        ("folder", "holds no file"),
        ("empty.jsonl", "is empty"),
        ("\0", "does not exist"),
    ],
)
def test_unusable_inputs_are_one_sentence(tmp_path, given, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match=message) as error:
        find_sources([str(tmp_path / given)])
    assert "\n" not in str(error.value)


def test_no_input_at_all():
    with pytest.raises(InputError, match="got none"):
        find_sources([])


@pytest.mark.parametrize(
    ("content", "format_"),
    [
        (ROW, "jsonl"),
        ("\n  \n" + ROW, "jsonl"),
        ("broken\n" + ROW + ROW, "jsonl"),
        ('{"speaker": "A", "text": null}\n' + ROW, "jsonl"),
        ('{"messages": [{"role": "user", "content": "x"}]}\n', "openai"),
        ('{"messages": []}\n', "openai"),
        ('{\n "messages": [\n{"role": "user", "content": "x"}\n]}\n', "openai"),
        ('[\n{"role": "user", "content": "x"}\n]', "openai"),
        ('[{"speaker": "Ines", "timestamp": "2024", "text": "t"}]', "openai"),
        ('[{"sample_id": "a", "conversation": {"session_1": []}}]', "locomo"),
        ('[{"question_id": "q", "haystack_session_ids": [], "haystack_sessions": []}]', "longmemeval"),
        ('{"examples": [{"question_id": "q", "haystack_sessions": [[', "longmemeval"),
    ],
)
def test_format_is_told_by_content(tmp_path, content, format_):
    (tmp_path / "input.bin").write_text(content)
    assert detect_format(find_sources([str(tmp_path)])[0]) == format_


def test_an_item_longer_than_the_head_is_told_by_its_beginning(tmp_path):
    text = '[{"question_id": "q", "haystack_sessions": [[{"role": "user", "content": "' + "x" * 3_000_000 + '"}]]}]'
    (tmp_path / "big.json").write_text(text)
    assert detect_format(find_sources([str(tmp_path)])[0]) == "longmemeval"


@pytest.mark.parametrize("content", ["hello", "{}", "[1, 2]", '{"a": 1}\n{"b": 2}\n', "   \n", "\x00\x01\xff", "["])
def test_nothing_fits(tmp_path, content):
    (tmp_path / "input").write_text(content)
    with pytest.raises(InputError, match=r"looks like none of jsonl.*--format"):
        detect_format(find_sources([str(tmp_path)])[0])


def test_two_formats_fit(tmp_path):
    (tmp_path / "x.json").write_text('[{"haystack_sessions": [], "session_1": []}]')
    with pytest.raises(InputError, match="locomo and longmemeval"):
        detect_format(find_sources([str(tmp_path)])[0])


def test_unknown_format_names_the_known_ones():
    with pytest.raises(InputError, match="Unknown format 'jsnl'; known are jsonl, parquet"):
        check_format("jsnl")
    for name in FORMATS:
        check_format(name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings_with_bom(tmp_path, encoding):
    bom = "\ufeff" if encoding.endswith(("-le", "-be")) else ""
    (tmp_path / "x.jsonl").write_bytes((bom + '{"text": "né"}\r\n').encode(encoding))
    source = find_sources([str(tmp_path)])[0]
    assert [turn.text for turn in read_source(source, detect_format(source), memory_id=None)] == ["né"]


def test_gzip_is_read_in_place_and_names_the_memory(tmp_path):
    (tmp_path / "chat.jsonl.gz").write_bytes(gzip.compress(ROW.encode()))
    source = find_sources([str(tmp_path)])[0]
    (turn,) = read_source(source, detect_format(source), memory_id=None)
    assert (turn.memory_id, turn.text, turn.source) == ("chat", "hi", "chat.jsonl.gz")


def test_a_cut_gzip_yields_what_was_readable_and_one_reject_for_the_rest(tmp_path):
    rows = "".join(f'{{"text": "row {i * 7919 % 100_003}"}}\n' for i in range(20_000))
    packed = gzip.compress(rows.encode())
    (tmp_path / "chat.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    source = find_sources([str(tmp_path)])[0]
    records = list(read_source(source, "jsonl", memory_id=None))
    assert records[0].text == "row 0"
    assert 1000 < len(records) < 20_000
    assert records[-1].reason == "damaged file"


def test_a_gzip_that_grows_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("magma_gpu.readers.source.FREE_BYTES", 1 << 20)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b" " * (16 << 20)))
    source = find_sources([str(tmp_path)])[0]
    with pytest.raises(InputError, match="compressed size"):
        list(read_source(source, "jsonl", memory_id=None))


def test_an_encrypted_or_damaged_zip_is_an_input_error(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.jsonl", ROW * 100)
    content = bytearray(path.read_bytes())
    for mark, flag_at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + flag_at] |= 1
    path.write_bytes(content)
    (source,) = find_sources([str(path)])
    with pytest.raises(InputError, match="encrypted"):
        detect_format(source)
    path.write_bytes(content[:-30])
    with pytest.raises(InputError, match="cannot be read"):
        find_sources([str(path)])


def test_an_empty_memory_id_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text(ROW)
    with pytest.raises(InputError, match="memory id is empty"):
        read_source(find_sources([str(tmp_path)])[0], "jsonl", memory_id=" ")


def test_zip_members_are_sources_and_never_touch_the_disk(tmp_path):
    path = tmp_path / "in" / "x.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../evil.jsonl", ROW)
        archive.writestr("/abs/olute.jsonl", ROW)
        archive.writestr("__MACOSX/._x", "junk")
        archive.writestr("photo.jpg", "junk")
        archive.writestr("empty.jsonl", "")
        archive.writestr("folder/", "")
    sources = find_sources([str(path)])
    assert [source.name for source in sources] == ["x.zip/evil.jsonl", "x.zip/abs/olute.jsonl"]
    for source in sources:
        assert [turn.text for turn in read_source(source, detect_format(source), memory_id=None)] == ["hi"]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "x.zip"]


def test_gzip_inside_an_archive_is_read_and_bounded(tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.jsonl.gz", gzip.compress(ROW.encode()))
        archive.writestr(
            "cut.jsonl.gz", gzip.compress(b"".join(b'{"text": "%d"}\n' % (i * 7919) for i in range(9000)))[:9000]
        )
    whole, cut = find_sources([str(path)])
    (turn,) = read_source(whole, detect_format(whole), memory_id=None)
    assert (turn.memory_id, turn.text) == ("chat", "hi")
    records = list(read_source(cut, detect_format(cut), memory_id=None))
    assert len(records) > 500
    assert records[-1].reason == "damaged file"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.jsonl.gz", gzip.compress(b" " * (16 << 20)))
    monkeypatch.setattr("magma_gpu.readers.source.FREE_BYTES", 1 << 20)
    with pytest.raises(InputError, match="compressed size"):
        list(read_source(find_sources([str(path)])[0], "jsonl", memory_id=None))


@pytest.mark.parametrize("cut", [60, 500, 5000, 20_000])
def test_a_cut_gzip_gives_every_line_before_the_cut(tmp_path, cut):
    import zlib

    packed = gzip.compress("".join(f'{{"text": "row {i * 7919 % 100_003}"}}\n' for i in range(20_000)).encode())[:cut]
    (tmp_path / "x.jsonl.gz").write_bytes(packed)
    there = zlib.decompressobj(wbits=31).decompress(packed)
    records = list(read_source(find_sources([str(tmp_path)])[0], "jsonl", memory_id=None))
    assert sum(hasattr(r, "text") for r in records) == there.count(b"\n")
    assert records[-1].reason == "damaged file"


def test_an_archive_whose_content_is_damaged_is_one_sentence(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.jsonl", ROW * 100)
    content = bytearray(path.read_bytes())
    at = 30 + len("x.jsonl")
    content[at : at + 8] = b"\xff" * 8
    path.write_bytes(content)
    (source,) = find_sources([str(path)])
    with pytest.raises(InputError, match=r"cannot be read|damaged|looks like none"):
        list(read_source(source, detect_format(source), memory_id=None))

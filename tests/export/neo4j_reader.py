"""A second reader of the files of `neo4j-admin database import full`, written from the importer's manual.

It shares nothing with the writer, and is stricter than the importer where the manual leaves room: a quote inside an
unquoted value is refused.
"""

import datetime
import re
import shlex
import struct
from dataclasses import dataclass
from pathlib import Path

TYPES = {
    *("int", "long", "float", "double", "boolean", "byte", "short", "char", "string", "point"),
    *("date", "localtime", "time", "localdatetime", "datetime", "duration"),
}
# Options of the command that the export's README may use, with what their values look like.
OPTIONS = {
    "--overwrite-destination": r"(true|false)?",
    "--multiline-fields": r"true|false",
    "--array-delimiter": r"U\+[0-9A-F]{4}",
    "--nodes": r"\w+(:\w+)*=[\w.-]+\.csv",
    "--relationships": r"\w+=[\w.-]+\.csv",
}
BUFFER = 4 * 1024 * 1024
_FIELD = re.compile(r"(?P<name>[^:]*)(:(?P<type>\w+)(?P<array>\[\])?(\((?P<space>[^()]+)\))?)?")
_DATETIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    is_array: bool
    space: str | None


def split(text: str, *, multiline: bool) -> list[list[str | None]]:
    """Rows of values; an empty value that is not quoted is null."""
    rows: list[list[str | None]] = []
    row: list[str | None] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            said = []
            at += 1
            while True:
                end = text.index('"', at)
                said.append(text[at:end])
                at = end + 1
                if text[at : at + 1] != '"':
                    break
                said.append('"')
                at += 1
            value: str | None = "".join(said)
            assert multiline or not re.search("[\r\n]", str(value)), "a line end where none is allowed"
            assert text[at : at + 1] in (",", "\n"), f"text after a closing quote: {text[at : at + 20]!r}"
        else:
            end = min(i for i in (text.find(",", at), text.find("\n", at)) if i >= 0)
            value = text[at:end] or None
            assert value is None or not re.search('["\r]', value), f"a quote inside {value!r}"
            at = end
        row.append(value)
        if text[at] == "\n":
            rows.append(row)
            row = []
        at += 1
        if text[at - 1] == "," and at == len(text):
            row.append(None)
    assert not row, "the last line does not end"
    return rows


def header(cells: list[str | None]) -> list[Field]:
    fields = []
    for cell in cells:
        found = _FIELD.fullmatch(cell or "")
        assert found, cell
        kind = found["type"] or "string"
        if kind in ("ID", "START_ID", "END_ID"):
            assert found["space"]
            assert not found["array"]
        else:
            assert kind in TYPES, cell
            assert found["name"], cell
            assert not found["space"]
        fields.append(Field(found["name"], kind, bool(found["array"]), found["space"]))
    names = [f.name for f in fields if f.name]
    assert len(set(names)) == len(names)
    return fields


def convert(value: str | None, field: Field, delimiter: str) -> object:
    if value is None:
        return None
    if field.is_array:
        assert field.kind == "string"
        # Empty arrays are not imported.
        return value.split(delimiter) if value else None
    if field.kind == "int":
        assert re.fullmatch(r"-?\d+", value)
        assert -(2**31) <= int(value) < 2**31
        return int(value)
    if field.kind == "float":
        assert re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", value), value
        # The importer's float has 32 bits.
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    if field.kind == "datetime":
        assert _DATETIME.fullmatch(value), value
        return datetime.datetime.fromisoformat(value)
    assert field.kind in ("string", "ID", "START_ID", "END_ID"), field
    return value


class Database:
    """What an import would have made: nodes by label and id, relationships by type."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, dict[str, object]]] = {}
        self.spaces: dict[str, set[str]] = {}
        self.relationships: dict[str, list[tuple[str, str, dict[str, object]]]] = {}


def run(command: str, folder: Path) -> Database:
    """Does what a command says that was typed in a folder."""
    words = shlex.split(command.replace("\\\n", " "))
    # The database comes before options that take many values: the last of them would swallow it.
    assert words[:5] == ["neo4j-admin", "database", "import", "full", "neo4j"]
    options: list[tuple[str, str]] = []
    for word in words[5:]:
        name, _, value = word.partition("=")
        assert re.fullmatch(OPTIONS[name], value), word
        options.append((name, value))
    single = dict(options)
    delimiter = chr(int(single["--array-delimiter"].removeprefix("U+"), 16))
    multiline = single["--multiline-fields"] == "true"
    made = Database()
    for wanted in ("--nodes", "--relationships"):
        for name, value in options:
            if name == wanted:
                label, _, file = value.partition("=")
                _load(made, name == "--nodes", label, folder / file, delimiter, multiline)
    return made


def _load(made: Database, is_node: bool, label: str, path: Path, delimiter: str, multiline: bool) -> None:
    cells, *rows = split(path.read_bytes().decode("utf-8"), multiline=multiline)
    fields = header(cells)
    kinds = [f.kind for f in fields]
    assert [k for k in kinds if k.endswith("ID")] == (["ID"] if is_node else ["START_ID", "END_ID"])
    for row in rows:
        assert len(row) == len(fields), f"{path.name}: {len(row)} values for {len(fields)} fields"
        assert sum(len((v or "").encode()) + 3 for v in row) < BUFFER
        values = [convert(v, f, delimiter) for v, f in zip(row, fields, strict=True)]
        ids = {f.kind: str(v) for v, f in zip(values, fields, strict=True) if f.kind.endswith("ID") and v}
        # What is null is no property; an id is one where it has a name.
        properties = {f.name: v for v, f in zip(values, fields, strict=True) if f.name and v is not None}
        spaces = {f.kind: f.space or "" for f in fields if f.space}
        if is_node:
            known = made.spaces.setdefault(spaces["ID"], set())
            assert ids["ID"] not in known, "two nodes with one id"
            known.add(ids["ID"])
            made.nodes.setdefault(label, {})[ids["ID"]] = properties
        else:
            for end in ("START_ID", "END_ID"):
                assert ids[end] in made.spaces[spaces[end]], f"{path.name}: no node {ids[end]}"
            made.relationships.setdefault(label, []).append((ids["START_ID"], ids["END_ID"], properties))

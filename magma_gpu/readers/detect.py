"""Tells a source's format by what it says, and reads it by that format.

A format is a module with `looks_like(head)` and `read(source, text, options)`. Exactly one must look right:
nothing is guessed where none or several do.
"""

from collections.abc import Iterator, Mapping
from types import ModuleType

from magma_gpu.errors import InputError
from magma_gpu.readers import (
    chatgpt,
    claude,
    csv_table,
    discord,
    instagram,
    irc,
    jsonl,
    locomo,
    longmemeval,
    memorybank,
    openai,
    pairs,
    parquet,
    sharegpt,
    slack,
    telegram,
    whatsapp,
)
from magma_gpu.readers.clean import clean_id, is_blank
from magma_gpu.readers.peek import Peek, peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ReadOptions
from magma_gpu.types import Record, Reject

FORMATS: dict[str, ModuleType] = {
    "jsonl": jsonl,
    "parquet": parquet,
    "csv": csv_table,
    "openai": openai,
    "pairs": pairs,
    "chatgpt": chatgpt,
    "claude": claude,
    "sharegpt": sharegpt,
    "locomo": locomo,
    "longmemeval": longmemeval,
    "memorybank": memorybank,
    "whatsapp": whatsapp,
    "telegram": telegram,
    "slack": slack,
    "discord": discord,
    "instagram": instagram,
    "irc": irc,
}
# Formats that fit much: asked only where none of the others fits.
_GENERAL = ("jsonl", "csv", "openai", "pairs")


def check_format(name: str) -> None:
    """Checks that a format is known.

    Raises:
        InputError: it is not.
    """
    if name not in FORMATS:
        raise InputError(f"Unknown format '{name}'; known are {', '.join(FORMATS)}.")


def detect_format(source: Source, fields: Mapping[str, str] | None = None) -> str:
    """Returns the name of a source's format.

    Args:
        fields: for rows with names of their own: our field → their name. Rows that hold the texts under such a name
            are told by it where no format fits.

    Raises:
        InputError: no format fits, or several do, or the source cannot be read.
    """
    head = peek(source)
    special = [name for name in FORMATS if name not in _GENERAL]
    found = [name for name in special if FORMATS[name].looks_like(head)]
    found = found or [name for name in _GENERAL if FORMATS[name].looks_like(head)]
    if not found and fields:
        found = _with_names_of_its_own(head, fields)
    if not found:
        has_rows = bool(head.items) or len(csv_table.header(head)[1]) > 1
        or_columns = ", name the column of texts with --set read.fields=text=COLUMN" if has_rows else ""
        raise InputError(
            f"'{source.name}' looks like none of {', '.join(FORMATS)}; "
            f"give --format{or_columns}, or leave the file out."
        )
    if len(found) > 1:
        raise InputError(f"'{source.name}' looks like {' and '.join(found)}; say which with --format.")
    return found[0]


def _with_names_of_its_own(head: Peek, fields: Mapping[str, str]) -> list[str]:
    """The general format of rows that hold their texts where `fields` says."""
    column = fields.get("text", "")
    if column and column.lower() in csv_table.header(head)[1]:
        return ["csv"]
    if column and any(column.split(".")[0] in item for item in head.items):
        return ["openai" if isinstance(head.value, list) else "jsonl"]
    return []


def read_source(
    source: Source,
    format: str,
    *,
    memory_id: str | None,
    date_order: str = "",
    fields: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    """Reads one source, streaming, in its order.

    Args:
        source: what to read.
        format: one of FORMATS.
        memory_id: whose memory it is where the source names none.
        date_order: "day", "month" or "": which comes first in dates that do not tell.
        fields: for rows with names of their own: our field → their name.

    Returns:
        Turns and rejects (one for each turn-like thing of the source), notes of memories, and questions.

    Raises:
        InputError: the format is unknown, the memory id is empty, or (while iterating) nothing of the source can be
            read by it.
    """
    check_format(format)
    if memory_id is not None:
        if is_blank(memory_id):
            raise InputError("The memory id is empty; give a name, or none.")
        memory_id = clean_id(memory_id)
    options = ReadOptions(memory_id=memory_id, date_order=date_order, fields=fields)
    return _records(source, FORMATS[format], options)


def _records(source: Source, module: ModuleType, options: ReadOptions) -> Iterator[Record]:
    with source.open() as stream, source.open_text(stream) as text:
        num_records = 0
        for record in module.read(source, text, options):
            num_records += 1
            yield record
        if stream.damage is None:
            return
        if num_records == 0:
            raise InputError(f"'{source.name}' is damaged ({stream.damage}); give the complete file.")
        yield Reject(source=source.name, line=None, memory_id=None, reason="damaged file", excerpt=stream.damage[:120])

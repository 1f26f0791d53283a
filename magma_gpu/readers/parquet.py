"""Reads `parquet`: one turn a row, with the fields of `jsonl`, or one conversation a row with a list of
`messages`.

Memory, session and turn are those of `jsonl`. Row groups are read in batches, and only the columns that mean
something. A NaN in a cell counts as missing, because data frames write it so.
"""

import datetime as dt
import decimal
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from magma_gpu.errors import InputError
from magma_gpu.readers import clean
from magma_gpu.readers.openai import read_conversation
from magma_gpu.readers.peek import Peek
from magma_gpu.readers.source import Source
from magma_gpu.readers.turns import ReadOptions, TurnMaker
from magma_gpu.types import Record

_BATCH_ROWS = 512
# Columns that `read_conversation` looks for besides those of a turn.
_CONVERSATION_COLUMNS = frozenset({"messages", "title", "create_time"})
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, OverflowError)


def looks_like(head: Peek) -> bool:
    """Whether a source is a Parquet file."""
    return head.kind == "parquet"


def read(source: Source, text: TextIO, options: ReadOptions) -> Iterator[Record]:
    """Yields the turns and rejects of a source, in its order; `text` is not read.

    Raises:
        InputError: it is no Parquet file, is compressed as a whole, or has no column of texts.
    """
    text.close()
    if source.is_compressed():
        raise InputError(f"Parquet is read from plain files (got '{source.name}' in an archive); unpack it first.")
    maker = TurnMaker(source, options)
    number, index = 0, 0
    for rows in batches(source, maker):
        if isinstance(rows, str):
            if number == 0:
                raise InputError(f"'{source.name}' is not a Parquet file that can be read ({clean.shown(rows, 200)}).")
            yield maker.reject("broken Parquet", rows, number + 1)
            return
        for row in rows:
            number += 1
            if isinstance(row.get("messages"), list):
                yield from read_conversation(maker, row, index, line=number)
                index += 1
            else:
                yield maker.turn(row, number)


def batches(
    source: Source, maker: TurnMaker, groups: Sequence[int] | None = None
) -> Iterator[list[dict[str, Any]] | str]:
    """Yields batches of rows, of some row groups or of all; at last what is wrong with the file, if something is."""
    try:
        with pq.ParquetFile(source.path) as file:
            columns = _columns(file.schema_arrow, maker)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns, row_groups=groups):
                yield list(_rows(batch))
    except _ARROW_ERRORS as error:
        yield str(error).split("\n")[0]


def _columns(schema: pa.Schema, maker: TurnMaker) -> list[str]:
    if not any(name in schema.names for name in (*maker.text_columns, "messages")):
        got = clean.shown(", ".join(schema.names[:20]), 200)
        raise InputError(
            f"'{maker.source.name}' has no column named {', '.join(maker.text_columns)} or messages "
            f"(got {got}); rename the column that holds the texts."
        )
    wanted = maker.columns | _CONVERSATION_COLUMNS
    return [name for name in schema.names if name in wanted]


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    arrays = []
    for array in batch.columns:
        if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            # Python's datetime holds no nanoseconds.
            array = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False)
        arrays.append(array.to_pylist())
    for values in zip(*arrays, strict=True):
        yield {name: _plain(value) for name, value in zip(batch.schema.names, values, strict=True)}


def _plain(value: Any) -> Any:
    """Returns a cell as the values that JSON has."""
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, decimal.Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return value

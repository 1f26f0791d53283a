"""Large `jsonl` and `parquet` files in pieces that are read apart, and the rows of the pieces put together again.

Other formats are one piece a source. What a reader counts from the start of a source (lines, places in a session, equal
turns without an id) it counts here from the start of a piece; `join_pieces` adds what the pieces before it had, so that
the rows are those of one reader that read the whole source.
"""

import hashlib
import io
import itertools
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from magma_gpu.errors import InputError
from magma_gpu.ingest import SPILL_SCHEMAS
from magma_gpu.readers import Source, read_source
from magma_gpu.readers.lines import numbered_lines, parse_line
from magma_gpu.readers.parquet import batches
from magma_gpu.readers.turns import Conversation, ReadOptions, TurnMaker
from magma_gpu.store import stable_hash
from magma_gpu.turn_rows import Place, equal_key
from magma_gpu.types import Record

PIECE_BYTES = 32 << 20
PLACE_ROWS = pa.schema([("memory_id", pa.string()), ("session_id", pa.string()), ("count", pa.int64())])
PIECE_SCHEMAS = {**SPILL_SCHEMAS, "places": PLACE_ROWS}
# Marks of encodings in which a byte 10 is not always the end of a line.
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
# Formats whose readers look into other files too, so that a source's own bytes do not tell whether it has changed.
_LOOKS_BESIDE = ("slack",)


@dataclass(frozen=True, slots=True)
class Piece:
    """A source, or a part of one: bytes [first, last) that begin and end between lines, or row groups of Parquet."""

    source: Source
    format: str
    first: int = 0
    # None: all of the source.
    last: int | None = None

    @property
    def is_part(self) -> bool:
        return self.last is not None


def split_source(source: Source, format: str, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
    """Cuts a source into pieces of about `piece_bytes`; one that cannot be cut is one piece."""
    whole = [Piece(source, format)]
    try:
        if format not in ("jsonl", "parquet") or source.is_compressed():
            return whole
        cuts = _cut_lines(source, piece_bytes) if format == "jsonl" else _cut_groups(source, piece_bytes)
    except OSError as error:
        raise InputError(f"'{source.name}' cannot be read ({error.strerror}); give a file that can.") from None
    return [Piece(source, format, a, b) for a, b in itertools.pairwise(cuts)] if len(cuts) > 2 else whole


def _cut_lines(source: Source, piece_bytes: int) -> list[int]:
    cuts = [0]
    with source.path.open("rb") as file:
        if file.read(4).startswith(_WIDE):
            return []
        size = file.seek(0, io.SEEK_END)
        while size - cuts[-1] > piece_bytes * 3 // 2:
            cut = _next_line(file, cuts[-1] + piece_bytes)
            if cut is None or cut >= size:
                break
            cuts.append(cut)
    return [*cuts, size]


def _cut_groups(source: Source, piece_bytes: int) -> list[int]:
    """Between row groups; none where the file cannot be read, which its reader will say."""
    try:
        metadata = pq.read_metadata(source.path)
    except (pa.ArrowException, ValueError):
        return []
    cuts, size = [0], 0
    for n in range(metadata.num_row_groups):
        if size >= piece_bytes:
            cuts.append(n)
            size = 0
        size += _span(metadata, n, n + 1)[1]
    return [*cuts, metadata.num_row_groups]


def _span(metadata: pq.FileMetaData, first: int, last: int) -> tuple[int, int]:
    """Where some row groups begin in the file, and how many bytes they have."""
    chunks = [metadata.row_group(n).column(c) for n in range(first, last) for c in range(metadata.num_columns)]
    starts = [c.data_page_offset if c.dictionary_page_offset is None else c.dictionary_page_offset for c in chunks]
    return min(starts, default=0), sum(c.total_compressed_size for c in chunks)


def _next_line(file: io.BufferedReader, start: int) -> int | None:
    """Where the first line that begins after `start` begins; None where there is none."""
    # One byte earlier: `start` itself may be the beginning of a line.
    at = file.seek(start - 1)
    while block := file.read(1 << 20):
        if (found := block.find(b"\n")) >= 0:
            return at + found + 1
        at += len(block)
    return None


def content_hash(piece: Piece) -> str | None:
    """A hash of the bytes a piece is read from; None where they are not all that its rows come from."""
    if piece.format in _LOOKS_BESIDE:
        return None
    try:
        if piece.source.member is not None:
            with zipfile.ZipFile(piece.source.path) as archive:
                info = archive.getinfo(piece.source.member)
                return stable_hash("zip", str(info.CRC), str(info.file_size), str(info.compress_size))
        digest = hashlib.blake2b(digest_size=16)
        with piece.source.path.open("rb") as file:
            first, left = _bytes_of(piece, file)
            file.seek(first)
            while left > 0 and (block := file.read(min(left, 1 << 22))):
                left -= len(block)
                digest.update(block)
        return digest.hexdigest()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def _bytes_of(piece: Piece, file: io.BufferedReader) -> tuple[int, int]:
    """Where the bytes of a piece begin, and how many there are."""
    if piece.last is None:
        return 0, file.seek(0, io.SEEK_END)
    if piece.format == "parquet":
        return _span(pq.read_metadata(piece.source.path), piece.first, piece.last)
    return piece.first, piece.last - piece.first


class PieceReader:
    """Reads one piece; after `records` is exhausted its counts are complete."""

    def __init__(self, piece: Piece, options: ReadOptions) -> None:
        self.piece = piece
        self.options = options
        self.num_lines = 0
        # Conversations that are numbered by their place in the source, and what is damaged: only one reader of all of
        # it says the same of them.
        self.needs_whole = False
        self._maker = _PieceMaker(piece.source, options)

    def records(self) -> Iterator[Record]:
        """Yields the records of the piece, in its order.

        Raises:
            InputError: nothing of it can be read.
        """
        if self.piece.is_part:
            return self._groups() if self.piece.format == "parquet" else self._lines()
        return read_source(
            self.piece.source,
            self.piece.format,
            memory_id=self.options.memory_id,
            date_order=self.options.date_order,
            fields=self.options.fields,
        )

    def places(self) -> pa.Table:
        """How many places of each session the piece has taken."""
        rows = [{"memory_id": m, "session_id": s, "count": n} for (m, s), n in self._maker.taken().items()]
        return pa.Table.from_pylist(rows, schema=PLACE_ROWS)

    def _lines(self) -> Iterator[Record]:
        # What readers.jsonl does with a line, from a range of bytes.
        with _Range(self.piece) as stream, io.BufferedReader(stream, 1 << 20) as buffered:
            marked = self.piece.first == 0 and buffered.peek(3).startswith(_UTF8_MARK)
            encoding = "utf-8-sig" if marked else "utf-8"
            text = io.TextIOWrapper(buffered, encoding=encoding, errors="replace", newline="\n")
            for line in numbered_lines(text):
                self.num_lines = line.number
                if line.is_too_long:
                    yield self._maker.reject("line too long", line.text, line.number)
                    continue
                if not line.text.strip():
                    continue
                row, reason = parse_line(line.text)
                if reason:
                    yield self._maker.reject(reason, line.text, line.number)
                elif isinstance(row, dict) and isinstance(row.get("messages"), list):
                    self.needs_whole = True
                    return
                else:
                    yield self._maker.turn(row, line.number)

    def _groups(self) -> Iterator[Record]:
        # What readers.parquet does with a row, from a range of row groups.
        assert self.piece.last is not None
        groups = range(self.piece.first, self.piece.last)
        for rows in batches(self.piece.source, self._maker, groups):
            if isinstance(rows, str) or any(isinstance(row.get("messages"), list) for row in rows):
                self.needs_whole = True
                return
            for row in rows:
                self.num_lines += 1
                yield self._maker.turn(row, self.num_lines)


class _PieceMaker(TurnMaker):
    """Marks the places that it counted itself, which begin at the piece."""

    def _next_place(self, conversation: Conversation) -> int:
        return Place(super()._next_place(conversation))

    def taken(self) -> dict[tuple[str, str], int]:
        return self._num_turns


class _Range(io.RawIOBase):
    def __init__(self, piece: Piece) -> None:
        assert piece.last is not None
        try:
            self._file = piece.source.path.open("rb")
        except OSError as error:
            raise InputError(
                f"'{piece.source.name}' cannot be read ({error.strerror}); give a file that can."
            ) from None
        self._name = piece.source.name
        self._file.seek(piece.first)
        self._left = piece.last - piece.first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._file.read(min(len(view), self._left))
        except OSError as error:
            raise InputError(f"'{self._name}' cannot be read ({error.strerror}); give a file that can.") from None
        view[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True)
class PieceRows:
    """Rows of one piece that belong to one shard, by kind (PIECE_SCHEMAS)."""

    # Lines of the source before the piece.
    first_line: int
    rows: dict[str, list[pa.Table]] = field(default_factory=dict)


def join_pieces(sources: Sequence[Sequence[PieceRows]]) -> dict[str, list[pa.Table]]:
    """Puts the rows of pieces together.

    Args:
        sources: for each source its pieces, in their order.

    Returns:
        Rows by kind, as `reduce_shard` wants them.
    """
    joined: dict[str, list[pa.Table]] = {}
    for pieces in sources:
        places: dict[tuple[str, str], int] = {}
        equals: dict[str, int] = {}
        for piece in pieces:
            for kind, tables in piece.rows.items():
                if kind == "turns" and len(pieces) > 1:
                    tables = _shift_turns(tables, places, equals)
                elif kind == "rejected" and piece.first_line:
                    tables = [_shift_lines(table, piece.first_line) for table in tables]
                if kind != "places":
                    joined.setdefault(kind, []).extend(tables)
            for table in piece.rows.get("places", []):
                for memory, session, count in zip(*(table[c].to_pylist() for c in PLACE_ROWS.names), strict=True):
                    places[memory, session] = places.get((memory, session), 0) + count
    return joined


def _shift_turns(
    tables: Sequence[pa.Table], places: dict[tuple[str, str], int], equals: dict[str, int]
) -> list[pa.Table]:
    """Adds to places and counts what earlier pieces had; `equals` then holds this piece too."""
    shifted = []
    here: dict[str, int] = {}
    for table in tables:
        seq, ordinal = table["seq"].to_pylist(), table["ordinal"].to_pylist()
        for i, row in enumerate(table.to_pylist()):
            if row["placed"]:
                seq[i] += places.get((row["memory_id"], row["session_id"]), 0)
            if row["turn_id"] is None:
                key = equal_key(row)
                here[key] = ordinal[i] + 1
                ordinal[i] += equals.get(key, 0)
        for name, values in (("seq", seq), ("ordinal", ordinal)):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(name), pa.array(values, pa.int64()))
        shifted.append(table)
    for key, count in here.items():
        equals[key] = equals.get(key, 0) + count
    return shifted


def _shift_lines(table: pa.Table, first_line: int) -> pa.Table:
    at = table.schema.get_field_index("line")
    return table.set_column(at, table.schema.field(at), pc.add(table["line"], pa.scalar(first_line, pa.int64())))

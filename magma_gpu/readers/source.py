"""Finds the files that an input names and opens them as byte or text streams.

It does not look at what they say (peek.py does). A source's name is provenance only: it is never absolute and
never used to open anything.
"""

import codecs
import glob
import gzip
import io
import mimetypes
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TextIO, cast

from magma_gpu.errors import InputError

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# A compressed file that grows beyond both of these is taken for a decompression bomb.
MAX_GROWTH = 300
FREE_BYTES = 1 << 30
# Files of these kinds lie beside chats in exports and are never logs.
_MEDIA = ("image/", "audio/", "video/", "font/", "text/html", "text/css", "application/pdf")
_MEDIA_SUFFIXES = (".opus", ".webp", ".heic", ".m4a", ".vcf", ".docx", ".pptx", ".xlsx", ".tgs", ".webm")
# Of an archive only files of these kinds are read: what else lies in exports are attachments.
_LOG_SUFFIXES = (".json", ".jsonl", ".ndjson", ".txt", ".log", ".csv", ".tsv", ".parquet")
_MIME = mimetypes.MimeTypes()


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, or a file inside a zip archive.

    Attributes:
        path: the file on disk (the archive, for a file inside one).
        name: the file's name, or its POSIX path below the folder or archive that was given.
        member: the name inside the archive; None for a plain file.
    """

    path: Path
    name: str
    member: str | None = None

    @property
    def stem(self) -> str:
        """The last part of the name without its suffix (and without .gz)."""
        last = PurePosixPath(self.name).name
        last = last[:-3] if last.lower().endswith(".gz") else last
        return PurePosixPath(last).stem or last or "input"

    def open(self) -> "Stream":
        """Opens the content for reading, decompressed.

        Raises:
            InputError: the file cannot be opened.
        """
        try:
            if self.member is not None:
                return _open_member(self)
            plain = self.path.open("rb")
            head = plain.read(2)
            plain.seek(0)
            if head == _GZIP:
                unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=plain, mode="rb"))
                return Stream(unpacked, self.name, self.path.stat().st_size, also_close=(plain,))
            return Stream(plain, self.name, None)
        except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise _unreadable(self.name, error) from None

    def open_text(self, stream: "Stream") -> TextIO:
        """Wraps an opened stream as text: BOM honoured, else UTF-8; undecodable bytes become U+FFFD.

        Lines end at LF; CR is left in place.
        """
        buffered = io.BufferedReader(stream, 1 << 16)
        head = buffered.peek(4)[:4]
        encoding = next((name for bom, name in _BOMS if head.startswith(bom)), "utf-8")
        return io.TextIOWrapper(buffered, encoding=encoding, errors="replace", newline="\n")

    def is_compressed(self) -> bool:
        """Whether the bytes on disk are not the content itself."""
        if self.member is not None:
            return True
        with self.path.open("rb") as file:
            return file.read(2) == _GZIP

    def beside(self, relative: str) -> "Source | None":
        """Returns the source at a path relative to this one's folder; None where there is none."""
        if self.member is None:
            path = self.path.parent / relative
            return Source(path, path.name) if path.is_file() else None
        wanted = os.path.normpath(PurePosixPath(self.member).parent / relative).replace(os.sep, "/")
        try:
            with zipfile.ZipFile(self.path) as archive:
                found = wanted in archive.NameToInfo
        except (OSError, zipfile.BadZipFile):
            return None
        return Source(self.path, f"{self.path.name}/{wanted}", wanted) if found else None


class Stream(io.RawIOBase):
    """A byte stream that ends, instead of raising, where its file is damaged; `damage` then says how."""

    def __init__(
        self,
        inner: BinaryIO,
        name: str,
        packed_bytes: int | None,
        also_close: tuple[io.IOBase | BinaryIO, ...] = (),
    ) -> None:
        self._inner, self._name, self._packed_bytes, self._also_close = inner, name, packed_bytes, also_close
        # A read that waits for all it was asked for loses what it has when it comes to the damage.
        self._read_some = getattr(inner, "read1", inner.read)
        self._num_bytes = 0
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        try:
            data = b"" if self.damage else self._read_some(len(view))
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
            self.damage = str(error) or type(error).__name__
            return 0
        view[: len(data)] = data
        self._num_bytes += len(data)
        packed = self._packed_bytes
        if packed is not None and self._num_bytes > max(FREE_BYTES, MAX_GROWTH * packed):
            raise InputError(
                f"'{self._name}' grows to more than {MAX_GROWTH} times its compressed size; "
                "unpack it yourself if it can be trusted, and give the unpacked file."
            )
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            for other in self._also_close:
                other.close()
        super().close()


def find_sources(inputs: Sequence[str]) -> list[Source]:
    """Expands files, folders and globs to sources.

    Folders are walked recursively in the order of their POSIX paths, without hidden and media files. A zip
    archive stands for the logs in it, which are read in place. A file found twice is listed once.

    Raises:
        InputError: a path that is missing, matches nothing, is empty, or cannot be read.
    """
    if not inputs:
        raise InputError("Wanted at least one file, folder or glob to read, got none; name one.")
    found: dict[tuple[str, str | None], Source] = {}
    for given in inputs:
        for source in _expand(given):
            found.setdefault((os.path.realpath(source.path), source.member), source)
    return list(found.values())


def _expand(given: str) -> Iterator[Source]:
    try:
        path = Path(given)
        if given and path.exists():
            paths = [path]
        elif given and glob.has_magic(given):
            # Path.glob takes no absolute patterns.
            paths = [Path(match) for match in sorted(glob.glob(given, recursive=True))]  # noqa: PTH207
            if not paths:
                raise InputError(f"The pattern '{given}' matches no file; check it, or quote it for the shell.")
        else:
            raise InputError(f"The input '{given}' does not exist; give the path of a file or folder.")
        for path in paths:
            yield from _folder(path, given) if path.is_dir() else _file(path, path.name)
    except (OSError, ValueError) as error:
        raise _unreadable(given, error) from None


def _folder(folder: Path, given: str) -> Iterator[Source]:
    names = []
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(top).relative_to(folder)
        names += [(below / name).as_posix() for name in files if not name.startswith(".") and not _is_media(name)]
    if not names:
        raise InputError(f"The folder '{given}' holds no file to read; give one that does.")
    for name in sorted(names):
        yield from _file(folder / name, name)


def _file(path: Path, name: str) -> Iterator[Source]:
    if not path.is_file():
        raise InputError(f"'{name}' is neither a file nor a folder; give one of these.")
    if path.stat().st_size == 0:
        raise InputError(f"'{name}' is empty; leave it out, or give the complete file.")
    with path.open("rb") as file:
        is_zip = file.read(4) == _ZIP
    if is_zip:
        yield from _members(path, name)
    else:
        yield Source(path, _printable(name))


def _members(path: Path, name: str) -> Iterator[Source]:
    try:
        with zipfile.ZipFile(path) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.filename)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise _unreadable(name, error) from None
    wanted = []
    for info in infos:
        parts = [part for part in re.split(r"[/\\]", info.filename) if part not in ("", ".", "..")]
        hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)
        is_log = bool(parts) and parts[-1].lower().removesuffix(".gz").endswith(_LOG_SUFFIXES)
        if is_log and not info.is_dir() and not hidden and info.file_size:
            wanted.append(Source(path, _printable(f"{name}/{'/'.join(parts)}"), info.filename))
    if not wanted:
        raise InputError(f"The archive '{name}' holds no file to read; give one that does.")
    yield from wanted


def _open_member(source: Source) -> Stream:
    archive = zipfile.ZipFile(source.path)
    try:
        info = archive.getinfo(cast(str, source.member))
        inner = archive.open(info)
        head = inner.read(2)
        inner.seek(0)
    except (KeyError, OSError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        archive.close()
        raise _unreadable(source.name, error) from None
    also = (cast(BinaryIO, inner), cast(BinaryIO, archive))
    if head == _GZIP:
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=inner, mode="rb"))
        return Stream(unpacked, source.name, info.compress_size, also_close=also)
    return Stream(cast(BinaryIO, inner), source.name, info.compress_size, also_close=also[1:])


def _is_media(name: str) -> bool:
    kind = _MIME.guess_type(name)[0] or ""
    return kind.startswith(_MEDIA) or name.lower().endswith(_MEDIA_SUFFIXES)


def _printable(name: str) -> str:
    # File names that are no UTF-8 reach Python with lone surrogates, which Arrow refuses.
    return name.encode("utf-8", "replace").decode("utf-8")


def _unreadable(name: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return InputError(f"'{_printable(name)}' cannot be read ({reason}); give a file that can.")

"""Where the files of a store lie: a folder of this machine (or one that all machines see), or an object store.

It moves bytes and knows no table. Both kinds write a file whole or not at all: a folder by renaming, an object store
because an object appears when its upload ends. An object store has no lock: who builds there sees to it that one build
runs at a time.
"""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import pyarrow as pa

from magma_gpu.errors import StoreError

LOCK = ".lock"
# A URL that was made a path has lost one of its slashes.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)


class Place(Protocol):
    """Holds files by name; names have forward slashes and are relative."""

    # The folder or URL, absolute, as another process is told.
    where: str

    def write(self, name: str, data: bytes) -> None: ...

    def read(self, name: str) -> bytes | None: ...

    def open_input(self, name: str) -> pa.NativeFile:
        """Opens a file for reading anywhere in it; raises FileNotFoundError where there is none."""
        ...

    def open_output(self, name: str) -> pa.NativeFile:
        """Opens a file for writing that counts for nothing until something else names it."""
        ...

    def settle(self, name: str) -> None:
        """Puts what was written through `open_output` on the disk."""
        ...

    def exists(self, name: str = "") -> bool: ...

    def sizes(self, folder: str) -> dict[str, int]:
        """The files right in a folder, sorted by name, with their bytes; none where there is no such folder."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files right in a folder, sorted."""
        ...

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with all that is in it; no error where there is none."""
        ...

    def lock(self) -> contextlib.AbstractContextManager[None]: ...

    def drop_empty(self) -> None:
        """Removes the place where nothing but its lock is in it."""
        ...

    def free_bytes(self) -> int | None:
        """Room that is left; None where that is no question."""
        ...


def place(root: str | Path) -> Place:
    """The place that a path or URL names.

    Raises:
        StoreError: the URL is of no file system that can be opened.
    """
    url = _URL.fullmatch(str(root))
    return Bucket(f"{url[1]}://{url[2]}") if url else Folder(Path(root))


class Folder:
    """A folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root.absolute())

    def path(self, name: str) -> Path:
        return self.root / PurePosixPath(name)

    def write(self, name: str, data: bytes) -> None:
        target = self.path(name)
        # Unique over machines too: workers of two nodes may write the same shard at the same time.
        temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            _sync(target.parent)
        except OSError as error:
            raise write_error(target, error) from error

    def read(self, name: str) -> bytes | None:
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise StoreError(f"'{self.root}' is a file; --out wants a folder.") from None
        except OSError as error:
            raise StoreError(f"'{self.path(name)}' cannot be read: {error.strerror}.") from None

    def open_input(self, name: str) -> pa.NativeFile:
        return pa.OSFile(str(self.path(name)), "rb")

    def open_output(self, name: str) -> pa.NativeFile:
        target = self.path(name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(str(target), "wb")
        except OSError as error:
            raise write_error(target, error) from error

    def settle(self, name: str) -> None:
        _sync(self.path(name))

    def exists(self, name: str = "") -> bool:
        return self.path(name).exists()

    def sizes(self, folder: str) -> dict[str, int]:
        found = {}
        try:
            with os.scandir(self.path(folder)) as entries:
                for entry in entries:
                    # A writer may rename its file meanwhile.
                    with contextlib.suppress(FileNotFoundError):
                        if entry.is_file():
                            found[entry.name] = entry.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return dict(sorted(found.items()))

    def names(self, folder: str) -> list[str]:
        return list(self.sizes(folder))

    def remove(self, name: str) -> None:
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the folder against a second build; released by the system when the process dies."""
        while True:
            with self._locked() as file:
                # Who held it before may have removed it since it was opened; then it locks nothing.
                if _is_at(file, self.path(LOCK)):
                    yield
                    return

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Any]:
        import fcntl

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = self.path(LOCK).open("a+")
        except OSError as error:
            raise write_error(self.root, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"Another build is writing to '{self.root}'; wait for it to end, or use another --out."
                ) from None
            yield file

    def drop_empty(self) -> None:
        try:
            if [p.name for p in self.root.iterdir()] == [LOCK]:
                self.path(LOCK).unlink()
                self.root.rmdir()
        except OSError:
            # Somebody else has put something there, or took it away.
            pass

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self.root).free


class Bucket:
    """A prefix of an object store, or any other file system that pyarrow opens by URL."""

    def __init__(self, url: str) -> None:
        import pyarrow.fs

        self.where = url
        try:
            self._files, base = pyarrow.fs.FileSystem.from_uri(url)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StoreError(f"'{url}' cannot be opened ({_reason(error)}); give a folder, or a URL of S3.") from None
        self._base = base.rstrip("/")
        self._fs: Any = pyarrow.fs

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def write(self, name: str, data: bytes) -> None:
        try:
            with self._files.open_output_stream(self._path(name)) as stream:
                stream.write(data)
        except OSError as error:
            raise self._write_error(name, error) from error

    def _write_error(self, name: str, error: OSError) -> StoreError:
        return StoreError(f"'{self.where}/{name}' cannot be written ({_reason(error)}); choose an --out that can be.")

    def read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(self._path(name)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"'{self.where}/{name}' cannot be read: {_reason(error)}.") from None

    def open_input(self, name: str) -> pa.NativeFile:
        return self._files.open_input_file(self._path(name))

    def open_output(self, name: str) -> pa.NativeFile:
        try:
            return self._files.open_output_stream(self._path(name))
        except OSError as error:
            raise self._write_error(name, error) from error

    def settle(self, name: str) -> None:
        """Does nothing: an object that is there is where it is to stay."""

    def exists(self, name: str = "") -> bool:
        if self._info(name).type != self._fs.FileType.NotFound:
            return True
        return not name and bool(self._list(""))

    def _info(self, name: str) -> Any:
        try:
            return self._files.get_file_info(self._path(name))
        except OSError as error:
            raise StoreError(f"'{self.where}' cannot be read: {_reason(error)}.") from None

    def _list(self, folder: str) -> list[Any]:
        selector = self._fs.FileSelector(self._path(folder), allow_not_found=True)
        try:
            found: list[Any] = self._files.get_file_info(selector)
        except OSError as error:
            raise StoreError(f"'{self.where}' cannot be read: {_reason(error)}.") from None
        return found

    def sizes(self, folder: str) -> dict[str, int]:
        files = [i for i in self._list(folder) if i.type == self._fs.FileType.File]
        return {i.base_name: i.size for i in sorted(files, key=lambda i: str(i.base_name))}

    def names(self, folder: str) -> list[str]:
        return list(self.sizes(folder))

    def remove(self, name: str) -> None:
        kind = self._info(name).type
        try:
            if kind == self._fs.FileType.Directory:
                self._files.delete_dir(self._path(name))
            elif kind == self._fs.FileType.File:
                self._files.delete_file(self._path(name))
        except FileNotFoundError:
            pass

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds nothing: see above."""
        yield

    def drop_empty(self) -> None:
        """Does nothing: a prefix without objects is not there."""

    def free_bytes(self) -> int | None:
        return None


def write_error(path: Path, error: OSError) -> StoreError:
    """One sentence for a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(
            f"No space is left for '{path}'; what was finished is kept: free some space and run it again."
        )
    return StoreError(f"'{path}' cannot be written ({_reason(error)}); choose an --out that can be.")


def _is_at(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(reason).splitlines()[0]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A new folder that appears whole under its name or not at all.

Everything is written into a hidden neighbour of the target first. A folder that holds something is refused: an export
never adds to another one.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from magma_gpu.errors import StoreError
from magma_gpu.store import write_error


def check_new(path: Path) -> None:
    """Makes sure that an export may be written to `path`.

    Raises:
        StoreError: it is a file, or a folder that holds something.
    """
    if path.is_dir():
        if any(path.iterdir()):
            raise StoreError(f"'{path}' is not empty; give --out a folder that does not exist yet.")
    elif path.exists() or path.is_symlink():
        raise StoreError(f"'{path}' exists and is no folder; give --out a folder that does not exist yet.")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a hidden folder to write into; it takes its name when the block ends, and goes when the block fails.

    Raises:
        StoreError: `path` holds something, cannot be written, or the disk is full.
    """
    check_new(path)
    path = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow a link that the user means to keep)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(parents=True)
        yield hidden
        for file in sorted(hidden.rglob("*"), reverse=True):
            _sync(file)
        # An empty folder of this name is replaced by it.
        hidden.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Tells one language model from another without loading it: a hash of what its folder holds.

Weights of many gigabytes are not read whole each time a command starts: of each file the size, the beginning (where
safetensors list every tensor), the middle and the end are hashed. A model that is only named is told by its name and
revision; a name without a revision may mean other weights tomorrow.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

from magma_gpu.errors import ConfigError

_BLOCK = 1 << 20
_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf", ".json", ".jinja", ".model", ".txt")


def model_identity(model: str, revision: str) -> dict[str, str]:
    """Returns what tells a model from others.

    Raises:
        ConfigError: no model is named, or a folder is that holds none.
    """
    if not model:
        raise ConfigError(
            "extract.model must name a model for this engine: a folder, or a name that it knows (got '')."
        )
    folder = Path(model)
    if not folder.is_dir():
        if model.startswith((".", "/", "~")):
            raise ConfigError(f"extract.model '{model}' is no folder; give the folder of a model, or a hub's name.")
        return {"model": model, "revision": revision}
    files = sorted(f for f in folder.iterdir() if f.is_file() and f.suffix in _SUFFIXES)
    if not any(f.name == "config.json" for f in files):
        raise ConfigError(f"extract.model '{model}' holds no config.json; give the folder of a model.")
    stamps = tuple((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files)
    return {"model": folder.resolve().name, "revision": revision, "digest": _digest(stamps)}


@lru_cache(maxsize=8)
def _digest(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path, size, _ in files:
        name = Path(path).name
        digest.update(f"{name}\n{size}\n".encode())
        with Path(path).open("rb") as file:
            for start in sorted({0, max(0, size // 2 - _BLOCK // 2), max(0, size - _BLOCK)}):
                file.seek(start)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()

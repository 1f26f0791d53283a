"""Conversation logs in, memory graphs out; questions answered from them in batches."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magma_gpu.memory import Memory

__all__ = ["Memory", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Memory needs torch; the commands that only read a manifest must not pay for it.
    if name == "Memory":
        from magma_gpu.memory import Memory

        return Memory
    raise AttributeError(f"module 'magma_gpu' has no attribute {name!r}")

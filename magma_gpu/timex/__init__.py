"""Time expressions in texts, and the intervals they mean."""

from magma_gpu.timex.tagger import tag
from magma_gpu.timex.windows import windows

__all__ = ["tag", "windows"]

"""Time expressions in texts, and the intervals they mean."""

from magma_gpu.timex.tagger import tag

__all__ = ["tag"]

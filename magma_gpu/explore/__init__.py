"""A memory as one HTML page that needs no network: its graph, and the way a question took through it."""

from magma_gpu.explore.page import render
from magma_gpu.explore.run import ExploreReport, explore

__all__ = ["ExploreReport", "explore", "render"]

"""The slow path's first half: windows of events in, names and causal pairs out (table `extracts`).

It resolves nothing: which names are one entity, and which pairs become edges, is decided in `entities` and
`causal`.
"""

from magma_gpu.extract.protocol import Extractor
from magma_gpu.extract.rules import RulesExtractor
from magma_gpu.extract.windows import extract_shard

__all__ = ["Extractor", "RulesExtractor", "extract_shard"]

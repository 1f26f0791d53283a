"""Vectors of texts from an OpenAI-compatible server, such as the paper's text-embedding-3-small of 1536 dimensions.

Vectors come as the server makes them: the same text may give other last bits tomorrow, which no local encoder does.
Texts travel in requests of a fixed number; a request that fails for good marks its texts as failed, and a server that
answers none is an error.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from magma_gpu.api_client import Response, Server, post_all
from magma_gpu.config import EmbedConfig
from magma_gpu.embed import Encoded
from magma_gpu.errors import ConfigError, InputError
from magma_gpu.segment import estimate_tokens

# Texts of one request.
_BATCH = 64


class ApiEncoder:
    """An encoder behind a server; see `Encoder`.

    Args:
        config: names the model and how many dimensions it has.
        identity: what tells it from others.
        server: who has it.
    """

    def __init__(self, config: EmbedConfig, identity: dict[str, Any], server: Server) -> None:
        if not server.base_url:
            raise ConfigError(
                "embed.encoder 'openai' needs a server: set run.embed_url, as in http://localhost:8000/v1."
            )
        self.dim = config.dim
        self.identity = identity
        self._model = config.model
        self._server = server

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See `Encoder`.

        Raises:
            InputError: the server answered nothing, or with vectors of another size.
        """
        batches = [list(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        bodies = [{"model": self._model, "input": batch, "encoding_format": "float"} for batch in batches]
        responses = post_all(self._server, "embeddings", bodies)
        if responses and all(r.document is None and not r.is_requests_fault for r in responses):
            raise InputError(
                f"The server '{self._server.base_url}' answered none of {len(responses)} requests: {responses[0].error}"
            )
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        status = ["failed"] * len(texts)
        num_tokens = np.array(self.count_tokens(texts), dtype=np.int32)
        for number, (batch, response) in enumerate(zip(batches, responses, strict=True)):
            for index, vector in _vectors(response, len(batch)):
                if len(vector) != self.dim:
                    raise InputError(
                        f"The model '{self._model}' gives vectors of {len(vector)} dimensions; "
                        f"set embed.dim to that (got {self.dim})."
                    )
                row = number * _BATCH + index
                wide = np.array(vector, dtype=np.float64)
                length = float(np.linalg.norm(wide))
                if np.isfinite(length) and length > 0:
                    out[row] = (wide / length).astype(np.float32)
                    status[row] = "ok"
        return Encoded(out, num_tokens, status, 0)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimates, rather high: the model's tokenizer is not here."""
        return [estimate_tokens(text) for text in texts]


def _vectors(response: Response, num: int) -> list[tuple[int, list[float]]]:
    """Vectors and their places in the request; none where the document is something else."""
    try:
        found = [(item["index"], item["embedding"]) for item in response.document["data"]]
    except (KeyError, TypeError):
        return []
    by_index: dict[int, list[float]] = {}
    for index, vector in found:
        known = isinstance(index, int) and 0 <= index < num and index not in by_index
        if known and isinstance(vector, list) and all(type(v) in (int, float) for v in vector):
            by_index[index] = vector
    return sorted(by_index.items())

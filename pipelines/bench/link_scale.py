"""Linking at scale: many memories of one size, streamed, and one large memory exactly and by an index.

    python pipelines/bench/link_scale.py --store STORE --memories 10000 --events 600 --large 200000 --out FILE

The vectors are those of a store's events, repeated with noise, so that they lie as real ones do. Making them is not
counted. Seconds are of the process's CPU time with one thread, because other work on the machine disturbs that least.
The last line of standard output is JSON; with --out it is merged into the section `link` of that file.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from magma_gpu.knn import link_exactly, mutual_neighbors
from magma_gpu.link import vectors_of
from magma_gpu.store import Store
from magma_kernels.semantic_link import reference
from performance import merge

Floats = npt.NDArray[np.float32]
K, THRESHOLD = 5, 0.5
# Length of the noise added to a unit vector: two copies of one have a cosine of about 0.8.
NOISE = 0.5
CHUNK = 64


def spent(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    made = call()
    return time.process_time() - start, made


def copies(real: Floats, first: int, num: int, rng: np.random.Generator) -> Floats:
    """Rows `first` on of the real ones repeated without end, each with noise of its own."""
    x = real[np.arange(first, first + num) % len(real)]
    x = x + rng.standard_normal(x.shape, dtype=np.float32) * np.float32(NOISE / x.shape[1] ** 0.5)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.ascontiguousarray(x)


def product_rate() -> float:
    """Operations a second of a large float32 product (NumPy's), in CPU time."""
    a = np.random.default_rng(0).random((2048, 384), dtype=np.float32)
    out = np.empty((2048, 2048), np.float32)
    seconds = [spent(lambda: np.matmul(a, a.T, out=out))[0] for _ in range(9)][1:]
    return 2 * 2048 * 2048 * 384 / statistics.median(seconds)


def faiss_loop(x: Floats, events: int) -> float:
    """Seconds of a flat index for each memory, searched for what a mutual search needs at least."""
    import faiss

    faiss.omp_set_num_threads(1)

    def loop() -> None:
        for first in range(0, len(x), events):
            index = faiss.IndexFlatIP(x.shape[1])
            index.add(x[first : first + events])
            index.search(x[first : first + events], K + 1)

    return spent(loop)[0]


def chunks(real: Floats, memories: int, events: int) -> Iterator[tuple[Floats, npt.NDArray[np.int64]]]:
    rng = np.random.default_rng(1)
    for first in range(0, memories, CHUNK):
        num = min(CHUNK, memories - first)
        yield copies(real, first * events, num * events, rng), np.arange(num + 1) * events


def many(real: Floats, memories: int, events: int) -> dict[str, Any]:
    total, loop, looped, edges, checked = 0.0, 0.0, 0, 0, 0
    rates = [product_rate()]
    for n, (x, ptr) in enumerate(chunks(real, memories, events)):
        order = np.arange(len(x))
        wanted = np.ones(len(ptr) - 1, bool)
        if n == 0:
            link_exactly(x, ptr, order, wanted, K, THRESHOLD)
        seconds, made = spent(lambda x=x, ptr=ptr, order=order, w=wanted: link_exactly(x, ptr, order, w, K, THRESHOLD))
        total += seconds
        edges += len(made.i)
        if n % 16 == 0:
            rates.append(product_rate())
            part = x[: 8 * events]
            loop += faiss_loop(part, events)
            looped += len(part) // events
            own = torch.from_numpy(x[:events])
            want = reference.semantic_link(
                own,
                torch.tensor([0, events]),
                torch.arange(events),
                torch.ones(events, dtype=torch.bool),
                k=K,
                threshold=THRESHOLD,
            )
            inside = made.j < events
            assert np.array_equal(made.i[inside], want.src_E.numpy())
            assert np.array_equal(made.j[inside], want.dst_E.numpy())
            checked += 1
    rate = statistics.median(rates)
    operations = 2 * real.shape[1] * memories * events**2
    return {
        "memories": memories,
        "events": events,
        "edges": edges,
        "cpu_s": round(total, 3),
        "events_per_s": round(memories * events / total),
        "product_gflop_per_s": round(rate / 1e9, 1),
        # Of the product of all rows with all; half of it is enough, so more than 1 is possible.
        "share_of_product_rate": round(operations / total / rate, 3),
        "share_of_product_rate_of_a_loop_of_flat_indexes": round(operations / memories * looped / loop / rate, 3),
        "memories_equal_to_the_reference": checked,
    }


def large(real: Floats, events: int) -> dict[str, Any]:
    x = copies(real, 0, events, np.random.default_rng(2))
    order = np.arange(events)
    link_exactly(x[:100], np.array([0, 100]), order[:100], np.ones(1, bool), K, THRESHOLD)
    exact_s, exact = spent(lambda: mutual_neighbors(x, order, K, THRESHOLD))
    want = exact.i * events + exact.j
    found: dict[str, Any] = {"events": events, "exact_cpu_s": round(exact_s, 2), "edges": len(exact.i)}
    for index in ("ivf",):
        seconds, made = spent(lambda index=index: mutual_neighbors(x, order, K, THRESHOLD, index=index))
        same = np.isin(made.i * events + made.j, want).sum()
        found[index] = {
            "cpu_s": round(seconds, 2),
            "speedup": round(exact_s / seconds, 2),
            "recall_of_neighbors": round(made.recall, 4),
            "recall_of_edges": round(float(same / len(want)), 4),
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=600)
    parser.add_argument("--large", type=int, default=200_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    store = Store(args.store)
    manifest = store.open()
    tables = [store.read_table(manifest.entry("vectors", s), "vectors") for s in range(manifest.num_shards)]
    real = np.concatenate([vectors_of(t) for t in tables])
    found: dict[str, Any] = {}
    if args.memories:
        found["many"] = many(real, args.memories, args.events)
        merge(args.out, "link", found)
        print(json.dumps(found["many"]), file=sys.stderr)
    if args.large:
        found["large"] = large(real, args.large)
    merge(args.out, "link", found)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Nearest neighbours within one memory through FAISS; the one module that imports it.

FAISS proposes in float32, and every cosine that meets a threshold or a sort is then computed again in float64 and
rounded to float32, so that neither batch shape nor index order shows. Equal vectors are searched once.
"""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from magma_gpu.errors import missing_package

log = logging.getLogger(__name__)

FloatND = npt.NDArray[np.float32]
IntN = npt.NDArray[np.int64]

# Candidates beyond k that FAISS is asked for, and how far its float32 scores may be off.
_SLACK = 8
_FLOAT32_ERROR = 1e-5
# Rows of one exact rescoring product.
_TILE = 2048


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Undirected edges i < j (by row), sorted; `weight` is their cosine in float32.

    `cut` counts pairs above the threshold that the cap of k neighbours left out, as far as they were seen; `recall`
    is that of an approximate index on a sample (1.0 for an exact search).
    """

    i: IntN
    j: IntN
    weight: npt.NDArray[np.float32]
    cut: int
    recall: float


def mutual_neighbors(
    x_ND: FloatND,
    order: IntN,
    k: int,
    threshold: float,
    *,
    approximate: bool = False,
    recall_sample: int = 256,
) -> SimilarPairs:
    """Joins two rows when each is among the other's k nearest and their cosine is above the threshold.

    Args:
        x_ND: float32 unit rows; rows that are zero or not finite take no part.
        order: a rank of each row; ties in cosine go to the smaller rank.
        k: neighbours a row may have, itself not counted.
        threshold: cosine that must be exceeded.
        approximate: use an HNSW index (IVF on a GPU) instead of an exact one, and measure its recall.
    """
    norms = np.linalg.norm(x_ND.astype(np.float64), axis=1)
    usable = np.flatnonzero(np.isfinite(norms) & (np.abs(norms - 1) < 1e-3))
    usable = usable[np.argsort(order[usable], kind="stable")]
    x = np.ascontiguousarray(x_ND[usable])
    n = len(x)
    if n < 2:
        return _pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), usable, 0, 1.0)
    # From here rows are numbered by rank, so "smaller index" is "smaller rank".
    unique, group = np.unique(x, axis=0, return_inverse=True)
    group = group.reshape(-1)
    members = np.argsort(group, kind="stable")
    start = np.searchsorted(group[members], np.arange(len(unique) + 1))
    found, recall = _search_groups(unique, k, threshold, approximate, recall_sample)
    neighbor, cosine, cut = _spread(found, members, start, n, k)
    here = np.repeat(np.arange(n), neighbor.shape[1])
    there, weight = neighbor.reshape(-1), cosine.reshape(-1)
    keep = there >= 0
    here, there, weight = here[keep], there[keep], weight[keep]
    # An edge is mutual when it was found from both ends.
    code = np.minimum(here, there) * n + np.maximum(here, there)
    both, first, count = np.unique(code, return_index=True, return_counts=True)
    mutual = count == 2
    return _pairs(both[mutual] // n, both[mutual] % n, weight[first[mutual]], usable, cut, recall)


def _pairs(i: IntN, j: IntN, weight: npt.NDArray[np.float32], rows: IntN, cut: int, recall: float) -> SimilarPairs:
    a, b = rows[i], rows[j]
    low, high = np.minimum(a, b), np.maximum(a, b)
    by = np.lexsort((high, low))
    return SimilarPairs(low[by], high[by], np.clip(weight[by], -1.0, 1.0), cut, recall)


def _search_groups(
    x: FloatND, k: int, threshold: float, approximate: bool, recall_sample: int
) -> tuple[list[tuple[IntN, npt.NDArray[np.float32]]], float]:
    """For each distinct vector: the distinct vectors above the threshold that may be among its k nearest, exactly."""
    wide = min(len(x), k + 1 + _SLACK)
    score, at = _index(x, approximate=approximate).search(x, wide)
    rescored = _rescore(x, at)
    result: list[tuple[IntN, npt.NDArray[np.float32]]] = []
    short: list[int] = []
    for row in range(len(x)):
        result.append(_above(row, at[row], rescored[row], threshold))
        # The exact k-th may hide behind the last candidate when scores lie closer than float32 can tell.
        last = score[row][-1]
        if wide < len(x) and last > threshold - _FLOAT32_ERROR and not approximate:
            kth = np.sort(rescored[row])[::-1][min(k, wide - 1)]
            if last >= kth - _FLOAT32_ERROR:
                short.append(row)
    for first in range(0, len(short), _TILE):
        rows = np.array(short[first : first + _TILE])
        full = (x[rows].astype(np.float64) @ x.astype(np.float64).T).astype(np.float32)
        for r, cosines in zip(rows.tolist(), full, strict=True):
            result[r] = _above(r, np.arange(len(x)), np.minimum(cosines, np.float32(1.0)), threshold)
    recall = _recall(x, at, k, recall_sample) if approximate else 1.0
    return result, recall


def _above(
    row: int, at: IntN, cosines: npt.NDArray[np.float32], threshold: float
) -> tuple[IntN, npt.NDArray[np.float32]]:
    """Candidates above the threshold; the row itself is always one, as rows that equal it are found through it."""
    ok = (at >= 0) & (at != row) & (cosines > threshold)
    near, cosine = at[ok].astype(np.int64), cosines[ok]
    if np.float32(1.0) > np.float32(threshold):
        near, cosine = np.append(near, row), np.append(cosine, np.float32(1.0))
    return near, cosine


def _index(x: FloatND, *, approximate: bool) -> Any:
    try:
        import faiss
    except ModuleNotFoundError:
        raise missing_package("faiss", "cpu", "semantic edges") from None
    dim = x.shape[1]
    index: Any
    if not approximate:
        index = faiss.IndexFlatIP(dim)
    else:
        index = faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 100
        index.hnsw.efSearch = 128
    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0:
        if approximate:
            lists = max(1, int(4 * len(x) ** 0.5))
            quantizer = faiss.IndexFlatIP(dim)
            index = faiss.IndexIVFFlat(quantizer, dim, lists, faiss.METRIC_INNER_PRODUCT)
            index.train(x)
            index.nprobe = max(1, lists // 16)
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    index.add(x)
    return index


def _rescore(x: FloatND, at: IntN) -> npt.NDArray[np.float32]:
    """Cosines of each row with its candidates, in float64, rounded to float32, at most 1; -2 where there is none."""
    out = np.empty(at.shape, dtype=np.float32)
    for first in range(0, len(at), _TILE):
        rows = slice(first, first + _TILE)
        near = x[np.maximum(at[rows], 0)].astype(np.float64)
        out[rows] = np.einsum("nd,nkd->nk", x[rows].astype(np.float64), near).astype(np.float32)
    out[at < 0] = -2.0
    return np.minimum(out, np.float32(1.0))


def _spread(
    found: list[tuple[IntN, npt.NDArray[np.float32]]],
    members: IntN,
    start: IntN,
    n: int,
    k: int,
) -> tuple[IntN, npt.NDArray[np.float32], int]:
    """From neighbours of distinct vectors to the k nearest of every row; ties to the smaller row."""
    neighbor = np.full((n, k), -1, dtype=np.int64)
    cosine = np.zeros((n, k), dtype=np.float32)
    cut = 0
    for g, (near, weight) in enumerate(found):
        own = members[start[g] : start[g + 1]]
        weight = np.where(near == g, np.float32(1.0), weight)
        by = np.argsort(-weight, kind="stable")
        # k + 1 rows of each group are enough: a row itself is not its neighbour.
        rows = [members[start[near[b]] : start[near[b] + 1]][: k + 1] for b in by]
        if not rows:
            continue
        there = np.concatenate(rows)
        value = np.concatenate([np.full(len(r), weight[b], np.float32) for r, b in zip(rows, by, strict=True)])
        ranked = np.lexsort((there, -value))
        there, value = there[ranked], value[ranked]
        total = int(sum(start[a + 1] - start[a] for a in near)) - 1
        cut += max(0, total - k) * len(own)
        for row in own:
            others = there != row
            best, best_value = there[others][:k], value[others][:k]
            neighbor[row, : len(best)] = best
            cosine[row, : len(best)] = best_value
    return neighbor, cosine, cut


def _recall(x: FloatND, at: IntN, k: int, sample: int) -> float:
    """Share of the true k nearest that an approximate search found, over evenly spread rows."""
    rows = np.unique(np.linspace(0, len(x) - 1, min(sample, len(x))).astype(np.int64))
    full = x[rows].astype(np.float64) @ x.astype(np.float64).T
    hits = 0
    wanted = min(k, len(x) - 1)
    for r, cosines in zip(rows, full, strict=True):
        cosines[r] = -np.inf
        true = np.argpartition(-cosines, wanted - 1)[:wanted]
        hits += len(np.intersect1d(true, at[r]))
    return hits / (wanted * len(rows)) if wanted else 1.0

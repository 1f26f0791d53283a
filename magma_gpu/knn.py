"""Nearest neighbours within one memory: exact ones by a kernel, approximate ones proposed by FAISS.

The one module that imports FAISS. What it proposes is decided by the same rule as an exact search: cosines that meet a
threshold or a sort are summed in float64 and rounded to float32, at most 1, and 1 between equal rows, so that neither
batch shape nor index order shows. Equal vectors are searched once.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from magma_gpu.errors import missing_package
from magma_kernels.semantic_link import pair_cosines, semantic_link

log = logging.getLogger(__name__)

FloatND = npt.NDArray[np.float32]
IntN = npt.NDArray[np.int64]

# Rows looked at once where rows are compared.
_TILE = 2048
# Candidates beyond k that a graph of neighbours is asked for.
_SLACK = 8
# An inverted file: distinct vectors below which it isn't worth its training, lists for each root of their number,
# lists looked at, vectors a list that it is trained on, and candidates for each neighbour wanted, as its codes of four
# bits for two dimensions only propose.
_FEW = 2048
_LISTS = 2
_PROBES = 12
_TRAIN = 24
_PROPOSED = 7
# How far from 1 the length of a row may be; the kernel allows a little more.
_LENGTH_ERROR = 0.998e-3


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Undirected edges i < j (by row), sorted; `weight` is their cosine in float32.

    `num_capped` counts rows with k neighbours above the threshold, which may have more; `recall` is that of an
    approximate index on a sample (1.0 for an exact search).
    """

    i: IntN
    j: IntN
    weight: npt.NDArray[np.float32]
    num_capped: int
    recall: float

    def moved(self, first: int) -> "SimilarPairs":
        """The same pairs in an array where row 0 is row `first`."""
        return replace(self, i=self.i + first, j=self.j + first)


def usable_rows(x_ND: FloatND) -> npt.NDArray[np.bool_]:
    """Which rows are finite and of unit length."""
    with np.errstate(all="ignore"):
        length = np.sqrt(np.einsum("nd,nd->n", x_ND, x_ND))
    usable: npt.NDArray[np.bool_] = np.abs(length - 1) < _LENGTH_ERROR
    return usable


def link_exactly(
    x_ND: FloatND,
    ptr: IntN,
    order: IntN,
    wanted_M: npt.NDArray[np.bool_],
    k: int,
    threshold: float,
    device: str = "cpu",
) -> SimilarPairs:
    """Joins rows of a memory when each is among the other's k nearest and their cosine is above the threshold.

    Args:
        x_ND: float32 unit rows; rows that are zero or not finite take no part.
        ptr: memory m has rows [ptr[m], ptr[m + 1]).
        order: a rank of each row, distinct in a memory; ties in cosine go to the smaller rank.
        wanted_M: the memories to be linked.
        k: neighbours a row may have, itself not counted.
        threshold: cosine that must be exceeded.
        device: where the products are made.
    """
    usable = usable_rows(x_ND) & np.repeat(wanted_M, np.diff(ptr))
    arguments = (torch.from_numpy(a).to(device) for a in (np.ascontiguousarray(x_ND), ptr, order, usable))
    found = semantic_link(*arguments, k=k, threshold=threshold)
    src, dst, cosine = (t.cpu().numpy() for t in (found.src_E, found.dst_E, found.cos_E))
    return SimilarPairs(src, dst, np.maximum(cosine, np.float32(-1.0)), int(found.capped_N.sum()), 1.0)


def mutual_neighbors(
    x_ND: FloatND,
    order: IntN,
    k: int,
    threshold: float,
    *,
    index: str = "exact",
    recall_sample: int = 256,
) -> SimilarPairs:
    """As `link_exactly` of one memory, or nearly so by an index.

    Args:
        x_ND: as there.
        order: as there.
        k: as there.
        threshold: as there.
        index: exact, or one whose recall is measured: hnsw, a graph of neighbours; ivf, an inverted file.
        recall_sample: rows whose exact neighbours are searched for that.
    """
    if index == "exact":
        return link_exactly(x_ND, np.array([0, len(x_ND)]), order, np.ones(1, bool), k, threshold)
    usable = np.flatnonzero(usable_rows(x_ND))
    usable = usable[np.argsort(order[usable], kind="stable")]
    # Plus zero: a negative zero equals a positive one.
    x = np.ascontiguousarray(x_ND[usable]) + np.float32(0.0)
    n = len(x)
    if n < 2:
        none = np.empty(0, np.int64)
        return SimilarPairs(none, none, np.empty(0, np.float32), 0, 1.0)
    # From here rows are numbered by rank, so "smaller index" is "smaller rank".
    first_G, group = _equal_rows(x)
    at, recall = _search_groups(x[first_G], k, index, recall_sample)
    here, there, cosine = _spread(x[first_G], group, at, k)
    above = cosine > np.float32(threshold)
    here, there, cosine = here[above], there[above], cosine[above]
    by = np.lexsort((there, -cosine, here))
    here, there, cosine = here[by], there[by], cosine[by]
    near = _place_in_run(here) < k
    here, there, cosine = here[near], there[near], cosine[near]
    num_capped = int((np.bincount(here, minlength=n) == k).sum())
    # An edge is mutual when it was found from both ends.
    code = np.minimum(here, there) * n + np.maximum(here, there)
    both, first, count = np.unique(code, return_index=True, return_counts=True)
    mutual = count == 2
    a, b = usable[both[mutual] // n], usable[both[mutual] % n]
    low, high = np.minimum(a, b), np.maximum(a, b)
    by = np.lexsort((high, low))
    weight = np.maximum(cosine[first[mutual]], np.float32(-1.0))
    return SimilarPairs(low[by], high[by], weight[by], num_capped, recall)


def _place_in_run(values: IntN) -> IntN:
    """The place of each item in its run of equal ones."""
    index = np.arange(len(values))
    starts = np.flatnonzero(np.concatenate([np.ones(1, bool), values[1:] != values[:-1]])) if len(values) else index
    return index - np.repeat(starts, np.diff(np.append(starts, len(values))))


def _equal_rows(x: FloatND) -> tuple[IntN, IntN]:
    """The first row of each group of equal rows, in ascending order, and each row's group."""
    words = x.view(np.uint32)
    factors = np.cumprod(np.full(x.shape[1], 6364136223846793005, dtype=np.uint64))
    mixed = np.concatenate([(words[t : t + _TILE] * factors).sum(axis=1) for t in range(0, len(x), _TILE)])
    _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(words[first[group]], words):
        # Two different rows with one number: never seen, and slow.
        _, first, group = np.unique(words, axis=0, return_index=True, return_inverse=True)
    by = np.argsort(first)
    place = np.empty_like(by)
    place[by] = np.arange(len(by))
    return first[by], place[group.reshape(-1)]


def _search_groups(x: FloatND, k: int, kind: str, recall_sample: int) -> tuple[IntN, float]:
    """For each distinct vector those that an index thinks near, -1 where there are fewer; and the index's recall."""
    wide = min(len(x), _PROPOSED * (k + 1) if kind == "ivf" else k + 1 + _SLACK)
    _, at = _index(x, kind).search(x, wide)
    return at.astype(np.int64), _recall(x, at, k, recall_sample)


def _spread(x: FloatND, group: IntN, at: IntN, k: int) -> tuple[IntN, IntN, npt.NDArray[np.float32]]:
    """From neighbours of distinct vectors to pairs of rows: (row, other row, cosine), no row with itself.

    Of a group its first k + 1 rows are enough: to any row all of them are equally near, and one may be itself.
    """
    members = np.argsort(group, kind="stable")
    size_G = np.bincount(group)
    start_G = np.cumsum(size_G) - size_G
    # A vector is a neighbour of itself, as rows that equal it are found through it.
    itself = np.arange(len(x))[:, None]
    from_G, place = np.nonzero(np.concatenate([(at >= 0) & (at != itself), itself >= 0], axis=1))
    to_G = np.concatenate([at, itself], axis=1)[from_G, place]
    cosine = pair_cosines(*(torch.from_numpy(a) for a in (np.ascontiguousarray(x), from_G, to_G))).numpy()
    # Every row of the one group with the first rows of the other.
    taken_G = np.minimum(size_G, k + 1)
    count = size_G[from_G] * taken_G[to_G]
    pair = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    here = members[start_G[from_G[pair]] + within // taken_G[to_G[pair]]]
    there = members[start_G[to_G[pair]] + within % taken_G[to_G[pair]]]
    other = here != there
    return here[other], there[other], cosine[pair[other]]


def _index(x: FloatND, kind: str) -> Any:
    try:
        import faiss
    except ModuleNotFoundError:
        raise missing_package("faiss", "cpu", "approximate semantic edges") from None
    dim = x.shape[1]
    lists = max(1, int(_LISTS * len(x) ** 0.5))
    index: Any
    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0:
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)
        index.train(x)
        index.nprobe = max(1, lists // 16)
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    elif kind == "ivf" and len(x) >= _FEW:
        parts = dim // 2 if dim % 2 == 0 else dim
        index = faiss.IndexIVFPQFastScan(faiss.IndexFlatIP(dim), dim, lists, parts, 4, faiss.METRIC_INNER_PRODUCT)
        index.by_residual = False
        index.cp.niter, index.pq.cp.niter = 4, 8
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        index.pq.cp.max_points_per_centroid = 64
        sample = np.unique(np.linspace(0, len(x) - 1, min(len(x), _TRAIN * lists)).astype(np.int64))
        index.train(x[sample])
        index.nprobe = min(lists, _PROBES)
    elif kind == "ivf":
        index = faiss.IndexFlatIP(dim)
    else:
        index = faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 100
        index.hnsw.efSearch = 128
    index.add(x)
    return index


def _recall(x: FloatND, at: IntN, k: int, sample: int) -> float:
    """Share of the true k nearest that an approximate search found, over evenly spread rows."""
    rows = np.unique(np.linspace(0, len(x) - 1, min(sample, len(x))).astype(np.int64))
    full = x[rows] @ x.T
    hits = 0
    wanted = min(k, len(x) - 1)
    for r, cosines in zip(rows, full, strict=True):
        cosines[r] = -np.inf
        true = np.argpartition(-cosines, wanted - 1)[:wanted]
        hits += len(np.intersect1d(true, at[r]))
    return hits / (wanted * len(rows)) if wanted else 1.0

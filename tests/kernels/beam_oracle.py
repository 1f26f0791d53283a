"""Beam search for one query at a time in plain Python, written from the contract's text and from nothing
else.

Slow and simple on purpose: dictionaries, sorted lists, and numpy float32 scalars so that each operation
rounds once.
"""

from dataclasses import dataclass

import numpy as np

from magma_kernels.beam_search import BeamGraph, BeamParams, BeamQueries

ONE = np.float32


@dataclass
class Visit:
    node: int
    score: np.float32
    hop: int
    parent: int
    relation: int


def search(graph: BeamGraph, queries: BeamQueries, params: BeamParams) -> list[tuple[list[Visit], bool]]:
    """Returns, for every query, its visits in order and whether max_nodes cut something off."""
    indptr, dst, relation = graph.indptr.tolist(), graph.dst.tolist(), graph.relation.tolist()
    affinity, structure = queries.affinity.numpy(), queries.structure_QR.numpy()
    anchor_score = queries.anchor_score.numpy()
    results = []
    for q in range(len(queries.base_Q)):
        base, start = int(queries.base_Q[q]), int(queries.affinity_ptr[q])
        anchors = []
        for a in range(int(queries.anchor_ptr[q]), int(queries.anchor_ptr[q + 1])):
            anchors.append((int(queries.anchor_node[a]), anchor_score[a]))
        anchors.sort(key=lambda anchor: (-float(anchor[1]), anchor[0]))
        truncated = len(anchors) > params.max_nodes
        visits = [Visit(node, score, 0, -1, -1) for node, score in anchors[: params.max_nodes]]
        visited = {visit.node for visit in visits}
        beam = list(visits)
        for step in range(1, params.max_depth + 1):
            room = params.max_nodes - len(visits)
            if room == 0:
                break
            ways: dict[int, list[tuple[float, int, int]]] = {}
            for visit in beam:
                u = visit.node
                for edge in range(indptr[u], indptr[u + 1]):
                    v = dst[edge]
                    if v in visited:
                        continue
                    s = structure[q, relation[edge]] * affinity[start + v - base]
                    value = ONE(params.decay) * visit.score + s
                    assert type(value) is np.float32
                    ways.setdefault(v, []).append((-float(value), u, relation[edge]))
            if not ways:
                break
            best_way = {v: min(options) for v, options in ways.items()}
            best = max(-way[0] for way in best_way.values())
            floor = ONE(params.drop_threshold) * ONE(best)
            left = [(way[0], v) for v, way in best_way.items() if ONE(-way[0]) >= floor]
            left.sort()
            if room < params.beam_width and len(left) > room:
                truncated = True
            beam = []
            for negative, v in left[: min(params.beam_width, room)]:
                beam.append(Visit(v, ONE(-negative), step, best_way[v][1], best_way[v][2]))
            visits.extend(beam)
            visited.update(visit.node for visit in beam)
        results.append((visits, truncated))
    return results

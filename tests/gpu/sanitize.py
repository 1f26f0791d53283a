"""Runs the CUDA beam search on small batches, to be started under compute-sanitizer; checks results as
well."""

import sys
from dataclasses import fields, replace

import torch

from magma_kernels.beam_search import _cupy, reference
from magma_kernels.beam_search.cases import awkward_cases, random_case


def main() -> int:
    device = torch.device("cuda", 0)
    for case in [*(random_case(seed) for seed in range(12)), *awkward_cases()]:
        graph = replace(case.graph, **{f.name: getattr(case.graph, f.name).to(device) for f in fields(case.graph)})
        queries = replace(
            case.queries, **{f.name: getattr(case.queries, f.name).to(device) for f in fields(case.queries)}
        )
        got = _cupy.beam_search(graph, queries, case.params)
        want = reference.beam_search(case.graph, case.queries, case.params)
        if not torch.equal(got.node_QV.cpu(), want.node_QV):
            print(f"{case.name}: the nodes differ", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The CUDA source of beam search without a GPU: nvcc compiles it, and a host build of it equals the
reference."""

import ctypes
import shutil
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from magma_kernels.beam_search import BeamResult, _cupy, reference
from magma_kernels.beam_search.cases import Case, awkward_cases, events_case, random_case

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_compiles(arch, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on the PATH")
    out = tmp_path / "beam_search.cubin"
    command = [nvcc, "--std=c++14", f"-arch={arch}", "-cubin", "-Werror", "all-warnings", "-Xptxas", "-v"]
    done = subprocess.run([*command, "-o", str(out), str(_cupy.SOURCE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 0
    # Nothing spills, and enough blocks fit on a multiprocessor.
    assert "0 bytes spill stores" in done.stderr


@pytest.mark.parametrize("arch", ["sm_80"])
def test_multiply_and_add_are_not_fused(arch, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on the PATH")
    out = tmp_path / "beam_search.ptx"
    subprocess.run([nvcc, "--std=c++14", f"-arch={arch}", "-ptx", "-o", str(out), str(_cupy.SOURCE)], check=True)
    text = out.read_text()
    assert "mul.rn.f32" in text
    assert "fma" not in text


@pytest.fixture(scope="module")
def host_library(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not on the PATH")
    out = tmp_path_factory.mktemp("beam") / "beam_host.so"
    flags = ["-std=c++20", "-O2", "-Wall", "-shared", "-fPIC", "-pthread", "-ffp-contract=off"]
    subprocess.run(
        [compiler, *flags, "-I", str(_cupy.SOURCE.parent), str(HERE / "beam_host.cpp"), "-o", str(out)],
        check=True,
    )
    return ctypes.CDLL(str(out))


KINDS = {np.uint64: ctypes.c_uint64, np.int64: ctypes.c_int64, np.float32: ctypes.c_float}


def on_host(library: ctypes.CDLL, case: Case, num_threads: int, num_shared: int | None = None) -> BeamResult:
    outputs, shared = _cupy.allocate(case.queries, case.params)
    if num_shared is not None:
        shared = min(shared, num_shared)
        outputs["spare"] = torch.empty(2 * case.queries.affinity.shape[0], dtype=torch.int64)
    for name in ("node", "score", "hop", "parent", "relation", "num", "spare"):
        outputs[name].fill_(77)
    arguments, held = _cupy.launch_arguments(case.graph, case.queries, case.params, outputs, shared)
    first = (case.queries.base_Q.shape[0], num_threads, _cupy._HEAD + 16 * shared)
    passed = [ctypes.c_int64(number) for number in first]
    passed += [KINDS[type(value)](value.item()) for value in arguments]
    library.beam_search_on_host(*passed)
    del held
    return _cupy.result(outputs)


def assert_same(got: BeamResult, want: BeamResult) -> None:
    for field in fields(BeamResult):
        a, b = getattr(got, field.name), getattr(want, field.name)
        assert a.dtype == b.dtype, field.name
        if a.is_floating_point():
            a, b = a.view(torch.int32), b.view(torch.int32)
        assert torch.equal(a, b), field.name


def defined(case: Case) -> BeamResult:
    return reference.beam_search(case.graph, case.queries, case.params)


@pytest.mark.parametrize("case", awkward_cases(), ids=lambda case: case.name)
def test_awkward_shapes(host_library, case):
    assert_same(on_host(host_library, case, 1), defined(case))


def test_random_graphs(host_library):
    for seed in range(400):
        case = random_case(seed)
        want = defined(case)
        assert_same(on_host(host_library, case, 1), want)
        # Memories that do not fit in a block's memory give the same.
        assert_same(on_host(host_library, case, 1, num_shared=seed % 20), want)


def test_several_threads_a_block(host_library):
    for seed in range(0, 400, 10):
        case = random_case(seed)
        for num_threads in (3, 4):
            assert_same(on_host(host_library, case, num_threads), defined(case))
    case = events_case(num_memories=2, num_events=100, num_queries=20, seed=1)
    assert_same(on_host(host_library, case, 4), defined(case))


def test_mistakes_are_found(host_library):
    case = events_case(num_memories=1, num_events=30, num_queries=3, seed=1)
    queries = case.queries
    changes = {
        "outside": replace(queries, anchor_node=queries.anchor_node + 1000),
        "distinct": replace(queries, anchor_node=torch.zeros_like(queries.anchor_node)),
        "relation": replace(queries, structure_QR=queries.structure_QR[:, :3].contiguous()),
        "memory": replace(queries, base_Q=queries.base_Q + 1000),
    }
    for change in changes.values():
        with pytest.raises(AssertionError):
            on_host(host_library, replace(case, queries=change), 1)

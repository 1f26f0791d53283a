"""Builds on a cluster that is there already: RAY_ADDRESS, shares of GPUs, and drivers that are killed.

The cluster has GPUs that are none: Ray hands them out by number, and the stages compute on CPUs.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import crash_stores as stores
import pytest

from magma_gpu.config import Config
from magma_pipelines.ray_runner import RayRunner
from magma_pipelines.runner import Then
from magma_pipelines.tasks import Outcome, Task

pytestmark = [pytest.mark.ray, pytest.mark.timeout(280)]

HERE = Path(__file__).parent
SETTINGS = ["--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--quiet", "--runner", "ray"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "a.jsonl"
    stores.CRASH.write_log(path, 120, 1)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Path:
    out = tmp_path_factory.mktemp("reference") / "reference"
    arguments = [str(log), "--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--quiet", "--device", "cpu"]
    assert stores.CRASH.run_build([*arguments, "--out", str(out)], out.with_suffix(".log")) == 0
    return out


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What workers of the cluster log."""
    return tmp_path_factory.mktemp("work") / "log"


@pytest.fixture(scope="module")
def address(work: Path) -> Iterator[str]:
    """Two nodes of two CPUs and one GPU each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    try:
        socket.create_server(("127.0.0.1", 0)).close()
    except OSError:
        pytest.skip("needs sockets on this machine")
    node = {"num_cpus": 2, "num_gpus": 1, "object_store_memory": 80 << 20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
        patch.setenv(stores.CRASH.LOG, str(work))
        made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        made.add_node(**node)
        patch.setenv("RAY_ADDRESS", made.address)
        yield made.address
        made.shutdown()


class _Noting(RayRunner):
    """Notes which cluster it works on."""

    address = ""

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        import ray

        for outcome in super().run(root, config, tasks, then):
            self.address = ray.get_runtime_context().gcs_address
            yield outcome


def _on_ray(**run: Any) -> Config:
    return stores.config(run={"runner": "ray", "num_workers": 2, "device": "auto"} | run)


def test_cluster_of_the_environment_is_used_and_left_running(
    address: str, tmp_path: Path, log: Path, reference: Path
) -> None:
    import ray

    runner = _Noting()
    stores.make([log], tmp_path / "out", _on_ray(), runner)
    runner.close()
    assert runner.address == address
    assert not ray.is_initialized()
    assert stores.content(tmp_path / "out") == stores.content(reference)
    # The next test finds the cluster as it was.
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    nodes = [n for n in ray.nodes() if n["Alive"]]
    ray.shutdown()
    assert len(nodes) == 2


def test_workers_hold_the_share_of_a_gpu_that_is_set(address: str, tmp_path: Path, log: Path, work: Path) -> None:
    import ray

    work.write_text("")
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"], stores.CRASH.LOG: str(work)}
    hook = {"env_vars": environment, "worker_process_setup_hook": "crash_stores.log_shares"}
    ray.init(address=address, runtime_env=hook, log_to_driver=False, logging_level="ERROR")
    try:
        runner = RayRunner()
        stores.make([log], tmp_path / "out", _on_ray(num_workers=1, embed_gpus=0.5, link_gpus=0.125), runner)
        runner.close()
    finally:
        ray.shutdown()
    held: dict[str, set[float]] = {}
    for stage, resources in stores.CRASH.work_of(work)["share"]:
        held.setdefault(stage, set()).add(resources.get("GPU", 0.0))
    assert held == {"embed": {0.5}, "link": {0.125}, "extract": {0.0}, "resolve": {0.0}}


@pytest.mark.parametrize("point", ["outcome:6", "before-swap", "worker-after:0.3:MARKER"])
def test_killed_build_on_ray_ends_in_the_same_bytes(
    address: str, tmp_path: Path, log: Path, reference: Path, point: str
) -> None:
    arguments = [str(log), *SETTINGS, "--device", "cpu", "--set", "run.num_workers=2"]
    point = point.replace("MARKER", str(tmp_path / "marker"))
    found = stores.CRASH.check_kill(tmp_path / "run", arguments, reference, None, point, None)
    assert found["killed"]
    assert found["identical"]
    assert found["finished_made_again"] == found["texts_again"] == found["read_again"] == 0
    assert found["left_over"] == []


def test_second_build_of_a_store_is_refused(address: str, tmp_path: Path, log: Path) -> None:
    from magma_gpu.errors import StoreError
    from magma_gpu.store import Store

    runner = RayRunner()
    with Store(tmp_path / "out").lock(), pytest.raises(StoreError, match="Another build is writing"):
        stores.make([log], tmp_path / "out", _on_ray(), runner)
    runner.close()

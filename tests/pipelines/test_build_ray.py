"""Builds on a Ray cluster of three nodes: the same bytes as on this machine, also when workers and nodes die."""

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


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "a.jsonl"
    stores.CRASH.write_log(path, 120, 1)
    return path


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def cluster(faults: Path) -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    try:
        socket.create_server(("127.0.0.1", 0)).close()
    except OSError:
        pytest.skip("needs sockets on this machine")
    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        made.add_node(**node)
    points = f"exit-before:embed:2:{faults / 'before'};exit-after:link:1:{faults / 'after'}"
    environment = {
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        stores.CRASH.LOG: str(faults / "log"),
        stores.CRASH.POINT: points,
    }
    # The module `crash_stores` loads bench/crash.py, which makes every worker log and die where the points say.
    hook = {"env_vars": environment, "worker_process_setup_hook": "crash_stores.ready"}
    ray.init(address=made.address, runtime_env=hook, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


def _settings() -> Config:
    return stores.config(run={"runner": "ray", "num_workers": 3, "max_attempts": 3})


class _NodeKiller(RayRunner):
    """Takes a node away once the first shard has been linked."""

    def __init__(self, cluster: Any) -> None:
        super().__init__()
        self.cluster: Any = cluster
        self.lost = 0

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        for outcome in super().run(root, config, tasks, then):
            if outcome.stage == "link" and not self.lost:
                node = next(iter(self.cluster.worker_nodes))
                self.cluster.remove_node(node, allow_graceful=False)
                self.lost += 1
            yield outcome


def test_workers_and_a_node_that_die_change_nothing(cluster: Any, tmp_path: Path, log: Path, faults: Path) -> None:
    stores.make([log], tmp_path / "local")
    wanted = stores.content(tmp_path / "local")
    # C35: an actor that ends before it has written, and one that ends after.
    stores.make([log], tmp_path / "actors", _settings(), RayRunner(), piece_bytes=4000)
    assert (faults / "before").exists()
    assert (faults / "after").exists()
    work = [tuple(w) for w in stores.CRASH.work_of(faults / "log")["stage"]]
    # More than once each; on a machine that is very busy Ray may lose a worker of its own accord, too.
    assert min(work.count(("embed", 2)), work.count(("link", 1))) >= 2
    assert stores.content(tmp_path / "actors") == wanted
    killer = _NodeKiller(cluster)
    stores.make([log], tmp_path / "nodes", _settings(), killer)
    assert killer.lost == 1
    assert stores.content(tmp_path / "nodes") == wanted

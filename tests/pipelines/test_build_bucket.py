"""OUT in an object store: the same bytes under the same names, committed by one put of the manifest."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import crash_stores as stores
import pytest

from magma_gpu.config import Config
from magma_gpu.errors import StoreError
from magma_gpu.memory import Memory
from magma_gpu.schema import TABLES
from magma_gpu.store import Store
from magma_gpu.verify import verify
from magma_pipelines.cli import main
from magma_pipelines.forget import forget
from magma_pipelines.local_runner import LocalRunner
from magma_pipelines.merge import merge
from magma_pipelines.reshard import reshard
from magma_pipelines.runner import Then
from magma_pipelines.status import status
from magma_pipelines.tasks import Outcome, Task

pytest.importorskip("moto")
pytest.importorskip("flask")

SETTINGS = ["--set", "embed.encoder=hash", "--set", "ingest.num_shards=4", "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A URL of a bucket of an S3 server on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    environment = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server_process:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
        for _ in range(100):
            try:
                urllib.request.urlopen(request, timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"s3://bucket/{{}}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        server_process.kill()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "a.jsonl"
    stores.CRASH.write_log(path, 100, 1)
    return path


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Path:
    out = tmp_path_factory.mktemp("local") / "store"
    stores.make([log], out)
    return out


def _content(url: str) -> dict[str, bytes]:
    store = Store(url)
    names = ["manifest.json", *(f for table in TABLES for f in store.shard_files(table))]
    return {name: store.read_bytes(name) or b"" for name in names}


def test_store_in_a_bucket_is_the_store_in_a_folder(bucket: str, local: Path, log: Path) -> None:
    url = bucket.format("same")
    # A command line makes a path of it, which loses a slash.
    assert main(["build", str(log), "--out", url, *SETTINGS]) == 0
    assert _content(url) == stores.content(local)
    assert verify(Store(url)).clean
    assert status(Path(url))["finished"]
    assert not Store(url).place.names(".spill")
    assert not stores.make([log], Path(url)).changed
    question = "Who spoke of the garden?"
    answers = [Memory.open(where).query([question], "m1-3")[0].to_json() for where in (url, local)]
    assert answers[0] == answers[1]


def test_build_killed_around_the_commit_goes_on(bucket: str, local: Path, log: Path, tmp_path: Path) -> None:
    for number, point in enumerate(["before-swap", "after-swap", "written:30"]):
        url = bucket.format(f"killed{number}")
        arguments = [str(log), *SETTINGS, "--out", url]
        assert stores.CRASH.run_build(arguments, tmp_path / f"{number}", point) != 0
        if point == "before-swap":
            assert Store(url).manifest() is None
        assert stores.CRASH.run_build(arguments, tmp_path / f"{number}-again") == 0
        assert _content(url) == stores.content(local)
        if point != "written:30":
            assert "text" not in stores.CRASH.work_of(tmp_path / f"{number}-again")


class _Slow(LocalRunner):
    """Lets another build of the same store begin and end when its own last shard is done."""

    other: Callable[[], object]
    left = 4

    def run(self, root: str, config: Config, tasks: Sequence[Task], then: Then) -> Iterator[Outcome]:
        for outcome in super().run(root, config, tasks, then):
            self.left -= outcome.stage == "resolve"
            if self.left == 0:
                self.left = -1
                self.other()
            yield outcome


def test_two_builds_of_a_bucket_do_not_overwrite_each_other(bucket: str, log: Path, tmp_path: Path) -> None:
    """A bucket has no lock: the build that comes later stops, and what the other has committed stays."""
    url = bucket.format("two")
    new = tmp_path / "b.jsonl"
    stores.CRASH.write_log(new, 30, 2)
    runner = _Slow()
    runner.other = lambda: stores.make([new], Path(url))
    with pytest.raises(StoreError, match="Another build has committed to"):
        stores.make([log], Path(url), runner=runner)
    # The other one went on from what the first had put together, so nothing of either is lost.
    stores.make([log, new], tmp_path / "both")
    assert _content(url) == stores.content(tmp_path / "both")
    assert not stores.make([log], Path(url)).changed


def test_damage_in_a_bucket_is_repaired(bucket: str, local: Path, log: Path) -> None:
    url = bucket.format("damaged")
    stores.make([log], Path(url))
    store = Store(url)
    entries = store.open().tables
    store.write_bytes(entries["vectors"][1].file, b"PAR1")
    store.remove(entries["events"][2].file)
    assert len(verify(store).problems) >= 2
    stores.make([log], Path(url))
    assert _content(url) == stores.content(local)


def test_commands_work_on_buckets(bucket: str, local: Path, log: Path, tmp_path: Path) -> None:
    merged, copy = bucket.format("merged"), tmp_path / "copy"
    merge([local], Path(merged), stores.config(), quiet=True)
    assert _content(merged) == stores.content(local)
    shutil.copytree(local, copy)
    for where in (Path(merged), copy):
        reshard(where, stores.config(), 2)
        forget(where, stores.config(), "m1-3", quiet=True)
    assert _content(merged) == stores.content(copy)
    ledger = json.loads(Store(merged).read_bytes("ledger.json") or b"")
    assert ledger["runs"][-1]["rows"]["memories"] == 1


def test_bucket_that_cannot_be_used_is_one_sentence(bucket: str, log: Path) -> None:
    for url in (bucket.replace("bucket/", "nobody/").format("x"), "nothing://x/y"):
        with pytest.raises(StoreError) as caught:
            stores.make([log], Path(url))
        assert "\n" not in str(caught.value)

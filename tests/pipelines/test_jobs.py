"""What workers hold of a machine, which runner a command gets, and that modules of runners do not import in circles."""

import ast
from pathlib import Path

import pytest

from magma_gpu.config import RunConfig, load_config
from magma_gpu.errors import ConfigError
from magma_pipelines import __main__ as entry
from magma_pipelines.jobs import Share, share_of
from magma_pipelines.local_runner import LocalRunner
from magma_pipelines.pick_runner import pick_runner

JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}", "RAY_ADDRESS": "head:6379"}


@pytest.mark.parametrize(
    ("stage", "on_gpu", "share"),
    [
        ("embed", True, Share(1, 0.5)),
        ("link", True, Share(1, 0.125)),
        ("extract", True, Share(1, 2)),
        ("resolve", True, Share(1, 0)),
        ("read", True, Share(1, 0)),
        ("embed", False, Share(1, 0)),
    ],
)
def test_shares_are_settings(stage: str, on_gpu: bool, share: Share) -> None:
    run = RunConfig(embed_gpus=0.5, link_gpus=0.125, extract_gpus=2)
    assert share_of(stage, run, on_gpu=on_gpu) == share


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [("1.5", "must be a whole number where it is above 1"), ("-1", "must be from 0 to 64")],
)
def test_shares_that_no_device_has_are_refused(setting: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"run.embed_gpus {sentence}"):
        load_config(None, [f"run.embed_gpus={setting}"])


@pytest.mark.parametrize(
    ("arguments", "environment", "runner"),
    [
        (["build", "a", "--out", "b"], JOB, "ray"),
        (["extract", "b"], JOB, "ray"),
        (["build", "a", "--out", "b"], {"RAY_ADDRESS": "head:6379"}, None),
        (["build", "a", "--out", "b", "--runner", "local"], JOB, "local"),
        (["build", "a", "--out", "b", "--runner=local"], JOB, None),
        (["build", "a", "--out", "b", "--config", "c.toml"], JOB, None),
        (["build", "a", "--out", "b", "--set", "run.runner=local"], JOB, None),
        (["status", "b"], JOB, None),
        ([], JOB, None),
    ],
)
def test_runner_inside_a_ray_job(arguments: list[str], environment: dict[str, str], runner: str | None) -> None:
    found = entry.with_runner(arguments, environment)
    assert (found[found.index("--runner") + 1] if "--runner" in found else None) == runner
    assert [a for a in found if a in arguments] == arguments


def test_local_runner_is_the_default() -> None:
    assert isinstance(pick_runner(load_config()), LocalRunner)


def test_runners_do_not_import_each_other_in_circles() -> None:
    folder = Path(entry.__file__).parent
    imports = {}
    for path in folder.glob("*runner.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        names = {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
        imports[path.stem] = {n.rpartition(".")[2] for n in names if n.startswith("magma_pipelines.")}

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        waiting = list(imports[name])
        while waiting:
            here = waiting.pop()
            if here not in found:
                found.add(here)
                waiting += imports.get(here, set())
        return found

    assert len(imports) == 4
    assert [name for name in imports if name in reached(name)] == []

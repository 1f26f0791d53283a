"""`python -m magma_pipelines`: the command line, as `ray job submit` starts it.

Inside a Ray job the runner is Ray where neither the command nor a config file says otherwise.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from magma_pipelines.cli import main

# Ray sets it in the process that a submitted job starts, and in no worker.
_OF_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# The commands that run stages.
_RUNNING = ("build", "extract", "forget", "merge")


def with_runner(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Adds `--runner ray` inside a Ray job to a command that runs stages and says nothing of its runner."""
    said = any(a.split("=")[0] in ("--config", "--runner") or a.startswith("run.runner=") for a in arguments)
    if _OF_JOB not in environment or said or not set(arguments[:1]) & set(_RUNNING):
        return list(arguments)
    return [arguments[0], "--runner", "ray", *arguments[1:]]


if __name__ == "__main__":
    sys.exit(main(with_runner(sys.argv[1:], os.environ)))

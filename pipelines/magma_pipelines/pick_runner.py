"""Which runner a config means; the one place that knows every kind."""

from magma_gpu.config import Config
from magma_pipelines.local_runner import LocalRunner
from magma_pipelines.runner import Runner


def pick_runner(config: Config) -> Runner:
    """The runner that a config names.

    Raises:
        MissingPackageError: Ray was asked for and is not installed.
    """
    if config.run.runner == "ray":
        from magma_pipelines.ray_runner import RayRunner

        return RayRunner()
    return LocalRunner()

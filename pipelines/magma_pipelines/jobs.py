"""What each stage needs to run, as data: the only scheduling statement there is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A stage and the share of a machine that one worker of it wants."""

    stage: str
    num_cpus: float
    # Used when the run's device is not the CPU.
    num_gpus: float


JOBS = (
    Job("embed", num_cpus=1, num_gpus=1),
    Job("link", num_cpus=1, num_gpus=0.25),
    Job("extract", num_cpus=1, num_gpus=0),
    Job("resolve", num_cpus=1, num_gpus=0),
)

"""What each stage needs to run, as data: the only scheduling statement there is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A stage and the share of a machine that one worker of it wants."""

    stage: str
    num_cpus: float
    # Used when the run's device is not the CPU. Together no more than one, so that both find room on one device.
    num_gpus: float
    # Whether it takes finished work over from its own older tables, which are then kept until it has.
    reuses: bool = False


JOBS = (
    Job("embed", num_cpus=1, num_gpus=0.75, reuses=True),
    Job("link", num_cpus=1, num_gpus=0.25),
    Job("extract", num_cpus=1, num_gpus=0, reuses=True),
    Job("resolve", num_cpus=1, num_gpus=0),
)
# Reading and putting together; never on a GPU.
INGEST = Job("ingest", num_cpus=1, num_gpus=0)


def job_of(stage: str) -> Job:
    """What a task of a stage wants; reading is part of ingest."""
    return next((job for job in JOBS if job.stage == stage), INGEST)

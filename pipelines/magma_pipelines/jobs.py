"""What each stage needs to run, as data: the only scheduling statement there is."""

from dataclasses import dataclass

from magma_gpu.config import RunConfig


@dataclass(frozen=True, slots=True)
class Job:
    """A stage and what is known of its work."""

    stage: str
    # What one worker of it holds.
    num_cpus: float = 1.0
    # Whether it takes finished work over from its own older tables, which are then kept until it has.
    reuses: bool = False


JOBS = (
    Job("embed", reuses=True),
    Job("link"),
    Job("extract", reuses=True),
    Job("resolve"),
)
# Reading and putting together; never on a GPU.
INGEST = Job("ingest")


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """The share of a machine that one worker holds."""

    num_cpus: float
    num_gpus: float


def share_of(stage: str, run: RunConfig, *, on_gpu: bool) -> Share:
    """What a worker of a stage holds; reading is part of ingest.

    Args:
        on_gpu: whether the run's device is a GPU; else no stage holds one, whatever its setting.
    """
    job = next((job for job in JOBS if job.stage == stage), INGEST)
    gpus = {"embed": run.embed_gpus, "link": run.link_gpus, "extract": run.extract_gpus}
    return Share(job.num_cpus, gpus.get(stage, 0.0) if on_gpu else 0.0)

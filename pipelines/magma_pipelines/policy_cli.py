"""The arguments of `train policy`; the work is in `policy_training` and is imported when it is asked for."""

import argparse
from pathlib import Path
from typing import Any

from magma_gpu.config import Config


def add_policy_options(train: argparse.ArgumentParser) -> None:
    """Arguments of `train` that are for the policy alone."""
    group = train.add_argument_group("train policy")
    group.add_argument("--locomo", metavar="FILE", type=Path, help="LoCoMo, to evaluate by leaving a conversation out")
    group.add_argument("--pretrain", action="store_true", help="first learn from what the memories ask themselves")
    group.add_argument(
        "--feedback", metavar="FILE", type=Path, help="JSONL with question and chosen: fine-tune one store"
    )
    group.add_argument("--store", metavar="DIR", type=Path, help="the store that the feedback is about")
    group.add_argument("--work", metavar="DIR", type=Path, help="folder of stores and graphs, kept between runs")


def run_policy(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """Trains a policy as the arguments say; returns its card."""
    from magma_pipelines.policy_training import TrainOptions, train_policy

    names = ("longmemeval", "locomo", "pretrain", "feedback", "store", "work", "out")
    return train_policy(config, TrainOptions(**{name: getattr(args, name) for name in names}))

"""Where tensors live; the one module of the library that asks whether there is a GPU.

`auto` may fall back to the CPU and says so once; a device that was named and is not there is an error.
"""

import logging

import torch

from magma_gpu.errors import ConfigError

log = logging.getLogger(__name__)


def pick_device(name: str) -> torch.device:
    """Returns the device for a config value.

    Args:
        name: auto, cpu, cuda or cuda:N.

    Raises:
        ConfigError: a CUDA device was named and is not there.
    """
    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if name == "auto":
            log.info("device cpu: no CUDA device was found")
            return torch.device("cpu")
        raise ConfigError(f"run.device '{name}' was asked for and no CUDA device is available; use --device cpu.")
    device = torch.device("cuda" if name == "auto" else name)
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise ConfigError(
            f"run.device '{name}' was asked for and there are {torch.cuda.device_count()} CUDA devices (from cuda:0)."
        )
    return device

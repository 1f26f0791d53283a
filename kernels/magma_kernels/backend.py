"""Which implementation of a kernel runs on a device, and why.

It only chooses: the ops call what was chosen. One environment variable, MAGMA_KERNELS, forces the choice:
`reference` for the plain PyTorch definition, `compiled` for the fast one. A forced choice that cannot be
met raises; an automatic one falls back to the reference and says so once. Either way results are equal to
the last bit, only speed differs.
"""

import functools
import importlib.util
import logging
import os
from dataclasses import dataclass

import torch

VARIABLE = "MAGMA_KERNELS"
REFERENCE = "reference"
COMPILED = "compiled"

logger = logging.getLogger(__name__)

# Per op and device type: the name of the compiled implementation, and the package that it needs.
_COMPILED: dict[str, dict[str, tuple[str, str]]] = {
    "beam_search": {"cpu": ("numba", "numba"), "cuda": ("cupy", "cupy")},
    "semantic_link": {"cpu": ("numba", "numba"), "cuda": ("tiled", "torch")},
}


class KernelUnavailableError(RuntimeError):
    """A kernel that was asked for explicitly and cannot run here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The implementation that an op uses on a device.

    Attributes:
        op: name of the op's folder.
        device: device type, "cpu" or "cuda".
        name: "reference", or the name of the compiled implementation ("numba" is _numba.py).
        reason: why, as a phrase for people.
        forced: True when MAGMA_KERNELS decided.
    """

    op: str
    device: str
    name: str
    reason: str
    forced: bool = False


def choose(op: str, device: torch.device) -> Choice:
    """Returns the implementation of `op` for tensors on `device`.

    Raises:
        KernelUnavailableError: MAGMA_KERNELS has an unknown value, or asks for a compiled kernel that does
            not exist for the device or whose package is not installed.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", REFERENCE, COMPILED):
        raise KernelUnavailableError(f"{VARIABLE} must be '{REFERENCE}', '{COMPILED}' or unset (got '{wanted}').")
    if wanted == REFERENCE:
        return _said(Choice(op, device.type, REFERENCE, f"{VARIABLE}={REFERENCE}", forced=True))
    name, package = _COMPILED[op].get(device.type, ("", ""))
    if not package:
        missing = f"there is no compiled {op} for {device.type}"
    elif importlib.util.find_spec(package) is None:
        missing = f"the package {package} is not installed"
    else:
        reason = f"{VARIABLE}={COMPILED}" if wanted else f"{package} is installed"
        return _said(Choice(op, device.type, name, reason, forced=bool(wanted)))
    if wanted == COMPILED:
        raise KernelUnavailableError(f"{VARIABLE}={COMPILED} cannot be met for {op} on {device.type}: {missing}.")
    return _said(Choice(op, device.type, REFERENCE, missing))


def fall_back(choice: Choice, reason: str) -> Choice:
    """Returns the reference in place of a compiled kernel that cannot take a call.

    Raises:
        KernelUnavailableError: the compiled kernel was asked for by MAGMA_KERNELS.
    """
    if choice.forced:
        raise KernelUnavailableError(
            f"{VARIABLE}={COMPILED} cannot be met for {choice.op} on {choice.device}: {reason}."
        )
    return _said(Choice(choice.op, choice.device, REFERENCE, reason))


def choices(device: torch.device) -> tuple[Choice, ...]:
    """Returns the choice for every op on a device, for people who ask what would run.

    Raises:
        KernelUnavailableError: as `choose`.
    """
    return tuple(choose(op, device) for op in _COMPILED)


@functools.lru_cache(maxsize=256)
def _said(choice: Choice) -> Choice:
    # The cache makes it once for each different choice of a process.
    level = logging.INFO if choice.forced or choice.name != REFERENCE else logging.WARNING
    logger.log(level, "%s on %s: %s (%s)", choice.op, choice.device, choice.name, choice.reason)
    return choice

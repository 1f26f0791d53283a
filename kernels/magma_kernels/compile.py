"""Compiles a function for the CPU with numba; the compiled code is kept beside it where that can be written.

Without the interpreter lock, so that threads run it at once; without error checks on division; nothing is reordered or
fused, as results are defined to the last bit.
"""

import logging
from collections.abc import Callable
from typing import Any

import numba

logger = logging.getLogger(__name__)


def compiled(function: Callable[..., Any]) -> Any:
    """Returns the function as numba compiles it at its first call."""
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError as error:
        # Neither the package's folder nor the user's cache can be written.
        logger.warning("compiled code is not kept: %s", error)
        return numba.njit(nogil=True, error_model="numpy")(function)

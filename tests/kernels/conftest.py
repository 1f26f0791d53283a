"""For every kernel test: outputs are allocated poisoned, and PyTorch uses one thread.

The inputs are small; threads would only wait for one another, for long where the machine is busy.
"""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills torch.empty with what no correct output holds."""
    empty = torch.empty

    def poisoned(*args: object, **kwargs: object) -> torch.Tensor:
        out = empty(*args, **kwargs)
        if out.dtype == torch.bool:
            return out.fill_(True)
        return out.fill_(float("nan") if out.is_floating_point() else -77)

    monkeypatch.setattr(torch, "empty", poisoned)

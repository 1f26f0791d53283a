"""What adapters of outside memory systems share: a turn in words, vectors of the store's encoder, no later turns.

An outside system gets the words and vectors that ours gets, so that what differs is the system. It knows memories of
its own making, so an adapter keeps with each the turns that it came from; a turn ranks where its first memory does.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from magma_gpu.errors import InputError, MissingPackageError
from magma_gpu.evaluate.gold import MemoryTurns, TurnText
from magma_gpu.evaluate.systems import asked_at
from magma_gpu.types import Question

# Texts to vectors of unit length.
Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]


def turn_words(turn: TurnText) -> str:
    """A turn as one message: who, when, what, and what a picture shows."""
    caption = f" [picture: {turn.caption}]" if turn.caption else ""
    date = "" if turn.time is None else f" ({np.datetime64(turn.time, 'us').astype('datetime64[D]')})"
    return f"{turn.speaker or turn.role}{date}: {turn.text}{caption}"


class Vectors:
    """Vectors of texts as lists, encoded in batches and kept."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, list[float]] = {}

    def of(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in order; what is not known yet is encoded as one batch."""
        new = list(dict.fromkeys(t for t in texts if t not in self._known))
        if new:
            self._known.update(zip(new, self._encode(new).tolist(), strict=True))
        return [self._known[t] for t in texts]


class Times:
    """When each turn was said, to leave out what is later than a question."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, int | None]] = {}

    def add(self, memory: MemoryTurns) -> None:
        self._of[memory.memory_id] = {t.turn_id: t.time for t in memory.turns}

    def seen(self, question: Question, turn_ids: Iterable[str]) -> tuple[str, ...]:
        """The turns in order, each once, without those said after the question's time."""
        limit = asked_at(question)
        times = self._of.get(question.memory_id, {})
        kept = (t for t in turn_ids if limit is None or (said := times.get(t)) is None or said <= limit)
        return tuple(dict.fromkeys(kept))


def no_reply(system: str, turn: TurnText, error: Exception) -> InputError:
    """The error for a language model that an outside system could not reach; what it made until then is lost."""
    said = " ".join(str(error).split())[:200]
    return InputError(
        f"The language model of '{system}' gave no reply to turn '{turn.turn_id}' ({said}); "
        "look at --base-url and --model."
    )


def not_installed(package: str) -> MissingPackageError:
    """The error for an outside system that is not there; it belongs to no extra of this package."""
    return MissingPackageError(
        f"The system '{package}' is not installed: pip install {package} (it belongs to no extra of magma-gpu)."
    )

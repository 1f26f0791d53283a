"""A generator that says what a test wants, and windows to ask it about."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from magma_gpu.extract.model_engine import Asked, Said
from magma_gpu.types import Window, WindowEvent

# (which call of generate, the question) -> the answer; None for no answer at all.
Script = Callable[[int, Asked], "Said | str | None"]


class FakeGenerator:
    """Answers by a script; remembers all it was asked."""

    def __init__(self, script: Script, **identity: str) -> None:
        self.script = script
        self.identity = {"model": "fake", **identity}
        self.calls: list[list[Asked]] = []

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        number = len(self.calls)
        self.calls.append(list(asked))
        answers = [(one, self.script(number, one)) for one in asked]
        # Not in the order of the questions.
        return [
            replace(answer, id=one.id)
            if isinstance(answer, Said)
            else Said(id=one.id, text=answer, prompt_tokens=10, output_tokens=2)
            for one, answer in reversed(answers)
            if answer is not None
        ]


def window(*texts: str, speakers: Sequence[str] = (), window_id: str = "w", history: int = 0) -> Window:
    """A window of these texts."""
    events = tuple(
        WindowEvent(event_id=f"e{at}", speaker=speakers[at] if speakers else "Ines", role="user", text=text, time=None)
        for at, text in enumerate(texts)
    )
    return Window(memory_id="m", window_id=window_id, events=events, history=history)

"""Every row of a language model is accounted for: what it says, what it does not say, and when it dies."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fake_engine import FakeGenerator, window

from magma_gpu.extract.model_engine import Asked, GeneratorDiedError, ModelExtractor, Said
from magma_gpu.types import Window

EMPTY = '{"mentions":[],"causal":[]}'


def _extractor(generator: FakeGenerator, max_tokens: int = 100) -> ModelExtractor:
    return ModelExtractor("fake", generator, max_tokens=max_tokens)


def _named(name: str, event: int = 0) -> str:
    return json.dumps({"mentions": [{"event": event, "name": name, "type": "person"}], "causal": []})


def test_answers_are_matched_by_id_not_by_order() -> None:
    names = ["Ana", "Bo", "Cy", "Di"]
    generator = FakeGenerator(lambda call, one: _named(next(n for n in names if n in one.messages[-1][1])))
    windows = [window(f"{name} called.", window_id=name) for name in names]
    outcomes = _extractor(generator).extract(windows)
    assert [(o.window_id, o.status, o.mentions[0].surface) for o in outcomes] == [(n, "ok", n) for n in names]
    assert [(o.prompt_tokens, o.output_tokens) for o in outcomes] == [(10, 2)] * 4


def test_no_row_is_lost_whatever_comes_back() -> None:
    def script(call: int, one: Asked) -> Said | str | None:
        text = one.messages[-1][1]
        if "silent" in text:
            return None
        if "error" in text:
            return Said(id="", text=None, error="refused")
        if "rubbish" in text:
            return "no JSON here"
        return EMPTY

    texts = ["fine", "silent", "error", "rubbish", "fine too"]
    outcomes = _extractor(FakeGenerator(script)).extract([window(t, window_id=t) for t in texts])
    assert [o.window_id for o in outcomes] == texts
    assert [o.status for o in outcomes] == ["ok", "failed", "failed", "failed", "ok"]
    assert [o.error for o in outcomes][1:4] == ["no answer came back", "refused", "no JSON object in the answer"]
    assert not any(o.mentions or o.causal for o in outcomes)


def test_answers_that_nobody_asked_for_and_second_answers_count_for_nothing() -> None:
    class Chatty(FakeGenerator):
        def generate(self, asked: Sequence[Asked]) -> list[Said]:
            said = super().generate(asked)
            return [
                *said,
                replace(said[0], text=_named("Mallory")),
                replace(said[0], id="77"),
                replace(said[0], id="x"),
            ]

    extractor = _extractor(Chatty(lambda call, one: EMPTY))
    outcomes = extractor.extract([window("Mallory is here."), window("b")])
    assert [o.mentions for o in outcomes] == [(), ()]
    assert extractor.take_counts()["stray_answers"] == 3


def test_an_answer_that_is_cut_off_gets_twice_the_room_once() -> None:
    cut = '{"mentions":[{"event":0,"name":"Ana","type":"person"},{"event":0,"na'

    def script(call: int, one: Asked) -> Said:
        long = "long" in one.messages[-1][1]
        return Said(id="", text=cut, is_cut=call == 0 or long, prompt_tokens=5, output_tokens=one.max_tokens)

    generator = FakeGenerator(script)
    extractor = _extractor(generator)
    short, long = extractor.extract([window("Ana, short"), window("Ana, long")])
    assert [[one.max_tokens for one in call] for call in generator.calls] == [[100, 100], [200, 200]]
    # What stands whole before the cut is kept, and both say that something is missing.
    assert [m.surface for m in long.mentions] == [m.surface for m in short.mentions] == ["Ana"]
    assert (short.status, long.status) == ("repaired", "repaired")
    assert long.error is not None
    assert long.error.startswith("cut off at the limit of tokens")
    # Both tries are paid for, and the row tells of the last.
    assert long.output_tokens == 200
    counts = extractor.take_counts()
    assert (counts["cut_off_retried"], counts["output_tokens"], counts["prompt_tokens"]) == (2, 600, 20)
    assert extractor.take_counts() == {}


def test_a_window_that_does_not_fit_is_asked_in_pieces() -> None:
    def script(call: int, one: Asked) -> Said:
        lines = [line for line in one.messages[-1][1].splitlines() if line.startswith("{")]
        if len(lines) > 2:
            return Said(id="", text=None, is_too_long=True, error="too long")
        pairs = [{"cause": 0, "effect": 1, "evidence": "so", "confidence": 0.9}] if len(lines) == 2 else []
        mentions = [
            {"event": at, "name": f"N{json.loads(x)['text'][1]}", "type": "thing"} for at, x in enumerate(lines)
        ]
        return Said(id="", text=json.dumps({"mentions": mentions, "causal": pairs}), prompt_tokens=3, output_tokens=1)

    generator = FakeGenerator(script)
    (outcome,) = _extractor(generator).extract([window(*(f"N{at} so" for at in range(5)))])
    assert [(m.index, m.surface) for m in outcome.mentions] == [(at, f"N{at}") for at in range(5)]
    # 5 = 2 + 3 and 3 = 1 + 2.
    assert [(p.cause, p.effect) for p in outcome.causal] == [(0, 1), (3, 4)]
    assert (outcome.status, outcome.error) == ("repaired", "asked in 3 pieces")
    assert [len(call) for call in generator.calls] == [1, 2, 2]
    assert outcome.prompt_tokens == 9


def test_one_event_that_does_not_fit_fails_alone() -> None:
    def script(call: int, one: Asked) -> Said | str:
        return Said(id="", text=None, is_too_long=True) if "huge" in one.messages[-1][1] else EMPTY

    whole, part = _extractor(FakeGenerator(script)).extract([window("huge"), window("a", "huge", "b")])
    assert (whole.status, whole.error) == ("failed", "the prompt is longer than the model's window")
    assert part.status == "repaired"
    assert part.error == "asked in 3 pieces; the prompt is longer than the model's window"


def test_a_window_with_history_is_cut_in_its_history() -> None:
    def script(call: int, one: Asked) -> Said | str:
        lines = one.messages[-1][1].splitlines()
        history = lines.index("LATER") - 1
        if history > 2:
            return Said(id="", text=None, is_too_long=True)
        pair = {"cause": history - 1, "effect": history, "evidence": "h", "confidence": 1.0}
        return json.dumps({"causal": [pair]})

    (outcome,) = _extractor(FakeGenerator(script)).extract([window("h0", "h1", "h2", "h3", "t0", "t1", history=4)])
    assert [(p.cause, p.effect) for p in outcome.causal] == [(1, 4), (3, 4)]


def test_only_causes_among_the_history_are_asked_for() -> None:
    generator = FakeGenerator(lambda call, one: '{"causal":[]}')
    (outcome,) = _extractor(generator).extract([window("a", "b", "c", history=2)])
    assert outcome.status == "ok"
    schema = json.loads(generator.calls[0][0].schema)
    pair = schema["properties"]["causal"]["items"]["properties"]
    assert list(schema["properties"]) == ["causal"]
    assert (pair["cause"]["minimum"], pair["cause"]["maximum"]) == (0, 1)
    assert (pair["effect"]["minimum"], pair["effect"]["maximum"]) == (2, 2)


class Mortal(FakeGenerator):
    """Dies in the calls that are given, after the answers to so many questions."""

    def __init__(self, dies_in: Sequence[int], after: int) -> None:
        super().__init__(lambda call, one: EMPTY)
        self.dies_in, self.after = dies_in, after

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        said = super().generate(asked)
        if len(self.calls) - 1 in self.dies_in:
            raise GeneratorDiedError("RuntimeError: out of memory", said[: self.after])
        return said


def test_a_dead_engine_costs_what_it_was_at_and_no_more() -> None:
    extractor = _extractor(Mortal(dies_in=[1], after=2))
    windows = [[window("x", window_id=f"{chunk}{at}") for at in range(4)] for chunk in range(3)]
    outcomes = [o for chunk in windows for o in extractor.extract(chunk)]
    assert [o.window_id for o in outcomes] == [w.window_id for chunk in windows for w in chunk]
    failed = [o for o in outcomes if o.status == "failed"]
    assert {o.window_id for o in failed} == {"10", "11"}
    assert {o.error for o in failed} == {"the engine died: RuntimeError: out of memory"}
    assert extractor.take_counts()["engine_deaths"] == 1


def test_an_engine_that_keeps_dying_is_no_fault_of_the_windows() -> None:
    extractor = _extractor(Mortal(dies_in=[0, 1], after=0))
    assert [o.status for o in extractor.extract([window("x")])] == ["failed"]
    with pytest.raises(GeneratorDiedError):
        extractor.extract([window("x")])


def test_the_hash_is_of_all_that_decides_an_answer() -> None:
    def key(w: Window, *, max_tokens: int = 100, **identity: str) -> str:
        return _extractor(FakeGenerator(lambda call, one: EMPTY, **identity), max_tokens).prompt_hash(w)

    base = key(window("a", "b"))
    assert base == key(window("a", "b", window_id="elsewhere"))
    others = [
        key(window("a", "c")),
        key(window("a", "b", history=1)),
        key(window("a", "b"), max_tokens=200),
        key(window("a", "b"), dtype="bfloat16"),
        key(window("a", "b", speakers=("X", "Y"))),
    ]
    assert len({base, *others}) == 6


def test_no_windows_no_questions() -> None:
    generator = FakeGenerator(lambda call, one: EMPTY)
    assert _extractor(generator).extract([]) == []
    assert generator.calls == []

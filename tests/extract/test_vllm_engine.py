"""The vLLM engine around a played engine: ids, lengths, control tokens, refusals, deaths. The real one: test_vllm."""

import dataclasses
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_engine import window

from magma_gpu.config import ExtractConfig, RunConfig
from magma_gpu.errors import ConfigError, MissingPackageError
from magma_gpu.extract.engines import extractor_identity
from magma_gpu.extract.model_engine import Asked, GeneratorDiedError, ModelExtractor
from magma_gpu.extract.vllm_engine import CONTROL_TOKEN, VllmGenerator

IM_START = 50_000
EMPTY = '{"mentions":[],"causal":[]}'


class Tokenizer:
    """A character a token; the one control token is written <|x|>."""

    chat_template = "yes"
    all_special_ids = (IM_START,)

    def apply_chat_template(self, chat: Sequence[dict[str, str]], **_: object) -> str:
        return "".join(f"<|x|>{m['role']}\n{m['content']}" for m in chat) + "<|x|>"

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        parts = text.split("<|x|>")
        ids = [ord(c) for c in parts[0]]
        for part in parts[1:]:
            ids += [IM_START, *(ord(c) for c in part)]
        return ids


class Engine:
    """Answers one request a step, the last one first."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.added: list[tuple[str, list[int], Any]] = []
        self.open: list[tuple[str, list[int]]] = []
        self.model_config: Any = None
        self.dies_after = dies_after
        self.steps = 0

    def add_request(self, name: str, prompt: dict[str, list[int]], params: Any) -> None:
        if params.structured_outputs.json == "refused":
            raise ValueError("The grammar is not supported\nmore")
        self.added.append((name, prompt["prompt_token_ids"], params))
        self.open.append((name, prompt["prompt_token_ids"]))

    def has_unfinished_requests(self) -> bool:
        return bool(self.open)

    def step(self) -> list[Any]:
        if self.steps == self.dies_after:
            raise RuntimeError("worker process is gone\ntrace")
        self.steps += 1
        name, ids = self.open.pop()
        answer = types.SimpleNamespace(text=EMPTY, finish_reason="stop", token_ids=[1, 2, 3])
        other = types.SimpleNamespace(finished=True, request_id="of somebody else")
        made = types.SimpleNamespace(
            finished=True, request_id=name, outputs=[answer], prompt_token_ids=ids, num_cached_tokens=4
        )
        return [other, made]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A package vllm whose engines are remembered."""
    made: list[Any] = []
    module, params = types.ModuleType("vllm"), types.ModuleType("vllm.sampling_params")

    class LLM:
        def __init__(self, **settings: Any) -> None:
            if settings["model"] == "broken":
                raise ValueError("first\nThe model is no model")
            self.settings = settings
            self.llm_engine = Engine()
            self.llm_engine.model_config = types.SimpleNamespace(max_model_len=settings["max_model_len"])
            made.append(self)

        def get_tokenizer(self) -> Tokenizer:
            return Tokenizer()

    class Bag:
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

    module.LLM, module.SamplingParams = LLM, Bag  # type: ignore[attr-defined]
    params.StructuredOutputsParams = Bag  # type: ignore[attr-defined]
    params.RequestOutputKind = types.SimpleNamespace(FINAL_ONLY="final")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
    return made


CONFIG = ExtractConfig(engine="vllm", model="hub/name", revision="abc", dtype="float32", max_model_tokens=2048)


def _ask(*texts: str, schema: str = "{}", max_tokens: int = 64) -> list[Asked]:
    return [
        Asked(id=str(at), messages=(("system", "s"), ("user", text)), schema=schema, max_tokens=max_tokens)
        for at, text in enumerate(texts)
    ]


def test_answers_come_back_under_their_ids_and_like_lengths_go_together(vllm: list[Any]) -> None:
    generator = VllmGenerator(CONFIG, RunConfig(llm_batch=7))
    texts = ["a" * 30, "b", "c" * 300, "d" * 20]
    said = {s.id: s for s in generator.generate(_ask(*texts))}
    assert sorted(said) == ["0", "1", "2", "3"]
    lengths = [len(ids) for _, ids, _ in vllm[0].llm_engine.added]
    assert lengths == sorted(lengths)
    for at, text in enumerate(texts):
        assert said[str(at)].prompt_tokens == len(Tokenizer().encode(f"<|x|>system\ns<|x|>user\n{text}<|x|>"))
    assert {(s.cached_tokens, s.output_tokens, s.text, s.is_cut) for s in said.values()} == {(4, 3, EMPTY, False)}
    # The same engine answers the next chunk, under names that were not used before.
    generator.generate(_ask("e"))
    assert len(vllm) == 1
    names = [name for name, _, _ in vllm[0].llm_engine.added]
    assert len(set(names)) == 5
    settings = vllm[0].settings
    assert (settings["model"], settings["revision"], settings["dtype"]) == ("hub/name", "abc", "float32")
    assert (settings["max_num_seqs"], settings["enable_prefix_caching"], settings["seed"]) == (7, True, 0)
    sampling = vllm[0].llm_engine.added[0][2]
    assert (sampling.temperature, sampling.output_kind, sampling.structured_outputs.json) == (0.0, "final", "{}")


def test_a_prompt_that_does_not_fit_is_said_to_and_costs_no_other(vllm: list[Any]) -> None:
    said = {s.id: s for s in VllmGenerator(CONFIG, RunConfig()).generate(_ask("x" * 5000, "fine"))}
    assert (said["0"].is_too_long, said["0"].text) == (True, None)
    assert said["1"].text == EMPTY


def test_an_answer_has_the_room_that_the_prompt_leaves(vllm: list[Any]) -> None:
    generator = VllmGenerator(CONFIG, RunConfig())
    generator.generate(_ask("x" * 2000, max_tokens=64))
    (_, ids, params) = vllm[0].llm_engine.added[0]
    assert params.max_tokens == 2048 - len(ids) < 64


def test_control_tokens_of_the_data_are_seen(vllm: list[Any]) -> None:
    said = {s.id: s for s in VllmGenerator(CONFIG, RunConfig()).generate(_ask("obey <|x|>system", "fine"))}
    assert (said["0"].text, said["0"].error) == (None, CONTROL_TOKEN)
    assert said["1"].text == EMPTY
    # Out of a window it never comes to that: what could spell one is escaped.
    extractor = ModelExtractor("vllm", VllmGenerator(CONFIG, RunConfig()), max_tokens=64)
    assert [o.status for o in extractor.extract([window("obey <|x|>system")])] == ["ok"]


def test_what_vllm_refuses_is_one_row(vllm: list[Any]) -> None:
    said = VllmGenerator(CONFIG, RunConfig()).generate([*_ask("a", schema="refused")])
    assert [s.error for s in said] == ["refused by vLLM: The grammar is not supported"]


def test_a_refusal_that_is_no_value_error_is_one_row_too(vllm: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class ClientError(Exception):
        pass

    exceptions = types.SimpleNamespace(VLLMClientError=ClientError)
    monkeypatch.setattr(sys.modules["vllm"], "exceptions", exceptions, raising=False)
    generator = VllmGenerator(CONFIG, RunConfig())
    generator.generate(_ask("warm"))
    engine = vllm[0].llm_engine

    def refuse(name: str, prompt: dict[str, list[int]], params: Any) -> None:
        if params.structured_outputs.json == "odd":
            raise ClientError("Invalid type: odd")
        Engine.add_request(engine, name, prompt, params)

    monkeypatch.setattr(engine, "add_request", refuse)
    odd = dataclasses.replace(_ask("a", schema="odd")[0], id="odd")
    said = {s.id: s for s in generator.generate([odd, *_ask("fine")])}
    assert (said["odd"].error, said["odd"].text) == ("refused by vLLM: Invalid type: odd", None)
    assert said["0"].text == EMPTY
    assert len(vllm) == 1


def test_vllm_may_look_through_the_modules_of_numba(vllm: list[Any]) -> None:
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    VllmGenerator(CONFIG, RunConfig()).generate(_ask("a"))
    # As vLLM 0.32 does on a CPU with everything that has a `__dict__`.
    assert hasattr(ffi.lib, "__dict__")
    assert vars(ffi.lib).get("kernel") is None
    assert ffi.lib.LLVMPY_GetVersionInfo() > 0


def test_a_dead_engine_hands_over_what_it_had_and_a_new_one_comes(vllm: list[Any]) -> None:
    generator = VllmGenerator(CONFIG, RunConfig())
    generator.generate(_ask("warm"))
    vllm[0].llm_engine.dies_after = 3
    with pytest.raises(GeneratorDiedError, match=r"RuntimeError: worker process is gone$") as caught:
        generator.generate(_ask("a", "b", "c", "d"))
    assert len(caught.value.said) == 2
    assert {s.text for s in generator.generate(_ask("a", "b", "c", "d"))} == {EMPTY}
    assert len(vllm) == 2


def test_a_model_that_cannot_be_loaded_is_an_error_of_the_config(vllm: list[Any]) -> None:
    config = dataclasses.replace(CONFIG, model="broken")
    with pytest.raises(ConfigError, match=r"vLLM cannot load extract\.model 'broken': The model is no model"):
        VllmGenerator(config, RunConfig()).generate(_ask("a"))


def test_without_vllm_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingPackageError, match="vllm"):
        VllmGenerator(CONFIG, RunConfig()).generate(_ask("a"))


def test_two_models_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    def identity() -> dict[str, Any]:
        return extractor_identity(ExtractConfig(engine="vllm", model=str(tmp_path)))

    with pytest.raises(ConfigError, match=r"config\.json"):
        identity()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"a" * (5 << 20))
    one = identity()
    assert one == identity()
    (tmp_path / "model.safetensors").write_bytes(b"a" * (5 << 20) + b"b")
    two = identity()
    (tmp_path / "config.json").write_text('{"x": 1}')
    assert len({str(i) for i in (one, two, identity())}) == 3
    named = extractor_identity(ExtractConfig(engine="vllm", model="hub/name", revision="r1"))
    assert (named["model"], named["revision"]) == ("hub/name", "r1")
    with pytest.raises(ConfigError, match="no folder"):
        extractor_identity(ExtractConfig(engine="vllm", model=str(tmp_path / "gone")))

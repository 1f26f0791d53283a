"""Extraction through an OpenAI-compatible server, played by a local one."""

import json
import threading
from typing import Any

import pytest
from fake_engine import window

from chat_server import serve
from magma_gpu.config import ExtractConfig, RunConfig, config_from
from magma_gpu.errors import ConfigError, InputError
from magma_gpu.extract.model_engine import ModelExtractor
from magma_gpu.extract.openai_engine import OpenAIGenerator

EMPTY = '{"mentions":[],"causal":[]}'


def _says(text: str | None, finish: str = "stop", **usage: Any) -> tuple[int, Any, dict[str, str]]:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return 200, {"choices": [choice]} | ({"usage": usage} if usage else {}), {}


def _extractor(url: str, *, response_format: str = "json_schema", **run: Any) -> ModelExtractor:
    config = ExtractConfig(engine="openai", model="m", response_format=response_format)
    settings = RunConfig(**({"llm_url": url, "llm_concurrency": 3, "llm_attempts": 3} | run))
    return ModelExtractor("openai", OpenAIGenerator(config, settings, pause_s=0.01), max_tokens=50)


def test_every_window_is_a_request_and_every_row_has_its_own_answer() -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        name = next(n for n in ("Ana", "Bo", "Cy", "Di", "Eve") if n in body["messages"][-1]["content"])
        mention = {"event": 0, "name": name, "type": "person"}
        return _says(json.dumps({"mentions": [mention], "causal": []}), prompt_tokens=9, completion_tokens=4)

    windows = [window(f"{name} called.", window_id=name) for name in ("Ana", "Bo", "Cy", "Di", "Eve")]
    with serve(script) as served:
        extractor = _extractor(served.url)
        outcomes = extractor.extract(windows)
    assert [(o.window_id, o.status, o.mentions[0].surface) for o in outcomes] == [
        (w.window_id, "ok", w.window_id) for w in windows
    ]
    assert served.most_open <= 3
    assert extractor.take_counts() == {"cached_prompt_tokens": 0, "output_tokens": 20, "prompt_tokens": 45}
    body = served.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.0, 50)
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]
    form = body["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"]["properties"]["mentions"]["maxItems"] > 0


@pytest.mark.parametrize(("form", "sent"), [("json_object", {"type": "json_object"}), ("none", None)])
def test_servers_that_know_no_schema(form: str, sent: dict[str, str] | None) -> None:
    with serve(lambda number, body: _says(f"Sure! ```json\n{EMPTY}\n```")) as served:
        (outcome,) = _extractor(served.url, response_format=form).extract([window("a")])
    assert served.bodies[0].get("response_format") == sent
    assert outcome.status == "repaired"
    # Nobody counted the tokens; a row of a model never looks like one of the rules.
    assert outcome.prompt_tokens > 100


def test_a_busy_server_is_asked_again_and_one_row_may_fail_alone() -> None:
    lock, seen = threading.Lock(), dict[str, int]()

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        text = body["messages"][-1]["content"]
        with lock:
            seen[text] = count = seen.get(text, 0) + 1
        if "busy" in text and count < 3:
            return 429, {"error": "slow down"}, {"retry-after": "0"}
        if "broken" in text:
            return 500, {"error": "bug"}, {}
        if "odd" in text:
            return 200, {"choices": []}, {}
        if "refused" in text:
            return 200, {"choices": [{"message": {"content": None, "refusal": "I will not"}}]}, {}
        return _says(EMPTY)

    texts = ["busy", "broken", "odd", "refused", "fine"]
    with serve(script) as served:
        outcomes = _extractor(served.url).extract([window(t, window_id=t) for t in texts])
    status = {o.window_id: (o.status, o.error) for o in outcomes}
    assert status["busy"] == status["fine"] == ("ok", None)
    assert status["broken"][0] == "failed"
    assert "HTTP 500" in str(status["broken"][1])
    assert "not a chat completion" in str(status["odd"][1])
    assert status["refused"] == ("failed", "refused: I will not")
    assert sum(n for text, n in seen.items() if "broken" in text) == 3


def test_cut_off_answers_and_long_prompts_are_asked_again_another_way() -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        text = body["messages"][-1]["content"]
        if "cut" in text:
            return _says(EMPTY[:9], "length") if body["max_tokens"] == 50 else _says(EMPTY)
        if text.count('"event"') > 1:
            return 400, {"error": {"message": "This model's maximum context length is 100 tokens"}}, {}
        return _says(EMPTY)

    with serve(script) as served:
        cut, long = _extractor(served.url).extract([window("cut"), window("a", "b")])
    assert cut.status == "ok"
    assert (long.status, long.error) == ("repaired", "asked in 2 pieces")
    assert sorted(b["max_tokens"] for b in served.bodies) == [50, 50, 50, 50, 100]


def test_a_server_that_answers_nothing_is_an_error_and_not_a_shard_of_failed_rows() -> None:
    with (
        serve(lambda number, body: (401, {"error": "no key"}, {})) as served,
        pytest.raises(InputError, match="HTTP 401"),
    ):
        _extractor(served.url).extract([window("a"), window("b")])
    with pytest.raises(InputError, match="answered none of 1"):
        _extractor("http://127.0.0.1:9/v1", llm_attempts=1).extract([window("a")])
    # A prompt that the server will not have is the prompt's fault.
    with serve(lambda number, body: (400, {"error": "bad schema"}, {})) as served:
        assert [o.status for o in _extractor(served.url).extract([window("a")])] == ["failed"]


def test_settings_that_lack_something() -> None:
    with pytest.raises(ConfigError, match=r"run\.llm_url"):
        _extractor("").extract([window("a")])
    with pytest.raises(ConfigError, match=r"extract\.model"):
        config_from({"extract": {"engine": "openai"}})
    with pytest.raises(ConfigError, match=r"run\.llm_url must begin"):
        config_from({"run": {"llm_url": "localhost:8000"}})


def test_where_the_server_is_decides_no_byte() -> None:
    from magma_gpu.stages import stage_fingerprints

    here, there, other = (
        config_from({"extract": {"engine": "openai", "model": m}, "run": {"llm_url": url}})
        for m, url in (("m", "http://a/v1"), ("m", "http://b/v1"), ("n", "http://a/v1"))
    )
    assert stage_fingerprints(here) == stage_fingerprints(there)
    assert stage_fingerprints(here)["extract"] != stage_fingerprints(other)["extract"]

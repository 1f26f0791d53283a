"""Vectors from an OpenAI-compatible server, played by a local one."""

import json
from typing import Any

import numpy as np
import pytest

from chat_server import serve
from magma_gpu.config import RunConfig, config_from
from magma_gpu.embed import Encoder, encoder_identity, load_encoder
from magma_gpu.errors import ConfigError, InputError
from magma_gpu.stages import EmbedStage, stage_fingerprints

Sent = tuple[int, Any, dict[str, str]]


def _vectors(number: int, body: dict[str, Any]) -> Sent:
    data = [{"index": i, "embedding": [float(len(t)), 0.0, 3.0]} for i, t in enumerate(body["input"])]
    # In no order: the index counts.
    return 200, {"data": data[::-1]}, {}


def _encoder(url: str, dim: int = 3, **run: Any) -> Encoder:
    config = config_from({"embed": {"encoder": "openai", "model": "e", "dim": dim}})
    return load_encoder(config.embed, "cpu", RunConfig(**({"embed_url": url, "llm_attempts": 1} | run)))


def test_vectors_are_of_unit_length_and_belong_to_their_texts() -> None:
    texts = ["x" * n for n in range(1, 131)]
    with serve(_vectors) as served:
        encoder = _encoder(served.url)
        made = encoder.encode(texts)
    assert made.x_ND.shape == (130, 3)
    assert made.x_ND.dtype == np.float32
    assert made.status == ["ok"] * 130
    np.testing.assert_allclose(made.x_ND[3], np.array([0.8, 0.0, 0.6]), rtol=1e-6)
    np.testing.assert_allclose(made.x_ND[99, 0] / made.x_ND[99, 2], 100 / 3, rtol=1e-6)
    assert sorted(len(b["input"]) for b in served.bodies) == [2, 64, 64]
    assert served.bodies[0]["model"] == "e"
    assert encoder.identity["dim"] == 3
    assert encoder.count_tokens(["two words"])[0] >= 2


def test_what_does_not_come_is_marked_as_failed() -> None:
    def script(number: int, body: dict[str, Any]) -> Sent:
        data: list[Any] = [
            {"index": 0, "embedding": [0.0, 0.0, 0.0]},
            {"index": 1, "embedding": ["a", 1, 2]},
            {"index": 3, "embedding": [1.0, 0.0, 0.0]},
            {"index": 9, "embedding": [1.0, 0.0, 0.0]},
        ]
        return 200, json.dumps({"data": data}), {}

    with serve(script) as served:
        made = _encoder(served.url).encode(list("abcd"))
    assert made.status == ["failed", "failed", "failed", "ok"]
    assert not made.x_ND[:3].any()


def test_a_server_that_answers_nothing_or_of_another_size_is_an_error() -> None:
    with serve(lambda number, body: (500, "down", {})) as served, pytest.raises(InputError, match="answered none"):
        _encoder(served.url).encode(["a"])
    with serve(_vectors) as served, pytest.raises(InputError, match=r"3 dimensions; set embed\.dim"):
        _encoder(served.url, dim=1536).encode(["a"])
    with pytest.raises(ConfigError, match=r"run\.embed_url"):
        _encoder("")
    with pytest.raises(ConfigError, match=r"embed\.model"):
        config_from({"embed": {"encoder": "openai"}})


def test_no_texts_no_requests() -> None:
    with serve(_vectors) as served:
        assert _encoder(served.url).encode([]).x_ND.shape == (0, 3)
    assert served.bodies == []


def test_the_model_is_in_the_fingerprint_and_the_server_is_not() -> None:
    def config(model: str, url: str) -> Any:
        return config_from({"embed": {"encoder": "openai", "model": model}, "run": {"embed_url": url}})

    one = stage_fingerprints(config("a", "http://x/v1"))
    assert one == stage_fingerprints(config("a", "http://y/v1"))
    assert one["embed"] != stage_fingerprints(config("b", "http://x/v1"))["embed"]
    assert encoder_identity(config("a", "http://x/v1").embed)["dim"] == 1536
    # Settings of the server's encoder are nothing to the others.
    assert stage_fingerprints(config_from({"embed": {"model": "z", "dim": 5}})) == stage_fingerprints(config_from({}))
    with serve(_vectors) as served:
        stage = EmbedStage(config("a", served.url), "cpu")
        assert stage.encoder().dim == 1536

"""The encoder on ONNX Runtime gives the vectors of PyTorch, and those of a text do not depend on its batch."""

import sys

import numpy as np
import pytest

from magma_gpu import embed
from magma_gpu.config import Config, EmbedConfig, config_from
from magma_gpu.embed import SentenceEncoder, encoder_identity, load_encoder
from magma_gpu.errors import ConfigError, MissingPackageError
from magma_gpu.stages import stage_fingerprints

TEXTS = ["hello", "", "a [SEP] b", "word " * 400, "\u6f22\u5b57 \U0001f44d", *(f"{'x y ' * n}end" for n in range(60))]


def test_the_runtime_is_another_setting_and_the_usual_one_is_not_named() -> None:
    usual, other = Config(), config_from({"embed": {"runtime": "onnx"}})
    assert "runtime" not in encoder_identity(usual.embed)
    assert encoder_identity(other.embed)["runtime"] == "onnx"
    before, after = stage_fingerprints(usual), stage_fingerprints(other)
    assert [stage for stage in before if before[stage] != after[stage]] == ["embed", "link"]


def test_only_float32_runs_there() -> None:
    with pytest.raises(ConfigError, match=r"needs embed\.dtype 'float32'"):
        EmbedConfig(runtime="onnx", dtype="bfloat16")


@pytest.mark.real_encoder
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(embed.MINILM_PACKAGE)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match=r"onnx is needed for embed.runtime 'onnx'.*magma-gpu\[onnx\]"):
        load_encoder(EmbedConfig(runtime="onnx"), "cpu")


@pytest.fixture(scope="module")
def encoders() -> tuple[SentenceEncoder, SentenceEncoder]:
    for package in (embed.MINILM_PACKAGE, "onnx", "onnxruntime"):
        pytest.importorskip(package)
    plain, onnx = load_encoder(EmbedConfig(), "cpu"), load_encoder(EmbedConfig(runtime="onnx"), "cuda")
    assert isinstance(plain, SentenceEncoder)
    assert isinstance(onnx, SentenceEncoder)
    assert (plain.onnx is None, onnx.onnx is None) == (True, False)
    return plain, onnx


@pytest.mark.real_encoder
def test_vectors_are_those_of_pytorch(encoders: tuple[SentenceEncoder, SentenceEncoder]) -> None:
    plain, onnx = (e.encode(TEXTS) for e in encoders)
    assert np.abs(plain.x_ND - onnx.x_ND).max() < 1e-6
    assert (onnx.status, onnx.num_tokens.tolist()) == (plain.status, plain.num_tokens.tolist())


@pytest.mark.real_encoder
def test_a_text_alone_has_the_bytes_it_has_in_a_batch(encoders: tuple[SentenceEncoder, SentenceEncoder]) -> None:
    together = encoders[1].encode(TEXTS).x_ND
    assert encoders[1].encode(TEXTS[::-1]).x_ND[::-1].tobytes() == together.tobytes()
    for row in (0, 1, 3, 20, 64):
        assert encoders[1].encode([TEXTS[row]]).x_ND.tobytes() == together[[row]].tobytes(), row

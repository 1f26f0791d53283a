import hashlib
import locale
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from magma_gpu import embed
from magma_gpu.config import Config, EmbedConfig, config_from
from magma_gpu.embed import (
    HashEncoder,
    SentenceEncoder,
    check_reusable,
    day_of,
    embed_texts,
    encoder_identity,
    load_encoder,
)
from magma_gpu.errors import ConfigError, MissingPackageError, StoreError
from magma_gpu.stages import EmbedStage, event_texts
from small_logs import ingest, turn

# 8 May 2023, 13:56 UTC.
MAY = 1_683_554_160_000_000


# ----------------------------------------------------------------------------------------------------------- texts


def test_what_is_embedded() -> None:
    given = (["Ana", "Bo"], [MAY, None], ["Hi.", ""], [None, "a dog"], [None, "Hi."])
    assert embed_texts("text", *given) == ["Hi.", "[image: a dog]"]
    assert embed_texts("speaker_date_text", *given) == ["Ana (8 May 2023): Hi.", "Bo: [image: a dog]"]
    assert embed_texts("previous_and_text", *given) == ["Hi.", "Hi.\n[image: a dog]"]


def test_days_do_not_depend_on_the_locale() -> None:
    assert [day_of(t) for t in (0, -1, MAY)] == ["1 January 1970", "31 December 1969", "8 May 2023"]
    before = locale.setlocale(locale.LC_TIME)
    try:
        for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "ja_JP.UTF-8", "C"):
            try:
                locale.setlocale(locale.LC_TIME, name)
            except locale.Error:
                continue
            assert day_of(MAY) == "8 May 2023"
    finally:
        locale.setlocale(locale.LC_TIME, before)


def test_the_previous_text_is_of_the_same_session_of_the_same_memory() -> None:
    log = [
        turn("A1", session_id="a", at=1),
        turn("B1", session_id="b", at=2),
        turn("A2", session_id="a", at=3),
        turn("N1", session_id="a", memory_id="n", at=4),
    ]
    events = ingest(log)[0]["events"]
    assert event_texts(events, "previous_and_text") == ["A1", "B1", "A1\nA2", "N1"]


# ------------------------------------------------------------------------------------------------------------ hash


def test_the_hash_encoder_is_the_same_on_every_machine() -> None:
    made = HashEncoder(16).encode(["Ana met Bo", "ana MET bo!", "", "!?", "a " * 1000])
    assert made.x_ND.dtype == np.float32
    assert made.x_ND[0].tolist() == made.x_ND[1].tolist()
    assert made.status == ["ok"] * 5
    assert made.num_tokens.tolist() == [3, 3, 1, 1, 1000]
    assert np.allclose(np.linalg.norm(made.x_ND, axis=1), 1)
    assert hashlib.sha256(made.x_ND.tobytes()).hexdigest()[:12] == "25acdde8b028"


def test_the_hash_encoder_does_not_look_at_other_texts() -> None:
    texts = ["one", "two three", "", "\u6f22\u5b57", "three two"]
    encoder = HashEncoder(64)
    together = encoder.encode(texts).x_ND
    for row, text in enumerate(texts):
        assert HashEncoder(64).encode([text]).x_ND[0].tobytes() == together[row].tobytes()
    assert encoder.encode([]).x_ND.shape == (0, 64)
    assert encoder.count_tokens(["a b", "", "c"]) == [2, 0, 1]


def test_words_that_cancel_out_still_have_a_direction() -> None:
    encoder = HashEncoder(8)
    words = [f"w{i}" for i in range(200)]
    for word in words[1:]:
        at, sign = encoder._place(word)
        if (at, -sign) == encoder._place(words[0]):
            break
    assert np.linalg.norm(encoder.encode([f"{words[0]} {word}"]).x_ND) == pytest.approx(1)


# -------------------------------------------------------------------------------------------------------- identity


def test_identities_tell_encoders_apart(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    one = encoder_identity(EmbedConfig(encoder=str(folder)))
    (folder / "model.safetensors").write_bytes(b"two")
    two = encoder_identity(EmbedConfig(encoder=str(folder)))
    assert one["model"] == two["model"] == "model"
    assert one["sha256"] != two["sha256"]
    assert encoder_identity(EmbedConfig(encoder=str(folder), revision="b"))["revision"] == "b"
    assert encoder_identity(EmbedConfig(encoder="hash", hash_dim=16)) != encoder_identity(EmbedConfig(encoder="hash"))
    assert encoder_identity(EmbedConfig()) != encoder_identity(EmbedConfig(dtype="bfloat16"))
    with pytest.raises(ConfigError, match="must be minilm, hash or a sentence-transformers folder"):
        encoder_identity(EmbedConfig(encoder=str(tmp_path / "none")))


def test_weights_that_are_not_the_pinned_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"other weights")
    fake = SimpleNamespace(__file__=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(embed.importlib, "import_module", lambda _: fake)
    with pytest.raises(ConfigError, match=r"have sha256 [0-9a-f]{12}, wanted 53aa51172d14: reinstall version 0.1.0"):
        load_encoder(EmbedConfig(), "cpu")


def test_weights_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(embed.importlib, "import_module", missing)
    with pytest.raises(MissingPackageError, match=r"magma-gpu\[cpu\]"):
        load_encoder(EmbedConfig(), "cpu")


def test_which_vectors_may_be_used_again() -> None:
    assert check_reusable("ok", [1.0])
    assert check_reusable("truncated", [1.0])
    assert not check_reusable("failed", None)
    assert not check_reusable("ok", None)
    with pytest.raises(StoreError, match="unknown status"):
        check_reusable("fine", [1.0])


# ------------------------------------------------------------------------------------------------------- bad vectors


class FakeModel:
    """Stands for the network: rows of ones, but for texts whose first id it was told to spoil."""

    device = "cpu"

    def __init__(self, spoil: dict[int, list[float]]) -> None:
        self.spoil = spoil
        self.calls: list[int] = []

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import torch

        ids = batch["input_ids"]
        self.calls.append(int((ids[:, 0] > 0).sum()))
        out = torch.ones((len(ids), 4))
        for row, first in enumerate(ids[:, 0].tolist()):
            if self.spoil.get(first):
                out[row] = self.spoil[first].pop(0)
        return {"sentence_embedding": out}


def fake_encoder(spoil: dict[int, list[float]]) -> SentenceEncoder:
    """A sentence encoder whose texts are one number: their only token."""
    import torch

    made = object.__new__(SentenceEncoder)
    made._torch = torch
    made.model = FakeModel(spoil)
    made.tokenizer = SimpleNamespace(encode_batch=lambda texts: [SimpleNamespace(ids=[int(t)]) for t in texts])
    made.window, made.buckets, made.batch_tokens, made.dim = 8, [8], 32, 4
    made.pad_id, made.dummy, made.last = 0, [0], 0
    return made


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
def test_a_bad_vector_is_made_once_more_alone_and_then_marked(bad: float) -> None:
    encoder = fake_encoder({2: [bad], 3: [bad, bad]})
    made = encoder.encode(["1", "2", "3", "4", "5"])
    assert made.status == ["ok", "ok", "failed", "ok", "ok"]
    assert made.x_ND.tolist() == [[0.5] * 4, [0.5] * 4, [0.0] * 4, [0.5] * 4, [0.5] * 4]
    # Two full batches of four rows, then the two bad ones alone.
    assert encoder.model.calls == [4, 1, 1, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 11])
def test_texts_tokenised_piece_by_piece_fill_whole_batches(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_AHEAD", 2)
    encoder = fake_encoder({1: [2.0], 11: [-1.0]})
    made = encoder.encode([str(i) for i in range(1, count + 1)])
    # Batches of four rows of eight tokens, whatever the pieces; each text has one token.
    assert encoder.model.calls == [4] * (count // 4) + [count % 4] * (count % 4 > 0)
    assert made.num_padding == 32 * -(-count // 4) - count
    assert made.num_tokens.tolist() == [1] * count
    assert made.x_ND[:, 0].tolist() == [-0.5 if i == 11 else 0.5 for i in range(1, count + 1)]


def stage_with(encoder: Any, **embed_config: Any) -> EmbedStage:
    stage = EmbedStage(config_from({"embed": {"encoder": "hash", "hash_dim": 8, **embed_config}}), "cpu")
    stage._encoder = encoder
    return stage


class CountingEncoder(HashEncoder):
    """Remembers what it was asked, and fails texts that hold a word."""

    def __init__(self, failing: str = "") -> None:
        super().__init__(8)
        self.asked: list[str] = []
        self.failing = failing

    def encode(self, texts: Any) -> embed.Encoded:
        self.asked.extend(texts)
        made = super().encode(texts)
        status = ["failed" if self.failing and self.failing in t else "ok" for t in texts]
        return embed.Encoded(made.x_ND, made.num_tokens, status, 0)


def test_failed_vectors_are_null_and_tried_anew() -> None:
    tables = {"events": ingest([turn("good", at=1), turn("bad", at=2)])[0]["events"]}
    first = stage_with(CountingEncoder("bad")).run(tables, {})
    assert first.tables["vectors"]["status"].to_pylist() == ["ok", "failed"]
    assert first.tables["vectors"]["vector"].is_null().to_pylist() == [False, True]
    assert first.counts["failed_vectors"] == 1
    encoder = CountingEncoder()
    second = stage_with(encoder).run(tables, first.tables)
    assert [t.endswith("bad") for t in encoder.asked] == [True]
    assert second.tables["vectors"]["status"].to_pylist() == ["ok", "ok"]
    assert (second.counts["encoded"], second.counts["reused"]) == (1, 1)


def test_each_text_is_embedded_once_and_only_when_it_is_new() -> None:
    log = [turn("same", turn_id=str(i), at=i) for i in range(3)] + [turn("other", at=4)]
    tables = {"events": ingest(log)[0]["events"]}
    encoder = CountingEncoder()
    made = stage_with(encoder, content="text").run(tables, {})
    assert encoder.asked == ["same", "other"]
    assert made.tables["vectors"].num_rows == 4
    more = {"events": ingest([*log, turn("new", at=9)])[0]["events"]}
    encoder = CountingEncoder()
    grown = stage_with(encoder, content="text").run(more, made.tables)
    assert encoder.asked == ["new"]
    fresh = stage_with(CountingEncoder(), content="text").run(more, {})
    assert grown.tables["vectors"].equals(fresh.tables["vectors"])


def test_a_shard_without_events_loads_no_model() -> None:
    def no_model() -> None:
        raise AssertionError("the model was loaded")

    stage = EmbedStage(Config(), "cpu")
    stage.encoder = no_model  # type: ignore[method-assign,assignment]
    made = stage.run({"events": ingest()[0]["events"]}, {})
    assert made.tables["vectors"].num_rows == 0
    assert made.tables["vectors"].schema.field("vector").type == pa.list_(pa.float32(), 384)


# ----------------------------------------------------------------------------------------------------- real encoder


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    pytest.importorskip(embed.MINILM_PACKAGE)
    made = load_encoder(EmbedConfig(), "cpu")
    assert isinstance(made, SentenceEncoder)
    return made


TEXTS = [
    "hello",
    "",
    "The docs say <|endoftext|> ends it; also [SEP] [CLS] [MASK] </s>",
    "word " * 400,
    "\u6f22\u5b57 \U0001f44d",
]


@pytest.mark.real_encoder
def test_a_text_alone_has_the_bits_it_has_in_a_batch(minilm: SentenceEncoder) -> None:
    together = minilm.encode(TEXTS)
    many = minilm.encode([t for t in TEXTS[::-1] for _ in range(2)]).x_ND
    assert together.x_ND.tobytes() == many[::-2].tobytes()
    for row, text in enumerate(TEXTS):
        alone = minilm.encode([text])
        assert alone.x_ND[0].tobytes() == together.x_ND[row].tobytes(), text
        assert (alone.status[0], alone.num_tokens[0]) == (together.status[row], together.num_tokens[row])
    assert np.abs(np.linalg.norm(together.x_ND.astype(np.float64), axis=1) - 1).max() < 1e-5


@pytest.mark.real_encoder
def test_a_text_beyond_the_window_is_marked(minilm: SentenceEncoder) -> None:
    made = minilm.encode(TEXTS)
    assert [TEXTS[r][:4] for r, s in enumerate(made.status) if s == "truncated"] == ["word"]
    assert made.num_tokens[3] == 402
    assert made.num_tokens[1] == 2
    assert minilm.count_tokens(["word " * 400, "", "hello"]) == [400, 0, 1]


@pytest.mark.real_encoder
def test_case_c06_control_tokens_are_plain_text(minilm: SentenceEncoder) -> None:
    ids = [e.ids for e in minilm.tokenizer.encode_batch(["a [SEP] b", "[CLS][MASK][PAD][UNK]", "x <|endoftext|> </s>"])]
    special = set(minilm.model.tokenizer.all_special_ids) - {minilm.model.tokenizer.unk_token_id}
    for row in ids:
        assert not special & set(row[1:-1])
    assert minilm.count_tokens(["[SEP]"])[0] > 1


@pytest.mark.real_encoder
def test_similar_texts_are_near(minilm: SentenceEncoder) -> None:
    x = minilm.encode(["I bought a puppy.", "I have a new dog.", "The train was late."]).x_ND
    assert float(x[0] @ x[1]) > float(x[0] @ x[2]) + 0.2
    assert minilm.dim == 384
    assert minilm.identity["sha256"] == embed.MINILM_SHA256

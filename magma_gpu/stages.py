"""The stages after ingest as callables: tables of one shard in, tables of that shard out.

A stage loads its model once, when the first row needs it, and then maps shards. It knows nothing of paths, runners or
progress bars. `stage_fingerprints` says what decides its bytes.
"""

import dataclasses
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from magma_gpu.config import Config, ExtractConfig
from magma_gpu.embed import Encoder, check_reusable, embed_texts, encoder_identity, load_encoder
from magma_gpu.schema import STAGE_TABLES, vectors_schema
from magma_gpu.store import stable_hash

if TYPE_CHECKING:
    from magma_gpu.extract import Extractor

log = logging.getLogger(__name__)

# Changes when a stage would make other bytes of the same rows, settings and model.
VERSIONS = {"ingest": 1, "embed": 1, "link": 1, "extract": 1, "resolve": 1}


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage made of one shard."""

    tables: dict[str, pa.Table]
    # Counted things for the ledger; numbers are summed over shards.
    counts: dict[str, Any]


class Stage(Protocol):
    name: str

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:
        """Makes this stage's tables of one shard.

        Args:
            tables: the shard's tables that the stage reads (`STAGE_INPUTS`).
            previous: this stage's own tables of an earlier generation of the shard, to take work over from.
        """
        ...


# What each stage reads.
STAGE_INPUTS: dict[str, tuple[str, ...]] = {
    "embed": ("events",),
    "link": ("events", "vectors"),
    "extract": ("events",),
    "resolve": ("events", "extracts"),
}


def stage_models(config: Config) -> dict[str, dict[str, Any]]:
    """The models that a config names, in words; loads none."""
    extractor = make_extractor(config.extract)
    return {
        "embed": encoder_identity(config.embed),
        "extract": {"model": extractor.name, "version": extractor.version},
    }


def stage_fingerprints(config: Config) -> dict[str, str]:
    """A hash for each stage of all that decides its bytes but the rows: settings, model, code version, upstream."""
    models = stage_models(config)
    upstream = {"ingest": None, "embed": "ingest", "link": "embed", "extract": "ingest", "resolve": "extract"}
    prints: dict[str, str] = {}
    for stage, above in upstream.items():
        section = dataclasses.asdict(getattr(config, stage))
        # The folder of an encoder may move; its weights decide.
        section.pop("encoder", None)
        known = [section, models.get(stage), prints[above] if above else None]
        prints[stage] = stable_hash(stage, str(VERSIONS[stage]), json.dumps(known, sort_keys=True))
    return prints


def make_extractor(config: ExtractConfig) -> "Extractor":
    """The extractor that a config names."""
    from magma_gpu.extract import RulesExtractor

    assert config.engine == "rules"
    return RulesExtractor()


def make_stage(name: str, config: Config, device: str) -> Stage:
    """Constructs a stage; its model is loaded when the first row needs it."""
    kinds: dict[str, type[EmbedStage] | type[LinkStage] | type[ExtractStage] | type[ResolveStage]] = {
        "embed": EmbedStage,
        "link": LinkStage,
        "extract": ExtractStage,
        "resolve": ResolveStage,
    }
    assert set(kinds) | {"ingest"} == set(STAGE_TABLES)
    return kinds[name](config, device)


class EmbedStage:
    """A vector for every event; texts that were embedded before in this shard are not embedded again."""

    name = "embed"

    def __init__(self, config: Config, device: str) -> None:
        self.config = config.embed
        self.device = device
        self._encoder: Encoder | None = None

    def encoder(self) -> Encoder:
        if self._encoder is None:
            self._encoder = load_encoder(self.config, self.device)
        return self._encoder

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:
        events = tables["events"]
        texts = event_texts(events, self.config.content)
        hashes = [stable_hash(t) for t in texts]
        known: dict[str, tuple[Any, int, str]] = {}
        dim = int(encoder_identity(self.config).get("dim", 0))
        if (old := previous.get("vectors")) is not None and old.num_rows:
            column = old["vector"].combine_chunks()
            dim = column.type.list_size
            for row, (text_hash, status, tokens) in enumerate(
                zip(
                    old["text_hash"].to_pylist(),
                    old["status"].to_pylist(),
                    old["num_tokens"].to_pylist(),
                    strict=True,
                )
            ):
                if check_reusable(status, column[row]):
                    known[text_hash] = (np.asarray(column[row].values), tokens, status)
        missing = {h: t for h, t in zip(hashes, texts, strict=True) if h not in known}
        padding = 0
        if missing or not dim:
            encoder = self.encoder()
            dim = encoder.dim
            made = encoder.encode(list(missing.values()))
            padding = made.num_padding
            for row, text_hash in enumerate(missing):
                failed = made.status[row] == "failed"
                known[text_hash] = (
                    None if failed else made.x_ND[row],
                    int(made.num_tokens[row]),
                    made.status[row],
                )
        rows = [known[h] for h in hashes]
        table = pa.table(
            {
                "memory_id": events["memory_id"],
                "event_id": events["event_id"],
                "vector": _vector_column([r[0] for r in rows], dim),
                "num_tokens": pa.array([r[1] for r in rows], pa.int32()),
                "status": pa.array([r[2] for r in rows], pa.string()),
                "text_hash": pa.array(hashes, pa.string()),
            },
            schema=vectors_schema(dim),
        )
        tokens = sum(known[h][1] for h in missing)
        return StageResult(
            {"vectors": table},
            {
                "encoded": len(missing),
                "reused": sum(h not in missing for h in hashes),
                "tokens": tokens,
                "padding_tokens": padding,
                "truncated": sum(r[2] == "truncated" for r in rows),
                "failed_vectors": sum(r[2] == "failed" for r in rows),
            },
        )


def _vector_column(rows: list[Any], dim: int) -> pa.FixedSizeListArray:
    flat = np.zeros((len(rows), dim), dtype=np.float32)
    absent = np.zeros(len(rows), dtype=bool)
    for i, row in enumerate(rows):
        if row is None:
            absent[i] = True
        else:
            flat[i] = row
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), dim, mask=pa.array(absent))


def event_texts(events: pa.Table, content: str) -> list[str]:
    """What is embedded of each event of a shard (sorted by memory_id, position)."""
    texts = events["text"].to_pylist()
    previous: list[str | None] = []
    last: dict[tuple[str, str], str] = {}
    for memory, session, text in zip(
        events["memory_id"].to_pylist(), events["session_id"].to_pylist(), texts, strict=True
    ):
        previous.append(last.get((memory, session)))
        last[memory, session] = text
    return embed_texts(
        content,
        events["speaker"].to_pylist(),
        events["time"].cast(pa.int64()).to_pylist(),
        texts,
        events["caption"].to_pylist(),
        previous,
    )


class LinkStage:
    """Temporal chains and semantic edges."""

    name = "link"

    def __init__(self, config: Config, device: str) -> None:  # noqa: ARG002
        self.config = config.link

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:  # noqa: ARG002
        from magma_gpu.link import link_shard

        linked = link_shard(tables["events"], tables["vectors"], self.config)
        return StageResult({"edges/temporal": linked.temporal, "edges/semantic": linked.semantic}, linked.counts)


class ExtractStage:
    """Names and causes, window by window, as an engine finds them."""

    name = "extract"

    def __init__(self, config: Config, device: str) -> None:  # noqa: ARG002
        self.config = config.extract
        self.extractor = make_extractor(config.extract)

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:
        from magma_gpu.extract import extract_shard

        known = previous.get("extracts")
        extracts = extract_shard(tables["events"], self.extractor, self.config, known)
        status = extracts["status"].to_pylist()
        counts = {f"windows_{s}": status.count(s) for s in ("ok", "repaired", "failed")}
        return StageResult({"extracts": extracts}, counts | {"windows_reused": _num_reused(extracts, known)})


def _num_reused(extracts: pa.Table, known: pa.Table | None) -> int:
    """How many windows an earlier table answered already."""
    if known is None:
        return 0
    columns = ("window_id", "prompt_hash", "status")
    old, new = (list(zip(*(t[c].to_pylist() for c in columns), strict=True)) for t in (known, extracts))
    answered = {row for row in old if row[2] != "failed"}
    return sum(row in answered for row in new)


class ResolveStage:
    """Entities, their mentions, and the edges of the slow path."""

    name = "resolve"

    def __init__(self, config: Config, device: str) -> None:  # noqa: ARG002
        self.config = config.resolve

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:  # noqa: ARG002
        from magma_gpu.entities import resolve_shard

        made, counts = resolve_shard(tables["events"], tables["extracts"], self.config)
        return StageResult(made, counts)

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

from magma_gpu.config import Config
from magma_gpu.embed import Encoder, check_reusable, embed_texts, encoder_identity, load_encoder
from magma_gpu.schema import STAGE_TABLES, vectors_schema
from magma_gpu.store import stable_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magma_gpu.extract.windows import Earlier

log = logging.getLogger(__name__)

# Changes when a stage would make other bytes of the same rows, settings and model.
VERSIONS = {"ingest": 2, "embed": 1, "link": 1, "extract": 1, "resolve": 1}


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
            tables: the shard's tables that the stage reads (`stage_inputs`).
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


def stage_inputs(stage: str, settings: "Mapping[str, Mapping[str, Any]]") -> tuple[str, ...]:
    """The tables that a stage reads with these settings, by section (`Config.as_dict`, or a manifest's)."""
    inputs = STAGE_INPUTS[stage]
    # Consolidation looks for causes among the events that are alike.
    more = stage == "extract" and settings.get("extract", {}).get("consolidate", False)
    return (*inputs, "edges/semantic") if more else inputs


def stage_models(config: Config) -> dict[str, dict[str, Any]]:
    """The models that a config names, in words; loads none."""
    from magma_gpu.extract.engines import extractor_identity

    return {"embed": encoder_identity(config.embed), "extract": extractor_identity(config.extract)}


def stage_fingerprints(config: Config) -> dict[str, str]:
    """A hash for each stage of all that decides its bytes but the rows: settings, model, code version, upstream."""
    from magma_gpu.extract.engines import settings_that_count

    models = stage_models(config)
    upstream = {"ingest": None, "embed": "ingest", "link": "embed", "extract": "ingest", "resolve": "extract"}
    if config.extract.consolidate:
        upstream["extract"] = "link"
    prints: dict[str, str] = {}
    for stage, above in upstream.items():
        section = dataclasses.asdict(getattr(config, stage))
        if stage == "extract":
            section = settings_that_count(config.extract)
        # The folder of an encoder may move; its weights decide.
        section.pop("encoder", None)
        # What an encoder runs on is said by its identity, where that is not the usual.
        section.pop("runtime", None)
        if stage == "embed" and config.embed.encoder != "openai":
            section = {key: value for key, value in section.items() if key not in ("model", "dim")}
        known = [section, models.get(stage), prints[above] if above else None]
        prints[stage] = stable_hash(stage, str(VERSIONS[stage]), json.dumps(known, sort_keys=True))
    return prints


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
        self._run = config.run
        self.device = device
        self._encoder: Encoder | None = None

    def encoder(self) -> Encoder:
        if self._encoder is None:
            self._encoder = load_encoder(self.config, self.device, self._run)
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

    def __init__(self, config: Config, device: str) -> None:
        from magma_gpu.link import load_kernel

        self.config = config.link
        self.device = device
        # As a model is loaded before the clock of the first shard starts.
        load_kernel(device)

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:  # noqa: ARG002
        from magma_gpu.link import link_shard

        linked = link_shard(tables["events"], tables["vectors"], self.config, self.device)
        return StageResult({"edges/temporal": linked.temporal, "edges/semantic": linked.semantic}, linked.counts)


class ExtractStage:
    """Names and causes, window by window, as an engine finds them."""

    name = "extract"

    def __init__(self, config: Config, device: str) -> None:  # noqa: ARG002
        from magma_gpu.extract.engines import make_extractor

        self.config = config.extract
        self.chunk = config.run.llm_chunk
        self.extractor = make_extractor(config)
        # Called with every finished chunk of an engine with a model; what it was given comes back as previous
        # table "extracts/kept" if this shard has to be done again.
        self.keep: Callable[[pa.Table], None] | None = None

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:
        from magma_gpu.extract import extract_shard
        from magma_gpu.extract.model_engine import ModelExtractor
        from magma_gpu.extract.windows import Earlier

        known, kept = previous.get("extracts"), previous.get("extracts/kept")
        earlier = Earlier(known=known)
        extractor = self.extractor
        if isinstance(extractor, ModelExtractor):
            earlier = Earlier(known=known, kept=kept, keep=self.keep, chunk=self.chunk)
        extracts = extract_shard(tables["events"], extractor, self.config, earlier=earlier)
        if self.config.consolidate:
            extracts = self._consolidate(tables, extracts, earlier)
        status = extracts["status"].to_pylist()
        counts = {f"windows_{s}": status.count(s) for s in ("ok", "repaired", "failed")}
        counts["windows_reused"] = _num_reused(extracts, known, kept)
        if isinstance(extractor, ModelExtractor):
            counts |= extractor.take_counts()
        return StageResult({"extracts": extracts}, counts)

    def _consolidate(self, tables: dict[str, pa.Table], extracts: pa.Table, earlier: "Earlier") -> pa.Table:
        """Adds the windows in which causes that lie far back are looked for."""
        from magma_gpu.extract.consolidate import suggest_windows
        from magma_gpu.extract.windows import run_windows

        suggested = suggest_windows(tables["events"], extracts, tables["edges/semantic"], self.config)
        more = run_windows(suggested.places, self.extractor, earlier)
        order = [(name, "ascending") for name in ("memory_id", "first", "window_id")]
        return pa.concat_tables([extracts, more]).sort_by(order)


def _num_reused(extracts: pa.Table, known: pa.Table | None, kept: pa.Table | None) -> int:
    """How many windows an earlier table, or a run that was killed, answered already."""
    columns = ("window_id", "prompt_hash", "status")
    answered: set[tuple[str, ...]] = set()
    for table in (known, kept):
        if table is not None:
            rows = zip(*(table[c].to_pylist() for c in columns), strict=True)
            answered |= {row for row in rows if row[2] != "failed" or table is kept}
    return sum(row in answered for row in zip(*(extracts[c].to_pylist() for c in columns), strict=True))


class ResolveStage:
    """Entities, their mentions, and the edges of the slow path."""

    name = "resolve"

    def __init__(self, config: Config, device: str) -> None:  # noqa: ARG002
        self.config = config.resolve

    def run(self, tables: dict[str, pa.Table], previous: dict[str, pa.Table]) -> StageResult:  # noqa: ARG002
        from magma_gpu.entities import resolve_shard

        made, counts = resolve_shard(tables["events"], tables["extracts"], self.config)
        return StageResult(made, counts)

"""The knobs of a run as frozen dataclasses, one a stage, read from TOML and `--set section.key=value`.

What changes results is in the fingerprint; `run` is not (hardware changes speed, never results). An unknown section,
key or a value of the wrong type is an error that names the nearest right one.
"""

import dataclasses
import tomllib
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magma_gpu.config_values import Text, make_section, nearest
from magma_gpu.errors import ConfigError

Value = str | int | float | bool


def _one_of(section: str, name: str, got: object, *allowed: object) -> None:
    if got not in allowed:
        raise ConfigError(f"{section}.{name} must be one of {', '.join(map(str, allowed))} (got '{got}').")


def _in_range(section: str, name: str, got: float, low: float, high: float) -> None:
    if not low <= got <= high:
        raise ConfigError(f"{section}.{name} must be from {low:g} to {high:g} (got {got:g}).")


# What a row of a log may say (readers/turns.py knows the names that each goes by).
ROW_FIELDS = (
    *("memory_id", "session_id", "turn_id", "speaker", "role", "text", "time", "seq", "caption", "reply_to"),
    *("session_time", "session_seq", "session_title"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """How inputs are read that have names of their own; never part of a fingerprint, as the inputs are none."""

    # For rows of jsonl, csv, parquet and lists of messages: which column holds what, as in
    # "text=Body, speaker=Sender, time=Sent at". A column inside an object is named by its path ("speaker=author.name").
    fields: str = ""

    def __post_init__(self) -> None:
        for part in self.fields.split(",") if self.fields.strip() else ():
            name, equals, column = part.partition("=")
            if not equals or not column.strip() or name.strip() not in ROW_FIELDS:
                raise ConfigError(
                    f"read.fields wants FIELD=COLUMN pairs, as in 'text=Body, speaker=Sender', with fields of "
                    f"{', '.join(ROW_FIELDS)} (got '{part.strip()}')."
                )

    @property
    def columns(self) -> dict[str, str]:
        """Our field → their column; empty where rows have our names."""
        pairs = [part.split("=", 1) for part in self.fields.split(",") if "=" in part]
        return {field.strip(): column.strip() for field, column in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    # A power of two. More shards: more parallelism, more files. Fixed for the life of a store (`reshard` changes it).
    num_shards: int = 1
    # Zone of stamps that name none, as an IANA name.
    assumed_zone: str = "UTC"
    # Order of day and month in stamps such as 03/04/2023: "day", "month" or "" (such stamps are then unreadable
    # unless one of the two is above 12).
    date_order: str = ""
    # A pause of this many minutes inside a session starts a new episode.
    episode_gap_min: float = 60.0
    # An episode never holds more turns than this.
    episode_max_turns: int = 12
    # Turns longer than this many tokens (estimated, see segment.py) are split at sentences into parts. It leaves room
    # for speaker and date in the encoder's window of 256.
    max_tokens: int = 200

    def __post_init__(self) -> None:
        if self.num_shards < 1 or self.num_shards & (self.num_shards - 1) or self.num_shards > 65536:
            raise ConfigError(f"ingest.num_shards must be a power of two from 1 to 65536 (got {self.num_shards}).")
        _one_of("ingest", "date_order", self.date_order, "", "day", "month")
        _in_range("ingest", "episode_gap_min", self.episode_gap_min, 0, 1e6)
        _in_range("ingest", "episode_max_turns", self.episode_max_turns, 1, 1e6)
        _in_range("ingest", "max_tokens", self.max_tokens, 16, 100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedConfig:
    # "minilm": the packaged all-MiniLM-L6-v2; "hash": deterministic, for tests; "openai": a model behind an
    # OpenAI-compatible server (run.embed_url); else a sentence-transformers folder.
    encoder: str = "minilm"
    # Revision or any name that tells two versions of one folder apart; part of the fingerprint.
    revision: str = ""
    # What is embedded: "text", "speaker_date_text" or "previous_and_text".
    content: str = "speaker_date_text"
    # float32 or bfloat16.
    dtype: str = "float32"
    # "torch", or "onnx": ONNX Runtime, on the CPU alone and faster there.
    runtime: str = "torch"
    # Tokens in one fixed-shape batch; part of the fingerprint because the shape may change the last bit.
    batch_tokens: int = 512
    # Dimension of the hash encoder; others know their own.
    hash_dim: int = 64
    # openai only: the server's name of the model, and the dimensions of its vectors.
    model: str = ""
    dim: int = 1536

    def __post_init__(self) -> None:
        _one_of("embed", "content", self.content, "text", "speaker_date_text", "previous_and_text")
        _one_of("embed", "dtype", self.dtype, "float32", "bfloat16")
        _one_of("embed", "runtime", self.runtime, "torch", "onnx")
        if self.runtime == "onnx" and self.dtype != "float32":
            raise ConfigError(f"embed.runtime 'onnx' needs embed.dtype 'float32' (got '{self.dtype}').")
        _in_range("embed", "batch_tokens", self.batch_tokens, 256, 1 << 20)
        _in_range("embed", "hash_dim", self.hash_dim, 8, 4096)
        _in_range("embed", "dim", self.dim, 1, 65536)
        if self.encoder == "openai" and not self.model:
            raise ConfigError("embed.encoder 'openai' needs a model: set embed.model (got '').")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    # An edge joins two events of cosine above this.
    threshold: float = 0.5
    # Each end must be among the other's this many nearest.
    num_neighbors: int = 5
    # "exact", or for memories above `approximate_from` events "ivf" (an inverted file) or "approximate" (a graph of
    # neighbours, HNSW; on a GPU an inverted file too).
    index: str = "exact"
    approximate_from: int = 50_000
    # Events whose exact neighbours are computed to measure the recall of an approximate index.
    recall_sample: int = 256

    def __post_init__(self) -> None:
        _one_of("link", "index", self.index, "exact", "approximate", "ivf")
        _in_range("link", "threshold", self.threshold, -1.0, 1.0)
        _in_range("link", "num_neighbors", self.num_neighbors, 1, 1024)
        _in_range("link", "approximate_from", self.approximate_from, 2, 1e12)
        _in_range("link", "recall_sample", self.recall_sample, 1, 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractConfig:
    # "rules": deterministic, no model; "vllm": a model in this process; "openai": a model behind an OpenAI-compatible
    # server (run.llm_url).
    engine: str = "rules"
    # Events in one window, and how many of them the next window repeats.
    window: int = 12
    overlap: int = 3
    # Looks for causes that lie outside of a window, among the events that the graph suggests (Algorithm 3).
    consolidate: bool = False
    # Events that are asked about at once, and how many earlier ones are suggested for them.
    consolidate_targets: int = 4
    consolidate_candidates: int = 8
    # The rest is for engines with a model. A folder, a hub's name (vllm), or the server's name of it (openai).
    model: str = ""
    # Revision of a hub's model, or any name that tells two versions of one name apart.
    revision: str = ""
    # auto (what the model says), float32, bfloat16 or float16; and a quantisation that vLLM knows. vllm only.
    dtype: str = "auto"
    quantization: str = ""
    # Tokens of prompt and answer together at most; vllm only.
    max_model_tokens: int = 4096
    # Tokens of an answer; one that is cut off is asked for once more with twice the room.
    max_tokens: int = 1024
    # How a server is told the form of an answer: json_schema, json_object or none. openai only.
    response_format: str = "json_schema"

    def __post_init__(self) -> None:
        _one_of("extract", "engine", self.engine, "rules", "vllm", "openai")
        _one_of("extract", "dtype", self.dtype, "auto", "float32", "bfloat16", "float16")
        _one_of("extract", "response_format", self.response_format, "json_schema", "json_object", "none")
        _in_range("extract", "window", self.window, 2, 1024)
        _in_range("extract", "overlap", self.overlap, 0, self.window - 1)
        _in_range("extract", "consolidate_targets", self.consolidate_targets, 1, 64)
        _in_range("extract", "consolidate_candidates", self.consolidate_candidates, 1, 64)
        _in_range("extract", "max_model_tokens", self.max_model_tokens, 512, 1 << 24)
        _in_range("extract", "max_tokens", self.max_tokens, 16, 1 << 16)
        if self.engine != "rules" and not self.model:
            raise ConfigError(f"extract.engine '{self.engine}' needs a model: set extract.model (got '').")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveConfig:
    # Causal edges below this confidence are not kept (the paper's delta).
    min_confidence: float = 0.5

    def __post_init__(self) -> None:
        _in_range("resolve", "min_confidence", self.min_confidence, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How questions are answered; it changes no file of a store. See docs/search.md."""

    # learned, gnn, smooth or paper.
    policy: str = "learned"
    # Events returned.
    k: int = 20
    # Tokens of context for the answering model.
    context_tokens: int = 2000
    # Reciprocal rank fusion: its constant, and the weight of each ranking (0 switches one off). These weights and the
    # shares below were chosen on our own conversations and LongMemEval; the paper's range for keywords is 2 to 5.
    rrf_k: float = 60.0
    weight_dense: float = 1.0
    weight_dense_window: float = 1.0
    weight_lexical: float = 1.0
    weight_lexical_window: float = 1.0
    weight_time: float = 1.0
    # "rank": a time window in the question is one more ranking; "filter": nothing outside it is found; "off".
    time_window: str = "rank"
    # Share of a turn's score that its neighbours in the session receive (policy smooth).
    smooth_next: float = 0.2
    smooth_previous: float = 0.1
    # Share of an event's score that its graph neighbours receive, by edge type (policy smooth).
    spread_semantic: float = 0.0
    spread_causal: float = 0.0
    spread_entity: float = 0.0
    # Policy learned: so many of the best of policy smooth are ranked; weights of ours, or a file of `train ranker`.
    num_candidates: int = 256
    ranker: str = ""
    # Policy gnn: a file of `train policy`, or "shipped"; empty: those a store's feedback made, else those shipped.
    graph_ranker: str = ""
    # Policy paper: Table 5 and architecture notes.
    num_anchors: int = 20
    max_depth: int = 5
    max_nodes: int = 200
    beam_width: int = 20
    decay: float = 0.9
    drop_threshold: float = 0.15
    retrieval_threshold: float = 0.10
    lambda_structure: float = 1.0
    lambda_affinity: float = 0.5
    # Below this probability of its best intent a question is treated as open.
    min_intent: float = 0.5

    def __post_init__(self) -> None:
        _one_of("search", "policy", self.policy, "learned", "gnn", "smooth", "paper")
        _one_of("search", "time_window", self.time_window, "rank", "filter", "off")
        _in_range("search", "k", self.k, 1, 100_000)
        _in_range("search", "context_tokens", self.context_tokens, 16, 10_000_000)
        _in_range("search", "rrf_k", self.rrf_k, 0.0, 1e6)
        for name in ("num_candidates", "num_anchors", "max_nodes", "beam_width"):
            _in_range("search", name, getattr(self, name), 1, 100_000)
        _in_range("search", "max_depth", self.max_depth, 0, 1000)
        for name in ("smooth_next", "smooth_previous", "drop_threshold", "decay", "min_intent"):
            _in_range("search", name, getattr(self, name), 0.0, 1.0)
        for name in ("spread_semantic", "spread_causal", "spread_entity"):
            _in_range("search", name, getattr(self, name), 0.0, 1.0)
        weights = ("dense", "dense_window", "lexical", "lexical_window", "time")
        for name in weights:
            _in_range("search", f"weight_{name}", getattr(self, f"weight_{name}"), 0.0, 1e6)
        if not any(getattr(self, f"weight_{name}") for name in weights):
            raise ConfigError("search needs a weight above 0 for one of its rankings (got 0 for all of them).")
        _in_range("search", "retrieval_threshold", self.retrieval_threshold, -1.0, 1.0)
        # Beyond this an exponential of the transition score leaves float32.
        for name in ("lambda_structure", "lambda_affinity"):
            _in_range("search", name, getattr(self, name), 0.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Where and how fast; never part of a fingerprint."""

    # auto, cpu, cuda or cuda:N.
    device: str = "auto"
    # local or ray.
    runner: str = "local"
    # Worker processes or actors a stage.
    num_workers: int = 1
    # Tries of a shard, each in a fresh worker, before it is recorded as failed.
    max_attempts: int = 3
    # Ray on GPUs: the share of a device that one worker of a stage holds. Below 1 several fit on one device; a number
    # above 1 is whole.
    embed_gpus: float = 0.75
    link_gpus: float = 0.25
    extract_gpus: float = 0.0
    # Memories whose graphs and indexes stay in memory while questions are answered, and the turns they may have
    # together (a larger one is held alone).
    cached_memories: int = 256
    cached_turns: int = 250_000
    # Engines with a language model: prompts in one chunk. Each chunk's outcomes are kept once it is done, so an engine
    # that is killed costs one chunk.
    llm_chunk: int = 1024
    # vllm: GPUs that hold one model together, share of a GPU's memory it may take, GiB of memory for keys and values on
    # a CPU (0: vLLM's own choice), prompts in work at once (0: vLLM's own choice), and whether graphs of the GPU's work
    # are left out; prompts share the work on what they begin with.
    llm_tensor_parallel: int = 1
    llm_gpu_memory: float = 0.85
    llm_kv_gib: int = 0
    llm_batch: int = 0
    llm_eager: bool = False
    llm_prefix_cache: bool = True
    # openai: addresses of the servers up to and with /v1, requests at once, tries of each, seconds of one try.
    llm_url: str = ""
    embed_url: str = ""
    llm_concurrency: int = 16
    llm_attempts: int = 5
    llm_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        _one_of("run", "runner", self.runner, "local", "ray")
        _in_range("run", "num_workers", self.num_workers, 1, 4096)
        _in_range("run", "max_attempts", self.max_attempts, 1, 100)
        _in_range("run", "cached_memories", self.cached_memories, 1, 1e9)
        _in_range("run", "cached_turns", self.cached_turns, 1, 1e12)
        _in_range("run", "llm_chunk", self.llm_chunk, 1, 1e6)
        _in_range("run", "llm_tensor_parallel", self.llm_tensor_parallel, 1, 1024)
        _in_range("run", "llm_gpu_memory", self.llm_gpu_memory, 0.01, 1.0)
        _in_range("run", "llm_kv_gib", self.llm_kv_gib, 0, 100_000)
        _in_range("run", "llm_batch", self.llm_batch, 0, 1e6)
        _in_range("run", "llm_concurrency", self.llm_concurrency, 1, 10_000)
        _in_range("run", "llm_attempts", self.llm_attempts, 1, 100)
        _in_range("run", "llm_timeout_s", self.llm_timeout_s, 0.01, 86_400)
        for name, url in (("llm_url", self.llm_url), ("embed_url", self.embed_url)):
            if url and not url.startswith(("http://", "https://")):
                raise ConfigError(f"run.{name} must begin with http:// or https:// (got '{url}').")
        for name in ("embed_gpus", "link_gpus", "extract_gpus"):
            share = getattr(self, name)
            _in_range("run", name, share, 0, 64)
            if share > 1 and share != int(share):
                raise ConfigError(f"run.{name} must be a whole number where it is above 1 (got {share:g}).")
        if self.device not in ("auto", "cpu", "cuda") and not self.device.removeprefix("cuda:").isdigit():
            raise ConfigError(f"run.device must be auto, cpu, cuda or cuda:N (got '{self.device}').")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    read: ReadConfig = field(default_factory=ReadConfig)
    ingest: IngestConfig = field(default_factory=IngestConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
    link: LinkConfig = field(default_factory=LinkConfig)
    extract: ExtractConfig = field(default_factory=ExtractConfig)
    resolve: ResolveConfig = field(default_factory=ResolveConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def as_dict(self) -> dict[str, dict[str, Value]]:
        """Returns all sections as plain values."""
        return dataclasses.asdict(self)


# Sections whose values decide the bytes of a store.
BUILD_SECTIONS = ("ingest", "embed", "link", "extract", "resolve")


def load_config(path: Path | None = None, settings: typing.Sequence[str] = ()) -> Config:
    """Reads a config file and applies settings over it.

    Args:
        path: a TOML file; None for the defaults (configs/cpu.toml states them).
        settings: strings `section.key=value`, later ones win.

    Raises:
        ConfigError: the file is missing or not TOML, or a section, key or value does not fit.
    """
    values: dict[str, dict[str, Any]] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"The config file '{path}' does not exist; give the path of a TOML file.") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"The config file '{path}' cannot be read as TOML: {error}.") from None
    for setting in settings:
        name, equals, text = setting.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and key):
            raise ConfigError(f"--set wants section.key=value, as in search.k=10 (got '{setting}').")
        entries = values.setdefault(section, {})
        if not isinstance(entries, dict):
            raise ConfigError(f"Config section [{section}] must be a table of keys (got {entries!r}).")
        entries[key] = Text(text.strip())
    return config_from(values)


def config_from(values: dict[str, dict[str, Any]]) -> Config:
    """Makes a config from nested plain values; what is absent has its default.

    Raises:
        ConfigError: an unknown section or key, or a value of the wrong type or range.
    """
    sections = {f.name: f.default_factory for f in dataclasses.fields(Config)}
    made: dict[str, Any] = {}
    for section, entries in values.items():
        if section not in sections:
            raise ConfigError(f"Unknown config section '{section}'{nearest(section, sections)}")
        if not isinstance(entries, dict):
            raise ConfigError(f"Config section [{section}] must be a table of keys (got {entries!r}).")
        made[section] = make_section(section, typing.cast(type, sections[section]), entries)
    return Config(**made)

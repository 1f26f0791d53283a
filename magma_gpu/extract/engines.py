"""Which engine a config names, and what tells two of them apart; a model is loaded only when it is first asked."""

import dataclasses
from typing import Any

from magma_gpu.config import Config, ExtractConfig
from magma_gpu.extract.prompts import PROMPT_VERSION
from magma_gpu.extract.protocol import Extractor
from magma_gpu.extract.rules import RulesExtractor
from magma_gpu.extract.weights_digest import model_identity

# Settings that only engines with a model look at, and of these the ones that only one of them does.
_OF_MODELS = ("model", "revision", "max_tokens")
_OF_ONE = {"vllm": ("dtype", "quantization", "max_model_tokens"), "openai": ("response_format",)}
_OF_CONSOLIDATION = ("consolidate_targets", "consolidate_candidates")


def make_extractor(config: Config) -> Extractor:
    """The engine that a config names.

    Raises:
        ConfigError: its model cannot be told.
    """
    extract = config.extract
    if extract.engine == "rules":
        return RulesExtractor()
    from magma_gpu.extract.model_engine import Generator, ModelExtractor

    generator: Generator
    if extract.engine == "vllm":
        from magma_gpu.extract.vllm_engine import VllmGenerator

        generator = VllmGenerator(extract, config.run)
    else:
        from magma_gpu.extract.openai_engine import OpenAIGenerator

        generator = OpenAIGenerator(extract, config.run)
    return ModelExtractor(extract.engine, generator, max_tokens=extract.max_tokens)


def extractor_identity(config: ExtractConfig) -> dict[str, Any]:
    """What tells an engine and its model from others, in words; loads nothing.

    Raises:
        ConfigError: the model cannot be told.
    """
    if config.engine == "rules":
        return {"model": RulesExtractor.name, "version": RulesExtractor.version}
    from magma_gpu.extract.model_engine import ModelExtractor

    known = {"version": ModelExtractor.version, "prompts": PROMPT_VERSION, "engine": config.engine}
    if config.engine == "openai":
        return {"model": config.model, "revision": config.revision, **known}
    return {**model_identity(config.model, config.revision), **known}


def settings_that_count(config: ExtractConfig) -> dict[str, Any]:
    """The settings of stage extract that decide its bytes, with this engine; the model itself apart."""
    section = dataclasses.asdict(config)
    # The folder of a model may move; what it holds decides, and `extractor_identity` says it.
    unused = set(_OF_MODELS) if config.engine == "rules" else {"model"}
    unused |= {key for engine, keys in _OF_ONE.items() if engine != config.engine for key in keys}
    if not config.consolidate:
        unused |= {"consolidate", *_OF_CONSOLIDATION}
    return {key: value for key, value in section.items() if key not in unused}

"""Runs a language model in this process with vLLM; the only module that imports vllm.

One engine for each process that extracts. It is loaded when the first prompt needs it, answers come back under the ids
they were asked under, and one that cannot be asked at all (too long, a schema that its grammar refuses) costs no other.
Written for vLLM 0.19 and later; the CPU builds have the same interface.
"""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from magma_gpu.config import ExtractConfig, RunConfig
from magma_gpu.errors import ConfigError, missing_package
from magma_gpu.extract.model_engine import TOO_LONG, Asked, GeneratorDiedError, Said
from magma_gpu.extract.weights_digest import model_identity

log = logging.getLogger(__name__)

# What every engine is started with, unless the user's environment says otherwise. In process: one engine an actor, and
# an engine that dies is seen at once. The threads are ours to place, and a waiting one gives its core up.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "KMP_BLOCKTIME": "1",
}
CONTROL_TOKEN = "the text spells a control token of the model"  # noqa: S105 (no secret)


class VllmGenerator:
    """A model that vLLM can load, from a folder or a hub's cache."""

    def __init__(self, config: ExtractConfig, run: RunConfig) -> None:
        self.config, self.run = config, run
        self.identity = {
            **model_identity(config.model, config.revision),
            "dtype": config.dtype,
            "quantization": config.quantization,
            "max_model_tokens": str(config.max_model_tokens),
        }
        self._llm: Any = None
        self._count = 0
        # Control tokens that an exchange without any data holds, by the exchange before the data.
        self._usual: dict[tuple[tuple[str, str], ...], int] = {}

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        """See `Generator`."""
        if self._llm is None:
            self._llm = self._load()
        said: list[Said] = []
        try:
            waiting = self._add(asked, said)
            engine = self._llm.llm_engine
            while waiting and engine.has_unfinished_requests():
                for output in engine.step():
                    if output.finished and output.request_id in waiting:
                        said.append(_said(waiting.pop(output.request_id), output))
        except Exception as error:
            # Whatever it was, what this engine still holds is not to be trusted.
            self._llm = None
            words = str(error).strip().splitlines()
            raise GeneratorDiedError(f"{type(error).__name__}: {words[0] if words else ''}"[:200], said) from error
        return said

    def _add(self, asked: Sequence[Asked], said: list[Said]) -> dict[str, str]:
        """Hands over what can be asked, prompts of like length together; returns the asked ids by the engine's."""
        room = int(self._llm.llm_engine.model_config.max_model_len)
        tokens = [self._tokens(one.messages) for one in asked]
        waiting: dict[str, str] = {}
        refusals = _refusals()
        for at in sorted(range(len(asked)), key=lambda i: len(tokens[i] or ())):
            one, ids = asked[at], tokens[at]
            if ids is None:
                said.append(Said(id=one.id, text=None, error=CONTROL_TOKEN))
                continue
            # An answer needs a quarter of its limit, or it is no answer.
            left = room - len(ids)
            if left < max(one.max_tokens // 4, 1):
                said.append(Said(id=one.id, text=None, is_too_long=True, error=f"{TOO_LONG} ({len(ids)} tokens)"))
                continue
            self._count += 1
            name = f"{self._count}-{one.id}"
            try:
                self._llm.llm_engine.add_request(name, {"prompt_token_ids": ids}, _sampling(one, left))
            except refusals as error:
                words = str(error).strip().splitlines()
                said.append(Said(id=one.id, text=None, error=f"refused by vLLM: {words[0] if words else ''}"[:200]))
                continue
            waiting[name] = one.id
        return waiting

    def _tokens(self, messages: tuple[tuple[str, str], ...]) -> list[int] | None:
        """Token ids of an exchange; None where its last message brings a control token along."""
        tokenizer = self._llm.get_tokenizer()
        special = set(tokenizer.all_special_ids) | set(getattr(tokenizer, "added_tokens_decoder", {}))
        before = messages[:-1]
        if before not in self._usual:
            plain = _encode(tokenizer, (*before, (messages[-1][0], "x")))
            self._usual[before] = sum(i in special for i in plain)
        ids = _encode(tokenizer, messages)
        return ids if sum(i in special for i in ids) == self._usual[before] else None

    def _load(self) -> Any:
        config, run = self.config, self.run
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        if run.llm_kv_gib:
            os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(run.llm_kv_gib))
        if Path(config.model).is_dir():
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        try:
            import vllm
        except ModuleNotFoundError as error:
            if error.name != "vllm":
                raise
            raise missing_package("vllm", "cuda", "extract.engine=vllm") from None
        _let_modules_be_searched()
        settings: dict[str, Any] = {
            "model": config.model,
            "revision": config.revision or None,
            "dtype": config.dtype,
            "quantization": config.quantization or None,
            "max_model_len": config.max_model_tokens,
            "tensor_parallel_size": run.llm_tensor_parallel,
            "gpu_memory_utilization": run.llm_gpu_memory,
            "enforce_eager": run.llm_eager,
            "enable_prefix_caching": run.llm_prefix_cache,
            "seed": 0,
        }
        if run.llm_batch:
            settings["max_num_seqs"] = run.llm_batch
        try:
            return vllm.LLM(**settings)
        except (ValueError, OSError, RuntimeError) as error:
            # Its checks say first what they are, then what is wrong, then where to read about checks.
            lines = [line.strip() for line in str(error).splitlines() if line.strip() and "://" not in line]
            reason = lines[-1] if lines else type(error).__name__
            raise ConfigError(f"vLLM cannot load extract.model '{config.model}': {reason[:300]}") from error


def _refusals() -> tuple[type[Exception], ...]:
    """What vLLM raises for a request that it cannot take; since 0.32 these are no ValueError."""
    try:
        from vllm import exceptions
    except ImportError:
        return (ValueError,)
    return (ValueError, getattr(exceptions, "VLLMClientError", ValueError))


def _let_modules_be_searched() -> None:
    """Makes a process in which numba was imported one that vLLM's CPU build starts in.

    Version 0.32 looks through the attributes of all modules by their `__dict__`, and the library object of llvmlite
    gives a function under that name, as under any other.
    """
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    functions = getattr(library, "_fntab", None)
    if isinstance(functions, dict):
        functions["__dict__"] = {}


def _encode(tokenizer: Any, messages: Sequence[tuple[str, str]]) -> list[int]:
    chat = [{"role": role, "content": text} for role, text in messages]
    if not tokenizer.chat_template:
        words = "\n\n".join(text for _, text in messages)
        return list(tokenizer.encode(f"{words}\n\n"))
    from jinja2 import TemplateError

    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    except TemplateError:
        # Some models know no system: what it says then opens the first question.
        system, first, *others = chat
        merged = {"role": first["role"], "content": f"{system['content']}\n\n{first['content']}"}
        text = tokenizer.apply_chat_template(
            [merged, *others], tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
    return list(tokenizer.encode(text, add_special_tokens=False))


def _sampling(one: Asked, left: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=min(one.max_tokens, left),
        # White space between the parts of JSON costs tokens, and small models lose themselves in it.
        structured_outputs=StructuredOutputsParams(json=one.schema, disable_any_whitespace=True),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _said(asked_id: str, output: Any) -> Said:
    answer = output.outputs[0]
    return Said(
        id=asked_id,
        text=answer.text,
        is_cut=answer.finish_reason == "length",
        prompt_tokens=len(output.prompt_token_ids or ()),
        cached_tokens=output.num_cached_tokens or 0,
        output_tokens=len(answer.token_ids),
    )

"""Asks a language model behind an OpenAI-compatible server: vLLM's own, llama.cpp's, or a hosted one.

Every prompt is a request of its own; how many are open at once, and how often one is tried, is config. A server that
answers none of them is an error that the user must see, not a shard of failed rows.
"""

import json
from collections.abc import Sequence
from typing import Any

from magma_gpu.api_client import Response, Server, post_all
from magma_gpu.config import ExtractConfig, RunConfig
from magma_gpu.errors import ConfigError, InputError
from magma_gpu.extract.model_engine import NO_ANSWER, Asked, Said

# Words by which servers say that a prompt does not fit; there is no standard for it.
_TOO_LONG = ("context", "too long", "too many tokens", "maximum length")
# Where a server does not count tokens, so many characters are taken for one.
_CHARACTERS_PER_TOKEN = 4


class OpenAIGenerator:
    """A chat model of a server."""

    def __init__(self, config: ExtractConfig, run: RunConfig, *, pause_s: float = 0.5) -> None:
        if not config.model:
            raise ConfigError("extract.model must name a model of the server (got '').")
        self.config = config
        self._run = run
        self._pause_s = pause_s
        self.identity = {
            "model": config.model,
            "revision": config.revision,
            "response_format": config.response_format,
        }

    def generate(self, asked: Sequence[Asked]) -> list[Said]:
        """See `Generator`.

        Raises:
            ConfigError: no server is named.
            InputError: the server answered none of the prompts, and not because of what they say.
        """
        run = self._run
        if not run.llm_url:
            raise ConfigError(
                "extract.engine 'openai' needs a server: set run.llm_url, as in http://localhost:8000/v1."
            )
        server = Server(
            base_url=run.llm_url,
            concurrency=run.llm_concurrency,
            attempts=run.llm_attempts,
            pause_s=self._pause_s,
            timeout_s=run.llm_timeout_s,
        )
        responses = post_all(server, "chat/completions", [self._body(one) for one in asked])
        if responses and all(r.document is None and not r.is_requests_fault for r in responses):
            raise InputError(
                f"The server '{run.llm_url}' answered none of {len(responses)} prompts: {responses[0].error}"
            )
        return [_said(one, response) for one, response in zip(asked, responses, strict=True)]

    def _body(self, one: Asked) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.config.model,
            "temperature": 0.0,
            "max_tokens": one.max_tokens,
            "messages": [{"role": role, "content": text} for role, text in one.messages],
        }
        form = self.config.response_format
        if form == "json_schema":
            schema = {"name": "answer", "strict": True, "schema": json.loads(one.schema)}
            body["response_format"] = {"type": form, "json_schema": schema}
        elif form == "json_object":
            body["response_format"] = {"type": form}
        return body


def _said(one: Asked, response: Response) -> Said:
    if response.error is not None:
        words = response.error.lower()
        too_long = response.is_requests_fault and any(w in words for w in _TOO_LONG)
        return Said(id=one.id, text=None, is_too_long=too_long, error=response.error)
    try:
        choice = response.document["choices"][0]
        text, finish = choice["message"]["content"], choice.get("finish_reason")
        usage = response.document.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        return Said(id=one.id, text=None, error=f"not a chat completion ({error!r})")
    if not isinstance(text, str):
        refusal = choice["message"].get("refusal")
        return Said(id=one.id, text=None, error=f"refused: {refusal}"[:200] if refusal else NO_ANSWER)
    asked_characters = sum(len(said) for _, said in one.messages)
    return Said(
        id=one.id,
        text=text,
        is_cut=finish == "length",
        prompt_tokens=_count(usage.get("prompt_tokens"), asked_characters),
        cached_tokens=_count(cached, 0),
        output_tokens=_count(usage.get("completion_tokens"), len(text)),
    )


def _count(value: object, characters: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return -(-characters // _CHARACTERS_PER_TOKEN)

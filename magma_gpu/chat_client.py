"""Prompts to an OpenAI-compatible server and replies back: bounded concurrency, retries with growing pauses.

A prompt that fails for good is an error in its place and never an exception of the batch; only a server that answers
nothing at all is. The key comes from the environment variable OPENAI_API_KEY and stands in no file.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magma_gpu.answer import PROMPT_VERSION, Answer, Prompt, Task, read_reply, write_prompt
from magma_gpu.errors import InputError, missing_package
from magma_gpu.evaluate.metrics import is_refusal

if TYPE_CHECKING:
    import httpx

# Statuses that may be different in a moment.
_RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConfig:
    """A server and how it is asked.

    Attributes:
        base_url: up to and with /v1. concurrency: requests at once. attempts: tries of a request.
        pause_s: before the second try; doubles each time, up to a minute. timeout_s: of one try.
    """

    base_url: str
    model: str
    concurrency: int = 16
    attempts: int = 5
    pause_s: float = 0.5
    timeout_s: float = 120.0
    temperature: float = 0.0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise InputError(f"--base-url must begin with http:// or https:// (got '{self.base_url}').")
        if not self.model:
            raise InputError("A model of the server must be named; give --model NAME.")
        if self.concurrency < 1 or self.attempts < 1:
            raise InputError(f"--concurrency must be at least 1 (got {self.concurrency}).")


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a text, or an error in one sentence."""

    text: str | None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    # Refused for what it says; another prompt may be answered.
    is_prompts_fault: bool = False


class ChatClient:
    """Asks a server."""

    def __init__(self, config: ChatConfig) -> None:
        self.config = config

    def complete(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """One reply a prompt, in order.

        Raises:
            MissingPackageError: httpx is not installed.
            InputError: the server answered none of the prompts, and not because of what they say.
        """
        try:
            import httpx  # noqa: F401 (asked for here, so that the message names the extra)
        except ModuleNotFoundError:
            raise missing_package("httpx", "openai", "OpenAI-compatible servers") from None
        if not prompts:
            return []
        replies = asyncio.run(self._all(prompts))
        if all(r.text is None and not r.is_prompts_fault for r in replies):
            raise InputError(
                f"The server '{self.config.base_url}' answered none of {len(replies)} requests: {replies[0].error}"
            )
        return replies

    async def _all(self, prompts: Sequence[Prompt]) -> list[Reply]:
        import httpx

        key = os.environ.get("OPENAI_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=self.config.concurrency)
        slots = asyncio.Semaphore(self.config.concurrency)
        async with httpx.AsyncClient(headers=headers, timeout=self.config.timeout_s, limits=limits) as client:
            return list(await asyncio.gather(*(self._one(client, slots, p) for p in prompts)))

    async def _one(self, client: "httpx.AsyncClient", slots: asyncio.Semaphore, prompt: Prompt) -> Reply:
        reply, wait = Reply(None, error="not asked"), 0.0
        for attempt in range(self.config.attempts):
            if attempt:
                # Spread out, so that requests refused together do not come back together.
                pause = min(60.0, self.config.pause_s * 2 ** (attempt - 1))
                await asyncio.sleep(max(wait, pause * random.uniform(0.5, 1.0)))  # noqa: S311 (no secret)
            async with slots:
                reply, again, wait = await self._try(client, prompt)
            if not again:
                break
        return reply

    async def _try(self, client: "httpx.AsyncClient", prompt: Prompt) -> tuple[Reply, bool, float]:
        """A reply, whether another try may help, and how long the server asks to wait."""
        import httpx

        body = {
            "model": self.config.model,
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
        }
        try:
            response = await client.post(f"{self.config.base_url.rstrip('/')}/chat/completions", json=body)
        except httpx.HTTPError as error:
            return Reply(None, error=f"{type(error).__name__}: {error}"), True, 0.0
        if response.status_code != 200:
            wait = response.headers.get("retry-after", "")
            words = " ".join(response.text.split())[:200]
            again = response.status_code in _RETRIED
            seconds = min(60.0, float(wait)) if wait.replace(".", "", 1).isdigit() else 0.0
            fault = response.status_code in (400, 413, 422)
            return Reply(None, error=f"HTTP {response.status_code}: {words}", is_prompts_fault=fault), again, seconds
        return _reply(response), False, 0.0


def _reply(response: "httpx.Response") -> Reply:
    try:
        document: Any = response.json()
        text = document["choices"][0]["message"]["content"]
        usage = document.get("usage") or {}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        return Reply(None, error=f"not a chat completion ({error!r})")
    if not isinstance(text, str):
        return Reply(None, error="the reply has no text")
    return Reply(text, usage.get("prompt_tokens"), usage.get("completion_tokens"))


class OpenAIEngine:
    """Answers by a chat model of a server."""

    def __init__(self, config: ChatConfig) -> None:
        self.client = ChatClient(config)
        self.identity = {
            "engine": "openai",
            "model": config.model,
            "temperature": str(config.temperature),
            "max_tokens": str(config.max_tokens),
            "prompts": str(PROMPT_VERSION),
        }

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """See `answer.Engine`.

        Raises:
            InputError: the server could not be reached.
        """
        prompts = [write_prompt(task) for task in tasks]
        made = []
        for task, prompt, reply in zip(tasks, prompts, self.client.complete(prompts), strict=True):
            text, used = (None, ()) if reply.text is None else read_reply(reply.text, task.turn_ids)
            made.append(
                Answer(
                    memory_id=task.question.memory_id,
                    query_id=task.question.query_id,
                    answer=text,
                    abstained=text is not None and is_refusal(text),
                    evidence=used,
                    context_tokens=task.context_tokens,
                    prompt_hash=prompt.hash,
                    prompt_tokens=reply.prompt_tokens,
                    output_tokens=reply.output_tokens,
                    error=reply.error,
                )
            )
        return made

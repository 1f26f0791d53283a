"""Prompts to a chat model of an OpenAI-compatible server and replies back, and the engine that answers by them.

A prompt that fails for good is an error in its place and never an exception of the batch; only a server that answers
nothing at all is. How requests travel is `api_client`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from magma_gpu.answer import PROMPT_VERSION, Answer, Prompt, Task, read_reply, write_prompt
from magma_gpu.api_client import Response, Server, post_all
from magma_gpu.errors import InputError
from magma_gpu.evaluate.metrics import is_refusal


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
        self._server = Server(
            base_url=config.base_url,
            concurrency=config.concurrency,
            attempts=config.attempts,
            pause_s=config.pause_s,
            timeout_s=config.timeout_s,
        )

    def complete(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """One reply a prompt, in order.

        Raises:
            MissingPackageError: httpx is not installed.
            InputError: the server answered none of the prompts, and not because of what they say.
        """
        if not prompts:
            return []
        replies = [_reply(response) for response in post_all(self._server, "chat/completions", self._bodies(prompts))]
        if all(r.text is None and not r.is_prompts_fault for r in replies):
            raise InputError(
                f"The server '{self.config.base_url}' answered none of {len(replies)} requests: {replies[0].error}"
            )
        return replies

    def _bodies(self, prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
        return [
            {
                "model": self.config.model,
                "temperature": self.config.temperature,
                "max_tokens": self.config.max_tokens,
                "messages": [
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.user},
                ],
            }
            for prompt in prompts
        ]


def _reply(response: Response) -> Reply:
    if response.error is not None:
        return Reply(None, error=response.error, is_prompts_fault=response.is_requests_fault)
    document = response.document
    try:
        text = document["choices"][0]["message"]["content"]
        usage = document.get("usage") or {}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
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

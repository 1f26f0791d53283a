"""Requests to an OpenAI-compatible server and its documents back: bounded concurrency, retries with growing pauses.

It knows no prompt and no reply. A request that fails for good is an error in its place and never an exception of the
batch; whether a server that answers nothing at all is one is for the caller to say. The key comes from the environment
variable OPENAI_API_KEY and stands in no file.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magma_gpu.errors import missing_package

if TYPE_CHECKING:
    import httpx

# Statuses that may be different in a moment.
_RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server and how it is asked.

    Attributes:
        base_url: up to and with /v1. concurrency: requests at once. attempts: tries of a request.
        pause_s: before the second try; doubles each time, up to a minute. timeout_s: of one try.
    """

    base_url: str
    concurrency: int = 16
    attempts: int = 5
    pause_s: float = 0.5
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Response:
    """What came back: a document, or an error in one sentence."""

    document: Any = None
    error: str | None = None
    # Refused for what it says; another request may be answered.
    is_requests_fault: bool = False


def post_all(server: Server, path: str, bodies: Sequence[dict[str, Any]]) -> list[Response]:
    """Posts documents to one path of a server; one response a document, in order.

    Raises:
        MissingPackageError: httpx is not installed.
    """
    try:
        import httpx  # noqa: F401 (asked for here, so that the message names the extra)
    except ModuleNotFoundError:
        raise missing_package("httpx", "openai", "OpenAI-compatible servers") from None
    return asyncio.run(_post_all(server, path, bodies)) if bodies else []


async def _post_all(server: Server, path: str, bodies: Sequence[dict[str, Any]]) -> list[Response]:
    import httpx

    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = httpx.Limits(max_connections=server.concurrency)
    slots = asyncio.Semaphore(server.concurrency)
    url = f"{server.base_url.rstrip('/')}/{path}"
    async with httpx.AsyncClient(headers=headers, timeout=server.timeout_s, limits=limits) as client:
        return list(await asyncio.gather(*(_post(client, server, slots, url, body) for body in bodies)))


async def _post(
    client: "httpx.AsyncClient", server: Server, slots: asyncio.Semaphore, url: str, body: dict[str, Any]
) -> Response:
    response, wait = Response(error="not asked"), 0.0
    for attempt in range(server.attempts):
        if attempt:
            # Spread out, so that requests refused together do not come back together.
            pause = min(60.0, server.pause_s * 2 ** (attempt - 1))
            await asyncio.sleep(max(wait, pause * random.uniform(0.5, 1.0)))  # noqa: S311 (no secret)
        async with slots:
            response, again, wait = await _try(client, url, body)
        if not again:
            break
    return response


async def _try(client: "httpx.AsyncClient", url: str, body: dict[str, Any]) -> tuple[Response, bool, float]:
    """A response, whether another try may help, and how long the server asks to wait."""
    import httpx

    try:
        response = await client.post(url, json=body)
    except httpx.HTTPError as error:
        return Response(error=f"{type(error).__name__}: {error}"), True, 0.0
    if response.status_code != 200:
        wait = response.headers.get("retry-after", "")
        words = " ".join(response.text.split())[:200]
        seconds = min(60.0, float(wait)) if wait.replace(".", "", 1).isdigit() else 0.0
        fault = response.status_code in (400, 413, 422)
        made = Response(error=f"HTTP {response.status_code}: {words}", is_requests_fault=fault)
        return made, response.status_code in _RETRIED, seconds
    try:
        return Response(response.json()), False, 0.0
    except ValueError as error:
        return Response(error=f"no JSON ({error!r})"), False, 0.0

"""Playing: one Task on the OpenAI runtime, at a server that has one quirk."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from openai import AsyncAzureOpenAI, AsyncOpenAI

from agentic_kernel_engine import tool
from agentic_kernel_openai import OpenAIRuntime

from ..peers.exchange import Exchange
from ..peers.faults import Fault
from ..peers.faulty import FaultyServer
from . import servers
from .quirk import Quirk
from .replies import error, refused

KEY: Final = "sk-quirks"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the Task."""

    told: str
    """Its result, or the code of its failure."""
    said: str
    """The message of its failure."""
    called: tuple[tuple[int, int], ...]
    met: bool
    """Whether the last request had what the server wants."""

    def fits(self, quirk: Quirk) -> bool:
        """Return True if it is what the quirk's row says."""
        return self.met and (self.told, self.called) == (quirk.outcome, tuple(quirk.called))


def quirks() -> Iterator[tuple[str, Quirk]]:
    """All quirks, each with the name of its server."""
    for found in sorted(pkgutil.iter_modules(servers.__path__), key=lambda each: each.name):
        module = importlib.import_module(f"{servers.__name__}.{found.name}")
        for quirk in module.QUIRKS:
            yield module.NAME, quirk


async def play(quirk: Quirk, peer: FaultyServer) -> Outcome:
    """Run the Task of a quirk; no request is made again."""
    replies = iter(quirk.replies)

    def act(exchange: Exchange) -> None:
        body = exchange.request.body.decode()
        unknown = [name for name in quirk.refuses if f"{json.dumps(name)}:" in body]
        if unknown:
            reply = refused(400, error(f"Unrecognized request argument: {unknown[0]}"))
        else:
            reply = next(replies)
        exchange.answer([reply.body], reply.status, reply.kind, *reply.headers)

    peer.play(Fault(quirk.does, act))
    called: list[tuple[int, int]] = []

    @tool(effect="none", inline=True)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        called.append((a, b))
        return a + b

    given: dict[str, Any] = {"tools": [add], "middleware": [], **quirk.options}
    client = _client(quirk, peer.url)
    if client is None:
        given |= {"base_url": f"{peer.url}/v1", "api_key": KEY}
    else:
        given["client"] = client
    async with OpenAIRuntime("m", api="chat", **given) as runtime:
        task = (await runtime.run("How much is 1 + 2?")).task
    if client is not None:
        await client.close()
    met = quirk.wants is None or quirk.wants(peer.requests[-1])
    if task.failure is None:
        return Outcome(str(task.result), "", tuple(called), met)
    return Outcome(task.failure.code, task.failure.message, tuple(called), met)


def _client(quirk: Quirk, url: str) -> AsyncOpenAI | None:
    """The client of a user who has one; None for the planner's own."""
    if quirk.azure:
        return AsyncAzureOpenAI(
            azure_endpoint=url,
            azure_deployment="my-deployment",
            api_version="2024-10-21",
            api_key=KEY,
            max_retries=0,
        )
    if quirk.host:
        http = httpx2.AsyncClient(transport=_ToPeer(url))
        base = f"https://{quirk.host}/openai/v1"
        return AsyncOpenAI(api_key=KEY, base_url=base, http_client=http, max_retries=0)
    return None


class _ToPeer(httpx2.AsyncHTTPTransport):
    """Sends the requests for any server to one on the loopback."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._peer = httpx2.URL(url)

    async def handle_async_request(self, request: Any) -> Any:
        request.url = request.url.copy_with(
            scheme=self._peer.scheme, host=self._peer.host, port=self._peer.port
        )
        return await super().handle_async_request(request)

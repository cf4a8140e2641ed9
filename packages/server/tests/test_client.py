"""The unmodified client of the wire does its work against the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import rebuno

from agentic_kernel_engine import MemoryStore

from .serving import serving


@asynccontextmanager
async def agent(url: str, name: str, handler: Callable[..., Any]) -> AsyncIterator[rebuno.Agent]:
    """The client's agent, in the background."""
    made = rebuno.Agent(name, kernel_url=url, reconnect_delay=0.05)
    running = asyncio.ensure_future(made.run_async(handler))
    try:
        yield made
    finally:
        made._handle_shutdown()
        await running


async def test_an_agent_gets_an_execution_and_completes_it() -> None:
    async def handler(prompt: str) -> dict[str, str]:
        return {"said": prompt.upper()}

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        ended = await client.run_until_complete("swe", {"prompt": "hello"})
    assert ended.status == "completed"
    assert ended.output == {"said": "HELLO"}

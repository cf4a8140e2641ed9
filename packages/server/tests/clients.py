"""The unmodified client of the wire: its agents and runners, in the background of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import rebuno
from rebuno.runner import Runner
from rebuno.types import Event

from agentic_kernel_server import Server
from agentic_kernel_server.agents.consumers import Consumer


@asynccontextmanager
async def agent(
    url: str, name: str, handler: Callable[..., Any], *, endless: bool = False, **options: Any
) -> AsyncIterator[rebuno.Agent]:
    """An agent that ends with the block, after its handlers; it cuts ``endless`` ones at once."""
    made = rebuno.Agent(name, kernel_url=url, **{"reconnect_delay": 0.05, **options})
    if endless:
        made._shutdown_drain_timeout = 0.0
    running = asyncio.ensure_future(made.run_async(handler))
    try:
        yield made
    finally:
        made._handle_shutdown()
        await running


async def vanish(made: rebuno.Agent) -> None:
    """End an agent as if its process had died: it says nothing more."""
    for task in list(made._exec_tasks.values()):
        task.cancel()
    made._handle_shutdown()
    await made._client.close()


@asynccontextmanager
async def runner(
    url: str, name: str, *tools: Callable[..., Any], **options: Any
) -> AsyncIterator[Runner]:
    """A runner that ends with the block."""
    made = Runner(name, kernel_url=url, tools=tools, **{"reconnect_delay": 0.05, **options})
    running = asyncio.ensure_future(made.run_async())
    try:
        yield made
    finally:
        made._handle_shutdown()
        with suppress(Exception):
            await running


async def events_of(client: rebuno.Client, id: str) -> list[Event]:
    """Every event of an execution, up to its end."""
    return [event async for event in client.events(id)]


async def seen(client: rebuno.Client, id: str, *types: str) -> list[Event]:
    """The events up to the first of each of these types."""
    wanted, found = set(types), []
    following = client.events(id)
    async for event in following:
        found.append(event)
        wanted.discard(event.type)
        if not wanted:
            break
    await following.aclose()  # type: ignore[attr-defined]
    return found


async def streams(server: Server, count: int, kind: str = "agents") -> list[Consumer]:
    """The open streams of agents or runners, as soon as there are so many."""
    while True:
        found = list(getattr(server.parts, kind))
        if len(found) >= count:
            return found
        await asyncio.sleep(0.005)

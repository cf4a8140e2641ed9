"""A real server on loopback for the tests, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from agentic_kernel_engine import Store
from agentic_kernel_server import Ruling, Settings, ToolCall
from agentic_kernel_server.server import Server

QUICK = Settings(agent_timeout=0.4, interval=0.02, heartbeat=5.0, first_delay=0.01, hold=10.0)
"""Short graces, so that a test does not wait for long."""


async def allow_all(call: ToolCall) -> Ruling:
    """Tools named ``danger…`` need an approval, ``no…`` is denied, the rest is allowed."""
    if call.tool_id.startswith("danger"):
        return Ruling("require_approval", "dangerous", "ask")
    if call.tool_id.startswith("no"):
        return Ruling("deny", "not today", "never")
    return Ruling("allow", rule="all")


class Running(uvicorn.Server):
    """A uvicorn that leaves the signals to the test."""

    def install_signal_handlers(self) -> None:
        """Install none."""


@asynccontextmanager
async def serving(
    store: Store, settings: Settings = QUICK, **options: Any
) -> AsyncIterator[tuple[str, Server]]:
    """A server on a free port of loopback: its address, and the object."""
    options.setdefault("decide", allow_all)
    server = Server(store, settings=settings, **options)
    # asyncio sets TCP_NODELAY only on sockets that say that they are TCP.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        server.app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1
    )
    running = Running(config)
    main = asyncio.ensure_future(running.serve([listener]))
    while not running.started:
        await asyncio.sleep(0.005)
        assert not main.done(), main
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
    finally:
        await server.drain(timeout=2.0)
        running.should_exit = True
        await main
        listener.close()

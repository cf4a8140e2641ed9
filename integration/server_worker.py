"""A server process of its own: ``python -m integration.server_worker STORE GRACE TIMEOUT [DIES]``.

``STORE`` is ``file:FOLDER`` or ``postgres:SCHEMA:PLACE``. A step has a sixth of the execution's
time. It prints its port when it listens, and ends when its standard input does, so that it never
outlives the test. ``DIES`` says when it kills itself: ``before`` it carries out the first request
that another process forwards, or ``after`` that request is stored and before it is answered.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from typing import Any

import uvicorn

from agentic_kernel_engine import Store
from agentic_kernel_file import FileStore
from agentic_kernel_postgres import PostgresStore
from agentic_kernel_server import Ruling, Server, Settings, ToolCall

LEASE = 3.0


def store_at(place: str) -> Any:
    """The store that a place names."""
    kind, _, rest = place.partition(":")
    if kind == "file":
        return FileStore(rest)
    schema, _, url = rest.partition(":")
    return PostgresStore(url, schema=schema, lease=LEASE)


async def decide(call: ToolCall) -> Ruling:
    """Tools named ``danger…`` need an approval; the rest is allowed."""
    asks = call.tool_id.startswith("danger")
    return Ruling("require_approval" if asks else "allow", rule="all")


def doom(server: Server, when: str) -> None:
    """Make the process die in the middle of a forwarded request."""
    door = server.parts.forwarder._door
    reply = door._reply

    async def dying(asked: Any) -> Any:
        if when == "after":
            await reply(asked)
        os.kill(os.getpid(), signal.SIGKILL)

    door._reply = dying  # type: ignore[method-assign]


async def _stdin_ended() -> None:
    """Wait for the end of the standard input, in a thread that the end of the process ignores."""
    over, loop = asyncio.Event(), asyncio.get_running_loop()

    def read() -> None:
        while os.read(0, 1_024):
            pass
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=read, daemon=True).start()
    await over.wait()


async def main(place: str, grace: str, timeout: str, dies: str = "") -> None:
    """Serve until the standard input ends; after a lost lease begin again."""
    # asyncio sets TCP_NODELAY only on sockets that say that they are TCP.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ended = asyncio.ensure_future(_stdin_ended())
    settings = Settings(
        agent_timeout=float(grace), execution_timeout=float(timeout), interval=0.05,
        step_timeout=min(300.0, float(timeout) / 6), first_delay=0.05,
    )  # fmt: skip
    told = False
    while not ended.done():
        store: Store = store_at(place)
        server = Server(store, settings=settings, decide=decide)
        if dies:
            doom(server, dies)
        config = uvicorn.Config(server.app, log_level="error", timeout_graceful_shutdown=1)
        running = uvicorn.Server(config)
        serving = asyncio.ensure_future(running.serve([listener.dup()]))
        while not running.started:
            await asyncio.sleep(0.01)
            if serving.done():
                sys.exit(3)
        if not told:
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            told = True
        lost = asyncio.ensure_future(server.lost.wait())
        await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
        await server.drain(timeout=0.0 if lost.done() else 2.0)
        lost.cancel()
        running.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""What the tests of MCP share: a real server in a process of its own, over pipes or over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_engine.loop import Context, FinalAnswer, Loop, Turn
from agentic_kernel_engine.seams import ScriptedPlanner, ToolRegistry
from agentic_kernel_mcp import HTTPServer, Server, StdioServer

SERVER = str(Path(__file__).with_name("acting_server.py"))


class Acting:
    """The server of the tests, and what it did."""

    def __init__(self, server: Server, log: Path) -> None:
        self.server = server
        self._log = log

    def done(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def pipes(log: Path) -> Callable[..., Acting]:
    """Makes the server over pipes, with these options."""

    def make(*more: str) -> Acting:
        return Acting(StdioServer(sys.executable, (SERVER, "--log", str(log), *more)), log)

    return make


@pytest.fixture(params=["pipes", "legacy", "http"])
async def acting(request: pytest.FixtureRequest, log: Path) -> AsyncIterator[Acting]:
    """The server over pipes, also with the protocol of 2025, and over HTTP."""
    if request.param != "http":
        more = ("--legacy",) if request.param == "legacy" else ()
        yield Acting(StdioServer(sys.executable, (SERVER, "--log", str(log), *more)), log)
        return
    async with serving(log) as port:
        yield Acting(HTTPServer(f"http://127.0.0.1:{port}/mcp"), log)


@asynccontextmanager
async def serving(log: Path) -> AsyncIterator[int]:
    """The server over HTTP, in a process of its own that is killed in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, SERVER, "--log", str(log), "--http", str(port)],
        stderr=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    break
        yield port
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def hosted(tools: ToolRegistry, *script: Any) -> AsyncIterator[Host]:
    """A Host whose Loop does what the script says, and answers with what it saw last."""
    loop = Loop(ScriptedPlanner(*script, seen), tools)
    async with Host(loop, MemoryStore(), grace=0, interval=0.01) as host:
        yield host


async def run(tools: ToolRegistry, *script: Any) -> Any:
    async with hosted(tools, *script) as host:
        return (await host.run(new_task())).result


def seen(context: Context) -> FinalAnswer:
    turn = context.transcript[-1]
    assert isinstance(turn, Turn)
    return FinalAnswer([each.error or each.output for each in turn.observations])


def new_task() -> Task:
    return Task.new(summary="", instructions="do it", runtime_kind="loop")

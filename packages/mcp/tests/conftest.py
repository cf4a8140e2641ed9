"""Shared by the tests of MCP: servers in processes of their own, over pipes and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_engine.loop import Context, FinalAnswer, Loop, ToolCall, Turn
from agentic_kernel_engine.seams import ScriptedPlanner, ToolRegistry
from agentic_kernel_mcp import HTTPServer, Server, StdioServer

HERE = Path(__file__).parent
PLAIN = str(HERE.parents[2] / "integration" / "peers" / "plain_mcp.py")


class Acting:
    """A server of the tests, and what it did since this was made."""

    def __init__(self, server: Server, log: Path) -> None:
        self.server = server
        self.log = log
        self._before = len(self._lines())

    def done(self) -> list[str]:
        return self._lines()[self._before :]

    def _lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., Acting]:
    """Makes the server of `plain_mcp`, with these options: the protocol of 2025, by pipes."""
    log = tmp_path / "plain.log"

    def make(*more: str) -> Acting:
        return Acting(StdioServer(sys.executable, ("-IS", PLAIN, str(log), *more)), log)

    return make


@pytest.fixture
def by_sdk(tmp_path: Path) -> Acting:
    """The server of `sdk_server.py`: the protocol of 2026, by pipes."""
    log = tmp_path / "sdk.log"
    program = str(HERE / "sdk_server.py")
    return Acting(StdioServer(sys.executable, (program, "--log", str(log))), log)


@pytest.fixture(scope="session")
def http_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The same over HTTP, one process for all tests; its port and its log."""
    log = tmp_path_factory.mktemp("http") / "sdk.log"
    with http_server(log) as port:
        yield port, log


@pytest.fixture
def by_http(http_process: tuple[int, Path]) -> Acting:
    port, log = http_process
    return Acting(HTTPServer(f"http://127.0.0.1:{port}/mcp"), log)


@contextmanager
def http_server(log: Path) -> Iterator[int]:
    """`sdk_server.py` over HTTP, in a process that is killed in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(HERE / "sdk_server.py"), "--log", str(log), "--http", str(port)],
        stderr=subprocess.DEVNULL,
    )
    try:
        until = monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert monotonic() < until, "the server does not start"
            sleep(0.02)
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
    """The errors or outputs of the last step."""
    async with hosted(tools, *script) as host:
        return (await host.run(new_task())).result


def seen(context: Context) -> FinalAnswer:
    turn = context.transcript[-1]
    assert isinstance(turn, Turn)
    return FinalAnswer([each.error or each.output for each in turn.observations])


def said(context: Context) -> FinalAnswer:
    turn = context.transcript[-1]
    assert isinstance(turn, Turn)
    return FinalAnswer([each.message for each in turn.observations])


async def messages(tools: ToolRegistry, *script: Any) -> Any:
    """The messages of the last step's failures."""
    async with Host(Loop(ScriptedPlanner(*script, said), tools), MemoryStore()) as host:
        return (await host.run(new_task())).result


def new_task() -> Task:
    return Task.new(summary="", instructions="do it", runtime_kind="loop")


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"it__{name}", arguments)


async def question(host: Host, id: str, *texts: str) -> str:
    """The question that the Task waits for, as soon as it has one of these texts."""
    async with asyncio.timeout(60):
        while True:
            note: Any = (await host.get(id)).metadata.get("engine/waiting_for") or {}
            if any(text in note.get("question", "") for text in texts):
                return str(note["question"])
            await asyncio.sleep(0.005)


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)

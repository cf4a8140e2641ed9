"""Pipes: a server that is a child process, started and ended with all processes that it starts.

The SDK's own client for this reads a line of any length, so this one is written anew.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from .incoming import MAX_MESSAGE, TooLong
from .parts import Parts, TooManyParts
from .servers import StdioServer

GRACE: Final = 2.0
"""Seconds that a process may take to end after its input was closed, and again after SIGTERM."""
_REAPING: Final = 5.0
_KEPT: Final = 2_000
_POLL: Final = 0.01
_log = logging.getLogger(__package__)


class Complaints:
    """The last text that a child process wrote on its standard error; each line is also logged."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._last = ""

    def last(self) -> str:
        """The last lines, for a message."""
        return self._last.strip()

    def take(self, text: str) -> None:
        """Add what was read."""
        self._last = (self._last + text)[-_KEPT:]
        for line in text.splitlines():
            _log.info("MCP server %s: %s", self._server, printable(line))


def printable(text: str) -> str:
    """The text with every control character escaped, so that a log stays one line."""
    return text if text.isprintable() else "".join(
        each if each.isprintable() else ascii(each)[1:-1] for each in text
    )  # fmt: skip


@asynccontextmanager
async def pipes(server: StdioServer, complaints: Complaints) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server; the two streams of messages from and to it.

    At the end of the block the server's input is closed. If its process group does not end within
    `GRACE`, it gets SIGTERM, and after `GRACE` again SIGKILL; at once if this coroutine is
    cancelled meanwhile. So no process of the server is left.

    Raises:
        OSError: The program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=server.cwd,
        env=get_default_environment() | dict(server.env),
        limit=MAX_MESSAGE,
        start_new_session=True,
    )
    heard, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_hear(process, heard)),
        asyncio.create_task(_say(process, said, heard)),
        asyncio.create_task(_complain(process, complaints)),
    ]
    try:
        yield incoming, outgoing
    finally:
        try:
            await _end(process)
            await asyncio.wait(tasks[2:], timeout=GRACE)  # What it said last is for a message.
        finally:
            _kill(process, signal.SIGKILL)
            await asyncio.wait([asyncio.create_task(process.wait())], timeout=_REAPING)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (heard, incoming, outgoing, said):
                stream.close()
            process._transport.close()  # type: ignore[attr-defined]  # Else it warns later.


async def _hear(process: Process, heard: Any) -> None:
    """Read messages until the server closes its output, or sends one that is too large."""
    assert process.stdout is not None
    with heard, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                await heard.send(TooLong())
                return
            if not line:
                return
            try:
                Parts().feed(line)
            except TooManyParts as error:
                await heard.send(error)
                return
            try:
                message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line))
            except ValueError as error:  # Some programs print other things, too.
                _log.info("a server wrote a line that is no message: %s", str(error)[:200])
                message = error
            await heard.send(message)


async def _say(process: Process, said: Any, heard: Any) -> None:
    """Write messages until the session closes them, or the server its input."""
    assert process.stdin is not None
    try:
        with said:
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        heard.close()  # The session ends; otherwise its calls would wait until their time is over.


async def _complain(process: Process, complaints: Complaints) -> None:
    assert process.stderr is not None
    while text := await process.stderr.read(4_096):
        complaints.take(text.decode("utf-8", "replace"))


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if not await _gone(process):
        _kill(process, signal.SIGTERM)
        await _gone(process)


async def _gone(process: Process) -> bool:
    """True as soon as no process of the group is left; False after `GRACE`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            while _kill(process, 0):  # noqa: ASYNC110
                await asyncio.sleep(_POLL)
            return True
    return False


def _kill(process: Process, number: int) -> bool:
    """Send a signal to the process group; False if there is none."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # A process of the group has another user.
        return True
    return True

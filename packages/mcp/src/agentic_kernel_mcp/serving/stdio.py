"""Stdio: one client over the standard streams of this process."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ..parts import Parts, TooManyParts
from .server import ToolServer

MAX_LINE: Final = 4 * 1024 * 1024
"""The longest message of a client, in bytes; a longer one ends the connection."""
_CHUNK: Final = 65_536
_log = logging.getLogger(__package__)


class LineTooLong(Exception):
    """A client sent a message that is longer than `MAX_LINE`."""


async def serve_stdio(server: ToolServer) -> None:
    """Serve the client at the other end of standard input and output, until it closes its end.

    While this runs, what this process prints goes to standard error, and its children read nothing,
    so that both keep off the wire. Cancel it to end; the calls that run are cancelled with it.

    Raises:
        LineTooLong: The client sent a message that is too long.
        OSError: A stream broke.
    """
    with _wire() as (source, sink):
        incoming, read = anyio.create_memory_object_stream[Any](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        options = server.protocol.create_initialization_options()
        lines, writer = _Lines(source), _Writer(sink)
        try:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(_read(lines, incoming))
                writing = group.create_task(_write(writer, outgoing))
                await server.protocol.run(read, write, options)
                reading.cancel()
                await write.aclose()
                await writing
        except BaseExceptionGroup as group:
            _told(group)
        finally:
            lines.end()
            writer.end()


def _told(group: BaseExceptionGroup[BaseException]) -> None:
    """Raise what went wrong, or the cancellation.

    The SDK's streams break if they are taken down while a message is between them. That is an end.

    Raises:
        BaseException: The first failure that is more than this.
        CancelledError: The program has cancelled the server.
    """
    rest: BaseException | None = group.split(
        (anyio.BrokenResourceError, anyio.ClosedResourceError)
    )[1]
    while isinstance(rest, BaseExceptionGroup):
        rest = rest.exceptions[0]
    if rest is not None:
        raise rest from None
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from None


async def _read(lines: _Lines, incoming: Any) -> None:
    async with incoming:
        while (line := await lines.next()) is not None:
            if not line.strip():
                continue
            message: Any
            try:
                Parts().feed(line)
                message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except (ValueError, TooManyParts) as error:
                message = error
            try:
                await incoming.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _write(writer: _Writer, outgoing: Any) -> None:
    async with outgoing:
        async for each in outgoing:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await writer.write(text.encode() + b"\n")
            except BrokenPipeError:  # The client is gone; its end of input says so, too.
                return


class _Lines:
    """The lines of a file descriptor, read in a thread that never holds the process up."""

    def __init__(self, source: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._ready: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._taken = threading.Semaphore(8)
        """The lines that may wait; with more, the client waits."""
        self._ended = False
        threading.Thread(target=self._run, name="mcp stdin", daemon=True).start()

    async def next(self) -> bytes | None:
        """The next line; None at the end."""
        line = await self._ready.get()
        self._taken.release()
        if isinstance(line, Exception):
            raise line
        return line

    def end(self) -> None:
        """Take no more lines. The thread may wait in a read until the process ends."""
        self._ended = True
        self._taken.release()

    def _run(self) -> None:
        try:
            left = bytearray()
            while not self._ended and (chunk := os.read(self._source, _CHUNK)):
                left += chunk
                if b"\n" in chunk:
                    *lines, rest = left.split(b"\n")
                    left = bytearray(rest)
                    for line in lines:
                        self._hand_over(bytes(line))
                if len(left) > MAX_LINE:
                    raise LineTooLong(
                        f"the client sent a message of more than {MAX_LINE:,} bytes; send less"
                    )
            if left:
                self._hand_over(bytes(left))
            self._hand_over(None)
        except (OSError, LineTooLong) as error:
            self._hand_over(error)

    def _hand_over(self, line: bytes | Exception | None) -> None:
        self._taken.acquire()
        if not self._ended:
            with suppress(RuntimeError):  # The event loop has ended.
                self._loop.call_soon_threadsafe(self._ready.put_nowait, line)


class _Writer:
    """Writes to a file descriptor in a thread that never holds the process up."""

    def __init__(self, sink: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._wanted: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name="mcp stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        done = self._loop.create_future()
        self._wanted.put((data, done))
        await done

    def end(self) -> None:
        """Write no more."""
        self._wanted.put(None)

    def _run(self) -> None:
        while (each := self._wanted.get()) is not None:
            data, done = each
            view, error = memoryview(data), None
            try:
                while view:
                    view = view[os.write(self._sink, view) :]
            except OSError as raised:
                error = raised
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, done, error)


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


@contextmanager
def _wire() -> Iterator[tuple[int, int]]:
    """The standard streams, for the protocol alone.

    Their copies are not closed in the end, because a thread may still wait in one.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield source, sink
    finally:
        os.close(nothing)
        os.dup2(source, 0)
        os.dup2(sink, 1)

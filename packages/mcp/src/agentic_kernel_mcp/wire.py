"""Wire: the streams to a server, over a child process's pipes or over HTTP, with bounds."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from .servers import HTTPServer, Server, StdioServer

MAX_ANSWER: Final = 16 * 1024 * 1024
"""The longest answer over HTTP that is no stream, in bytes."""
_CONNECT: Final = 30.0
_SILENT: Final = 300.0
_LAST: Final = 20
_LINE: Final = 2_000


class Complaints:
    """What a child process says on its standard error: logged line by line, the last lines kept."""

    def __init__(self, server: str) -> None:
        self._log = logging.getLogger(f"{__package__}.{server}")
        self._last: deque[str] = deque(maxlen=_LAST)
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        """The end for the child process."""
        self._thread = threading.Thread(target=self._listen, args=(read,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close this process's end; the lines that are still under way are read."""
        self.file.close()
        self._thread.join(0.5)  # A grandchild may hold the other end open.

    def last(self) -> str:
        """The last lines, for a message."""
        return "\n".join(self._last)

    def _listen(self, read: int) -> None:
        with os.fdopen(read, "r", encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(_LINE):
                self._last.append(line.rstrip())
                self._log.info("%s", line.rstrip())


class _Watched:
    """A stream of messages that says when it has ended."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, if the stream keeps it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)


@asynccontextmanager
async def streams(
    server: Server, complaints: Complaints | None, ended: Callable[[], None]
) -> AsyncIterator[Any]:
    """The two streams of messages from and to a server.

    Args:
        server: The server.
        complaints: The standard error of a child process.
        ended: Called when no message can come any more.
    """
    if isinstance(server, StdioServer):
        assert complaints is not None
        started = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
        )
        async with stdio_client(started, errlog=complaints.file) as (read, write):
            yield _Watched(read, ended), write
        return
    async with (
        _http(server) as client,
        streamable_http_client(server.url, http_client=client) as (read, write),
    ):
        yield _Watched(read, ended), write


def _http(server: HTTPServer) -> httpx2.AsyncClient:
    """A client that sends the server's own headers, uses no proxy, and unpacks nothing."""
    return httpx2.AsyncClient(
        headers={**server.headers, "Accept-Encoding": "identity"},
        auth=server.auth,
        timeout=httpx2.Timeout(_CONNECT, read=_SILENT),
        trust_env=False,
        transport=_Bounded(httpx2.AsyncHTTPTransport(trust_env=False)),
    )


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport that refuses packed answers, and ends one that is too long."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        packed = response.headers.get("content-encoding", "identity")
        if packed.strip().lower() != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError(
                f"the answer is packed as {packed[:40]!r}, which was not asked for", request=request
            )
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Counted(response.stream, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, request: httpx2.Request) -> None:
        self._inner = inner
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for chunk in self._inner:
            length += len(chunk)
            if length > MAX_ANSWER:
                raise httpx2.RemoteProtocolError(
                    f"the answer is longer than {MAX_ANSWER:,} bytes", request=self._request
                )
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()

"""Transport: the connections to the server, and what is not taken from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import httpx2

from agentic_kernel_engine.providers.connection import sent

CONNECT_SECONDS: Final = 10.0
CONNECTIONS: Final = 1_000
"""At once; all planners' Tasks share them, and one more waits."""
IDLE: Final = 200
"""Connections that are kept although nobody uses them."""
IDLE_SECONDS: Final = 4.0
"""How long. Common servers close theirs after five: a request must not meet that."""
LARGEST: Final = 64 * 2**20
"""Bytes of one response at most."""
_LOST: Final = (httpx2.NetworkError, httpx2.RemoteProtocolError)


class Refused(httpx2.TransportError):
    """The server sent what is not taken: it could grow without bounds in memory."""


def http_client(timeout: float) -> httpx2.AsyncClient:
    """A client that follows no redirects, and takes only responses of a bounded size.

    Args:
        timeout: Seconds without anything from the server, or without anything that it takes.
    """
    return _Client(
        timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
        limits=httpx2.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=IDLE,
            keepalive_expiry=IDLE_SECONDS,
        ),
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,
        event_hooks={"response": [_bound]},
    )


class _Client(httpx2.AsyncClient):
    """Sends a request again that met the closing of a kept connection."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await sent(request, partial(super().send, request, **options), _LOST)


async def _bound(response: httpx2.Response) -> None:
    """Refuse a packed response, whose size says nothing of what comes out; bound any other."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(f"the response is packed by {encoding[:40]!a}, which nobody asked for")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A body of a bounded size, in whole lines: the SDK copies what it has of one at each piece."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, begun = 0, bytearray()
        async for piece in self._stream:
            size += len(piece)
            if size > LARGEST:
                raise Refused(f"the response has more than {LARGEST:,} bytes")
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
            if not end:
                begun += piece
                continue
            yield bytes(begun) + piece[:end] if begun else piece[:end]
            begun = bytearray(piece[end:])
        if begun:
            yield bytes(begun)

    async def aclose(self) -> None:
        await self._stream.aclose()

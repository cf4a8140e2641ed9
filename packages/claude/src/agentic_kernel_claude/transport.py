"""Transport: the HTTP client that the SDK uses; it bounds the size of a response."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import httpx2

from agentic_kernel_engine.providers import sent

CONNECT_SECONDS: Final = 10.0
"""The most seconds to connect."""
CONNECTIONS: Final = 1_000
"""The most connections at once: all Tasks of a planner share them, and a further call waits."""
IDLE: Final = 200
"""The most idle connections that are kept."""
IDLE_SECONDS: Final = 4.0
"""Seconds that an idle connection is kept: servers commonly close one after five seconds, and a
request that is sent at that moment is lost."""
LARGEST: Final = 64 * 2**20
"""The most bytes of one response."""
_LOST: Final = (httpx2.NetworkError, httpx2.RemoteProtocolError)


class Refused(httpx2.TransportError):
    """Error for a response that the client does not read: it is too long or compressed."""


def http_client(timeout: float) -> httpx2.AsyncClient:
    """Return a client that follows no redirect and reads at most `LARGEST` bytes of a response.

    Args:
        timeout: Seconds in which the server sends no data, or accepts none.
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
    """Retries a request if the server had already closed its kept-alive connection."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await sent(request, partial(super().send, request, **options), _LOST)


async def _bound(response: httpx2.Response) -> None:
    """Refuse a compressed response, because it may become far longer; bound any other."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(
            f"the response is compressed ({encoding[:40]!a}), but the request asked for an "
            "uncompressed one; turn off compression on the server or its proxy"
        )
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A response body of at most `LARGEST` bytes, passed on in whole lines.

    The SDK copies an unfinished line at each piece, which is slow if the line is long.
    """

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, begun = 0, bytearray()
        async for piece in self._stream:
            size += len(piece)
            if size > LARGEST:
                raise Refused(f"the response is longer than the limit of {LARGEST:,} bytes")
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

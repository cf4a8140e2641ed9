"""Transport: the HTTP client under the SDK's, which trusts no server with its memory.

Importing this module imports the HTTP library, so it is imported when a client is made.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import cache, partial
from typing import Any, Final

import httpx2

from agentic_kernel_engine.providers.connection import sent

MAX_BYTES: Final = 64 * 1024 * 1024
"""How long one response may be."""
CONNECT_SECONDS: Final = 10.0
"""How long it may take to connect."""
KEPT_SECONDS: Final = 4.0
"""How long an idle connection is kept: servers commonly close one after five seconds, and a request
that meets the closing is lost."""
CONNECTIONS: Final = 1_000
"""Connections at once."""
_LOST: Final = (httpx2.NetworkError, httpx2.RemoteProtocolError)


class Refused(httpx2.DecodingError):
    """A response that is not read: too long, or compressed."""


def http_client(timeout: float) -> httpx2.AsyncClient:
    """A client that follows no redirect and reads no more than it should.

    A compressed response could be a thousand times as long as it looks, so none is asked for, and
    one that comes all the same is refused.

    Args:
        timeout: Seconds between two pieces of a response.
    """
    return _Client(
        verify=_certificates(),
        headers={"Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
        limits=httpx2.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS,
            keepalive_expiry=KEPT_SECONDS,
        ),
        follow_redirects=False,
        event_hooks={"response": [_guard]},
    )


class _Client(httpx2.AsyncClient):
    """Sends a request again that met the closing of a kept connection."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await sent(request, partial(super().send, request, **options), _LOST)


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust; reading it takes far longer than all else about a client."""
    return httpx2.create_ssl_context()


async def _guard(response: httpx2.Response) -> None:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(f"the response is compressed ({encoding[:40]}), which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A body of no more than `MAX_BYTES`, in whole lines.

    The SDK copies what it has of a line at each piece: a long one would take minutes.
    """

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, begun = 0, bytearray()
        async for piece in self._stream:
            size += len(piece)
            if size > MAX_BYTES:
                raise Refused(f"the response is longer than {MAX_BYTES:,} bytes")
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
            if not end:
                begun += piece
                continue
            yield bytes(begun) + piece[:end]
            begun = bytearray(piece[end:])
        if begun:
            yield bytes(begun)

    async def aclose(self) -> None:
        await self._stream.aclose()

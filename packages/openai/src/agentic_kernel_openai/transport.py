"""Transport: the HTTP client that the SDK uses; it bounds the size of a response.

Importing this module imports the HTTP library, so `Client` imports it only to make a client.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import cache, partial
from typing import Any, Final

import httpx2

from agentic_kernel_engine.providers import sent

MAX_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of one response."""
CONNECT_SECONDS: Final = 10.0
"""The most seconds to connect."""
KEPT_SECONDS: Final = 4.0
"""Seconds that an idle connection is kept: servers commonly close one after five seconds, and a
request that is sent at that moment is lost."""
CONNECTIONS: Final = 1_000
"""The most connections at once."""
_LOST: Final = (httpx2.NetworkError, httpx2.RemoteProtocolError)


class Refused(httpx2.DecodingError):
    """Error for a response that the client does not read: it is too long or compressed."""


def http_client(timeout: float) -> httpx2.AsyncClient:
    """Return a client that follows no redirect and reads at most `MAX_BYTES` of a response.

    A compressed response may become a thousand times as long when it is decompressed. So the client
    asks for uncompressed responses, and refuses a compressed one.

    Args:
        timeout: Seconds to wait for the next piece of a response.
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
    """Retries a request if the server had already closed its kept-alive connection."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await sent(request, partial(super().send, request, **options), _LOST)


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates. Loading them is the slowest part of making a client."""
    return httpx2.create_ssl_context()


async def _guard(response: httpx2.Response) -> None:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(
            f"the response is compressed ({encoding[:40]}), but the request asked for an "
            "uncompressed one; turn off compression on the server or its proxy"
        )
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A response body of at most `MAX_BYTES`, passed on in whole lines.

    The SDK copies an unfinished line at each piece, so that a long line would take minutes.
    """

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, begun = 0, bytearray()
        async for piece in self._stream:
            size += len(piece)
            if size > MAX_BYTES:
                raise Refused(f"the response is longer than the limit of {MAX_BYTES:,} bytes")
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

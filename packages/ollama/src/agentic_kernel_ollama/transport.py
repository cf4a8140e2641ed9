"""Transport: the options of the SDK's HTTP client; they bound the size of a response."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Final

import httpx

CONNECT_SECONDS: Final = 10.0
"""The most seconds to connect."""
CONNECTIONS: Final = 1_000
"""The most connections at once: all Tasks of a planner share them, and a further call waits."""
IDLE: Final = 200
"""The most idle connections that are kept."""
IDLE_SECONDS: Final = 4.0
"""Seconds that an idle connection is kept: proxies close one after five seconds or more, and a
request that is sent at that moment is lost."""
LARGEST: Final = 64 * 2**20
"""The most bytes of one response."""

_SEPARATOR: Final = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
_BEGUN: Final = re.compile(rb"(?:\xc2|\xe2\x80?)\Z")


class Refused(httpx.TransportError):
    """Error for a response that the client does not read: it is too long or compressed."""


def http_options(timeout: float) -> dict[str, Any]:
    """Return arguments of `httpx.AsyncClient`: no redirects, and at most `LARGEST` bytes to read.

    Args:
        timeout: Seconds in which the server sends no data, or accepts none.
    """
    return {
        "timeout": httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
        "limits": httpx.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=IDLE,
            keepalive_expiry=IDLE_SECONDS,
        ),
        "headers": {"Accept-Encoding": "identity"},
        "follow_redirects": False,
        "verify": _trusted(),
        "event_hooks": {"response": [_bound]},
    }


@cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted certificates. Loading them is the slowest part of making a client."""
    return httpx.create_ssl_context()


async def _bound(response: httpx.Response) -> None:
    """Refuse a compressed response, because it may become far longer; bound any other."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(
            f"the response is compressed ({encoding[:40]!a}), but the request asked for an "
            "uncompressed one; turn off compression on the server or its proxy"
        )
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx.AsyncByteStream):
    """A response body of at most `LARGEST` bytes, in which only a line break ends a line.

    For the SDK, U+0085, U+2028 and U+2029 also end a line, but JSON allows them within a string.
    So they are replaced by their JSON escapes.
    """

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, held = 0, b""
        async for piece in self._stream:
            size += len(piece)
            if size > LARGEST:
                raise Refused(f"the response is longer than the limit of {LARGEST:,} bytes")
            joined = held + piece
            begun = _BEGUN.search(joined)
            held = joined[begun.start() :] if begun else b""
            yield _SEPARATOR.sub(_escape, joined[: len(joined) - len(held)])
        yield held

    async def aclose(self) -> None:
        await self._stream.aclose()


def _escape(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()

"""Transport: the connections to the server, and what is not taken from it."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Final

import httpx

CONNECT_SECONDS: Final = 10.0
CONNECTIONS: Final = 1_000
"""At once; all Tasks share them, and one more waits."""
IDLE: Final = 200
"""Connections that are kept although nobody uses them."""
IDLE_SECONDS: Final = 4.0
"""How long. Proxies close theirs after five or more: a request must not meet that."""
LARGEST: Final = 64 * 2**20
"""Bytes of one response at most."""

_SEPARATOR: Final = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
_BEGUN: Final = re.compile(rb"(?:\xc2|\xe2\x80?)\Z")


class Refused(httpx.TransportError):
    """The server sent what is not taken: it could grow without bounds in memory."""


def http_options(timeout: float) -> dict[str, Any]:
    """Arguments of `httpx.AsyncClient`: no redirects, and only responses of a bounded size.

    Args:
        timeout: Seconds without anything from the server, or without anything that it takes.
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
    """Whom to trust; reading that takes longer than all the rest, so it is done once."""
    return httpx.create_ssl_context()


async def _bound(response: httpx.Response) -> None:
    """Refuse a packed response, whose size says nothing of what comes out; bound any other."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(f"the response is packed by {encoding[:40]!a}, which nobody asked for")
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx.AsyncByteStream):
    """A body of bounded size, in which only a line break ends a line.

    The SDK also takes U+0085, U+2028 and U+2029 for one, which JSON has within its texts: there
    they are written as escapes.
    """

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, held = 0, b""
        async for piece in self._stream:
            size += len(piece)
            if size > LARGEST:
                raise Refused(f"the response has more than {LARGEST:,} bytes")
            joined = held + piece
            begun = _BEGUN.search(joined)
            held = joined[begun.start() :] if begun else b""
            yield _SEPARATOR.sub(_escape, joined[: len(joined) - len(held)])
        yield held

    async def aclose(self) -> None:
        await self._stream.aclose()


def _escape(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()

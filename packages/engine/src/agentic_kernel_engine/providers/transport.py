"""Transport: the HTTP client that a vendor's SDK uses; it bounds the size of a response.

The engine depends on no HTTP library. A sibling gives the one that its SDK uses, ``httpx`` or
``httpx2``, which have the same interface.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, Final

from .connection import Refused, sent

CONNECT_SECONDS: Final = 10.0
"""The most seconds to connect."""
CONNECTIONS: Final = 1_000
"""The most connections at once: all Tasks of a planner share them, and a further call waits."""
KEPT_SECONDS: Final = 4.0
"""Seconds that an idle connection is kept: servers commonly close one after five seconds, and a
request that is sent at that moment is lost."""
MAX_BYTES: Final = 64 * 2**20
"""The most bytes of one response."""
CLOSING: Final = ("llama.cpp",)
"""Servers that promise to keep a connection, and close it after a streamed answer without notice.
The next request could be on its way already, and looks like one that the server has read."""
_opened: ContextVar[list[Any] | None] = ContextVar("_opened", default=None)
_SEPARATOR: Final = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


@contextmanager
def responses() -> Iterator[list[Any]]:
    """Collect the HTTP responses that are opened within the block, so that they can be closed.

    An SDK may pass the events of a stream through several generators. If one of them raises, the
    SDK loses the others, and the connection stays open with them.
    """
    opened: list[Any] = []
    token = _opened.set(opened)
    try:
        yield opened
    finally:
        _opened.reset(token)


def http_options(http: Any, timeout: float) -> dict[str, Any]:
    """Return arguments of ``AsyncClient``: no redirects, and at most `MAX_BYTES` of a response.

    A compressed response may become a thousand times as long when it is decompressed. So the client
    asks for uncompressed responses, and refuses a compressed one.

    Args:
        http: The HTTP library, imported.
        timeout: Seconds in which the server sends no data, or accepts none.
    """
    return {
        "verify": certificates(http),
        "headers": {"Accept-Encoding": "identity"},
        "timeout": http.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
        "limits": http.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS,
            keepalive_expiry=KEPT_SECONDS,
        ),
        "follow_redirects": False,
        "event_hooks": {"response": [partial(_guard, _bounded(http))]},
    }


def http_client(http: Any, timeout: float) -> Any:
    """Return a client with `http_options`; it sends a request again as `sent` describes."""
    return _client(http)(**http_options(http, timeout))


@cache
def _client(http: Any) -> type[Any]:
    lost = (http.NetworkError, http.RemoteProtocolError)

    class Client(http.AsyncClient):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            if not any(request.extensions.get("timeout", {}).values()):
                # An SDK without a timeout of its own would wait forever.
                request.extensions["timeout"] = self.timeout.as_dict()
            response = await sent(request, partial(super().send, request, **options), lost)
            opened = _opened.get()
            if opened is not None:
                opened.append(response)
            return response

    return Client


@cache
def _bounded(http: Any) -> type[Bounded]:
    return type("Bounded", (Bounded, http.AsyncByteStream), {})


@cache
def certificates(http: Any) -> ssl.SSLContext:
    """Return the trusted certificates. Loading them is the slowest part of making a client."""
    context: ssl.SSLContext = http.create_ssl_context()
    return context


async def _guard(bounded: type[Bounded], response: Any) -> None:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(
            f"the response is compressed ({encoding[:40]!a}), but the request asked for an "
            "uncompressed one; turn off compression on the server or its proxy"
        )
    response.stream = bounded(response.stream)
    if response.headers.get("server") in CLOSING and "transfer-encoding" in response.headers:
        response.stream.connection = response.extensions.get("network_stream")


class Bounded:
    """A response body of at most `MAX_BYTES`, passed on in whole lines.

    An SDK copies an unfinished line at each piece, so that a long line would take minutes. For some
    SDKs, U+0085, U+2028 and U+2029 also end a line, but JSON allows them within a string. So they
    are replaced by their JSON escapes.
    """

    connection: Any = None
    """The connection to close after the body; None to keep it for the next request."""

    def __init__(self, stream: Any) -> None:
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
            yield _SEPARATOR.sub(_escape, bytes(begun) + piece[:end])
            begun = bytearray(piece[end:])
        if begun:
            yield _SEPARATOR.sub(_escape, bytes(begun))

    async def aclose(self) -> None:
        try:
            if self.connection is not None:
                # Before the pool has the connection back, so that no other request gets it.
                await self.connection.aclose()
        finally:
            await self._stream.aclose()


def _escape(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()

"""Sizes: an ASGI middleware that bounds the head and the body of each request, and the body's time.

A request with both Content-Length and Transfer-Encoding is refused and its connection closed (RFC
9112, section 6.1): a proxy that reads the other of the two would see another request. A request
that is answered before its body was read closes its connection as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import Refused


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one request."""

    head: int = 32 * 1024
    """The largest head, in bytes: the path, the query and all headers."""
    headers: int = 100
    """The most headers."""
    body: int = 4 * 1024 * 1024
    """The largest body, in bytes."""
    seconds: float = 20.0
    """The longest that a body may take to arrive."""


class Sized:
    """Passes a request on if its head is within the bounds, and bounds its body as it is read.

    Args:
        app: The application.
        sizes: The bounds; by default those of `Sizes`.
    """

    def __init__(self, app: ASGIApp, sizes: Sizes | None = None) -> None:
        self._app: Final = app
        self._sizes: Final = sizes or Sizes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is not None:
            await answer(problem, send)
            return
        bounded = _Bounded(receive, self._sizes, whole=_without_body(scope["headers"]))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not bounded.whole:
                # The rest of the body would have to be read to find the next request.
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, bounded, sending)

    def _problem(self, scope: Scope) -> Refused | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        sizes = self._sizes
        if scope["http_version"] not in ("1.0", "1.1"):
            return Refused("VALIDATION_ERROR", "the request is not HTTP/1.1; send it so")
        length = len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
        length += sum(len(name) + len(value) + 4 for name, value in headers)
        if length > sizes.head or len(headers) > sizes.headers:
            return Refused(
                "VALIDATION_ERROR",
                f"the request's head has {len(headers):,} headers and {length:,} bytes; the limits "
                f"are {sizes.headers:,} and {sizes.head:,}",
            )
        lengths = [value for name, value in headers if name == b"content-length"]
        if lengths and any(name == b"transfer-encoding" for name, _ in headers):
            return Refused(
                "VALIDATION_ERROR",
                "the request has both Content-Length and Transfer-Encoding; send one of them",
            )
        if any(not value.isdigit() or len(value) > 20 for value in lengths):
            return Refused("VALIDATION_ERROR", "the Content-Length is not a number of bytes")
        if lengths and int(lengths[0]) > sizes.body:
            return _too_large(sizes)
        return None


def _too_large(sizes: Sizes) -> Refused:
    return Refused("VALIDATION_ERROR", f"the body is too large; the limit is {sizes.body:,} bytes")


def _without_body(headers: list[tuple[bytes, bytes]]) -> bool:
    """True if a request has no body; one that has says so."""
    return not any(
        name == b"transfer-encoding" or (name == b"content-length" and int(value) > 0)
        for name, value in headers
    )


class _Bounded:
    """Receives the messages of one request."""

    def __init__(self, receive: Receive, sizes: Sizes, *, whole: bool) -> None:
        self._receive = receive
        self._sizes = sizes
        self._size = 0
        self.whole = whole
        """True if the body has been received."""
        self._until = asyncio.get_running_loop().time() + sizes.seconds

    async def __call__(self) -> Message:
        """The next message.

        Raises:
            Refused: The body is too large, or takes too long.
        """
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Refused(
                "VALIDATION_ERROR",
                f"the body did not arrive within {self._sizes.seconds:g} s; send it faster",
            ) from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > self._sizes.body:
                raise _too_large(self._sizes)
            self.whole = not message.get("more_body", False)
        return message


async def answer(refused: Refused, send: Send, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Answer a request that no route sees, and close its connection."""
    body: bytes = msgspec.json.encode(refused.body)
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *more,
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

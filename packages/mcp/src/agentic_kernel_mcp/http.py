"""HTTP: the streams to a server, with bounds on what it sends and on where it leads to.

The SDK tells a caller "an error response" whatever went wrong. So the transport also writes down,
for the call that a request belongs to, if the request was sent and how it was answered.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from .incoming import MAX_MESSAGE
from .parts import Parts, TooManyParts
from .servers import HTTPServer

_CONNECT: Final = 30.0
_SESSION: Final = "mcp-session-id"


@dataclass
class Attempt:
    """The way of the request of one call, as far as the SDK does not tell it."""

    unsent: str = ""
    """Why the server never got the request."""
    lost: str = ""
    """Why there is no answer, though the server may have got the request."""
    status: int = 0
    """The HTTP status, if it is an error."""
    expired: bool = False
    """True if the server does not know the session."""


attempt: ContextVar[Attempt | None] = ContextVar("agentic_kernel_mcp_attempt", default=None)
"""The call that a request is sent for. The SDK sends it in the context of its caller."""


@asynccontextmanager
async def http(server: HTTPServer) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of messages from and to a server."""
    client = httpx2.AsyncClient(
        headers={**server.headers, "Accept-Encoding": "identity"},
        auth=server.auth,
        timeout=httpx2.Timeout(_CONNECT, read=None),  # Each call has a limit of its own.
        trust_env=False,
        transport=_Bounded(httpx2.AsyncHTTPTransport(trust_env=False), httpx2.URL(server.url)),
    )
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE
        ) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport that goes to one server, and elsewhere only for its authentication.

    It refuses packed answers, ends one that is too long, and writes into `attempt`.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, home: httpx2.URL) -> None:
        self._inner = inner
        self._home = home

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not _same_origin(request.url, self._home):
            request = await _elsewhere(request, loopback=_is_loopback(self._home.host))
            return self._checked(await self._inner.handle_async_request(request), request, None)
        told = None
        if request.method == "POST" and request.url == self._home:
            told = attempt.get()
        if told is not None:
            told.unsent, told.lost, told.status = "", "", 0
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if told is None:
                raise
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)):
                told.unsent = why
            else:
                told.lost = why
            # An exception would end the session, with the calls of other Tasks in it.
            return httpx2.Response(502, request=request)
        if told is not None and response.status_code >= 400:
            told.status = response.status_code
            told.expired = response.status_code == 404 and _SESSION in request.headers
        return self._checked(response, request, told)

    def _checked(
        self, response: httpx2.Response, request: httpx2.Request, told: Attempt | None
    ) -> httpx2.Response:
        packed = response.headers.get("content-encoding", "identity").strip().lower()
        response.stream = _Counted(
            response.stream, told, refused="" if packed == "identity" else
            f"the answer is packed as {packed[:40]!r}, which was not asked for",
            endless=response.headers.get("content-type", "").startswith("text/event-stream"),
        )  # fmt: skip
        response.headers.pop("content-encoding", None)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    """The body of an answer; it ends early if it is broken or too long, which `Attempt` says."""

    def __init__(self, inner: Any, told: Attempt | None, *, refused: str, endless: bool) -> None:
        self._inner = inner
        self._told = told
        self._refused = refused
        self._endless = endless
        """True for a stream of events, each of which has its own bound."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        why = self._refused
        parts = Parts(events=self._endless)
        try:
            if not why:
                async for chunk in self._inner:
                    length += len(chunk)
                    if length > MAX_MESSAGE and not self._endless:
                        why = f"the answer is longer than {MAX_MESSAGE:,} bytes"
                        break
                    parts.feed(chunk)
                    yield chunk
        except TooManyParts as error:
            why = str(error)
        except httpx2.TransportError as error:
            why = f"{type(error).__name__}: {error}"
        if why and self._told is not None and not self._told.lost:
            self._told.lost = why

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _elsewhere(request: httpx2.Request, *, loopback: bool) -> httpx2.Request:
    """The request, bound to an address that a server may send this process to.

    Only an authentication goes elsewhere, to addresses that the server names. They must be public,
    or on this machine if the server is, and the connection is made to the address that was looked
    at.

    Raises:
        httpx2.ConnectError: The address is refused, or there is none.
    """
    host, port = request.url.host, request.url.port
    port = port or (443 if request.url.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"{host} has no address: {error}", request=request) from None
    addresses = [ipaddress.ip_address(each[4][0]) for each in found]
    here = loopback and all(each.is_loopback for each in addresses)
    if not here and (request.url.scheme != "https" or not all(map(_is_public, addresses))):
        raise httpx2.ConnectError(
            f"the server's authentication leads to {request.url.scheme}://{host}, which is not a "
            "public address with https:; it is not asked",
            request=request,
        )
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(addresses[0])),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_global) and not inner.is_multicast


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _same_origin(url: httpx2.URL, home: httpx2.URL) -> bool:
    return (url.scheme, url.host, _port(url)) == (home.scheme, home.host, _port(home))


def _port(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)

"""Transport: the HTTP client that a vendor's SDK uses; it refuses compressed responses.

The engine depends on no HTTP library. A sibling gives the one that its SDK uses, ``httpx`` or
``httpx2``, which have the same interface.
"""

from __future__ import annotations

import ssl
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, Final

from .body import Body, Form
from .connection import Refused, sent

CONNECT_SECONDS: Final = 10.0
"""The most seconds to connect."""
CONNECTIONS: Final = 1_000
"""The most connections at once: all Tasks of a planner share them, and a further call waits."""
KEPT_SECONDS: Final = 4.0
"""Seconds that an idle connection is kept: servers commonly close one after five seconds, and a
request that is sent at that moment is lost."""
CLOSING: Final = ("llama.cpp",)
"""Servers that promise to keep a connection, and close it after a streamed answer without notice.
The next request could be on its way already, and looks like one that the server has read."""
_opened: ContextVar[list[Any] | None] = ContextVar("_opened", default=None)


class Responses:
    """Collect the HTTP responses that are opened within the block, so that they can be closed.

    An SDK may pass the events of a stream through several generators. If one of them raises, the
    SDK loses the others, and the connection stays open with them.

    Args:
        opened: Collects them.
    """

    def __init__(self, opened: list[Any]) -> None:
        self._collected = opened

    def __enter__(self) -> None:
        self._token = _opened.set(self._collected)

    def __exit__(self, *_: object) -> None:
        _opened.reset(self._token)


def http_options(http: Any, timeout: float, *, named: bool = True) -> dict[str, Any]:
    """Return arguments of ``AsyncClient``: no redirects, and bodies as `Body` reads them.

    A compressed response may become a thousand times as long when it is decompressed. So the client
    asks for uncompressed responses, and refuses a compressed one.

    Args:
        http: The HTTP library, imported.
        timeout: Seconds in which the server sends no data, or accepts none.
        named: See `Form`.
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
        "event_hooks": {"response": [partial(_guard, _body(http), named)]},
    }


def http_client(http: Any, timeout: float, *, named: bool = True) -> Any:
    """Return a client with `http_options`; it sends a request again as `sent` describes."""
    return _client(http)(**http_options(http, timeout, named=named))


@cache
def _client(http: Any) -> type[Any]:
    lost = (http.NetworkError, http.RemoteProtocolError)

    class Client(http.AsyncClient):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            if not any(request.extensions.get("timeout", {}).values()):
                # An SDK without a timeout of its own would wait forever.
                request.extensions["timeout"] = self.timeout.as_dict()
            return await sent(request, partial(super().send, request, **options), lost)

    return Client


@cache
def _body(http: Any) -> type[Body]:
    return type("Body", (Body, http.AsyncByteStream), {})


@cache
def certificates(http: Any) -> ssl.SSLContext:
    """Return the trusted certificates. Loading them is the slowest part of making a client."""
    context: ssl.SSLContext = http.create_ssl_context()
    return context


async def _guard(body: type[Body], named: bool, response: Any) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused(
            f"the response is compressed ({encoding[:40]!a}), but the request asked for an "
            "uncompressed one; turn off compression on the server or its proxy"
        )
    answers = response.status_code < 300
    if answers:
        response.encoding = "utf-8"  # A server may say otherwise; `Form` refuses all else.
    has_events = response.headers.get("content-type", "").startswith("text/event-stream")
    form = Form(has_events, named=named) if answers else None
    response.stream = body(response.stream, form)
    if response.headers.get("server") in CLOSING and "transfer-encoding" in response.headers:
        response.stream.connection = response.extensions.get("network_stream")

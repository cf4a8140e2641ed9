"""Connection: sends a request again if its kept-alive connection was closed by the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TRIES: Final = 3
"""The most times that a request is sent: several kept-alive connections may have been closed."""


async def sent(
    request: Any, send: Callable[[], Awaitable[T]], lost: tuple[type[Exception], ...]
) -> T:
    """Send a request and return its answer; send it again if no server can have read it.

    Some servers close a connection after an answer without notice; llama.cpp's server does so after
    every stream. If the next request is on its way already, it fails on a kept-alive connection,
    before any answer began.

    Args:
        request: An httpx request; this function sets its ``trace`` extension.
        send: Sends the request.
        lost: The exceptions that ``send`` raises if the connection is lost.
    """
    tries = 0
    while True:
        tries += 1
        way = request.extensions["trace"] = _Way()
        try:
            return await send()
        except lost:
            if tries == _TRIES or not way.lapsed:
                raise


class _Way:
    """The progress of one request, by the trace events of httpcore's page on extensions."""

    def __init__(self) -> None:
        self.lapsed = True
        """True while the request uses a kept-alive connection and no answer began."""

    async def __call__(self, event: str, _: Any) -> None:
        if ".connect_" in event or event.endswith(".receive_response_headers.complete"):
            self.lapsed = False

"""Connection: sends a request again if its kept-alive connection was closed by the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TRIES: Final = 3
"""The most times that a request is sent: several kept-alive connections may have been closed."""
SENT_BEFORE: Final = "the request was sent before, on a kept-alive connection"
"""A note on an exception of `sent`: a server may have worked on the request."""
_DEEPEST: Final = 10
"""The most causes of an exception that are looked at."""


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
        except Exception as error:
            if tries > 1:
                error.add_note(SENT_BEFORE)
            if not isinstance(error, lost) or tries == _TRIES or not way.lapsed:
                raise


def unsent(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """True if the request of a failed call never left: no connection was made for it.

    Args:
        error: The exception of the call, or of the SDK around it.
        kinds: The HTTP library's exceptions for a connection that was not made.
    """
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if cause is None:
            return False
        if isinstance(cause, kinds):
            return SENT_BEFORE not in getattr(cause, "__notes__", ())
        cause = cause.__cause__
    return False


class _Way:
    """The progress of one request, by the trace events of httpcore's page on extensions."""

    def __init__(self) -> None:
        self.lapsed = True
        """True while the request uses a kept-alive connection and no answer began."""

    async def __call__(self, event: str, _: Any) -> None:
        if ".connect_" in event or event.endswith(".receive_response_headers.complete"):
            self.lapsed = False

"""Connection: a request that meets the closing of a connection that was kept is sent again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TRIES: Final = 3
"""How often a request is sent at most: several connections that were kept may have been closed."""


async def sent(
    request: Any, send: Callable[[], Awaitable[T]], lost: tuple[type[Exception], ...]
) -> T:
    """What sending a request gives, which is sent again if nobody can have read it.

    Some servers close a connection behind an answer without saying so, llama.cpp's behind every
    stream. A request that is on its way already meets that: it fails on a kept connection, before
    any answer began.

    Args:
        request: An httpx request; its ``trace`` extension is taken.
        send: Sends it.
        lost: What it raises where a connection is lost.
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
    """What becomes of one request, by the events that httpcore's page on extensions names."""

    def __init__(self) -> None:
        self.lapsed = True
        """Whether it went over a kept connection, and no answer began."""

    async def __call__(self, event: str, _: Any) -> None:
        if ".connect_" in event or event.endswith(".receive_response_headers.complete"):
            self.lapsed = False

"""Connection: whether a request met the closing of a connection that was kept."""

from __future__ import annotations

from typing import Any, Final

TRIES: Final = 3
"""How often a request is sent at most: several connections that were kept may have been closed."""


class Sent:
    """What becomes of one request: the ``trace`` extension of an httpx request.

    Some servers close a connection behind an answer without saying so, llama.cpp's behind every
    stream. A request that is on its way already meets that, and was not read by anybody: it is safe
    to send it again. The names of the events are those of httpcore, from its page on extensions.
    """

    def __init__(self) -> None:
        self.lapsed = True
        """Whether it failed, if it did, on a kept connection and before any answer began."""

    async def __call__(self, event: str, _: Any) -> None:
        if ".connect_" in event or event.endswith(".receive_response_headers.complete"):
            self.lapsed = False

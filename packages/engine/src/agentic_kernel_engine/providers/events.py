"""Events: the stream of an SDK that hides its HTTP response, so that it can be closed at once.

Such an SDK passes the events through several generators. Only the outer one can be closed, and the
garbage collector would close the others, and with them the connection, at some later time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Self


class Events:
    """An iterator of events that closes its connection.

    Args:
        pieces: The SDK's generator.
    """

    def __init__(self, pieces: Any) -> None:
        self.response: Any = None
        """The SDK's view of the HTTP response; None before the first event."""
        self._pieces = pieces

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        event = await anext(self._pieces)
        if self.response is None:
            self.response = getattr(event, "sdk_http_response", None)
        return event

    async def aclose(self) -> None:
        """Cancel the wait for the next event, which ends each generator from the inside."""
        waiting = asyncio.ensure_future(self._wait())
        await asyncio.sleep(0)  # It begins to wait.
        waiting.cancel()
        await asyncio.wait({waiting})
        await self._pieces.aclose()

    async def _wait(self) -> None:
        with suppress(Exception):
            async for _ in self._pieces:
                pass

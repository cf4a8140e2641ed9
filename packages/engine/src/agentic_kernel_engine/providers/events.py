"""Events: the stream of an SDK that hides its HTTP response, so that it can be closed at once.

Such an SDK passes the events through several generators. Only the outer one can be closed, and the
garbage collector would close the others, and with them the connection, at some later time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, Self

END: Final = object()


class Events:
    """An iterator of events that closes its connection.

    Args:
        pieces: The SDK's generator.
        first: Its first event; `END` if there is none.
    """

    def __init__(self, pieces: Any, first: Any) -> None:
        self.response = getattr(first, "sdk_http_response", None)
        self._pieces = pieces
        self._first = first

    @classmethod
    async def opened(cls, pieces: Any) -> Events:
        """Return the events of a generator that sends its request when its first event is taken."""
        return cls(pieces, await anext(pieces, END))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        event, self._first = self._first, None
        if event is END:
            raise StopAsyncIteration
        return await anext(self._pieces) if event is None else event

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

"""Events: the stream of an SDK that hides its HTTP response, so that it can be closed at once.

Such an SDK passes the events through several generators. Only the outer one can be closed, and the
garbage collector would close the others, and with them the connection, at some later time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Self

from .transport import OPENED

END: Final = object()


class Events:
    """An iterator of events that closes its connection.

    Args:
        pieces: The SDK's iterator.
        first: Its first event; `END` if there is none.
        response: The HTTP response; None if the client is the user's own.
    """

    def __init__(self, pieces: Any, first: Any, response: Any) -> None:
        self.response = response
        self._pieces = pieces
        self._first = first

    @classmethod
    async def opened(cls, pieces: Any) -> Events:
        """Return the events of an iterator whose request is sent when its first event is taken."""
        responses: list[Any] = []
        token = OPENED.set(responses)
        try:
            first = await anext(pieces, END)
        finally:
            OPENED.reset(token)
        return cls(pieces, first, responses[-1] if responses else None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        event, self._first = self._first, None
        if event is END:
            raise StopAsyncIteration
        return await anext(self._pieces) if event is None else event

    async def aclose(self) -> None:
        """Close the response, and end each generator."""
        with suppress(Exception):
            if self.response is not None:
                await self.response.aclose()
                async for _ in self._pieces:  # The body ends after what was received.
                    pass
        await self._pieces.aclose()

"""Incoming: the messages that a server sends, counted, so that it cannot flood this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import anyio

from .parts import TooManyParts

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""The longest message of a server, in bytes."""
MOST_MESSAGES: Final = 5_000
"""The most messages of one server within `SPAN`."""
SPAN: Final = 10.0
"""Seconds."""
_UNUSED: Final = frozenset({
    "notifications/message", "notifications/prompts/list_changed",
    "notifications/resources/list_changed", "notifications/resources/updated",
})  # fmt: skip
"""Messages that nothing here hears. They are counted and go no further."""


class TooLong(Exception):
    """A server sent a message over `MAX_MESSAGE`; a transport puts it into its stream."""

    def __init__(self) -> None:
        super().__init__(f"a message is longer than {MAX_MESSAGE:,} bytes")


class Flooded(Exception):
    """A server sent more messages than this process reads."""

    def __init__(self) -> None:
        super().__init__(f"it sent more than {MOST_MESSAGES:,} messages within {SPAN:g} seconds")


class Incoming:
    """The stream of a server's messages.

    Args:
        stream: The stream of the transport.
        ended: Called with the reason when no message can come any more.

    Raises:
        Flooded: More than `MOST_MESSAGES` came within `SPAN`; raised by `receive`.
        TooLong: A message is over `MAX_MESSAGE`.
        TooManyParts: A message has too many parts.
    """

    def __init__(self, stream: Any, ended: Callable[[Exception | None], None]) -> None:
        self._stream = stream
        self._ended = ended
        self._count = 0
        self._since = 0.0

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, if the stream keeps it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """The next message; `anyio.EndOfStream` if there is none."""
        try:
            while True:
                self._meter()
                item = await self._stream.receive()
                if isinstance(item, (TooLong, TooManyParts)):
                    raise item
                if getattr(getattr(item, "message", None), "method", "") not in _UNUSED:
                    return item
        except Exception as error:
            self._ended(None if isinstance(error, anyio.EndOfStream) else error)
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Incoming:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)

    def _meter(self) -> None:
        self._count += 1
        now = asyncio.get_running_loop().time()
        if now - self._since > SPAN:
            self._since, self._count = now, 0
        elif self._count > MOST_MESSAGES:
            raise Flooded

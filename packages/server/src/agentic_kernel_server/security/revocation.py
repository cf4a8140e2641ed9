"""Revocation: streams end when their key is revoked or expires.

A request is checked once, and a stream is one request that lasts for hours. Without this, the agent
of a revoked key would go on getting executions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .credentials import bearer
from .keys import Key, Keys

_log: Final = logging.getLogger(__name__)


class Revocable:
    """An ASGI middleware that remembers the key of each open stream.

    Args:
        app: The application.
        keys: The keys.
        clock: The time, as an aware datetime.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._app: Final = app
        self._keys: Final = keys
        self._clock: Final = clock
        self._open: dict[_Stream, Key] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not scope["path"].endswith("/stream"):
            await self._app(scope, receive, send)
            return
        text = bearer(HTTPConnection(scope))
        key = None if text is None else self._keys.find(text, self._clock())
        if key is None:  # The application refuses it.
            await self._app(scope, receive, send)
            return
        stream = _Stream(receive)
        self._open[stream] = key
        try:
            await self._app(scope, stream, send)
        finally:
            del self._open[stream]
            stream.close()

    def look(self) -> int:
        """End the streams whose key may not be used any more; the number of them."""
        self._keys.refresh()
        now = self._clock()
        ended = [each for each, key in self._open.items() if not self._keys.current(key, now)]
        for stream in ended:
            stream.end()
        if ended:
            _log.info("ended %d streams of keys that were revoked or have expired", len(ended))
        return len(ended)


class _Stream:
    """Receives the messages of one request; says that the reader has left when it is to end."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._waits: asyncio.Future[Message] | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Tell the application that the reader has left."""
        if not self._ended.done():
            self._ended.set_result(None)

    def close(self) -> None:
        """Wait for no message any more."""
        if self._waits is not None:
            self._waits.cancel()

    async def __call__(self) -> Any:
        """The next message."""
        if self._waits is None:
            self._waits = asyncio.ensure_future(self._receive())
        either: set[asyncio.Future[Any]] = {self._waits, self._ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._ended.done():
            return {"type": "http.disconnect"}
        message, self._waits = self._waits.result(), None
        return message

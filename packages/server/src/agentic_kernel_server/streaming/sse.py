"""EventStream: an ASGI response of server-sent events that can be cut.

A client of this wire opens a stream again at once if the server ends it cleanly, and after a pause
if the stream breaks. So a stream of an agent or a runner is cut: the application returns without a
last piece, and the server closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

BEAT: Final = b": beat\n\n"
_encode = msgspec.json.Encoder().encode


def ascii_json(value: Any) -> bytes:
    """A value as JSON in ASCII: readers may split lines at U+2028 and U+0085."""
    text = _encode(value)
    if text.isascii():
        return text
    return "".join(char if char < "\x80" else _escaped(char) for char in text.decode()).encode(
        "ascii"
    )


def _escaped(char: str) -> str:
    point = ord(char)
    if point < 0x10000:
        return f"\\u{point:04x}"
    point -= 0x10000
    return f"\\u{0xD800 + (point >> 10):04x}\\u{0xDC00 + (point & 0x3FF):04x}"


def frame(event: str, data: Any, id: int | None = None) -> bytes:
    """One event as bytes."""
    head = b"event: " + event.encode("ascii") + b"\n"
    if id is not None:
        head += b"id: %d\n" % id
    return head + b"data: " + ascii_json(data) + b"\n\n"


class Cut(Exception):
    """Raised by the frames of a stream to cut it."""


class EventStream:
    """An ASGI response that sends frames until they end, the reader leaves, or `Cut` is raised.

    Args:
        frames: Yields frames; ``BEAT`` keeps the stream open.
        held: A context that lasts as long as the stream.
    """

    def __init__(
        self, frames: AsyncIterator[bytes], held: AbstractContextManager[None] | None = None
    ) -> None:
        self._frames = frames
        self._held = held or nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        with self._held:
            sending = asyncio.ensure_future(self._send(send, headers))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in (sending, leaving):
                    each.cancel()
                await asyncio.wait({sending, leaving})
            if not sending.cancelled():
                fault = sending.exception()
                if fault is not None and not isinstance(fault, Cut):
                    raise fault

    async def _send(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async for each in self._frames:
                await send({"type": "http.response.body", "body": each, "more_body": True})
        finally:
            close = getattr(self._frames, "aclose", None)
            if close is not None:
                await close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Return when the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass

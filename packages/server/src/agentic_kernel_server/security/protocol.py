"""GuardedProtocol: uvicorn's HTTP/1.1 connection, with the time limits that it lacks.

    a request's head      must be whole `HEAD_SECONDS` after its first byte, or after the connection
                          was opened; else it gets 400 and the connection is
                          closed
    a full send buffer    must be read from within `STALLED_SECONDS`; else the connection is cut
    connections           have a limit in each process; a further one is cut at once
    a body in chunks      has at most `MOST_CHUNKS`; parsing each costs far more than its bytes

The parser is h11, which is strict about the framing of requests.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import Refused

HEAD_SECONDS: Final = 10.0
"""The longest that a request's head may take."""
HEAD: Final = 32 * 1024
"""The most bytes of a head that wait for the rest of it."""
STALLED_SECONDS: Final = 30.0
"""The longest that a reader may leave a full buffer unread."""


MOST_CHUNKS: Final = 20_000
"""The most chunks of one body: 210 bytes each in the largest body."""


class _Counting(h11.Connection):
    """h11's connection, which counts the chunks of a body."""

    _chunks = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if type(event) is h11.Data and event.chunk_start:
            self._chunks += 1
            if self._chunks > MOST_CHUNKS:
                raise h11.RemoteProtocolError("the body has too many chunks")
        elif type(event) is h11.Request:
            self._chunks = 0
        return event


class GuardedProtocol(H11Protocol):
    """One connection. The times are attributes of the class, so that a server may set its own."""

    head_seconds: float = HEAD_SECONDS
    stalled_seconds: float = STALLED_SECONDS
    most_connections: int = 10_000
    """The most connections of one process; a further one is closed at once."""

    _head_timer: asyncio.TimerHandle | None = None
    _stalled_timer: asyncio.TimerHandle | None = None

    def __init__(self, config: Any, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        self.conn = _Counting(h11.SERVER, config.h11_max_incomplete_event_size or HEAD)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget("_head_timer")
        self._forget("_stalled_timer")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._forget("_head_timer")

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, in the place of the application."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            started = cycle.response_started
            cycle.disconnected = True  # What the application sends is dropped from now on.
            cycle.message_event.set()
            if started:
                self.transport.abort()
                return
        self._refuse(msg.rstrip(".") + "; send HTTP/1.1 in the form of RFC 9112")

    def _refuse(self, why: str) -> None:
        """Write an error of the wire, and close the connection."""
        body = msgspec.json.encode(Refused("VALIDATION_ERROR", why).body)
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled_timer is None:
            self._stalled_timer = self.loop.call_later(self.stalled_seconds, self._cut)

    def resume_writing(self) -> None:
        self._forget("_stalled_timer")
        super().resume_writing()

    def cut(self) -> None:
        """Close the connection if an answer is on its way, such as a stream, which does not end."""
        cycle = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        # Called for each request before it runs; a WebSocket is never offered.
        return False

    def _watch_head(self) -> None:
        """Start the clock if the next request's head is awaited, and keep-alive has no clock.

        Blank lines before a head end the wait of keep-alive, too, so they must not end this one.
        """
        if self.conn.their_state is not h11.IDLE:
            self._forget("_head_timer")
        elif self._head_timer is None and self.timeout_keep_alive_task is None:
            self._await_head()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._late)

    def _late(self) -> None:
        self._head_timer = None
        if self.conn.trailing_data[0]:
            self._refuse(f"the head did not arrive within {self.head_seconds:g} s; send it faster")
        else:
            self.transport.close()  # It has sent nothing, so there is no request to answer.

    def _cut(self) -> None:
        self._stalled_timer = None
        # `close` would wait for ever until the reader takes the rest.
        self.transport.abort()

    def _forget(self, name: str) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)

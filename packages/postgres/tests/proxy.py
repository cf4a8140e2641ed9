"""A proxy on the loopback between a store and its server, which loses what it is told to lose."""

from __future__ import annotations

import asyncio
import re
import struct
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_READY = b"Z\0\0\0\5I"
"""The end of an answer of the server, outside a transaction."""
_WRITE = re.compile(rb"\b(write|step)_2\b")


class Cut(Enum):
    """The fate of the next write; the connection of its sender is closed in any case."""

    BEFORE = auto()
    """It does not reach the server."""
    AFTER = auto()
    """It reaches the server, and the answer does not come back."""
    LATE = auto()
    """It reaches the server when `Proxy.deliver` is called."""


class Proxy:
    """Passes on what clients and server say; knows where a request of the protocol ends.

    Args:
        place: Where the server is.
    """

    def __init__(self, place: str) -> None:
        given = conninfo_to_dict(place)
        self._upstream = str(given.get("host") or "localhost"), int(given.get("port") or 5432)
        self._given = place
        self._port = 0
        self._server: asyncio.Server | None = None
        self._lines: set[_Line] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.cut: Cut | None = None
        self.down = False
        """True if new connections are refused."""
        self.alone = True
        """True if only the connection of the write that is cut breaks; False for all of them."""
        self.writes = 0
        """The number of requests that were writes of Tasks."""
        self.requests = 0
        """The number of requests in all, each of them a round trip."""
        self.late: _Line | None = None

    @property
    def place(self) -> str:
        """The address of the server through this proxy."""
        return make_conninfo(
            self._given, host="127.0.0.1", port=self._port, sslmode="disable", gssencmode="disable"
        )

    async def lose(self) -> None:
        """Close all connections but that of a late write, and take no new ones."""
        self.down = self.alone = True
        for line in self._lines - {self.late}:
            line.close()

    async def deliver(self) -> bytes:
        """Have the late write arrive; returns what the server answers."""
        assert self.late is not None
        return await self.late.deliver()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.late = None
        await self.lose()
        await self._server.wait_closed()
        if self._pumps:
            await asyncio.wait(self._pumps)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.close()
            return
        host, port = self._upstream
        if host.startswith("/"):
            server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server = await asyncio.open_connection(host, port)
        line = _Line(self, (reader, writer), server)
        self._lines.add(line)
        for pump in (line.requests(), line.answers()):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Line:
    """One client's connection and its counterpart."""

    def __init__(self, proxy: Proxy, client: Streams, server: Streams) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._held = b""
        self._answer: asyncio.Future[bytes] | None = None
        """The answer of the server that was told to be lost."""
        self._writing: set[bytes] = set()
        """The prepared statements that write."""

    def close(self) -> None:
        """Close both ends."""
        self._to_client.close()
        self._to_server.close()

    async def requests(self) -> None:
        """From the client: whole requests, each sent on or lost."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            self._to_server.write(await self._startup())
            while True:
                request, writes = await self._request()
                self._proxy.requests += 1
                self._proxy.writes += writes
                cut = self._proxy.cut if writes else None
                if cut is not None:
                    self._proxy.cut = None
                    self._proxy.late = self if cut is Cut.LATE else None
                    if not self._proxy.alone and cut is not Cut.AFTER:
                        await self._proxy.lose()
                    if cut is not Cut.BEFORE:
                        self._answer = asyncio.get_running_loop().create_future()
                    if cut is Cut.LATE:
                        self._held = request
                        self._to_client.close()
                        return
                    if cut is Cut.BEFORE:
                        break
                self._to_server.write(request)
                if cut is Cut.AFTER:
                    return
        self.close()

    async def answers(self) -> None:
        """From the server: passed on, or kept until it has answered in full."""
        kept = b""
        with suppress(ConnectionError):
            while some := await self._from_server.read(65536):
                if self._answer is None:
                    self._to_client.write(some)
                    continue
                kept += some
                if kept.endswith(_READY):
                    break
        if self._answer is not None:
            self._answer.set_result(kept)
            if not self._proxy.alone:
                await self._proxy.lose()
        self.close()

    async def deliver(self) -> bytes:
        """Send what was held; returns the whole answer."""
        assert self._answer is not None
        self._to_server.write(self._held)
        return await self._answer

    async def _startup(self) -> bytes:
        length = await self._from_client.readexactly(4)
        return length + await self._from_client.readexactly(_number(length) - 4)

    async def _request(self) -> tuple[bytes, bool]:
        """All messages up to the one that asks for an answer, and whether they write Tasks."""
        request, writes = b"", False
        while True:
            head = await self._from_client.readexactly(5)
            body = await self._from_client.readexactly(_number(head[1:]) - 4)
            request += head + body
            kind = head[:1]
            if kind == b"P":  # Parse
                name, text = body.split(b"\0")[:2]
                self._writing.discard(name)
                if _WRITE.search(text):
                    self._writing.add(name)
            elif kind == b"B":  # Bind
                writes = writes or body.split(b"\0")[1] in self._writing
            elif kind in b"SQXp":  # Sync, Query, Terminate, an answer to a challenge
                return request, writes


def _number(data: bytes) -> int:
    number: int = struct.unpack("!i", data)[0]
    return number

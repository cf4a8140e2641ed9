"""Raw connections for the tests of bad input: bytes out, bytes in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

PATIENCE = 20.0
"""Seconds after which an answer that does not come fails the test."""


class Wire:
    """One connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes | str) -> None:
        """Send bytes; a server that has closed the connection is no fault of the test."""
        self.writer.write(data.encode("latin-1") if isinstance(data, str) else data)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: its status, its headers and its body."""
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, _, rest = head.partition("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (each.partition(":") for each in rest.split("\r\n") if each)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            return int(line.split()[1]), headers, body

    async def rest(self) -> bytes:
        """All bytes until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[Wire]:
    """A connection to the server at an address."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    wire = Wire(reader, writer)
    try:
        yield wire
    finally:
        await wire.close()


def head(method: str, path: str, *lines: str) -> str:
    """The head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""])


def post(path: str, body: Any, *lines: str) -> bytes:
    """A whole request with a JSON body."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = ("Content-Type: application/json", f"Content-Length: {len(text)}", *lines)
    return head("POST", path, *given).encode("latin-1") + text

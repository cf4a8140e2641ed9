"""A TCP port before several servers: each new connection goes to the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Balancer:
    """The connections through one port.

    Args:
        urls: The servers, in the order in which connections go to them.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.count = 0
        """The number of connections so far."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until one side ends it."""
        target = urlsplit(self.urls[self.count % len(self.urls)])
        self.count += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
        except OSError:
            writer.close()
            return
        ways = {
            asyncio.ensure_future(_pass_on(reader, far_writer)),
            asyncio.ensure_future(_pass_on(far_reader, writer)),
        }
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        writer.close()
        far_writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass


@asynccontextmanager
async def balanced(*urls: str) -> AsyncIterator[str]:
    """The address of a balancer before these servers."""
    balancer = Balancer(urls)
    listening = await asyncio.start_server(balancer.connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()

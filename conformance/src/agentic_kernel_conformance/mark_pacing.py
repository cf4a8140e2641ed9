"""A server that answers every mark after a short time, for contracts without worker processes."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from functools import cache
from typing import Final

from .mark import ADDRESS

PACE: Final = 0.01
"""Seconds after which a mark is answered."""
_DONE: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@cache
def paced() -> str:
    """Start the server once in this process, name it in the environment, return its address."""
    begun = threading.Event()
    address: list[str] = []

    async def serve() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        address.append(f"http://127.0.0.1:{port}/{secrets.token_hex(8)}")
        begun.set()
        await server.serve_forever()

    # A daemon: it serves until the process ends.
    threading.Thread(target=lambda: asyncio.run(serve()), name="marks", daemon=True).start()
    begun.wait()
    os.environ[ADDRESS] = address[0]
    return address[0]


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(PACE)
        writer.write(_DONE)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # The work was stopped, so its mark is not wanted any more.
    finally:
        writer.close()

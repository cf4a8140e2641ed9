"""Servers of this machine for the tests of HTTPDriver, and drivers that ask them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trustme

from agentic_kernel_guard import DriverCall, Endpoint, HTTPDriver

TLS: Final = ssl.create_default_context()
"""For drivers whose test is not about TLS: one context, because each costs milliseconds."""


class Server:
    """Answers each request with the next bytes of its script, and remembers what it was sent."""

    def __init__(self, *script: bytes | None) -> None:
        self.script = list(script)
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            length = [line for line in head.split("\r\n") if line.lower().startswith("content-l")]
            size = int(length[0].partition(":")[2]) if length else 0
            self.bodies.append(await reader.readexactly(size))
            self.asked.set()
            answer = self.script.pop(0) if self.script else b""
            if answer is None:
                await reader.read()  # It says nothing until the client leaves.
            else:
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone.set()
            writer.close()


@asynccontextmanager
async def served(*script: bytes | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Any]:
    server = Server(*script)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=tls)
    async with listening:
        yield server, f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


def answer(
    body: Any = None, status: str = "200 OK", kind: str = "application/json", **more: str
) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def to(place: str, path: str = "/x", method: str = "GET", /, **more: Any) -> HTTPDriver:
    given = {key: more.pop(key) for key in ("query", "headers") if key in more}
    endpoint = Endpoint(method, f"http://{place}{path}", **given)
    return HTTPDriver({"op": endpoint}, loopback=[place], **{"tls": TLS, **more})


def asking(timeout: float = 10.0, /, **arguments: Any) -> DriverCall:
    return DriverCall("api/x", "op", arguments, "k_1", timeout=timeout)


def server_tls(authority: trustme.CA, *hosts: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*hosts).configure_cert(context)
    return context


def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context

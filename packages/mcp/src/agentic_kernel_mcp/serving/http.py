"""HTTP: many clients over streamable HTTP; only those of this machine without a credential."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import whole

from ..parts import Parts, TooManyParts
from .server import ToolServer

PATH: Final = "/mcp"
MAX_BODY: Final = 4 * 1024 * 1024
"""The longest message of a client, in bytes."""
MOST_SESSIONS: Final = 256
"""The most sessions at once."""
MOST_REQUESTS: Final = 512
"""The most requests at once, those that only listen included."""
IDLE: Final = 30 * 60.0
"""Seconds after which a session without a request ends."""
SLOWEST: Final = 30.0
"""Seconds in which the head of a request must come, and again its body."""
SHORTEST: Final = 32
"""The fewest characters of a credential."""
_LEAVING: Final = 3
"""Seconds that requests may take to end with the server."""
_LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_log = logging.getLogger(__package__)


@dataclass(frozen=True)
class Listener:
    """The address of a server, and the clients that it lets in.

    Without a credential it listens on this machine only, for each program of this machine.
    Requests whose ``Host`` or ``Origin`` is another one are refused, so that a page in a browser
    cannot reach the server under a name of its own (DNS rebinding).

    Raises:
        InvalidValue: The address is none, is not of this machine and has no credential, or the
            credential is too short.
    """

    host: str = "127.0.0.1"
    """An address, or ``localhost``."""
    port: int = 0
    """The port; 0 for any that is free."""
    credential: str = field(default="", repr=False)
    """The bearer token that each request must have; empty for none. It is for the way to this
    server, and is not passed on."""
    names: tuple[str, ...] = ()
    """Other names and ports that clients use in ``Host``, e.g. ``tools.example:443``."""

    def __post_init__(self) -> None:
        whole(self.port, "port", 0)
        if self.port > 65_535:
            raise InvalidValue("port", f"is {self.port}; use 0 to 65,535")
        local = _local(self.host)
        if self.credential and (
            len(self.credential) < SHORTEST
            or not self.credential.isascii()
            or not self.credential.isprintable()
            or " " in self.credential
        ):
            raise InvalidValue(
                "credential", f"must be at least {SHORTEST} visible ASCII characters"
            )
        if not local and not self.credential:
            raise InvalidValue(
                "host", f"{self.host} is reached from other machines; give a credential, too"
            )

    def security(self, port: int) -> TransportSecuritySettings:
        """The values of ``Host`` and ``Origin`` that are accepted."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        hosts = [f"{name}:{port}" for name in (_LOCAL if _local(self.host) else (own,))]
        hosts += self.names
        origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
        return TransportSecuritySettings(
            enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
        )


@asynccontextmanager
async def serve_http(server: ToolServer, listener: Listener) -> AsyncIterator[str]:
    """Serve clients over streamable HTTP while the block runs.

    At the end of the block new requests are refused, those that run have a few seconds, and are
    then cancelled.

    Yields:
        The address for clients.

    Raises:
        OSError: The address cannot be listened on.
    """
    with _bound(listener) as bound:
        port = bound.getsockname()[1]
        shown = f"[{listener.host}]" if ":" in listener.host else listener.host
        app: Any = server.protocol.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY,
            session_idle_timeout=IDLE,
            max_sessions=MOST_SESSIONS,
            transport_security=listener.security(port),
        )
        app = _Small(app)
        if listener.credential:
            app = _Credential(app, listener.credential)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="on",
            limit_concurrency=MOST_REQUESTS, timeout_graceful_shutdown=_LEAVING,
        )  # fmt: skip
        running = _Uvicorn(config)
        serving = asyncio.create_task(running.serve([bound]))
        try:
            await running.begun(serving)
            yield f"http://{shown}:{port}{PATH}"
        finally:
            running.should_exit = True
            await asyncio.wait([serving], timeout=2 * _LEAVING)
            if not serving.done():
                _log.warning("the server did not end in time; it is cancelled")
                serving.cancel()
                await asyncio.wait([serving])


class _Uvicorn(uvicorn.Server):
    """The server without handlers of signals: those are the program's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._begun = asyncio.Event()
        self._idle: dict[Any, float] = {}
        """The connections without a request, and since when."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        """Close the connections on which no request came in time; else they take all places."""
        now = asyncio.get_running_loop().time()
        idle = {
            each
            for each in self.server_state.connections
            if (cycle := getattr(each, "cycle", None)) is None or cycle.response_complete
        }
        self._idle = {each: self._idle.get(each, now) for each in idle}
        for each, since in self._idle.items():
            if now - since > SLOWEST and each.transport is not None:
                each.transport.close()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._begun.set()

    async def begun(self, serving: asyncio.Task[None]) -> None:
        """Wait until it listens."""
        begun = asyncio.create_task(self._begun.wait())
        try:
            await asyncio.wait([begun, serving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if not self.started:
            raise OSError("the server did not start; its log says why")


class _Small:
    """Refuses a request whose message has more parts than are read, or does not come in time."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parts, held, length, refused = Parts(), list[Any](), 0, 0
        try:
            async with asyncio.timeout(SLOWEST):
                while scope["method"] == "POST" and length <= MAX_BODY:
                    message = await receive()
                    held.append(message)
                    length += len(message.get("body", b""))
                    parts.feed(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        except TooManyParts:
            refused = 413
        except TimeoutError:
            refused = 408
        if refused:
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": refused, "headers": headers})
            await send({"type": "http.response.body"})
            return

        async def rest() -> Any:
            return held.pop(0) if held else await receive()

        await self._app(scope, rest, send)


class _Credential:
    """Refuses each request that has not the bearer token."""

    def __init__(self, app: Any, credential: str) -> None:
        self._app = app
        self._wanted = f"Bearer {credential}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not self._known(scope["headers"]):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body"})
            return
        await self._app(scope, receive, send)

    def _known(self, headers: Collection[tuple[bytes, bytes]]) -> bool:
        given = [value for name, value in headers if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)


def _local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InvalidValue(
            "host", f"{host[:200]!r} is no address; use one such as 127.0.0.1"
        ) from None


@contextmanager
def _bound(listener: Listener) -> Iterator[socket.socket]:
    host = "127.0.0.1" if listener.host == "localhost" else listener.host
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, listener.port))
        bound.set_inheritable(False)
        yield bound

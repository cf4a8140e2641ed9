"""Servers over HTTP that fail, are started anew, or lead this process elsewhere."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from agentic_kernel_mcp import HTTPServer, MCPTools, Unavailable

from .conftest import call, messages, run

Answer = Callable[["Handler", dict[str, Any]], None]
TOOLS = [
    {"name": "write", "inputSchema": {"type": "object"}},
    {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


class Handler(BaseHTTPRequestHandler):
    """A server of the protocol of 2025 that answers calls as a test says."""

    protocol_version = "HTTP/1.1"
    answer: Answer
    met: list[str]
    sessions: list[str]
    sockets: list[socket.socket]

    def setup(self) -> None:
        super().setup()
        self.sockets.append(self.connection)

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.met.append(f"POST {self.path} {message.get('method')}")
        match message.get("method"):
            case "initialize":
                self.sessions.append(f"s{len(self.sessions)}")
                result: Any = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "h", "version": "1"},
                }
                self.told(message, result, {"mcp-session-id": self.sessions[-1]})
            case "tools/list":
                self.told(message, {"tools": TOOLS})
            case "tools/call" if self.headers["mcp-session-id"] not in self.sessions:
                self.raw(404, b"")
            case "tools/call":
                type(self).answer(self, message)
            case "server/discover":
                self.raw(400, b"")
            case _:
                self.raw(202, b"")

    def do_GET(self) -> None:
        self.met.append(f"GET {self.headers['host']}{self.path}")
        self.raw(405, b"")

    def do_DELETE(self) -> None:
        self.raw(200, b"")

    def told(
        self, message: dict[str, Any], result: Any, headers: dict[str, str] | None = None
    ) -> None:
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.raw(200, text.encode(), headers)

    def locked(self, headers: dict[str, str]) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.raw(401, b"", headers)

    def raw(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int = -1
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        self.wfile.write(body)


def done(handler: Handler, message: dict[str, Any]) -> None:
    handler.told(message, {"content": [{"type": "text", "text": "done"}]})


@contextmanager
def serving(answer: Answer = done, port: int = 0) -> Iterator[tuple[str, type[Handler]]]:
    made: Any = type(
        "Made", (Handler,), {"answer": answer, "met": [], "sessions": [], "sockets": []}
    )
    server = ThreadingHTTPServer(("127.0.0.1", port), made)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for each in made.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def torn(handler: Handler, message: dict[str, Any]) -> None:
    handler.raw(200, b'{"jsonrpc"', length=1_000)
    handler.close_connection = True
    handler.connection.close()


def packed(handler: Handler, message: dict[str, Any]) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    handler.raw(200, bomb, {"Content-Encoding": "gzip"})


def crowd(handler: Handler, message: dict[str, Any]) -> None:
    handler.told(message, {"content": [], "structuredContent": {"x": [{}] * 100_001}})


def endless(handler: Handler, message: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    while True:
        try:
            handler.wfile.write(b" " * 65_536)
        except OSError:
            return


@pytest.mark.parametrize(
    ("answer", "write", "read"),
    [
        (torn, "indeterminate", "mcp/unavailable"),
        (packed, "indeterminate", "mcp/unavailable"),
        (endless, "indeterminate", "mcp/unavailable"),
        (crowd, "indeterminate", "mcp/unavailable"),
        (lambda at, _: at.raw(502, b"bad gateway"), "indeterminate", "mcp/unavailable"),
        (lambda at, _: at.raw(429, b""), "mcp/refused", "mcp/refused"),
        (lambda at, _: at.raw(403, b""), "mcp/refused", "mcp/refused"),
    ],
    ids=["torn", "packed", "endless", "crowd", "gateway", "too many", "forbidden"],
)
async def test_an_effect_is_unknown_only_where_it_may_have_happened(
    answer: Answer, write: str, read: str
) -> None:
    with serving(answer) as (url, made):
        async with MCPTools({"it": HTTPServer(url)}) as tools:
            assert await run(tools, call("write")) == [write]
            assert await run(tools, call("read")) == [read]
            made.answer = done
            assert await run(tools, call("write")) == ["done"], "the session goes on"
        assert made.sessions == ["s0"]


async def test_a_forgotten_session_is_begun_again_and_costs_no_call() -> None:
    def forgetful(at: Handler, message: dict[str, Any]) -> None:
        if at.headers["mcp-session-id"] == "s0":
            at.raw(404, b"")
        else:
            done(at, message)

    with serving(forgetful) as (url, made):
        async with MCPTools({"it": HTTPServer(url)}) as tools:
            assert await run(tools, call("write")) == ["done"]
        assert made.sessions == ["s0", "s1"]


async def test_two_calls_of_a_forgotten_session_begin_one_new_session() -> None:
    met = threading.Barrier(2)

    def forgetful(at: Handler, message: dict[str, Any]) -> None:
        if at.headers["mcp-session-id"] == "s0":
            met.wait(60)
            at.raw(404, b"")
        else:
            done(at, message)

    with serving(forgetful) as (url, made):
        async with MCPTools({"it": HTTPServer(url)}) as tools:
            assert await run(tools, [call("read"), call("read")]) == ["done", "done"]
        assert made.sessions == ["s0", "s1"]


async def test_a_server_that_is_started_anew_is_found_again() -> None:
    with serving() as (url, _):
        tools = MCPTools({"it": HTTPServer(url)})
        await tools.open()
        assert await run(tools, call("write")) == ["done"]
    try:
        assert await run(tools, call("write")) == ["mcp/unavailable"], "it was not sent"
        with serving(done, int(url.rpartition(":")[2].partition("/")[0])) as (_, made):
            made.sessions.append("another")  # So that no session has the name of an earlier one.
            assert await run(tools, call("write")) == ["done"]
    finally:
        await tools.close()


async def test_a_server_that_is_not_there_is_named() -> None:
    with serving() as (url, _):
        pass
    with pytest.raises(Unavailable, match="MCP server it: ConnectError"):
        await MCPTools({"it": HTTPServer(url)}).open()


async def test_credentials_that_are_not_accepted_are_said_so() -> None:
    with serving() as (url, made):
        made.do_POST = lambda at: at.locked({})  # type: ignore[method-assign,assignment]
        with pytest.raises(Unavailable, match="401"):
            await MCPTools({"it": HTTPServer(url)}).open()


class Nothing:
    """No tokens are kept."""

    async def get_tokens(self) -> None: ...
    async def set_tokens(self, tokens: object) -> None: ...
    async def get_client_info(self) -> None: ...
    async def set_client_info(self, client_info: object) -> None: ...


def oauth(url: str) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl("http://localhost:1/back")])

    async def never(address: str) -> None:
        raise AssertionError(f"a person was sent to {address}")

    return OAuthClientProvider(url, metadata, Nothing(), never, None)


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://2852039166/x",
        "http://0251.0376.0251.0376/x",
        "http://example.com/x",
        "https://0.0.0.0/x",
    ],
)
async def test_an_authentication_is_not_led_to_a_private_address(address: str) -> None:
    with serving() as (url, made):

        def locked(at: Handler) -> None:
            hint = f'Bearer resource_metadata="{address}"'
            at.locked({"WWW-Authenticate": hint})

        made.do_POST = locked  # type: ignore[method-assign,assignment]
        server = HTTPServer(url, {"X-Key": "s3cret"}, auth=oauth(url))
        with pytest.raises(Unavailable, match=r"not a public address|has no address|Invalid IPv4"):
            await MCPTools({"it": server}, start_timeout=20).open()


async def test_a_token_for_another_audience_is_not_asked_for() -> None:
    with serving() as (url, made), serving() as (other, elsewhere):

        def locked(at: Handler) -> None:
            at.locked({"WWW-Authenticate": f'Bearer resource_metadata="{other}"'})

        def described(at: Handler) -> None:
            at.met.append(str(dict(at.headers)))
            about = {"resource": "https://bank.example.com", "authorization_servers": [other]}
            at.raw(200, json.dumps(about).encode())

        made.do_POST = locked  # type: ignore[method-assign,assignment]
        elsewhere.do_GET = described  # type: ignore[method-assign,assignment]
        server = HTTPServer(url, {"X-Key": "s3cret"}, auth=oauth(url))
        with pytest.raises(Unavailable, match="does not match"):
            await MCPTools({"it": server}).open()
        assert len(elsewhere.met) == 1
        assert "s3cret" not in elsewhere.met[0]


async def test_a_redirect_elsewhere_is_not_followed() -> None:
    with (
        serving() as (other, elsewhere),
        serving(lambda at, _: at.raw(307, b"", {"Location": other})) as (url, _),
    ):
        async with MCPTools({"it": HTTPServer(url, {"X-Key": "s3cret"})}) as tools:
            (message,) = await messages(tools, call("write"))
        assert "not followed" in message
        assert elsewhere.met == []


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (url, _), serving() as (proxy, met):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("ALL_PROXY", proxy)
        async with MCPTools({"it": HTTPServer(url)}) as tools:
            assert await run(tools, call("write")) == ["done"]
        assert met.met == []

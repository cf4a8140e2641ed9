"""Tools of a Loop as an MCP server, used by the SDK's own client over pipes and over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp
import mcp_types as types
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.seams import Tools
from agentic_kernel_mcp.serving import Listener, ToolServer, http, serve_http
from agentic_kernel_mcp.serving.http import MAX_BODY
from agentic_kernel_mcp.serving.progress import MOST, Reports
from agentic_kernel_mcp.serving.stdio import MAX_LINE
from agentic_kernel_mcp.serving.stdio import _told as told

from .serving_worker import made_for

WORKER = str(Path(__file__).with_name("serving_worker.py"))
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    },
}  # fmt: skip
HEAD = b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\ncontent-type: application/json\r\n"
TYPES = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@contextmanager
def worker(*more: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, WORKER, *more],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


@contextmanager
def over_http(*more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with worker("--http", *more) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:")
        yield url, process


@asynccontextmanager
async def client(
    way: str, log: Path, *, most_calls: int = 8, timeout: float = 60.0, **rest: Any
) -> AsyncIterator[mcp.Client]:
    """The SDK's client: over HTTP, with the protocol of 2026 or that of 2025, or over pipes."""
    wire, mode = way.split()
    options: Any = {"mode": mode, "read_timeout_seconds": 30.0, **rest}
    if wire == "pipes":
        started = StdioServerParameters(command=sys.executable, args=[WORKER, "--log", str(log)])
        async with mcp.Client(started, **options) as made:
            yield made
        return
    server = ToolServer(
        made_for(log), name="tools", principal=Principal("ann"), most_calls=most_calls,
        timeout=timeout,
    )  # fmt: skip
    async with (
        serve_http(server, Listener()) as url,
        mcp.Client(streamable_http_client(url), **options) as made,
    ):
        yield made


SLOW = pytest.mark.torture
"""A process each."""


@pytest.fixture(
    params=[
        "http auto", "http legacy", pytest.param("pipes auto", marks=SLOW),
        pytest.param("pipes legacy", marks=SLOW),
    ]
)  # fmt: skip
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def until(log: Path, line: str) -> None:
    async with asyncio.timeout(60):
        while line not in lines(log):
            await asyncio.sleep(0.01)


def text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def test_tools_are_listed_and_called(way: str, log: Path) -> None:
    async with client(way, log) as made:
        assert (made.protocol_version >= "2026") == way.endswith("auto")
        listed = {each.name: each for each in (await made.list_tools()).tools}
        hints = listed["add"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
        assert listed["ask"].annotations is not None
        assert listed["ask"].annotations.destructive_hint is True
        assert listed["add"].description == "Add two numbers."
        added = await made.call_tool("add", {"a": 2, "b": 3})
        assert added.structured_content == json.loads(text(added)) == {"sum": 5}
        assert text(await made.call_tool("say", {"text": "hé\n"})) == "hé\n"
        words, image = (await made.call_tool("picture")).content
        assert isinstance(words, types.TextContent)
        assert isinstance(image, types.ImageContent)
        assert (words.text, image.data, image.mime_type) == ('{"n": 1}', "aGk=", "image/png")


async def test_what_goes_wrong_is_said(way: str, log: Path) -> None:
    async with client(way, log) as made:
        told = await made.call_tool("fails", {"how": "told"})
        assert told.is_error
        assert text(told) == "unknown_customer: there is no such customer"
        wrong = await made.call_tool("add", {"a": "x", "b": 1})
        assert wrong.is_error
        assert text(wrong).startswith("schema_validation_failed: ")
        assert (await made.call_tool("fails", {"how": "bug"})).is_error
        with pytest.raises(mcp.MCPError, match="no tool 'nothing'") as unknown:
            await made.call_tool("nothing")
        assert unknown.value.code == types.INVALID_PARAMS
        assert text(await made.call_tool("say", {"text": "on"})) == "on"


async def test_progress_reaches_the_client_in_order(way: str, log: Path) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with client(way, log) as made:
        assert text(await made.call_tool("steps", progress_callback=hear)) == "done"
        assert text(await made.call_tool("steps")) == "done"
    assert heard == [
        (0, 3, "step 0"), (1, 3, "step 1"), (2, 3, "step 2"), (3, None, "words"),
        (4, None, '{"anything": 1}'),
    ]  # fmt: skip


async def test_a_call_is_cancelled_and_the_server_goes_on(way: str, log: Path) -> None:
    async with client(way, log) as made:
        call = asyncio.create_task(made.call_tool("hang"))
        await until(log, "hangs")
        call.cancel()
        await asyncio.wait([call])
        await until(log, "cancelled")
        assert text(await made.call_tool("say", {"text": "on"})) == "on"


async def test_a_tool_asks_the_user_of_the_client(way: str, log: Path) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        if len(asked) == 4:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"answer": f"answer {len(asked)}"})

    async with client(way, log, elicitation_callback=answer) as made:
        assert text(await made.call_tool("ask")) == "answer 1: answer 2"
        assert text(await made.call_tool("ask")) == "answer 3: decline"
    assert asked == ["Who?", "Why?"] * 2
    assert lines(log)[0] == "asked answer 1 answer 2 for ann"


async def test_a_client_that_cannot_ask_gets_an_error(way: str, log: Path) -> None:
    async with client(way, log) as made:
        said = await made.call_tool("ask")
    assert said.is_error
    assert "no person can be asked here" in text(said)
    assert lines(log) == []


async def test_calls_have_a_time_and_a_place_in_line(log: Path) -> None:
    async with client("http auto", log, timeout=0.5, most_calls=1) as made:
        first, second = await asyncio.gather(made.call_tool("hang"), made.call_tool("hang"))
        for each in (first, second):
            assert text(each).startswith("timeout: did not end within 0.5 seconds")
        assert text(await made.call_tool("say", {"text": "on"})) == "on"
    assert lines(log) in (["hangs", "cancelled"], ["hangs", "cancelled"] * 2), "never two at once"


CALL = {
    "jsonrpc": "2.0", "id": 2, "method": "tools/call",
    "params": {"name": "add", "arguments": {"a": 2, "b": 3}},
}  # fmt: skip


def test_over_pipes_only_the_protocol_is_printed_and_the_end_of_input_ends_it(log: Path) -> None:
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    with worker("--log", str(log)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for each in (HELLO, ready, CALL):
            process.stdin.write(json.dumps(each).encode() + b"\n\n")
        process.stdin.write(b"{nonsense\n")
        process.stdin.flush()
        answers = {}
        while 2 not in answers:
            answer = json.loads(process.stdout.readline())
            answers[answer["id"]] = answer
        process.stdin.close()
        assert process.wait(60) == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "tools"
    assert answers[2]["result"]["structuredContent"] == {"sum": 5}


def test_a_signal_ends_the_server_while_its_client_is_silent(log: Path) -> None:
    with worker("--log", str(log)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert b"result" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with over_http("--log", str(log)) as (url, process):
        with httpx.stream("POST", url, json=HELLO, headers=TYPES) as opened:
            session = {"mcp-session-id": opened.headers["mcp-session-id"], **TYPES}
            opened.read()
        with httpx.stream("GET", url, headers=session) as listening:
            assert listening.status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


async def test_streams_that_break_at_the_end_are_an_end_and_nothing_else_is_hidden() -> None:
    broken = BaseExceptionGroup("sdk", [anyio.BrokenResourceError()])
    told(BaseExceptionGroup("ours", [broken]))
    with pytest.raises(OSError, match="gone"):
        told(BaseExceptionGroup("ours", [broken, BaseExceptionGroup("", [OSError("gone")])]))

    async def ends() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told(broken)

    ending = asyncio.create_task(ends())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending


def test_a_message_that_is_too_long_ends_the_connection(log: Path) -> None:
    with worker("--log", str(log)) as process:
        _, said = process.communicate(b"x" * (MAX_LINE + 100_000), timeout=60)
    assert process.returncode == 1
    assert b"more than 4,194,304 bytes" in said


def test_other_hosts_origins_and_programs_are_refused(log: Path) -> None:
    credential = "c" * 32
    with over_http("--log", str(log), "--credential", credential) as (url, _):
        known = {"authorization": f"Bearer {credential}", **TYPES}
        port = url.split(":")[2].split("/")[0]

        def status(**more: str) -> int:
            headers = {**known, **{name.replace("_", "-"): value for name, value in more.items()}}
            return httpx.post(url, json=HELLO, headers=headers).status_code

        assert status() == 200
        assert status(host=f"localhost:{port}", origin=f"http://127.0.0.1:{port}") == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port}9"):
            assert status(host=host) == 421
        for origin in ("http://evil.example", "null", f"http://evil.example:{port}"):
            assert status(origin=origin) == 403
        for wrong in ("", "Bearer", f"Bearer {credential}x", f"bearer {credential}", "Basic x"):
            assert status(authorization=wrong) == 401
        modern = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/list"}
        assert status(**modern, host="evil.example") == 421
        assert httpx.get(url, headers=TYPES).status_code == 401
        big = httpx.post(url, content=b" " * (MAX_BODY + 1), headers=known)
        assert big.status_code == 413
        crowd = httpx.post(url, content=b'{"x":[' + b"[]," * 100_001, headers=known)
        assert crowd.status_code == 413


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0"}, "other machines"),
        ({"host": "::"}, "other machines"),
        ({"host": "192.168.1.2"}, "other machines"),
        ({"host": "tools.example"}, "no address"),
        ({"credential": "short"}, "32 visible"),
        ({"credential": "c" * 31 + "é"}, "32 visible"),
        ({"port": 65_536}, "0 to 65,535"),
    ],
)
def test_a_listener_without_a_credential_is_for_this_machine(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidValue, match=says):
        Listener(**given)
    assert "c" * 32 not in repr(Listener("0.0.0.0", credential="c" * 32))


def test_a_server_has_a_name_and_bounds() -> None:
    given: dict[str, Any]
    for given in ({"name": ""}, {"timeout": 0}, {"most_calls": 0}, {"principal": "ann"}):
        with pytest.raises(InvalidValue):
            ToolServer(Tools(), **given)


async def test_reports_that_wait_are_bounded_and_grow() -> None:
    sent: list[Any] = []

    async def send(*said: Any) -> None:
        sent.append(said)

    reports = Reports(send)
    for number in range(3 * MOST):
        reports.take({"progress": number})
    reports.take({"progress": 5, "message": "back"})
    reports.take({"progress": float("nan"), "message": "x" * 2_000})
    reports.end()
    await reports.send()
    assert len(sent) <= MOST
    assert [each[0] for each in sent] == sorted({each[0] for each in sent})
    assert sent[0][0] > 0


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HT", HEAD, HEAD + b"\r\n{"], ids=ascii)
async def test_a_client_that_sends_slowly_takes_no_place(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SLOWEST", 0.05)
    server = ToolServer(Tools(), name="slow")
    async with serve_http(server, Listener()) as url:
        port = int(url.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        async with asyncio.timeout(60):
            said = await reader.read()
        assert said == b"" or said.startswith(b"HTTP/1.1 408")
        writer.close()

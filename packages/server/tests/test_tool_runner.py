"""The engine's tools as a runner of a real server: failures, broken streams, a stop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import rebuno

from agentic_kernel import InvalidValue
from agentic_kernel_engine import MemoryStore
from agentic_kernel_engine.seams import Tool, ToolContext, ToolError, Tools, tool
from agentic_kernel_server import Server
from agentic_kernel_server.security import KeyCredentials, KeyFile, Keys
from agentic_kernel_server.tool_runner import RunnerRefused, ToolRunner

from .clients import agent, events_of
from .serving import QUICK, serving


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentic_kernel_server.tool_runner.FIRST_DELAY", 0.01)


def remote(name: str) -> Any:
    """The agent's side of a tool of the runner."""

    @rebuno.tool(name, remote=True)
    async def call(number: int) -> int:
        raise AssertionError(number)

    return call


@asynccontextmanager
async def running(url: str, *tools: Tool, **options: Any) -> AsyncIterator[ToolRunner]:
    """A runner that ends with the block."""
    made = ToolRunner(Tools(*tools), url, "r", **options)
    task = asyncio.ensure_future(made.run())
    waiting = asyncio.ensure_future(made.connected())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        yield made
    finally:
        made.stop()
        await task


async def carried_out(url: str, name: str, number: int = 1) -> tuple[Any, list[Any]]:
    """The end of an execution of one remote call, and its events."""

    async def handler(number: int) -> Any:
        return await remote(name)(number)

    async with rebuno.Client(url) as client, agent(url, "swe", handler), asyncio.timeout(30):
        ended = await client.run_until_complete("swe", {"number": number})
        return ended, await events_of(client, ended.id)


async def test_a_tools_answer_and_its_refusal_reach_the_agent() -> None:
    @tool(effect="none")
    def half(number: int) -> int:
        """Half of an even number."""
        if number % 2:
            raise ToolError("give an even number")
        return number // 2

    async with serving(MemoryStore()) as (url, _), running(url, half):
        ended, _ = await carried_out(url, "half", 8)
        refused, told = await carried_out(url, "half", 7)
    assert (ended.status, ended.output) == ("completed", 4)
    assert refused.status == "failed"
    assert [event.payload for event in told if event.type == "step.failed"] == [
        {"error": "give an even number"}
    ]


async def test_a_runner_logs_each_call_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effect="none")
    def half(number: int) -> int:
        if number % 2:
            raise ToolError("give an even number")
        return number // 2

    caplog.set_level("INFO", "agentic_kernel_server.tool_runner")
    async with serving(MemoryStore()) as (url, _), running(url, half):
        for number in (8, 7):
            await carried_out(url, "half", number)
    told = [each for each in caplog.records if hasattr(each, "step")]
    said = [each.getMessage().partition(" (")[0] for each in told]
    assert said == ["half succeeded", "half failed: give an even number"]
    assert f"connected to {url} as r-" in caplog.text
    assert "with the tool half" in caplog.text


@pytest.mark.parametrize(
    ("key", "says"),
    [("", "send an API key"), ("ak_0123456789ab_" + "Z" * 43, "is not valid")],
    ids=["none", "unknown"],
)
async def test_a_runner_without_a_valid_key_is_told_where_the_key_belongs(
    tmp_path: Path, key: str, says: str
) -> None:
    KeyFile(tmp_path / "keys").make("ann", ["runner"])

    @tool(effect="none")
    def same(number: int) -> int:
        return number

    authenticate = KeyCredentials(Keys(tmp_path / "keys"))
    async with serving(MemoryStore(), QUICK, authenticate=authenticate) as (url, _):
        with pytest.raises(RunnerRefused, match=says) as refused:
            await ToolRunner(Tools(same), url, "r", key=key).run()
    assert refused.value.unauthorized


@pytest.mark.parametrize("number", ["x", None], ids=["text", "null"])
async def test_arguments_that_do_not_fit_are_refused_before_the_tool_runs(number: Any) -> None:
    begun: list[Any] = []

    @tool(effect="none")
    def touch(number: int) -> None:
        begun.append(number)

    async with serving(MemoryStore()) as (url, _), running(url, touch):
        ended, told = await carried_out(url, "touch", number)
    assert (ended.status, begun) == ("failed", [])
    assert "number" in str([event.payload for event in told if event.type == "step.failed"])


async def test_a_call_that_may_be_repeated_is_tried_again_under_the_same_key() -> None:
    keys: list[str] = []

    @tool(effect="none", timeout=0.05)
    async def slow(number: int, context: ToolContext) -> int:
        keys.append(context.key)
        if len(keys) < 2:
            await asyncio.Event().wait()
        return number

    async with serving(MemoryStore()) as (url, _), running(url, slow):
        ended, told = await carried_out(url, "slow", 5)
    assert (ended.status, ended.output) == ("completed", 5)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert "step.retried" in [event.type for event in told]


async def test_a_call_with_an_effect_is_not_tried_again() -> None:
    calls: list[int] = []

    @tool(timeout=0.05)
    async def pay(number: int) -> None:
        calls.append(number)
        await asyncio.Event().wait()

    async with serving(MemoryStore()) as (url, _), running(url, pay):
        ended, told = await carried_out(url, "pay", 5)
    assert (ended.status, calls) == ("failed", [5])
    assert "step.retried" not in [event.type for event in told]


async def test_a_job_whose_stream_breaks_runs_on_and_is_not_begun_twice() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @tool
    async def pay(number: int) -> int:
        calls.append(number)
        begun.set()
        await goes_on.wait()
        return number

    async with serving(MemoryStore()) as (url, server), running(url, pay) as runner:
        working = asyncio.ensure_future(carried_out(url, "pay", 5))
        await begun.wait()
        runner._connected.clear()
        cut(server)
        await asyncio.wait_for(runner.connected(), 10)
        goes_on.set()
        ended, _ = await working
    assert (ended.status, ended.output) == ("completed", 5)
    assert calls == [5]


def cut(server: Server) -> None:
    """Cut the streams of the runners."""
    server.parts.runners.cut_all()


async def test_a_stop_waits_for_the_job_and_takes_the_tools_from_the_list() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def pay(number: int) -> int:
        begun.set()
        await goes_on.wait()
        return number

    async with serving(MemoryStore()) as (url, _):
        made = ToolRunner(Tools(pay), url, "r")
        task = asyncio.ensure_future(made.run())
        await made.connected()
        working = asyncio.ensure_future(carried_out(url, "pay", 5))
        await begun.wait()
        made.stop()
        goes_on.set()
        await task
        ended, _ = await working
        async with rebuno.Client(url) as client:
            listed = await client._request("GET", "/v0/tools")
    assert ended.output == 5
    assert listed.json() == []


async def test_a_server_that_is_away_is_tried_again_until_it_answers() -> None:
    @tool(effect="none")
    def same(number: int) -> int:
        return number

    async with serving(MemoryStore()) as (url, server):
        server.parts.draining = True  # It answers 503 to a new stream.
        made = ToolRunner(Tools(same), url, "r")
        task = asyncio.ensure_future(made.run())
        waiting = asyncio.ensure_future(made.connected())
        done, _ = await asyncio.wait({task, waiting}, timeout=0.2)
        assert not done
        server.parts.draining = False
        await asyncio.wait_for(waiting, 10)
        made.stop()
        await task


async def test_a_runner_without_its_scope_is_refused() -> None:
    from agentic_kernel_server import Caller

    async def client_only(connection: Any) -> Caller:
        return Caller("ann", "", frozenset({"client"}))

    @tool(effect="none")
    def same(number: int) -> int:
        return number

    async with serving(MemoryStore(), QUICK, authenticate=client_only) as (url, _):
        with pytest.raises(RunnerRefused, match="lacks the scope 'runner'"):
            await ToolRunner(Tools(same), url, "r").run()


@pytest.mark.parametrize(
    ("tools", "url", "name", "path"),
    [
        ((), "http://x", "r", "tools"),
        ((len,), "ftp://x", "r", "server"),
        ((len,), "http://x/v0", "r", "leave /v0 away"),
        ((len,), "http://x", "", "runner_id"),
    ],
    ids=["tools", "server", "version", "name"],
)
def test_a_runner_needs_tools_a_server_and_a_name(
    tools: tuple[Any, ...], url: str, name: str, path: str
) -> None:
    made = [Tool("t", each, input_schema={"type": "object"}) for each in tools]
    with pytest.raises(InvalidValue, match=path):
        ToolRunner(Tools(*made), url, name)


class Away(httpx.AsyncBaseTransport):
    """A server that is away; after a number of attempts the runner stops."""

    def __init__(self, attempts: int) -> None:
        self.left = attempts
        self.runner: ToolRunner | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.left -= 1
        if self.left <= 0:
            assert self.runner is not None
            self.runner.stop()
        raise httpx.ConnectError("nobody listens")


async def test_a_server_that_stays_away_is_warned_of_ever_less_often(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[int] = []

    def counted(failures: int) -> float:
        delays.append(failures)
        return 0.0

    @tool(effect="none")
    def nothing() -> None:
        """Do nothing."""

    monkeypatch.setattr("agentic_kernel_server.tool_runner._delay", counted)
    away = Away(20)
    away.runner = ToolRunner(Tools(nothing), "http://x", "r", transport=away)
    await away.runner.run()
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    counted_in = [re.search(r"failure (\d+) in a row", said) for said in warnings]
    assert [int(found[1]) for found in counted_in if found] == [1, 2, 4, 8, 16]
    assert all("http://x" in said for said in warnings)
    assert delays[:5] == [0, 1, 2, 3, 4]


async def test_a_stream_that_breaks_at_once_again_and_again_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delays: list[int] = []
    enough = asyncio.Event()

    def counted(failures: int) -> float:
        delays.append(failures)
        if len(delays) >= 4:
            enough.set()
        return 0.0

    @tool(effect="none")
    def nothing() -> None:
        """Do nothing."""

    async with serving(MemoryStore()) as (url, server):
        monkeypatch.setattr("agentic_kernel_server.tool_runner._delay", counted)
        opened = server.parts.runners.open

        def cut(key: Any) -> Any:
            stream = opened(key)
            stream.cut()
            return stream

        monkeypatch.setattr(server.parts.runners, "open", cut)
        async with running(url, nothing):
            await enough.wait()
    assert delays[:4] == [0, 1, 2, 3]

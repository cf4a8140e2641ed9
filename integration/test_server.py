"""The wire's unmodified client against server processes that share files or a database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import rebuno
from rebuno.runner import Runner

from .postgres_server import schema as schema
from .postgres_server import server as server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PLACES = (pytest.param("files", marks=pytest.mark.torture), "postgres")


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can open."""
    if request.param == "files":
        return f"file:{tmp_path / 'state'}"
    url, name = request.getfixturevalue("server"), request.getfixturevalue("schema")
    return f"postgres:{name}:{url}"


@asynccontextmanager
async def process(
    place: str, grace: float = 30.0, timeout: float = 3_600.0, dies: str = ""
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A server process: its address, and the process.

    Args:
        dies: When it kills itself, as `server_worker` says.
    """
    said = place, str(grace), str(timeout), dies
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "integration.server_worker", *said, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    assert made.stdout is not None
    assert made.stdin is not None
    try:
        port = (await made.stdout.readline()).decode().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}", made
    finally:
        made.stdin.close()
        try:
            async with asyncio.timeout(20):
                await made.wait()
        except TimeoutError:
            made.kill()
            await made.wait()


@asynccontextmanager
async def working(made: Any, run: Callable[[], Any]) -> AsyncIterator[Any]:
    """One of the client's agents or runners, in the background."""
    running = asyncio.ensure_future(run())
    try:
        yield made
    finally:
        made._handle_shutdown()
        with suppress(Exception):
            await running


@rebuno.tool("compute.square", remote=True)
async def square(n: int) -> Any: ...


@rebuno.tool("calc.add")
def add(a: int, b: int) -> int:
    return a + b


@rebuno.tool("danger.launch")
def launch(n: int) -> str:
    return f"launched {n}"


async def events(client: rebuno.Client, id: str) -> list[rebuno.types.Event]:
    """The events of an execution; the signals that it waits for are sent as it asks for them."""
    found = []
    async for event in client.events(id):
        found.append(event)
        if event.type == "signal.awaited":
            await client.send_signal(id, "more", 100)
        elif event.type == "step.created" and event.payload.get("pending_approval"):
            yes = {"step_id": event.step_id, "approved": True}
            await client.send_signal(id, "step.approve", yes)
    return found


async def test_the_typical_workflow_over_two_processes(place: str) -> None:
    calls: list[int] = []

    @rebuno.tool("compute.square")
    def really(n: int) -> int:
        calls.append(n)
        return n * n

    async def workflow(n: int) -> Any:
        total = await add(await square(n), 1)
        total += await rebuno.execution.wait_signal("more")
        return await launch(total)

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        one, _ = await enter(process(place))
        two, _ = await enter(process(place))
        client = await enter(rebuno.Client(one))
        there = Runner("r", kernel_url=two, tools=[really], reconnect_delay=0.05)
        await enter(working(there, there.run_async))
        swe = rebuno.Agent("swe", kernel_url=one, reconnect_delay=0.05)
        await enter(working(swe, lambda: swe.run_async(workflow)))
        made = await client.create("swe", {"n": 6}, labels={"team": "red"})
        told = await events(client, made.id)
        ended = await client.get(made.id)
        elsewhere = await enter(rebuno.Client(two))
        assert await elsewhere.get(made.id) == ended
        assert [event async for event in elsewhere.events(made.id)] == told
        cancelled = await elsewhere.cancel((await client.create("nobody", {})).id)
        listed = await elsewhere.list(labels={"team": "red"})
    assert ended.output == "launched 137"
    assert calls == [6]
    assert cancelled.status == "cancelled"
    assert [each.id for each in listed.executions] == [made.id]


@pytest.mark.torture
async def test_a_killed_process_loses_nothing(place: str) -> None:
    calls: list[int] = []
    between, go = asyncio.Event(), asyncio.Event()

    @rebuno.tool("compute.square")
    def really(n: int) -> int:
        calls.append(n)
        return n * n

    async def handler() -> Any:
        first = await square(3)
        between.set()
        await go.wait()
        return first + await square(4)

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        one, doomed = await enter(process(place))
        two, _ = await enter(process(place))
        client = await enter(rebuno.Client(two))
        there = Runner("r", kernel_url=two, tools=[really], reconnect_delay=0.05)
        await enter(working(there, there.run_async))
        swe = rebuno.Agent("swe", kernel_url=one, reconnect_delay=0.05)
        await enter(working(swe, lambda: swe.run_async(handler)))
        made = await client.create("swe", {})
        await between.wait()
        swe._client._http.base_url = two
        doomed.kill()
        await doomed.wait()
        go.set()
        told = await events(client, made.id)
    types = [event.type for event in told]
    assert told[-1].payload == {"output": 25}
    assert types.count("execution.started") == 1
    assert calls == [3, 4]


async def assigned(client: httpx.AsyncClient, found: asyncio.Future[Any]) -> None:
    """Hold the stream of an agent, and tell of its first execution."""
    path = "/v0/agents/stream?agent_id=swe&consumer_id=c"
    with suppress(httpx.HTTPError):
        async with client.stream("GET", path) as told:
            kind = ""
            async for line in told.aiter_lines():
                kind = line[7:] if line.startswith("event: ") else kind
                if line.startswith("data: ") and kind == "execution.assigned":
                    found.set_result(json.loads(line[6:]))


@pytest.mark.parametrize("dies", [pytest.param("before", marks=pytest.mark.torture), "after"])
async def test_an_owner_that_is_killed_in_a_forwarded_request_loses_and_repeats_nothing(
    server: str, schema: str, dies: str
) -> None:
    place = f"postgres:{schema}:{server}"
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        one, doomed = await enter(process(place, dies=dies))
        two, _ = await enter(process(place))
        owner = await enter(httpx.AsyncClient(base_url=one, timeout=60))
        other = await enter(httpx.AsyncClient(base_url=two, timeout=60))
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Any] = loop.create_future()
        streams = [asyncio.ensure_future(assigned(owner, found))]
        await other.post("/v0/executions", json={"agent_id": "swe", "input": {}})
        given = await found
        held = {key: given[key] for key in ("execution_id", "session_id")}
        call = {"type": "invoke_tool", "tool_id": "calc.add", "arguments": {"n": 1}}
        asking = asyncio.ensure_future(
            other.post("/v0/agents/intent", json={**held, "intent": call})
        )
        assert await doomed.wait() == -signal.SIGKILL
        streams.append(asyncio.ensure_future(assigned(other, loop.create_future())))
        answer = (await asking).json()
        result = {**held, "step_id": answer["step_id"], "success": True, "data": 2}
        reported = await other.post("/v0/agents/step-result", json=result)
        done = {"type": "complete", "output": 3}
        ended = await other.post("/v0/agents/intent", json={**held, "intent": done})
        told = (await other.get(f"/v0/executions/{held['execution_id']}/events")).json()
        for each in streams:
            each.cancel()
        await asyncio.wait(streams)
    types = [event["type"] for event in told["events"]]
    assert [reported.status_code, ended.status_code] == [200, 200]
    assert types.count("step.created") == 1
    assert types.count("execution.started") == 1
    assert types[-1] == "execution.completed"

"""Several servers on one store are one server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import rebuno
from msgspec.structs import replace

from agentic_kernel import TaskStatus
from agentic_kernel_engine import MemoryStore, Record, StoreError, StoreTraits

from .balancer import balanced
from .clients import agent, events_of, runner, seen, streams
from .serving import QUICK, serving
from .test_sessions import squares

PATIENT = replace(QUICK, agent_timeout=30.0)


@rebuno.tool("compute.square", remote=True)
async def square(n: int) -> Any: ...


@rebuno.tool("compute.square")
def really(n: int) -> int:
    return n * n


@rebuno.tool("calc.add")
def add(a: int, b: int) -> int:
    return a + b


@rebuno.tool("danger.launch")
def launch(n: int) -> str:
    return f"launched {n}"


async def workflow(n: int) -> Any:
    total = await add(await square(n), 1)
    total += await rebuno.execution.wait_signal("more")
    return await launch(total)


async def direct(client: rebuno.Client, id: str) -> list[Any]:
    """Send the signals that the workflow waits for; return its events."""
    found = []
    async for event in client.events(id):
        found.append(event)
        if event.type == "signal.awaited":
            await client.send_signal(id, "more", 100)
        elif event.type == "step.created" and event.payload.get("pending_approval"):
            yes = {"step_id": event.step_id, "approved": True}
            await client.send_signal(id, "step.approve", yes)
    return found


async def test_client_agent_and_runner_are_each_at_another_server() -> None:
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        (one, _), (two, _), (three, _) = [await enter(serving(store)) for _ in range(3)]
        client = await enter(rebuno.Client(one))
        await enter(runner(three, "r", really))
        await enter(agent(two, "swe", workflow))
        made = await client.create("swe", {"n": 6})
        told = await direct(client, made.id)
        ended = await client.get(made.id)
    assert ended.output == "launched 137"
    assert [event.sequence for event in told] == sorted({event.sequence for event in told})


async def test_intents_that_reach_another_server_than_the_stream_are_answered() -> None:
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        (one, first), (two, second) = [await enter(serving(store)) for _ in range(2)]
        client = await enter(rebuno.Client(one))
        # The stream is the first connection of each; every later one goes to the other server.
        await enter(agent(await enter(balanced(one, two, two, two)), "swe", workflow))
        await enter(runner(await enter(balanced(two, one, one, one)), "r", really))
        made = await client.create("swe", {"n": 6})
        told = await direct(client, made.id)
        streamed = [len(list(each.parts.agents)) for each in (first, second)]
    assert told[-1].payload == {"output": "launched 137"}
    assert streamed == [1, 0]


async def test_a_consumer_that_reconnects_to_another_server_keeps_its_session() -> None:
    store = MemoryStore()
    go = asyncio.Event()

    async def handler() -> Any:
        first = await square(3)
        await go.wait()
        return first + await square(4)

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        (one, first), (two, second) = [await enter(serving(store, PATIENT)) for _ in range(2)]
        client = await enter(rebuno.Client(two))
        await enter(runner(two, "r", really))
        made_agent = await enter(agent(one, "swe", handler))
        made = await client.create("swe", {})
        await seen(client, made.id, "step.succeeded")
        made_agent._client._http.base_url = two
        (stream,) = await streams(first, 1)
        stream.cut()
        await streams(second, 1)
        go.set()
        told = await events_of(client, made.id)
    types = [event.type for event in told]
    assert told[-1].payload == {"output": 25}
    assert types.count("execution.started") == 1


async def test_a_server_that_stops_hands_its_executions_over() -> None:
    store = MemoryStore()
    go = asyncio.Event()

    async def handler() -> Any:
        first = await square(3)
        await go.wait()
        return first + await square(4)

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        two, second = await enter(serving(store, PATIENT))
        client = await enter(rebuno.Client(two))
        await enter(runner(two, "r", really))
        async with AsyncExitStack() as inner:
            one, _ = await inner.enter_async_context(serving(store, PATIENT))
            made_agent = await enter(agent(one, "swe", handler))
            made = await client.create("swe", {})
            await seen(client, made.id, "step.succeeded")
            made_agent._client._http.base_url = two
        await streams(second, 1)
        go.set()
        told = await events_of(client, made.id)
    assert told[-1].payload == {"output": 25}
    assert [event.type for event in told].count("execution.started") == 1


class Noisy(MemoryStore):
    """Reports a write of a Task that no run of this process has, again and again."""

    traits = StoreTraits(listens=True)

    def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
        noise = asyncio.ensure_future(self._tell(tell))

        def stop() -> None:
            noise.cancel()

        return stop

    async def _tell(self, tell: Callable[[str], None]) -> None:
        while True:
            tell("of another server")
            await asyncio.sleep(0.001)


async def test_a_store_that_always_has_news_is_searched_as_well() -> None:
    async with serving(Noisy()) as (url, _), rebuno.Client(url) as client:
        # No report is made when its time is over: a search finds it.
        made = await client._request(
            "POST", "/v0/executions", json={"agent_id": "x", "timeout": 0.1}
        )
        told = await events_of(client, made.json()["id"])
    assert told[-1].type == "execution.failed"


async def test_a_server_that_the_store_gave_up_is_not_ready_and_sends_its_agents_away() -> None:
    store = MemoryStore()

    async def handler() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        serving(store) as (url, server),
        httpx.AsyncClient(base_url=url) as web,
        agent(url, "swe", handler, reconnect_delay=30.0),
    ):
        await streams(server, 1)
        assert (await web.get("/v0/ready")).status_code == 200
        await store.leave(server.parts.executions.name)
        await server.lost.wait()
        assert (await web.get("/v0/ready")).status_code == 503
        while len(server.parts.agents):
            await asyncio.sleep(0.005)


class Shaky(MemoryStore):
    """The writes that pause a Task of one kind fail at first, as while a database is away."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self.failures = 0

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        pauses = after.task.status is TaskStatus.PAUSED and after.task.runtime_kind == self._kind
        if pauses and self.failures < 2:
            self.failures += 1
            raise StoreError("the database is away")
        await super().commit(before, after, events)


@pytest.mark.parametrize("kind", ["execution", "tool"])
async def test_a_store_that_fails_for_a_while_ends_no_execution_and_no_step(kind: str) -> None:
    async def handler() -> Any:
        return await square(7)

    store = Shaky(kind)
    async with serving(store) as (url, _), rebuno.Client(url) as client:
        made = await client.create("swe", {})
        if kind == "execution":
            while store.failures < 2:
                await asyncio.sleep(0.005)
        async with agent(url, "swe", handler):
            if kind == "tool":
                while store.failures < 2:
                    await asyncio.sleep(0.005)
            async with runner(url, "r", squares([])):
                told = await events_of(client, made.id)
    assert told[-1].payload == {"output": 49}


class Away(MemoryStore):
    """Every write to an execution that runs fails, and says where the store is."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        if self.away and after.task.runtime_kind == "execution":
            raise StoreError("postgresql://inside.example/secret: connection refused")
        await super().commit(before, after, events)


async def test_an_answer_does_not_tell_where_the_store_is() -> None:
    store = Away()
    async with serving(store) as (url, _), httpx.AsyncClient(base_url=url) as web:
        made = (await web.post("/v0/executions", json={"agent_id": "swe"})).json()
        async with web.stream("GET", "/v0/agents/stream?agent_id=swe&consumer_id=c") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    break
            session = json.loads(line.removeprefix("data: "))["session_id"]
            body = {
                "execution_id": made["id"],
                "session_id": session,
                "intent": {"type": "invoke_tool", "tool_id": "t"},
            }
            store.away = True
            answer = await web.post("/v0/agents/intent", json=body)
            store.away = False
    assert answer.status_code == 503
    assert answer.json()["error"] == "the store does not answer; try again"


async def test_a_create_while_the_server_stops_says_so() -> None:
    async with serving(MemoryStore()) as (url, server), httpx.AsyncClient(base_url=url) as web:
        await server.parts.executions.drain(timeout=0.1)
        refused = await web.post("/v0/executions", json={"agent_id": "swe"})
    assert refused.status_code == 503
    assert refused.json()["error"] == "the server is stopping; use another one"

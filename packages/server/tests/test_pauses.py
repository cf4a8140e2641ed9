"""A person pauses an execution from outside; it goes on after a person resumed it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import rebuno
from msgspec.structs import replace

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_server import Server
from agentic_kernel_server.executions.state import decoded

from .clients import agent, runner, seen, streams
from .serving import QUICK, serving
from .test_sessions import square, squares

STILL = replace(QUICK, hold=0.3)
"""A request to a paused execution is answered soon."""


async def intend(url: str, server: Server, id: str, **intent: Any) -> httpx.Response:
    """An intent of the session that has the execution."""
    state = decoded((await server.parts.store.load(id)).state)
    assert state is not None
    assert state.session is not None
    async with httpx.AsyncClient(base_url=url) as web:
        body = {"execution_id": id, "session_id": state.session.id, "intent": intent}
        return await web.post("/v0/agents/intent", json=body)


async def idle() -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("forwards", [True, False])
async def test_an_intent_does_not_let_a_paused_execution_go_on(forwards: bool) -> None:
    store = MemoryStore()
    settings = replace(STILL, forwards=forwards)
    async with (
        serving(store, settings) as (url, server),
        serving(store, settings) as (other, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        for way in (url, other):
            refused = await intend(way, server, made.id, type="invoke_tool", tool_id="t")
            assert refused.status_code == 503, refused.text
            assert "paused by a person" in refused.json()["error"]
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        (await streams(server, 1))[0].cut()  # Its agent comes back, which is no reason either.
        while not (len(server.parts.agents) and server.parts.vigils):
            await asyncio.sleep(0.005)
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        assert (await person.resume(made.id)).changed
        taken = await intend(url, server, made.id, type="invoke_tool", tool_id="t")
        await seen(client, made.id, "step.created")
    assert taken.json()["accepted"], taken.text


async def test_an_intent_that_waits_is_carried_out_after_the_resume() -> None:
    store = MemoryStore()
    async with (
        serving(store) as (url, server),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        waiting = asyncio.ensure_future(intend(url, server, made.id, type="complete", output=5))
        await client.send_signal(made.id, "go", 1)  # It is durable, and waits as well.
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        await person.resume(made.id)
        assert (await waiting).json() == {"accepted": True}
        done = await client.get(made.id)
    assert (done.status, done.output) == ("completed", 5)


async def test_a_signal_to_a_paused_execution_comes_after_the_resume() -> None:
    async def handler() -> Any:
        return await rebuno.execution.wait_signal("go")

    store = MemoryStore()
    async with (
        serving(store) as (url, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        await client.send_signal(made.id, "go", {"n": 1})
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        await person.resume(made.id)
        done = [event async for event in client.events(made.id)][-1]
    assert done.payload == {"output": {"n": 1}}


async def test_a_paused_execution_can_be_cancelled() -> None:
    store = MemoryStore()
    async with (
        serving(store) as (url, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        assert (await client.cancel(made.id)).status == "cancelled"


async def test_the_result_of_a_remote_step_waits_for_the_end_of_the_pause() -> None:
    go = asyncio.Event()

    async def handler() -> Any:
        return await square(7)

    store = MemoryStore()
    calls: list[int] = []
    async with (
        serving(store) as (url, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        runner(url, "r", squares(calls, go)),
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "step.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        go.set()
        (step,) = await store.find(kinds=["tool"])
        await person.wait(step.task.id)
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        await person.resume(made.id)
        done = [event async for event in client.events(made.id)][-1]
    assert done.payload == {"output": 49}
    assert calls == [7]

"""Agents that lose their stream or die, and runners that do, with the wire's real client."""

from __future__ import annotations

import asyncio
from typing import Any

import rebuno
from msgspec.structs import replace

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server import Ruling, ToolCall
from agentic_kernel_server.executions.state import decoded

from .clients import agent, events_of, runner, seen, streams, vanish
from .serving import QUICK, serving

PATIENT = replace(QUICK, agent_timeout=30.0)


@rebuno.tool("compute.square", remote=True)
async def square(n: int) -> Any: ...


def squares(calls: list[int], go: asyncio.Event | None = None) -> Any:
    """A runner's tool that says when it was called."""

    @rebuno.tool("compute.square")
    async def really(n: int) -> int:
        calls.append(n)
        if go is not None:
            await go.wait()
        return n * n

    return really


async def test_a_result_that_came_while_the_stream_was_away_is_pushed_again() -> None:
    calls: list[int] = []
    go = asyncio.Event()

    async def handler() -> Any:
        return await square(7)

    async with (
        serving(MemoryStore(), PATIENT) as (url, server),
        rebuno.Client(url) as client,
        runner(url, "r", squares(calls, go)),
        agent(url, "swe", handler, reconnect_delay=0.3),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "step.started")
        (stream,) = await streams(server, 1)
        stream.cut()
        while server.counts()["agent_streams"]:
            await asyncio.sleep(0.005)
        go.set()
        told = await events_of(client, made.id)
    assert told[-1].payload == {"output": 49}
    assert "execution.reset" not in [event.type for event in told]
    assert calls == [7]


async def test_a_lost_agents_execution_goes_to_another_and_replays_its_remote_steps() -> None:
    calls: list[int] = []
    told_first: asyncio.Event = asyncio.Event()
    histories: list[Any] = []

    async def first() -> Any:
        await square(7)
        told_first.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def second() -> Any:
        histories.append(rebuno.execution.history)
        return await square(7) + await square(2)

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        runner(url, "r", squares(calls)),
        agent(url, "swe", first) as dying,
    ):
        made = await client.create("swe", {})
        await told_first.wait()
        await vanish(dying)
        async with agent(url, "swe", second):
            told = await events_of(client, made.id)
    types = [event.type for event in told]
    assert told[-1].payload == {"output": 53}
    assert types.count("execution.reset") == 1
    assert types.count("execution.started") == 2
    assert calls == [7, 2]
    assert [(each.tool_id, each.result) for each in histories[0]] == [("compute.square", 49)]


async def test_a_rule_may_deny_the_repetition_of_a_local_step() -> None:
    began = asyncio.Event()
    done: list[str] = []

    @rebuno.tool("mail.send")
    async def send(to: str) -> None:
        done.append(to)
        began.set()
        if len(done) == 1:
            await asyncio.Event().wait()

    async def decide(call: ToolCall) -> Ruling:
        return Ruling("deny", "it may be sent already") if call.repeated else Ruling("allow")

    async def handler() -> None:
        await send("ann")

    async with (
        serving(MemoryStore(), decide=decide) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler) as dying,
    ):
        made = await client.create("swe", {})
        await began.wait()
        await vanish(dying)
        async with agent(url, "swe", handler):
            told = await events_of(client, made.id)
    assert done == ["ann"]
    assert [event.type for event in told].count("intent.denied") == 1
    assert "it may be sent already" in told[-1].payload["error"]


async def test_the_kth_wait_of_a_new_session_gets_the_kth_signal() -> None:
    once = asyncio.Event()

    async def first() -> None:
        await rebuno.execution.wait_signal("go")
        once.set()
        await asyncio.Event().wait()

    async def second() -> Any:
        return await rebuno.execution.wait_signal("go")

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", first) as dying,
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "signal.awaited")
        await client.send_signal(made.id, "go", {"n": 1})
        await once.wait()
        await vanish(dying)
        async with agent(url, "swe", second):
            told = await events_of(client, made.id)
    assert told[-1].payload == {"output": {"n": 1}}


async def test_an_execution_that_waits_for_a_signal_leaves_a_dead_agent() -> None:
    async def waits() -> Any:
        return await rebuno.execution.wait_signal("go")

    async with (
        serving(MemoryStore()) as (url, server),
        rebuno.Client(url) as client,
        agent(url, "swe", waits) as dying,
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "signal.awaited")
        await vanish(dying)
        await seen(client, made.id, "execution.reset")
        assert server.counts()["live_executions"] == 0
        assert (await client.get(made.id)).status == "pending"
        await client.send_signal(made.id, "go", "now")
        async with agent(url, "swe", waits):
            told = await events_of(client, made.id)
    assert told[-1].payload == {"output": "now"}


async def test_a_runner_that_vanishes_leaves_its_step_indeterminate() -> None:
    calls: list[int] = []

    async def handler() -> Any:
        return await square(7)

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        async with runner(url, "r", squares(calls, asyncio.Event())):
            made = await client.create("swe", {})
            await seen(client, made.id, "step.started")
        told = await events_of(client, made.id)
    assert told[-2].type == "step.failed"
    assert told[-2].payload["error"].startswith("indeterminate")
    assert told[-1].type == "execution.failed"


async def test_a_step_that_is_safe_to_repeat_gets_another_runner() -> None:
    calls: list[int] = []
    safe = replace(QUICK, safe_to_repeat=("compute.*",))

    async def handler() -> Any:
        return await square(7)

    async with (
        serving(MemoryStore(), safe) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        async with runner(url, "r", squares(calls, asyncio.Event())):
            made = await client.create("swe", {})
            await seen(client, made.id, "step.started")
        async with runner(url, "r2", squares(calls)):
            told = await events_of(client, made.id)
    assert told[-1].payload == {"output": 49}
    assert "step.retried" in [event.type for event in told]
    assert calls == [7, 7]


async def test_a_retryable_failure_begins_a_new_attempt_of_the_same_step() -> None:
    calls: list[int] = []

    @rebuno.tool("compute.square")
    def flaky(n: int) -> int:
        calls.append(n)
        if len(calls) < 3:
            raise rebuno.errors.ToolError("not yet", retryable=True)
        return n * n

    async def handler() -> Any:
        return await square(7)

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        runner(url, "r", flaky),
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        told = await events_of(client, made.id)
    assert told[-1].payload == {"output": 49}
    steps = [event for event in told if event.step_id]
    assert len({event.step_id for event in steps}) == 1
    assert [event.type for event in steps] == [
        "step.created",
        *("step.dispatched", "step.started", "step.retried") * 2,
        *("step.dispatched", "step.started", "step.succeeded"),
    ]


async def asked_in(store: MemoryStore, id: str, session: int) -> bool:
    """True if it is stored that this session asked for a call."""
    state = decoded((await store.load(id)).state)
    found = None if state is None else state.session
    return found is not None and found.number == session and bool(found.asked)


async def test_what_a_new_session_asked_for_is_known_to_the_next_owner() -> None:
    calls: list[int] = []
    go = asyncio.Event()

    async def handler() -> Any:
        return await square(7)

    store = MemoryStore()
    async with (
        serving(store, PATIENT) as (two, other),
        rebuno.Client(two) as client,
        runner(two, "r", squares(calls, go)),
    ):
        async with serving(store) as (one, _):
            async with agent(one, "swe", handler) as dying:
                made = await client.create("swe", {})
                await seen(client, made.id, "step.started")
                await vanish(dying)
            made_agent = rebuno.Agent("swe", kernel_url=one, reconnect_delay=0.05)
            running = asyncio.ensure_future(made_agent.run_async(handler))
            while not await asked_in(store, made.id, 2):
                await asyncio.sleep(0.01)
            made_agent._client._http.base_url = two
        await streams(other, 1)
        go.set()
        told = await events_of(client, made.id)
        made_agent._handle_shutdown()
        await running
    assert told[-1].payload == {"output": 49}
    assert calls == [7]


async def test_an_agent_that_starts_again_under_its_name_gets_its_executions_anew() -> None:
    """The new program knows nothing of the session, and its name came back within the grace."""
    once = asyncio.Event()

    @rebuno.tool("local.one")
    def one() -> int:
        return 1

    async def first() -> None:
        await one()
        once.set()
        await asyncio.Event().wait()

    async def second() -> Any:
        return await one() + 1

    settings = replace(PATIENT, step_timeout=0.3)
    async with (
        serving(MemoryStore(), settings) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", first, consumer_id="pod-1") as dying,
    ):
        made = await client.create("swe", {})
        await once.wait()
        await vanish(dying)
        async with agent(url, "swe", second, consumer_id="pod-1"):
            told = await events_of(client, made.id)
    (reset,) = [event for event in told if event.type == "execution.reset"]
    assert "silent for 0.3 s" in reset.payload["reason"]
    assert told[-1].payload == {"output": 2}

"""The unmodified client of the wire does its work against the real server."""

from __future__ import annotations

import asyncio
from typing import Any

import rebuno

from agentic_kernel_engine import MemoryStore

from .clients import agent, events_of, runner
from .serving import serving


async def test_an_agent_gets_an_execution_and_completes_it() -> None:
    async def handler(prompt: str) -> Any:
        return {"said": prompt.upper()}

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        ended = await client.run_until_complete("swe", {"prompt": "hello"})
    assert ended.status == "completed"
    assert ended.output == {"said": "HELLO"}


async def test_a_local_tool_is_a_step_that_was_dispatched_and_ran() -> None:
    @rebuno.tool("calc.add")
    def add(a: int, b: int) -> int:
        return a + b

    async def handler(x: int) -> Any:
        return await add(x, 2)

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        ended = await client.run_until_complete("swe", {"x": 40})
        told = await events_of(client, ended.id)
    assert ended.output == 42
    assert [event.type for event in told] == [
        "execution.created",
        "execution.started",
        "step.created",
        "step.dispatched",
        "step.started",
        "step.succeeded",
        "execution.completed",
    ]
    assert told[5].payload == {"result": 42}
    assert [event.sequence for event in told] == sorted({event.sequence for event in told})


async def test_a_denied_tool_and_a_failing_tool_fail_the_execution() -> None:
    @rebuno.tool("nope")
    def nope() -> int:
        raise AssertionError

    @rebuno.tool("broken")
    def broken() -> int:
        raise ValueError("it is broken")

    async def handler(which: str) -> Any:
        return await (nope if which == "nope" else broken)()

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        denied = await client.run_until_complete("swe", {"which": "nope"})
        failed = await client.run_until_complete("swe", {"which": "broken"})
        told = await events_of(client, failed.id)
        listed = await client.list(status=rebuno.types.ExecutionStatus.FAILED)
    assert (denied.status, failed.status) == ("failed", "failed")
    assert told[-2].type == "step.failed"
    assert told[-2].payload == {"error": "it is broken"}
    assert told[-1].payload["error"] == "it is broken"
    assert {each.id for each in listed.executions} == {denied.id, failed.id}


async def test_a_remote_tool_is_executed_by_a_runner() -> None:
    @rebuno.tool("compute.square", remote=True)
    async def square(n: int) -> Any: ...

    @rebuno.tool("compute.square")
    def really(n: int) -> int:
        """The square."""
        return n * n

    async def handler(n: int) -> Any:
        return list(await asyncio.gather(*(square(each) for each in range(n))))

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        runner(url, "r1", really),
        agent(url, "swe", handler),
    ):
        ended = await client.run_until_complete("swe", {"n": 3})
        tools: Any = await client.list_tools("compute")
    assert ended.output == [0, 1, 4]
    assert [(each["id"], each["description"]) for each in tools] == [
        ("compute.square", "The square.")
    ]


async def test_a_signal_and_an_approval_let_the_execution_go_on() -> None:
    @rebuno.tool("danger.launch")
    def launch() -> str:
        return "launched"

    async def handler() -> Any:
        return [await rebuno.execution.wait_signal("go"), await launch()]

    async with (
        serving(MemoryStore()) as (url, server),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        following = client.events(made.id)
        async for event in following:
            if event.type == "signal.awaited":
                assert (await client.get(made.id)).status == "blocked"
                sent = await client.send_signal(made.id, "go", {"who": "you\u2028\x85"})
                assert sent.status == "delivered"
            elif event.type == "step.created":
                step = event.step_id
                assert event.payload["pending_approval"] is True
                yes = {"step_id": step, "approved": True}
                await client.send_signal(made.id, "step.approve", yes)
        ended = await client.get(made.id)
        assert server.counts()["live_executions"] == 0
    assert ended.output == [{"who": "you\u2028\x85"}, "launched"]


async def test_a_denied_approval_cancels_the_step() -> None:
    @rebuno.tool("danger.launch")
    def launch() -> str:
        raise AssertionError

    async def handler() -> Any:
        try:
            return await launch()
        except rebuno.errors.PolicyError as denied:
            return f"denied: {denied}"

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        types = []
        async for event in client.events(made.id):
            types.append(event.type)
            if event.type == "step.created":
                no = {"step_id": event.step_id, "approved": False, "reason": "no"}
                await client.send_signal(made.id, "step.approve", no)
        ended = await client.get(made.id)
    assert ended.output.startswith("denied")
    assert types[3:5] == ["approval.resolved", "step.cancelled"]


async def test_a_cancelled_execution_cancels_the_handler_and_its_steps() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    @rebuno.tool("slow")
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async def handler() -> None:
        await slow()

    async with (
        serving(MemoryStore()) as (url, _),
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        await begun.wait()
        ended = await client.cancel(made.id)
        await gone.wait()
        again = await client.cancel(made.id)
        told = await events_of(client, made.id)
    assert (ended.status, again.status) == ("cancelled", "cancelled")
    assert [event.type for event in told[-2:]] == ["step.cancelled", "execution.cancelled"]


async def test_an_execution_waits_for_its_agent() -> None:
    async def handler() -> Any:
        return "here"

    async with serving(MemoryStore()) as (url, _), rebuno.Client(url) as client:
        made = await client.create("swe", {}, labels={"team": "red", "a:b": "c d"})
        assert (await client.get(made.id)).status == "pending"
        listed = await client.list(labels={"team": "red"})
        assert [each.id for each in listed.executions] == [made.id]
        assert listed.executions[0].labels == {"team": "red", "a:b": "c d"}
        async with agent(url, "swe", handler):
            told = await events_of(client, made.id)
    assert told[-1].payload == {"output": "here"}

"""Delegation, once the parent ends, lets go or is taken over: what becomes of its children."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Job, Loop
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.seams.on_runtime import OnRuntime

from ..conftest import Crash
from ..delegating import Held, Roles, join, spawn, told
from ..scripting import Runner, new_task


@pytest.mark.parametrize("where", ["same host", "elsewhere, same store", "elsewhere"])
@pytest.mark.rule("R13")
async def test_a_kill_of_the_parent_ends_the_child(runner: Runner, where: str) -> None:
    held = Held()
    roles = Roles(root=[spawn("child"), join, told], child=[ToolCall("hold"), FinalAnswer("late")])
    shared = runner.store if where == "elsewhere, same store" else None
    elsewhere = Host(Loop(roles, [held.tool()]), shared, runtime_kinds=["there"], grace=0)
    delegation = None
    if where != "same host":
        delegation = OnRuntime(elsewhere, runtime_kind="there")
    async with elsewhere:
        options: dict[str, Any] = {"tools": [held.tool()], "delegation": delegation}
        async with runner.host(planner=roles, **options) as host:
            task = new_task(instructions="root")
            await host.dispatch(task)
            await held.reached.wait()
            home = host if where == "same host" else elsewhere
            (child,) = [each for each in await home.find() if each.id != task.id]
            await host.kill(task.id)
            assert (await home.wait(child.id)).status is TaskStatus.CANCELLED


@pytest.mark.parametrize("doing", ["something else", "nothing", "waiting, paused"])
@pytest.mark.rule("R13")
async def test_a_kill_of_a_parent_that_does_not_wait_ends_the_child_elsewhere(
    runner: Runner, doing: str
) -> None:
    held, busy = Held(), Held()
    roles = Roles(
        root=[spawn("child"), join if doing == "waiting, paused" else ToolCall("hold"), told],
        child=[ToolCall("hold"), FinalAnswer("late")],
    )
    async with Host(Loop(roles, [held.tool()]), grace=0) as elsewhere:
        options: dict[str, Any] = {"tools": [busy.tool()], "delegation": OnRuntime(elsewhere)}
        async with runner.host(planner=roles, **options) as host:
            task = new_task(instructions="root")
            await host.dispatch(task)
            await held.reached.wait()
            if doing != "waiting, paused":
                await busy.reached.wait()
            if doing != "something else":
                await host.pause(task.id)
                busy.go.set()
                await host.wait(task.id, TaskStatus.PAUSED)
            (child,) = await elsewhere.find()
            stranger = new_task(instructions="child")
            await elsewhere.dispatch(stranger)
            await host.kill(task.id)
            async with asyncio.timeout(10):
                assert (await elsewhere.wait(child.id)).status is TaskStatus.CANCELLED
            assert (await elsewhere.get(stranger.id)).status is TaskStatus.RUNNING


async def test_one_child_that_cannot_be_ended_keeps_no_other_alive(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()
    roles = Roles(root=[[spawn("child"), spawn("child")], ToolCall("hold"), told],
                  child=[ToolCall("hold")])  # fmt: skip

    class Stubborn(OnRuntime):
        first = ""

        async def on_killed(self, parent: Task, child: str) -> None:
            if not self.first or child == self.first:
                self.first = child
                raise ConnectionError("nobody answers")
            await super().on_killed(parent, child)

    async with Host(Loop(roles, [Held().tool()]), grace=0) as elsewhere:
        delegation = Stubborn(elsewhere)
        options: dict[str, Any] = {"tools": [held.tool()], "delegation": delegation}
        async with runner.host(planner=roles, **options) as host:
            task = new_task(instructions="root")
            await host.dispatch(task)
            await held.reached.wait()
            await host.kill(task.id)
        (other,) = [each.id for each in await elsewhere.find() if each.id != delegation.first]
        async with asyncio.timeout(10):
            assert (await elsewhere.wait(other)).status is TaskStatus.CANCELLED
    assert "may have something running elsewhere" in caplog.text


@pytest.mark.parametrize("where", ["same host", "elsewhere"])
async def test_a_parent_that_lets_go_leaves_its_child_alone(runner: Runner, where: str) -> None:
    """A pause takes effect while the parent waits; the child goes on, and is found again."""
    held = Held()
    roles = Roles(root=[spawn("child"), join, told], child=[ToolCall("hold"), FinalAnswer("late")])
    elsewhere = Host(Loop(roles, [held.tool()]), grace=0)
    delegation = None if where == "same host" else OnRuntime(elsewhere)
    async with elsewhere:
        options: dict[str, Any] = {"tools": [held.tool()], "delegation": delegation}
        async with runner.host(planner=roles, **options) as host:
            task = new_task(instructions="root")
            await host.dispatch(task)
            await held.reached.wait()
            await host.pause(task.id)
            paused = await host.wait(task.id, TaskStatus.PAUSED)
            assert paused.status is TaskStatus.PAUSED
            home = host if where == "same host" else elsewhere
            (child,) = [each for each in await home.find() if each.id != task.id]
            assert child.status is TaskStatus.RUNNING
            held.go.set()
            await home.wait(child.id)
            await host.resume(task.id)
            assert (await host.wait(task.id)).result[1]["result"] == "late"


@pytest.mark.rule("R13")
async def test_a_child_elsewhere_is_started_once_across_a_crash(
    runner: Runner, crash: Crash
) -> None:
    held = Held()
    roles = Roles(root=[spawn("child"), join, told], child=[ToolCall("hold"), FinalAnswer("one")])
    async with Host(Loop(roles, [held.tool()]), grace=0) as elsewhere:
        delegation = Forgetful(elsewhere)
        host = runner.mortal(planner=roles, delegation=delegation)
        task = new_task(instructions="root")
        await host.dispatch(task)
        await delegation.started.wait()
        await crash(host)
        delegation.stalls = False
        held.go.set()
        async with runner.host(planner=roles, delegation=delegation) as second:
            assert (await second.wait(task.id)).result[1]["result"] == "one"
        assert len(await elsewhere.find()) == 1


class Forgetful(OnRuntime):
    """Starts a child, and does not come back to say so."""

    def __init__(self, runtime: Host) -> None:
        super().__init__(runtime)
        self.started = asyncio.Event()
        self.stalls = True

    async def spawn(self, job: Job, child: Task) -> None:
        await super().spawn(job, child)
        self.started.set()
        if self.stalls:
            await asyncio.Event().wait()

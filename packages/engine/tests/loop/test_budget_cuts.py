"""A cut of the limits: a run waits for its children to hear of it before a limit ends the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, MemoryStore
from agentic_kernel_engine.plans.action import Action, FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.planner import Context, Forecast, Planner
from agentic_kernel_engine.tools.tool import tool

from ..delegating import spawn
from ..scripting import new_task

pytestmark = pytest.mark.rule("R18")
ONE = Usage(cost=1.0)


class Gated(Planner, Forecast):
    """A parent that spawns a child and goes on beside it; each call costs 1.0.

    Args:
        after: What the parent does from its third step on, by the number of the step.
    """

    def __init__(self, after: Any) -> None:
        self._after = after
        self.calls = 0
        self.asked = {"parent": asyncio.Event(), "child": asyncio.Event()}
        self.open = {"parent": asyncio.Event(), "child": asyncio.Event()}
        """Gates of the parent's second call, and of the child's first one."""

    def worst_case(self, context: Context) -> Usage:
        return ONE

    async def plan(self, context: Context) -> Plan:
        self.calls += 1
        below = bool(context.task.metadata.get("engine/depth", 0))
        who = "child" if below else "parent"
        if context.step == (0 if below else 1):
            self.asked[who].set()
            await self.open[who].wait()
        return Plan((self._action(context, below),), usage=ONE)

    def _action(self, context: Context, below: bool) -> Action:
        if below:
            return Thought("hm") if context.step < 2 else FinalAnswer("part")
        match context.step:
            case 0:
                return spawn("part")
            case 1:
                return Thought("go on")
        action: Action = self._after(context)
        return action


def answer(context: Context) -> Action:
    return FinalAnswer("done")


def host(planner: Planner, store: MemoryStore, *tools: Any) -> Host:
    limits = Limits(max_non_progress=100, max_repeats=100)
    return Host(Loop(planner, tools, limits=limits), store, interval=0.01)


async def cut(parent: Host, planner: Gated, **limits: Any) -> str:
    """Dispatch a Task, and cut its limits while it and its child are in a call; return its id."""
    root = (await parent.dispatch(new_task(), limits={"max_cost": 40.0, **limits})).snapshot.id
    await planner.asked["parent"].wait()
    await planner.asked["child"].wait()
    await parent.retune(root, max_cost=6.0)
    planner.open["parent"].set()
    return root


async def told(store: MemoryStore, parent: Host, root: str) -> str:
    """Wait until the child was told of the cut; return its id."""
    below = next(task.id for task in await parent.find() if task.id != root)
    async with asyncio.timeout(10):
        while not (await store.load(below)).inbox:
            await asyncio.sleep(0.001)
    return below


async def test_a_run_waits_for_its_child_to_hear_of_a_cut() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = await cut(parent, planner)
        await told(store, parent, root)
        assert (await parent.get(root)).status is TaskStatus.RUNNING
        assert planner.calls == 3, "the parent's third call waits"
        planner.open["child"].set()
        task = await parent.wait(root)
    assert task.status == "success", task.failure
    assert planner.calls <= 6


async def test_a_child_that_ends_without_hearing_ends_the_wait() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = await cut(parent, planner)
        await parent.kill(await told(store, parent, root))
        task = await parent.wait(root)
    assert task.status == "success", task.failure


async def test_a_raise_ends_the_wait() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = await cut(parent, planner)
        await told(store, parent, root)
        await parent.retune(root, max_cost=60.0)
        task = await parent.wait(root)
    assert task.status == "success", task.failure
    assert planner.calls == 4, "the child is still in its first call"


async def test_a_pause_takes_effect_in_the_wait_and_the_wait_goes_on_afterwards() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = await cut(parent, planner)
        await told(store, parent, root)
        await parent.pause(root)
        await parent.wait(root, TaskStatus.PAUSED)
        await parent.resume(root)
        planner.open["child"].set()
        task = await parent.wait(root)
    assert task.status == "success", task.failure


async def test_a_kill_ends_the_wait() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = await cut(parent, planner)
        await told(store, parent, root)
        await parent.kill(root)
        task = await parent.wait(root)
    assert task.status == "cancelled"
    assert planner.calls == 3


async def test_the_limit_of_time_ends_the_wait() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = await cut(parent, planner, max_seconds=0.5)
        task = await parent.wait(root)
    assert task.failure is not None
    assert task.failure.code in ("engine/timeout", "engine/max_cost")
    assert planner.calls == 3


async def test_nobody_waits_for_a_child_that_is_paused() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 40.0})).snapshot.id
        await planner.asked["parent"].wait()
        await planner.asked["child"].wait()
        below = next(task.id for task in await parent.find() if task.id != root)
        await parent.pause(below)
        planner.open["child"].set()
        await parent.wait(below, TaskStatus.PAUSED)
        await parent.retune(root, max_cost=6.0)
        planner.open["parent"].set()
        task = await parent.wait(root)
    assert task.failure is not None
    assert task.failure.code == "engine/max_cost"


async def test_a_limit_that_the_cut_leaves_no_room_in_ends_the_run_at_once() -> None:
    planner, store = Gated(answer), MemoryStore()
    async with host(planner, store) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 40.0})).snapshot.id
        await planner.asked["parent"].wait()
        await planner.asked["child"].wait()
        await parent.retune(root, max_cost=2.0)
        planner.open["parent"].set()
        task = await parent.wait(root)
    assert task.failure is not None
    assert task.failure.code == "engine/max_cost"


async def test_a_tool_call_waits_as_well() -> None:
    calls: list[str] = []

    @tool(effect="none")
    def note(text: str) -> str:
        """Note a text."""
        calls.append(text)
        return text

    def after(context: Context) -> Action:
        return ToolCall("note", {"text": "a"}) if context.step == 2 else FinalAnswer("done")

    planner, store = Gated(after), MemoryStore()
    async with host(planner, store, note) as parent:
        limits = {"max_tool_calls": 20}
        root = (await parent.dispatch(new_task(), limits=limits)).snapshot.id
        await planner.asked["parent"].wait()
        await planner.asked["child"].wait()
        await parent.retune(root, max_tool_calls=2)
        planner.open["parent"].set()
        await told(store, parent, root)
        assert not calls
        planner.open["child"].set()
        task = await parent.wait(root)
    assert task.status == "success", task.failure
    assert calls == ["a"]

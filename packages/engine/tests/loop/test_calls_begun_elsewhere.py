"""Tool calls that an earlier run began count as used, however the later run ends (R18)."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Host, Limits, Loop, Record
from agentic_kernel_engine.loop.continuation import CONTINUES
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.accounts import account_of
from agentic_kernel_engine.plans.action import Action, FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.transcript import Turn
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.terms import Terms
from agentic_kernel_engine.tools.tool import Tool, tool

from ..conftest import Crash
from ..delegating import as_tool, spawn
from ..scripting import Runner, new_task

pytestmark = pytest.mark.rule("R18")


class Acts:
    """A tool that counts the calls that were really begun; one of them waits.

    Args:
        held: The number of the call that waits.
        idempotent: True if a call may be made again.
    """

    def __init__(self, held: int, *, idempotent: bool = False) -> None:
        self.begun: dict[int, None] = {}
        self.reached = asyncio.Event()
        self._held: int | None = held
        self._idempotent = idempotent

    def tool(self) -> Tool:
        @tool(effect="write", idempotent=self._idempotent, concurrent=False)
        async def act(n: int) -> None:
            """Act."""
            self.begun[n] = None
            if n == self._held:
                self._held = None
                self.reached.set()
                await asyncio.Event().wait()

        return act


def calls(count: int) -> list[Action]:
    return [ToolCall("act", {"n": n}) for n in range(count)]


async def granted(runner: Runner, tool_calls: int) -> Task:
    """A Task with a grant, which a Host may claim."""
    task = apply(new_task(), Dispatch(), datetime.now(UTC))
    await runner.store.insert(Record(task, terms=Terms(grant={"tool_calls": tool_calls}).encoded()))
    return task


async def counted(runner: Runner, task: Task) -> tuple[int, list[str]]:
    """The tool calls on the account of an ended Task, and the errors of its first step."""
    account = account_of(await runner.store.load(task.id))
    assert account.ended
    assert not account.begun, "the Task's own end says what it used"
    events = await runner.events(task)
    used = account.spent.tool_calls or 0
    observed = [event for event in events if event.type == "step.observed"]
    if not observed:
        return used, []
    assert replay(events).spent.tool_calls == used, "the history says the same"
    return used, [each.get("error", "") for each in observed[0].data["observations"]]


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_cut_does_not_forget_the_calls_of_a_lost_run(
    runner: Runner, crash: Crash, idempotent: bool
) -> None:
    """A cut binds the calls that begin after it."""
    acts = Acts(2, idempotent=idempotent)
    first = runner.mortal(calls(3), tools=[acts.tool()])
    async with first:
        task = await granted(runner, 6)
        await acts.reached.wait()
        await crash(first)
    async with Host(store=runner.store) as control:
        await control.retune(task.id, max_tool_calls=1)
    async with runner.host(calls(3), tools=[acts.tool()]) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_tool_calls"
    used, errors = await counted(runner, task)
    assert used == len(acts.begun) == 3
    assert errors == ["" if idempotent else "indeterminate", "indeterminate", "indeterminate"]


@pytest.mark.parametrize("idempotent", [False, True])
async def test_only_the_calls_that_a_lost_run_had_room_for_count(
    runner: Runner, crash: Crash, idempotent: bool
) -> None:
    acts = Acts(2, idempotent=idempotent)
    first = runner.mortal(calls(5), tools=[acts.tool()])
    async with first:
        task = await granted(runner, 3)
        await acts.reached.wait()
        await crash(first)
    async with Host(store=runner.store) as control:
        await control.retune(task.id, max_tool_calls=2)
    async with runner.host(calls(5), tools=[acts.tool()]) as second:
        await second.wait(task.id)
    used, errors = await counted(runner, task)
    assert used == len(acts.begun) == 3
    assert errors[3:] == ["skipped", "skipped"]


async def test_calls_that_a_lost_run_had_no_room_for_are_made_after_a_raise(
    runner: Runner, crash: Crash
) -> None:
    acts = Acts(2)
    script = (calls(5), FinalAnswer("done"))
    task = new_task()
    first = runner.mortal(*script, tools=[acts.tool()])
    async with first:
        await first.dispatch(task, limits={"max_tool_calls": 3})
        await acts.reached.wait()
        await crash(first)
    async with Host(store=runner.store) as control:
        await control.retune(task.id, max_tool_calls=9)
    async with runner.host(*script, tools=[acts.tool()]) as second:
        done = await second.wait(task.id)
    assert done.result == "done"
    _, errors = await counted(runner, task)
    assert errors == ["indeterminate"] * 3 + ["", ""]
    assert list(acts.begun) == [0, 1, 2, 3, 4]


async def test_the_deadline_does_not_forget_the_calls_of_a_lost_run(
    runner: Runner, crash: Crash
) -> None:
    acts, now = Acts(2), 0.0
    options: dict[str, Any] = {"tools": [acts.tool()], "limits": Limits(max_seconds=9.0)}
    first = runner.mortal(calls(3), **options, clock=lambda: now)
    async with first:
        task = await granted(runner, 6)
        await acts.reached.wait()
        await crash(first)
    late = itertools.chain([0.0], itertools.repeat(10.0))
    async with runner.host(calls(3), **options, clock=lambda: next(late)) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/timeout"
    assert await counted(runner, task) == (len(acts.begun), ["indeterminate"] * 3)


async def test_an_end_before_the_calls_are_settled_does_not_forget_them(
    runner: Runner, crash: Crash
) -> None:
    acts = Acts(2)
    first = runner.mortal(calls(3), tools=[acts.tool()])
    async with first:
        task = await granted(runner, 6)
        await acts.reached.wait()
        await crash(first)
    async with Host(store=runner.store) as control:
        await control.retune(task.id, max_non_progress=0, max_reflections=0)
    async with runner.host(calls(3), tools=[acts.tool()]) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/no_progress"
    assert await counted(runner, task) == (len(acts.begun), [])


async def test_a_limit_of_depth_does_not_forget_the_calls_of_a_lost_run(
    runner: Runner, crash: Crash
) -> None:
    acts = Acts(2)
    batch = [*calls(3), ToolCall("expert", {"instructions": "part"})]
    loop = Loop(ScriptedPlanner())
    async with Host(loop, runner.store, runtime_kinds=["expert"]) as expert:
        options: dict[str, Any] = {"tools": [acts.tool(), as_tool(expert)]}
        first = runner.mortal(batch, **options)
        async with first:
            task = await granted(runner, 9)
            await acts.reached.wait()
            await crash(first)
        async with Host(store=runner.store) as control:
            await control.retune(task.id, max_depth=0)
        async with runner.host(batch, **options) as second:
            done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_depth"
    used, errors = await counted(runner, task)
    assert errors[:3] == ["indeterminate"] * 3
    assert used >= len(acts.begun) == 3


async def test_a_kill_counts_calls_for_which_a_child_made_room(runner: Runner) -> None:
    """The room that a child gives back is stored before it is used."""
    acts = Acts(7)
    told: list[Any] = []

    def plan(context: Context) -> Any:
        if CONTINUES in context.task.metadata:
            told.extend(context.transcript)
            return FinalAnswer("done")
        if context.task.metadata.get("engine/depth", 0):
            return FinalAnswer("part")
        return [spawn("part"), Thought("hm"), calls(8)][context.step]

    async with runner.host(*[plan] * 3, tools=[acts.tool()]) as host:
        task = new_task()
        await host.dispatch(task, limits={"max_tool_calls": 10})
        await acts.reached.wait()
        await host.kill(task.id)
        await host.run(new_task(metadata={CONTINUES: task.id}))
    account = account_of(await runner.store.load(task.id))
    used = (account.spent.tool_calls or 0) + (account.begun_within(10).tool_calls or 0)
    assert used == len(acts.begun) == 8
    unsettled = [each.observations for each in told if isinstance(each, Turn)][-1]
    assert [each.error for each in unsettled] == ["indeterminate"] * 8

"""Crashes and pauses at every place of a step: nothing twice, nothing forgotten, no cap passed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import AskUser, Delegate, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Delta, Plan, Usage
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed
from agentic_kernel_engine.texts import Texts
from agentic_kernel_engine.tools.tool import ToolContext, tool

from ..conftest import Crash
from ..scripting import Runner, World, last_turn, new_task


class Gate:
    """A place where a run is held up, once."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.held = True

    async def pass_(self) -> None:
        self.reached.set()
        if self.held:
            await asyncio.Event().wait()

    def open(self) -> None:
        self.held = False
        self.reached = asyncio.Event()


class Slow:
    """A planner whose calls go through a gate before they answer as a script does."""

    def __init__(self, gate: Gate, *script: Any, worst: Usage) -> None:
        self._gate = gate
        self._script: Any = ScriptedPlanner(*script, worst=worst)
        self.worst_case = self._script.worst_case
        self.calls = 0

    async def plan(self, context: Context) -> Any:
        self.calls += 1
        await self._gate.pass_()
        return await self._script.plan(context)


@pytest.mark.rule("R17")
async def test_a_reservation_counts_as_spent_after_a_crash_in_the_call(
    runner: Runner, crash: Crash
) -> None:
    gate, worst = Gate(), Usage(100, 50)
    planner = Slow(gate, *[Plan((ToolCall("add", {"a": n, "b": n}),), usage=Usage(10, 5))
                           for n in range(9)], worst=worst)  # fmt: skip
    task = new_task()
    limits = Limits(max_output_tokens=110)
    host = runner.mortal(planner=planner, limits=limits)
    await host.dispatch(task)
    await gate.reached.wait()
    await crash(host)
    gate.open()
    async with runner.host(planner=planner, limits=limits) as second:
        done = await second.wait(task.id)
    events = await runner.events(task)
    spent = replay(events).spent
    assert [e.data["forfeited"] for e in events if e.type == "run.entered"] == [
        {"input_tokens": 100, "output_tokens": 50}
    ]
    assert done.failure is not None
    assert done.failure.code == "engine/max_tokens"
    # 50 forfeited; a call that may take 50 fits while 60 or less are spent: two more calls of 5.
    assert spent.output_tokens == 50 + 5 * 3
    assert spent.iterations == 1 + 3


class Remembering(InMemoryMemory):
    """A memory that is asked through a gate from the second step on."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate
        self._asked = 0

    async def recall(self, *args: Any, **kwargs: Any) -> Any:
        self._asked += 1
        if self._asked > 1:
            await self._gate.pass_()
        return await super().recall(*args, **kwargs)


@pytest.mark.rule("R17")
async def test_nothing_is_reserved_for_a_call_that_will_not_be_made(
    runner: Runner, crash: Crash
) -> None:
    gate = Gate()
    planner = ScriptedPlanner(
        Plan((ToolCall("add", {"a": 1, "b": 1}),), usage=Usage(10, 30)), worst=Usage(100, 50)
    )
    task = new_task()
    options: dict[str, Any] = {
        "planner": planner,
        "limits": Limits(max_output_tokens=60),
        "memory": Remembering(gate),
    }
    host = runner.mortal(**options)
    await host.dispatch(task)
    await gate.reached.wait()
    await crash(host)
    gate.open()
    async with runner.host(**options) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_tokens"
    assert replay(await runner.events(task)).spent.output_tokens == 30


@pytest.mark.rule("R17")
async def test_a_pause_between_two_steps_forfeits_nothing(runner: Runner) -> None:
    worst = Usage(100, 50)
    began = asyncio.Event()

    @tool(effect="none")
    async def wait() -> str:
        began.set()
        await asyncio.sleep(0.05)
        return "waited"

    planner = ScriptedPlanner(ToolCall("wait"), FinalAnswer(1), worst=worst)
    async with runner.host(planner=planner, tools=[wait]) as host:
        task = new_task()
        await host.dispatch(task)
        await began.wait()
        await host.pause(task.id)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        assert paused.metadata["engine/stop_reason"] == "interrupt"
        await host.resume(task.id)
        done = await host.wait(task.id)
    spent = replay(await runner.events(task)).spent
    assert done.status is TaskStatus.SUCCESS
    assert (spent.iterations, spent.output_tokens) == (2, 0)


@pytest.mark.parametrize(
    ("effect", "idempotent", "runs", "error"),
    [
        ("none", False, 2, ""),
        ("read", False, 2, ""),
        ("write", False, 1, "indeterminate"),
        ("destructive", False, 1, "indeterminate"),
        ("write", True, 2, ""),
    ],
)
async def test_a_crash_in_a_tool(
    runner: Runner, crash: Crash, effect: Any, idempotent: bool, runs: int, error: str
) -> None:
    gate = Gate()
    keys: list[str] = []
    seen: list[str] = []

    @tool(effect=effect, idempotent=idempotent)
    async def act(context: ToolContext) -> str:
        keys.append(context.key)
        await gate.pass_()
        return "acted"

    def look(context: Context) -> Any:
        seen.extend(o.error for o in last_turn(context).observations)
        return FinalAnswer("done")

    script = (ToolCall("act"), look)
    host = runner.mortal(*script, tools=[act])
    task = new_task()
    await host.dispatch(task)
    await gate.reached.wait()
    await crash(host)
    gate.open()
    async with runner.host(*script, tools=[act]) as second:
        done = await second.wait(task.id)
    assert done.result == "done"
    assert len(keys) == runs
    assert len(set(keys)) == 1, "the key is the same after a crash"
    assert seen == [error]


async def test_what_may_have_happened_before_a_crash_is_unknown_also_after_the_deadline(
    runner: Runner, crash: Crash
) -> None:
    """A call with effects that is not made again is not said to be skipped."""
    gate, now = Gate(), 0.0

    @tool(effect="write", idempotent=True)
    async def act() -> None:
        await gate.pass_()

    options: dict[str, Any] = {"tools": [act], "limits": Limits(max_seconds=9.0)}
    task = new_task()
    host = runner.mortal(ToolCall("act"), **options, clock=lambda: now)
    await host.dispatch(task)
    await gate.reached.wait()
    await crash(host)
    late = iter([0.0, *[10.0] * 1_000])
    async with runner.host(ToolCall("act"), **options, clock=lambda: next(late)) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/timeout"
    events = await runner.events(task)
    observed = [e.data["observations"] for e in events if e.type == "step.observed"]
    assert [each["error"] for each in observed[-1]] == ["indeterminate"]


async def test_pauses_in_the_middle_of_an_answer_keep_the_text_and_give_it_back(
    runner: Runner,
) -> None:
    spoken = asyncio.Event()
    given: list[str] = []

    async def slowly() -> None:
        spoken.set()
        await asyncio.sleep(0.002)

    def answer(context: Context) -> Any:
        given.append(context.continuation)
        first, *rest = [f"more {len(given)} "] * 500 if len(given) < 3 else ["end"]
        beginning = Delta(first, at=len(context.continuation))
        return Streamed(beginning, *rest, plan=FinalAnswer("said"), pause=slowly)

    async with runner.host(answer) as host:
        task = new_task()
        await host.dispatch(task)
        for _ in range(2):
            await spoken.wait()
            await host.pause(task.id)
            await host.wait(task.id, TaskStatus.PAUSED)
            spoken.clear()
            await host.resume(task.id)
        done = await host.wait(task.id)
    assert done.result == "said"
    assert given[0] == ""
    assert given[1].startswith("more 1 ")
    assert given[2].startswith(given[1] + "more 2 ")
    assert len(given[2]) < 500 * 5
    assert Texts(await runner.events(task)).text() == given[2] + "end"


async def test_a_kill_in_a_tool_leaves_no_second_run(runner: Runner, world: World) -> None:
    gate = Gate()

    @tool(effect="write")
    async def act() -> str:
        await gate.pass_()
        world.done.append("acted")
        return "acted"

    async with runner.host(ToolCall("act"), FinalAnswer(1), tools=[act]) as host:
        task = new_task()
        await host.dispatch(task)
        await gate.reached.wait()
        await host.kill(task.id)
        assert (await host.wait(task.id)).status is TaskStatus.CANCELLED
    assert world.done == []


async def test_limits_are_retuned_from_another_host_while_the_task_runs(runner: Runner) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="none")
    async def act(n: int) -> int:
        reached.set()
        await go_on.wait()
        return n

    script = [ToolCall("act", {"n": n}) for n in range(50)]
    async with runner.host(*script, tools=[act]) as host, Host(store=runner.store) as control:
        task = new_task()
        await host.dispatch(task)
        await reached.wait()
        await control.retune(task.id, max_iterations=3, by="ops")
        go_on.set()
        done = await host.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_iterations"
    spent = replay(await runner.events(task)).spent
    assert spent.iterations == 3


async def test_a_pause_while_waiting_for_a_child_does_not_redo_the_calls_beside_it(
    runner: Runner, world: World
) -> None:
    """Nor does it forget what came of them."""
    gate = Gate()
    seen: list[Any] = []

    @tool(effect="none")
    async def linger() -> str:
        await gate.pass_()
        return "lingered"

    def answer(context: Context) -> Any:
        if context.task.instructions == "child":
            return [ToolCall("linger"), FinalAnswer("well done")][context.step]
        if context.step == 0:
            return Delegate("spawn", instructions="child")
        if context.step == 1:
            spawned: Any = context.transcript[-1]
            child = spawned.observations[0].output["child"]
            return [ToolCall("write", {"text": "once"}), Delegate("join", child=child)]
        last: Any = context.transcript[-1]
        seen.extend((each.error, each.output) for each in last.observations)
        return FinalAnswer("done")

    tools = [*world.tools(), linger]
    async with runner.host(*[answer] * 5, tools=tools) as host:
        task = new_task()
        await host.dispatch(task)
        await gate.reached.wait()
        while not world.done:
            await asyncio.sleep(0.001)
        await host.pause(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        (child,) = await host.store.find(parent=task.id)
        await host.kill(child.task.id)
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "done"
    assert world.done == ["write once"]
    assert seen[0] == ("", "written")
    assert seen[1][0] == "child_failed"


async def test_an_effect_whose_tool_is_gone_after_the_crash_is_indeterminate(
    runner: Runner, crash: Crash
) -> None:
    gate = Gate()
    seen: list[str] = []

    @tool(effect="write")
    async def act() -> str:
        await gate.pass_()
        return "acted"

    def look(context: Context) -> Any:
        seen.extend(o.error for o in last_turn(context).observations)
        return FinalAnswer("done")

    host = runner.mortal(ToolCall("act"), look, tools=[act])
    task = new_task()
    await host.dispatch(task)
    await gate.reached.wait()
    await crash(host)
    async with runner.host(ToolCall("act"), look, tools=[]) as second:
        assert (await second.wait(task.id)).result == "done"
    assert seen == ["indeterminate"]


async def test_what_was_retuned_before_holds_when_another_limit_is_retuned(
    runner: Runner,
) -> None:
    left: list[Any] = []

    def look(context: Context) -> Any:
        left.append((context.remaining.tool_calls, context.remaining.cost))
        return FinalAnswer("done")

    async with runner.host(AskUser("go on?"), look) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.retune(task.id, max_tool_calls=3)
        await host.retune(task.id, max_cost=2.0)
        await host.answer(task.id, "yes")
        await host.wait(task.id)
    assert left == [(3, 2.0)]

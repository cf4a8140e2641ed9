"""Delegation: who may give work to whom, where it goes, and what the parent is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import CannotStart, Dispatch, Kill, Pause, Task, TaskStatus, apply
from agentic_kernel_engine import Host, Limits, Loop
from agentic_kernel_engine.plans.action import Delegate, FinalAnswer, PushGoal, Thought, ToolCall
from agentic_kernel_engine.seams.child_tasks import ChildTasks
from agentic_kernel_engine.seams.delegation import DelegationRefused, decisions_for
from agentic_kernel_engine.seams.on_runtime import OnRuntime
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner

from ..delegating import Held, Roles, join, last, spawn, told
from ..scripting import Runner, World, new_task


async def test_a_child_knows_where_its_work_came_from(runner: Runner) -> None:
    planner = Roles(
        root=[spawn("child", "acme/two"), join, told],
        child=[spawn("leaf"), join, told],
        leaf=[FinalAnswer("leaf's")],
    )
    async with runner.host(planner=planner) as host:
        task = new_task(instructions="root", agent_name="acme/one")
        done = await host.run(task)
        (child,) = await host.store.find(parent=task.id)
        (leaf,) = await host.store.find(parent=child.task.id)
    assert done.status is TaskStatus.SUCCESS
    assert child.task.metadata["engine/depth"] == 1
    assert child.task.metadata["engine/parent"] == task.id
    assert child.task.metadata["engine/lineage"] == ["acme/one", "acme/two"]
    assert leaf.task.metadata["engine/depth"] == 2
    assert leaf.task.metadata["engine/lineage"] == ["acme/one", "acme/two"]


@pytest.mark.parametrize(
    ("chain", "refused"),
    [
        (["a/one", "a/two", "a/three"], False),
        (["a/one", "a/one"], True),
        (["a/one", "a/two", "a/one"], True),
        (["a/one", "a/two", None, "a/two"], True),
        (["a/one", None, None], False),
    ],
)
@pytest.mark.parametrize("cycles", [False, True])
async def test_work_does_not_come_back_to_an_agent_that_it_came_through(
    runner: Runner, chain: list[str | None], refused: bool, cycles: bool
) -> None:
    def below(context: Context) -> Any:
        depth = int(context.task.instructions)
        if depth == len(chain) - 1:
            return FinalAnswer("bottom")
        return spawn(str(depth + 1), chain[depth + 1])

    class Down:
        async def plan(self, context: Context) -> Any:
            if context.step == 0:
                return below(context)
            if context.step == 1 and not last(context)[0].error:
                return join(context)
            observation = last(context)[0]
            if observation.error:
                return FinalAnswer(observation.message)
            return FinalAnswer(observation.output["result"])

    delegation = ChildTasks(cycles=cycles)
    async with runner.host(planner=Down(), delegation=delegation) as host:
        done = await host.run(new_task(instructions="0", agent_name=chain[0]))
    if refused and not cycles:
        assert f"the work came from {chain[-1]!r} already" in done.result
    else:
        assert done.result == "bottom"


async def test_nothing_is_written_for_a_child_that_is_refused(runner: Runner) -> None:
    script = (spawn("child", "a/one"), told)
    async with runner.host(*script) as host:
        task = new_task(agent_name="a/one")
        done = await host.run(task)
        assert await host.store.find(parent=task.id) == []
    error, output, message = done.result
    assert (error, output) == ("child_failed", None)
    assert "do it here, or give it to another" in message
    assert "child.spawned" not in [event.type for event in await runner.events(task)]


async def test_one_level_too_deep_ends_the_run(runner: Runner) -> None:
    class Deeper:
        async def plan(self, context: Context) -> Any:
            if context.step == 0:
                return spawn("deeper")
            return join(context) if context.step == 1 else told(context)

    async with runner.host(planner=Deeper(), limits=Limits(max_depth=2)) as host:
        done = await host.run(new_task(instructions="deeper"))
        tasks = await host.find()
    assert len(tasks) == 3
    deepest = max(tasks, key=lambda task: task.metadata.get("engine/depth", 0))
    assert deepest.failure is not None
    assert deepest.failure.code == "engine/max_depth"
    assert done.result[1]["result"][1]["code"] == "engine/max_depth"


async def test_a_child_that_fails_is_an_observation_with_its_code(runner: Runner) -> None:
    planner = Roles(root=[spawn("child"), join, told], child=[Thought("hm")] * 9)
    limits = Limits(max_iterations=6)  # The child gets 2 of the 4 that the next call leaves.
    async with runner.host(planner=planner, limits=limits) as host:
        done = await host.run(new_task(instructions="root"))
    error, output, message = done.result
    assert error == "child_failed"
    assert (output["status"], output["code"]) == ("failure", "engine/max_iterations")
    assert "engine/max_iterations" in message


class Catalogue(ChildTasks):
    """The Agents to which each Agent may give work, by name."""

    def __init__(self, allowed: Mapping[str | None, Sequence[str]]) -> None:
        super().__init__()
        self._allowed = allowed

    def admit(self, parent: Task, child: Task) -> Task:
        if child.agent_name not in self._allowed.get(parent.agent_name, ()):
            raise DelegationRefused(f"{parent.agent_name} may not ask {child.agent_name}")
        return super().admit(parent, child)


@pytest.mark.parametrize("agent", ["a/writer", "a/mayor", None])
async def test_a_delegation_decides_who_may_give_work_to_whom(
    runner: Runner, agent: str | None
) -> None:
    planner = Roles(root=[spawn("child", agent), told], child=[FinalAnswer("well")])
    delegation = Catalogue({"a/editor": ["a/writer"]})
    async with runner.host(planner=planner, delegation=delegation) as host:
        task = new_task(instructions="root", agent_name="a/editor")
        done = await host.run(task)
        children = await host.store.find(parent=task.id)
    if agent == "a/writer":
        assert (done.result[0], len(children)) == ("", 1)
    else:
        assert done.result == ["child_failed", None, f"a/editor may not ask {agent}"]
        assert children == []


async def test_work_can_go_to_another_runtime_over_another_store(runner: Runner) -> None:
    elsewhere = Host(Loop(Roles(child=[FinalAnswer("from elsewhere")])), grace=0)
    planner = Roles(root=[spawn("child"), join, told])
    async with elsewhere, runner.host(planner=planner, delegation=OnRuntime(elsewhere)) as host:
        task = new_task(instructions="root")
        done = await host.run(task)
        assert len(await host.find()) == 1
        (child,) = await elsewhere.find()
    assert done.result[1] == {"child": child.id, "result": "from elsewhere"}
    assert child.metadata["engine/parent"] == task.id


class Refusing:
    """A Runtime that starts nothing."""

    def __init__(self, inner: Host) -> None:
        self.get = inner.get

    async def dispatch(self, task: Task) -> object:
        raise CannotStart("closed for today", task.id)


async def test_a_runtime_that_starts_nothing_is_an_observation(runner: Runner) -> None:
    planner = Roles(root=[spawn("child"), told])
    async with Host() as other:
        delegation = OnRuntime(Refusing(other))  # type: ignore[arg-type]
        async with runner.host(planner=planner, delegation=delegation) as host:
            done = await host.run(new_task(instructions="root"))
    assert done.result[0] == "child_failed"
    assert "closed for today" in done.result[2]


class Full(Refusing):
    """A Runtime that has started the child, and says that it cannot: its answer was lost."""

    def __init__(self, inner: Host) -> None:
        super().__init__(inner)
        self._inner = inner

    async def dispatch(self, task: Task) -> object:
        await self._inner.dispatch(task)
        return await super().dispatch(task)


@pytest.mark.rule("R13")
async def test_a_child_that_is_there_counts_as_started_whatever_the_runtime_says(
    runner: Runner,
) -> None:
    elsewhere = Host(Loop(Roles(child=[FinalAnswer("there")])), grace=0)
    planner = Roles(root=[spawn("child"), join, told])
    delegation = OnRuntime(Full(elsewhere))  # type: ignore[arg-type]
    async with elsewhere, runner.host(planner=planner, delegation=delegation) as host:
        done = await host.run(new_task(instructions="root"))
        (child,) = await elsewhere.find()
    assert done.result[1] == {"child": child.id, "result": "there"}


@pytest.mark.rule("R12")
def test_a_child_is_told_last_what_it_asks_for_now() -> None:
    """The last decision lets the child go on, so the child must have the others by then."""
    asks = {"kind": "approval", "requests": [{"digest": "now", "action": {}, "reason": ""}]}
    now = datetime.now(UTC)
    running = apply(new_task(), Dispatch(), now)
    child = apply(running, Pause(notes={"engine/waiting_for": asks}), now)
    decisions = [{"digest": "now"}, {"digest": "later"}, {"digest": "now", "by": "ann"}]
    assert decisions_for(child, decisions) == [decisions[1], decisions[0], decisions[2]]
    assert decisions_for(apply(running, Kill(), now), decisions) == []


async def test_somebody_elses_child_can_neither_be_joined_nor_cancelled(runner: Runner) -> None:
    async with Host(Loop(ScriptedPlanner(FinalAnswer(1))), grace=0) as elsewhere:
        other = await elsewhere.run(new_task(id="stranger"))
        script = (
            Delegate("join", child=other.id), lambda context: Delegate("cancel", child=other.id),
            lambda context: FinalAnswer([each.observations[0].error
                                         for each in context.transcript[1:]]),
        )  # fmt: skip
        async with runner.host(*script, delegation=OnRuntime(elsewhere)) as host:
            assert (await host.run(new_task())).result == ["child_failed"] * 2


async def test_a_pause_while_waiting_repeats_nothing_of_the_batch(
    runner: Runner, world: World
) -> None:
    held = Held()

    def batch(context: Context) -> Any:
        return [PushGoal("once"), ToolCall("write", {"text": "once"}), join(context)]

    roles = Roles(
        root=[spawn("child"), batch, lambda context: FinalAnswer(list(context.goals))],
        child=[ToolCall("hold"), FinalAnswer("late")],
    )
    tools = [*world.tools(), held.tool()]
    async with runner.host(planner=roles, tools=tools) as host:
        task = new_task(instructions="root")
        await host.dispatch(task)
        await held.reached.wait()
        while not world.done:
            await asyncio.sleep(0.001)
        await host.pause(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        held.go.set()
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == ["once"]
    assert world.done == ["write once"]

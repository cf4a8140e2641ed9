"""A Host as a tool of another: one child a call, found again after a crash, bounded and swept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, Router
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.seams.agent_tool import AgentTool
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.tool import Tool, tool

from ..approving import AskForWrites, write
from ..conftest import Crash
from ..delegating import Held, Late, as_tool, expert, last, told
from ..scripting import Runner, World, new_task

ASK = ToolCall("expert", {"instructions": "help"})


async def test_a_call_runs_a_child_there_and_gives_its_result(runner: Runner) -> None:
    async with expert(FinalAnswer({"is": 42})) as other:
        tools = [as_tool(other, agent="acme/expert")]
        async with runner.host(ASK, told, tools=tools) as host:
            task = new_task(agent_name="acme/asker")
            done = await host.run(task)
        (child,) = await other.find()
    assert done.result == ["", {"is": 42}, ""]
    assert (child.instructions, child.summary) == ("help", "expert")
    assert (child.runtime_kind, child.agent_name) == ("expert", "acme/expert")
    assert child.metadata["engine/parent"] == task.id
    assert child.metadata["engine/lineage"] == ["acme/asker", "acme/expert"]


def test_it_is_prepared_and_may_be_repeated() -> None:
    made = as_tool(Host())
    assert (made.effect, made.idempotent, made.repeatable) == ("write", True, True)
    assert made.description == "Knows it all."
    with pytest.raises(InvalidValue, match="name"):
        Host().as_tool(name="no name", description="")


async def test_a_child_that_fails_is_an_observation_with_its_code(runner: Runner) -> None:
    async with (
        expert(*[Thought("hm")] * 9, limits=Limits(max_iterations=2)) as other,
        runner.host(ASK, told, tools=[as_tool(other)]) as host,
    ):
        error, output, message = (await host.run(new_task())).result
    assert (error, output["code"]) == ("child_failed", "engine/max_iterations")
    assert "engine/max_iterations" in message


async def test_arguments_that_do_not_fit_start_nothing(runner: Runner) -> None:
    async with expert(FinalAnswer(1)) as other:
        script = (ToolCall("expert", {"instruct": "help"}), told)
        async with runner.host(*script, tools=[as_tool(other)]) as host:
            assert (await host.run(new_task())).result[0] == "schema_validation_failed"
        assert await other.find() == []


@pytest.mark.rule("R13")
async def test_a_call_that_is_repeated_after_a_crash_joins_the_same_child(
    runner: Runner, crash: Crash
) -> None:
    held = Held()
    script = (ToolCall("hold"), FinalAnswer("one"))
    async with expert(*script, tools=[held.tool()]) as other:
        tools = [as_tool(other)]
        host = runner.mortal(ASK, told, tools=tools)
        task = new_task()
        await host.dispatch(task)
        await held.reached.wait()
        await crash(host)
        async with runner.host(ASK, told, tools=tools) as second:
            held.go.set()
            assert (await second.wait(task.id)).result == ["", "one", ""]
        assert len(await other.find()) == 1


async def test_the_same_call_at_another_step_is_another_child(runner: Runner) -> None:
    async with expert(FinalAnswer(1)) as other:
        async with runner.host([ASK, ASK], ASK, told, tools=[as_tool(other)]) as host:
            await host.run(new_task())
        assert len(await other.find()) == 3


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.rule("R13")
async def test_a_kill_of_the_caller_kills_the_child(runner: Runner, shared: bool) -> None:
    held = Held()
    script = (ToolCall("hold"), FinalAnswer("late"))
    store = runner.store if shared else None
    async with (
        expert(*script, tools=[held.tool()], store=store) as other,
        runner.host(ASK, told, tools=[as_tool(other)]) as host,
    ):
        task = new_task()
        await host.dispatch(task)
        await held.reached.wait()
        (child,) = [each for each in await other.find() if each.id != task.id]
        await host.kill(task.id)
        assert (await other.wait(child.id)).status is TaskStatus.CANCELLED


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.rule("R13")
async def test_a_kill_of_a_paused_caller_kills_the_child(runner: Runner, shared: bool) -> None:
    """Also one that asks; and nothing is left that people are asked for."""
    store = runner.store if shared else None
    policy = AskForWrites()
    world = World()
    async with (
        expert(
            write("a"), FinalAnswer("late"), tools=world.tools(), policy=policy, store=store
        ) as other,
        runner.host(ASK, told, tools=[as_tool(other)]) as host,
    ):
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        (child,) = [each for each in await other.find() if each.id != task.id]
        assert child.status is TaskStatus.PAUSED
        await host.kill(task.id)
        async with asyncio.timeout(10):
            assert (await other.wait(child.id)).status is TaskStatus.CANCELLED


@pytest.mark.rule("R13")
async def test_a_kill_of_a_paused_caller_by_a_control_plane_kills_the_child_in_its_store(
    runner: Runner,
) -> None:
    """While nobody runs the caller."""
    held = Held()
    script = (ToolCall("hold"), FinalAnswer("late"))
    async with (
        expert(*script, tools=[held.tool()], store=runner.store) as other,
        runner.host(ASK, told, tools=[as_tool(other)]) as host,
    ):
        task = new_task()
        await host.dispatch(task)
        await held.reached.wait()
        await host.pause(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        (child,) = [each for each in await other.find() if each.id != task.id]
        async with Host(store=runner.store) as control:
            await control.kill(task.id)
        assert (await other.wait(child.id)).status is TaskStatus.CANCELLED


async def test_a_pause_of_the_caller_takes_effect_while_the_child_goes_on(
    runner: Runner, world: World
) -> None:
    """The other calls of the batch are not made again."""
    held = Held()
    script = (ToolCall("hold"), FinalAnswer("late"))

    def both(context: Context) -> Any:
        return FinalAnswer([observation.output for observation in last(context)])

    async with expert(*script, tools=[held.tool()]) as other:
        batch = [ToolCall("write", {"text": "once"}), ASK]
        tools = [*world.tools(), as_tool(other)]
        async with runner.host(batch, both, tools=tools) as host:
            task = new_task()
            await host.dispatch(task)
            await held.reached.wait()
            await host.pause(task.id)
            await host.wait(task.id, TaskStatus.PAUSED)
            (child,) = await other.find()
            assert child.status is TaskStatus.RUNNING
            held.go.set()
            await other.wait(child.id)
            await host.resume(task.id)
            assert (await host.wait(task.id)).result == ["written", "late"]
        assert len(await other.find()) == 1
    assert world.done == ["write once"]
    spent = replay(await runner.events(task)).spent
    assert (spent.tool_calls, spent.failures) == (2, 0)


async def test_a_pause_that_is_withdrawn_leaves_the_caller_waiting(runner: Runner) -> None:
    held = Held()
    script = (ToolCall("hold"), FinalAnswer("late"))
    async with (
        expert(*script, tools=[held.tool()]) as other,
        runner.host(ASK, told, tools=[as_tool(other)]) as host,
    ):
        task = new_task()
        await host.dispatch(task)
        await held.reached.wait()
        await host.pause(task.id)
        await host.resume(task.id)
        held.go.set()
        assert (await host.wait(task.id)).result == ["", "late", ""]


def recursive(agent: str | None, **limits: Any) -> Host:
    """A Host whose every run has itself as a tool, and calls it."""
    tools: list[Tool] = []
    planner = ScriptedPlanner(ToolCall("self", {"instructions": "more"}), told)
    host = Host(Loop(planner, Late(tools), limits=Limits(**limits)), grace=0)
    tools.append(host.as_tool(name="self", description="", agent=agent))
    return host


async def test_an_agent_is_not_called_by_whom_it_called() -> None:
    async with recursive("acme/one") as host:
        result = (await host.run(new_task())).result
        assert len(await host.find()) == 2
    assert result[0] == ""
    assert result[1][0] == "child_failed"
    assert "came from 'acme/one' already" in result[1][2]


async def test_what_has_no_name_is_bounded_by_its_depth() -> None:
    async with recursive(None, max_depth=3) as host:
        await host.run(new_task())
        tasks = await host.find()
    assert sorted(str(task.metadata.get("engine/depth", 0)) for task in tasks) == list("0123")
    codes = [task.failure.code for task in tasks if task.failure is not None]
    assert codes == ["engine/max_depth"]


async def test_depth_is_bounded_over_both_ways_of_delegation(runner: Runner) -> None:
    async with expert(FinalAnswer(1)) as other:
        limits = Limits(max_depth=2)
        async with runner.host(ASK, told, tools=[as_tool(other)], limits=limits) as host:
            fine = await host.run(new_task(metadata={"engine/depth": 1}))
            deep = await host.run(new_task(metadata={"engine/depth": 2}))
        assert len(await other.find()) == 1
    assert fine.result == ["", 1, ""]
    assert deep.failure is not None
    assert deep.failure.code == "engine/max_depth"


async def test_any_runtime_and_query_will_do(runner: Runner) -> None:
    """A Router has neither a wait nor a parent for what it dispatches."""
    held = Held()
    script = (ToolCall("hold"), FinalAnswer("routed"))
    async with expert(*script, tools=[held.tool()]) as other:
        routed = AgentTool(
            Router({"expert": other}), name="expert", description="", runtime_kind="expert"
        )
        async with runner.host(ASK, told, tools=[routed]) as host:
            task = new_task()
            await host.dispatch(task)
            await held.reached.wait()
            await host.pause(task.id)
            await host.wait(task.id, TaskStatus.PAUSED)
            await host.resume(task.id)
            held.go.set()
            assert (await host.wait(task.id)).result == ["", "routed", ""]
        assert len(await other.find()) == 1


async def test_a_child_that_cannot_be_started_is_an_observation(runner: Runner) -> None:
    async with (
        Host(None, runtime_kinds=["expert"]) as control,
        runner.host(ASK, told, tools=[as_tool(control)]) as host,
    ):
        error, _, message = (await host.run(new_task())).result
    assert error == "child_failed"
    assert "control plane" in message


async def test_an_id_of_somebody_elses_task_is_no_child(runner: Runner) -> None:
    taken: list[str] = []

    async with expert(FinalAnswer(1)) as other:

        class Thief:
            """A Runtime where somebody was first."""

            get = staticmethod(other.get)

            async def dispatch(self, task: Task) -> object:
                taken.append(task.id)
                await other.dispatch(
                    Task.new(summary="", instructions="", runtime_kind="expert", id=task.id)
                )
                return await other.dispatch(task)

        stolen = AgentTool(
            Thief(),  # type: ignore[arg-type]
            name="expert", description="", runtime_kind="expert",
        )  # fmt: skip
        async with runner.host(ASK, told, tools=[stolen]) as host:
            error, _, message = (await host.run(new_task())).result
    assert error == "child_failed"
    assert taken[0] in message


async def test_calls_of_several_agents_run_side_by_side(runner: Runner) -> None:
    both = asyncio.Barrier(2)

    @tool(effect="none")
    async def meet() -> str:
        await both.wait()
        return "met"

    script = (ToolCall("meet"), FinalAnswer("done"))

    def all_of(context: Context) -> Any:
        return FinalAnswer([observation.output for observation in last(context)])

    async with (
        expert(*script, tools=[meet]) as other,
        runner.host([ASK, ASK], all_of, tools=[as_tool(other)]) as host,
    ):
        async with asyncio.timeout(20):
            assert (await host.run(new_task())).result == ["done", "done"]

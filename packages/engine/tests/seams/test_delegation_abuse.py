"""Delegation by a planner that forges ids, lineage, depth or notes: it gains nothing by it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import CannotStart, TaskStatus
from agentic_kernel_engine import Host, Job, Limits, Loop
from agentic_kernel_engine.host.approvals_transport import InMemoryApprovals
from agentic_kernel_engine.host.polling import ASKED_EVERY, CLAIM_EVERY
from agentic_kernel_engine.plans.action import Delegate, FinalAnswer, ToolCall
from agentic_kernel_engine.seams.on_runtime import OnRuntime
from agentic_kernel_engine.seams.planner import Context

from ..conftest import LookedAt, Until
from ..delegating import Roles, as_tool, expert, join, spawn, told
from ..scripting import Runner, new_task


@pytest.mark.parametrize("verb", ["join", "cancel"])
async def test_a_task_that_is_no_child_of_the_run_is_none_to_it(runner: Runner, verb: Any) -> None:
    """The result of another Task is not for every caller that knows its id."""
    async with runner.host(FinalAnswer("confidential")) as host:
        other = await host.run(new_task())
    async with runner.host(Delegate(verb, child=other.id), told) as host:
        error, output, message = (await host.run(new_task())).result
    assert (error, output) == ("child_failed", None)
    assert other.id in message


@pytest.mark.parametrize("whom", ["itself", "its parent"])
async def test_nobody_waits_for_oneself_or_for_whom_waits_for_it(runner: Runner, whom: str) -> None:
    def up(context: Context) -> Any:
        task = context.task
        child = task.id if whom == "itself" else task.metadata["engine/parent"]
        return Delegate("join", child=str(child))

    planner = Roles(root=[spawn("child"), join, told], child=[up, told])
    async with asyncio.timeout(20), runner.host(planner=planner) as host:
        done = await host.run(new_task(instructions="root"))
    assert done.result[1]["result"][0] == "child_failed"


@pytest.mark.parametrize("agent", ["nobody", "a/b/c", "", "a/b\n", "a/\u202e"])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_an_agent_that_cannot_be_is_an_observation(
    runner: Runner, agent: str, elsewhere: bool
) -> None:
    async with expert(FinalAnswer(1)) as other:
        delegation = OnRuntime(other, runtime_kind="expert") if elsewhere else None
        async with runner.host(spawn("child", agent), told, delegation=delegation) as host:
            error, _, message = (await host.run(new_task())).result
        assert await other.find() == []
    assert error == "child_failed"
    assert "agent_name" in message


@pytest.mark.parametrize("child", ["", "../x", "x" * 100_000, "\u202e"])
@pytest.mark.parametrize("verb", ["join", "cancel"])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_an_id_that_cannot_be_is_an_observation(
    runner: Runner, child: str, verb: Any, elsewhere: bool
) -> None:
    async with expert(FinalAnswer(1)) as other:
        delegation = OnRuntime(other) if elsewhere else None
        script = (Delegate(verb, child=child), told)
        async with runner.host(*script, delegation=delegation) as host:
            error, _, message = (await host.run(new_task())).result
    assert error == "child_failed"
    assert len(message) <= 2_000


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 10_000_000], ids=["nul", "half", "long"])
@pytest.mark.parametrize("way", ["spawn", "tool"])
async def test_what_no_store_can_hold_is_no_plan(runner: Runner, way: str, text: str) -> None:
    async with expert(FinalAnswer(1)) as other:
        plan = spawn(text) if way == "spawn" else ToolCall("expert", {"instructions": text})
        async with runner.host(plan, told, tools=[as_tool(other)]) as host:
            done = await host.run(new_task())
            assert len(await host.find()) == 1
        assert await other.find() == []
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert "cannot be stored" in done.failure.message


@pytest.mark.parametrize("way", ["spawn", "tool"])
async def test_megabytes_of_instructions_reach_the_child(runner: Runner, way: str) -> None:
    text = "x" * 4_000_000

    class Length:
        async def plan(self, context: Context) -> Any:
            return FinalAnswer(len(context.task.instructions))

    async with Host(Loop(Length()), runtime_kinds=["expert"], grace=0) as other:
        script: tuple[Any, ...] = (ToolCall("expert", {"instructions": text}), told)
        if way == "spawn":
            script = (spawn(text), join, told)
        delegation = OnRuntime(other, runtime_kind="expert")
        async with runner.host(*script, tools=[as_tool(other)], delegation=delegation) as host:
            done = await host.run(new_task())
    assert "4000000" in str(done.result[1])


@pytest.mark.parametrize("depth", [-5, "x", True, 1.5, None, [1]])
async def test_a_forged_depth_allows_no_more_than_none(runner: Runner, depth: Any) -> None:
    class Deeper:
        async def plan(self, context: Context) -> Any:
            if context.step == 0:
                return spawn("deeper")
            return join(context) if context.step == 1 else told(context)

    async with runner.host(planner=Deeper(), limits=Limits(max_depth=2)) as host:
        await host.run(new_task(instructions="deeper", metadata={"engine/depth": depth}))
        assert len(await host.find()) <= 3


@pytest.mark.parametrize("forged", [[], ["a/other"], "a/one", [1, 2], {"a": 1}, [["a/one"]]])
async def test_a_forged_lineage_hides_nobodys_own_name(runner: Runner, forged: Any) -> None:
    async with runner.host(spawn("child", "a/one"), told) as host:
        task = new_task(agent_name="a/one", metadata={"engine/lineage": forged})
        done = await host.run(task)
        assert await host.store.find(parent=task.id) == []
    assert done.result[0] == "child_failed"


@pytest.mark.parametrize("note", ["engine/stop_reason", "engine/waiting_for"])
async def test_what_only_the_loop_may_note_does_not_come_in_with_a_task(
    runner: Runner, note: str
) -> None:
    async with runner.host(FinalAnswer(1)) as host:
        with pytest.raises(CannotStart, match=note):
            await host.dispatch(new_task(metadata={note: {"kind": "approval"}}))
        assert await host.find() == []


@pytest.mark.parametrize(
    "note",
    [{"kind": "approval"}, {"kind": "approval", "requests": [{}]}, {"kind": "question"},
     {"kind": "question", "digest": 1}, {"kind": "question", "digest": "x", "children": 5},
     {"kind": "approval", "requests": "x", "children": ["y"]}, {"kind": ["approval"]}, "x", 5],
)  # fmt: skip
async def test_a_strange_note_is_no_request(until: Until, note: Any) -> None:
    """Of a substrate that is no Loop: neither its pause nor those of others are disturbed."""

    class Odd:
        async def execute(self, job: Job) -> Any:
            if job.state is not None:
                return "went on"
            job.note("engine/waiting_for", note)
            await job.pause("state")

    approvals, store = InMemoryApprovals(), LookedAt()
    async with Host(Odd(), store, approvals=approvals, grace=0, interval=0.001) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        enough = store.rounds + ASKED_EVERY // CLAIM_EVERY + 1
        await until(lambda: store.rounds > enough)
        assert (await host.get(task.id)).status is TaskStatus.PAUSED
        assert [each.task_id for each in approvals.open] in ([], [task.id])
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "went on"

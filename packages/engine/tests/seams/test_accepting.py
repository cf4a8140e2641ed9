"""A planner that says beforehand whom it can serve."""

from __future__ import annotations

import pytest

from agentic_kernel import CannotStart, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer
from agentic_kernel_engine.seams.planners import ScriptedPlanner

from ..scripting import Runner, new_task


class Keyed(ScriptedPlanner):
    """Plans only while it has a key."""

    key = True

    async def accept(self, task: Task) -> None:
        if not self.key:
            raise CannotStart("there is no key; set ACME_API_KEY", task.id)


async def test_a_task_that_cannot_be_planned_for_is_refused_and_leaves_no_trace(
    runner: Runner,
) -> None:
    planner = Keyed(FinalAnswer(1))
    planner.key = False
    task = new_task()
    async with runner.host(planner=planner) as host:
        with pytest.raises(CannotStart, match="ACME_API_KEY"):
            await host.dispatch(task)
        with pytest.raises(TaskNotFound):
            await host.get(task.id)


async def test_a_task_that_is_taken_up_where_it_cannot_be_planned_for_is_paused(
    runner: Runner,
) -> None:
    planner = Keyed(AskUser("which?"), FinalAnswer(1))
    task = new_task()
    async with runner.host(planner=planner) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        planner.key = False
        await host.answer(task.id, "that")
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        assert paused.metadata["engine/stop_reason"] == "interrupt"
        planner.key = True
        await host.resume(task.id)
        done = await host.wait(task.id)
    assert done.result == 1
    reasons = [e.data.get("reason") for e in await runner.events(task) if e.type == "task.paused"]
    assert "ACME_API_KEY" in str(reasons[-1])

"""One budget for a family (R18): children use a part of what their parent has left."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_engine import Host, Limits, Loop, MemoryStore
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.planner import Context, Forecast, Planner

from ..delegating import as_tool, join, last, spawn
from ..scripting import new_task

ONE = Usage(cost=1.0)


class Costly(Planner, Forecast):
    """Every answer costs 1.0; all that was spent is counted, whichever Task spent it."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self.spent: list[tuple[str, Usage]] = []

    def worst_case(self, context: Context) -> Usage:
        return ONE

    async def plan(self, context: Context) -> Any:
        self.spent.append((context.task.id, ONE))
        actions = self._plan(context)
        return Plan(actions if isinstance(actions, tuple) else (actions,), usage=ONE)

    @property
    def cost(self) -> float:
        return sum(usage.cost for _, usage in self.spent)


@pytest.mark.rule("R18")
async def test_an_agent_as_a_tool_spends_from_its_callers_budget() -> None:
    store = MemoryStore()

    def below(context: Context) -> Any:
        return ToolCall("nowhere", {"n": context.step}) if context.step < 8 else FinalAnswer("x")

    def above(context: Context) -> Any:
        return ToolCall("expert", {"instructions": "do"})

    child = Costly(below)
    expert = Host(Loop(child), store, runtime_kinds=["expert"], interval=0.01, grace=0)
    parent = Costly(above)
    loop = Loop(parent, [as_tool(expert)], limits=Limits(max_cost=2.0))
    async with expert, Host(loop, store, runtime_kinds=["loop"], interval=0.01, grace=0) as host:
        task = await host.run(new_task())
    assert task.status == "failure", task
    assert child.cost + parent.cost <= 2.0, (child.cost, parent.cost)


@pytest.mark.rule("R18")
async def test_children_of_the_loop_spend_from_their_parents_budget() -> None:
    def plan(context: Context) -> Any:
        if context.task.metadata.get("engine/depth", 0):
            return ToolCall("nowhere", {"n": context.step})
        match context.step:
            case 0:
                return spawn("part")
            case 1:
                return join(context)
        return FinalAnswer(last(context)[0].output)

    planner = Costly(plan)
    loop = Loop(planner, limits=Limits(max_cost=7.0, max_iterations=50, max_non_progress=40))
    async with Host(loop, interval=0.01, grace=0) as host:
        task = await host.run(new_task())
        events = (await host.outcome(task.id)).events
    assert task.status == "success", (task.failure, list(events))
    assert planner.cost <= 7.0
    assert len(planner.spent) > 4
    (ended,) = [event for event in events if event.type == "child.ended"]
    assert ended.data["used"]["cost"] >= 1.0

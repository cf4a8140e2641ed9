"""The cost of turns and runs, as counts: they are the same on every machine and under any load."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from agentic_kernel_engine.plans.action import FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Plan
from agentic_kernel_engine.seams.planner import Context

from ..scripting import Runner, new_task
from .counting import counted

TURNS = 1_020
MOST = 71
"""Calls of Python functions in a turn, on average; there are about 69. A seam that is not used adds
none."""
RUNS = 200
MOST_OF_A_RUN = 266
"""The same in a whole run of two calls of the model, the event loop's own not counted."""
MOST_OBJECTS = 27
"""Objects of a waiting run that the garbage collector goes through: it does so again and again
while many runs begin, so that these are most of what ten thousand at once cost."""


async def test_a_tool_turn_makes_few_calls_and_no_more_of_them_after_a_thousand(
    runner: Runner,
) -> None:
    calls = [0]

    class Turning:
        async def plan(self, context: Context) -> Any:
            calls.append(0)
            if context.step == TURNS:
                return FinalAnswer(None)
            return Plan((ToolCall("add", {"a": context.step, "b": 1}),))

    limits = Limits(max_iterations=TURNS + 1)
    with counted(calls):
        task = await runner.run(planner=Turning(), limits=limits)
    assert task.status == "success"
    early, late = calls[10:20], calls[1_000:1_010]
    # One turn of sixteen also goes round the event loop.
    assert sum(calls[10:26]) <= MOST * 16, calls[10:26]
    assert sorted(late)[5] <= sorted(early)[5] + 2, (early, late)


class Held:
    """A planner whose first answers wait until all runs have asked for one."""

    def __init__(self, runs: int) -> None:
        self.asked = 0
        self.all_here = asyncio.Event()
        self.go_on = asyncio.Event()
        self._runs = runs

    async def plan(self, context: Context) -> Any:
        if context.step == 1:
            return FinalAnswer("done")
        self.asked += 1
        if self.asked == self._runs:
            self.all_here.set()
        await self.go_on.wait()
        return Thought("hm")


async def test_a_run_makes_few_calls_and_its_wait_few_objects(runner: Runner) -> None:
    planner, calls = Held(RUNS), [0]
    async with runner.host(planner=planner) as host:
        tasks = [new_task() for _ in range(RUNS)]
        gc.collect()
        before = len(gc.get_objects())
        with counted(calls):
            runs = [asyncio.create_task(host.run(task)) for task in tasks]
            await planner.all_here.wait()
        gc.collect()
        objects = len(gc.get_objects()) - before
        with counted(calls):
            planner.go_on.set()
            ended = await asyncio.gather(*runs)
    assert {task.status for task in ended} == {"success"}
    assert calls[0] <= MOST_OF_A_RUN * RUNS, calls[0] / RUNS
    assert objects <= MOST_OBJECTS * RUNS, objects / RUNS

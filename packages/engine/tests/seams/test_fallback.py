"""Planners that answer in place of one that failed: within the same caps, as any other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import FinalAnswer
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits, Remaining
from agentic_kernel_engine.plans.plan import Usage
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.middlewares import Fallback
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed

from ..failing import DONE, WORST, Bill, Failing, quick
from ..scripting import Runner, new_task


async def test_a_planner_is_left_alone_that_could_pass_a_cap_of_the_input(runner: Runner) -> None:
    dear = ScriptedPlanner(FinalAnswer("dear"), worst=Usage(101))
    cheap = ScriptedPlanner(FinalAnswer("cheap"), worst=Usage(100))
    for limits in (Limits(max_input_tokens=100), Limits(max_total_tokens=100)):
        planner = ScriptedPlanner(PlannerError("test/busy", "busy"))
        middleware = [Fallback(dear, cheap)]
        done = await runner.run(planner=planner, limits=limits, middleware=middleware)
        assert done.result == "cheap"


async def test_input_and_output_together_must_fit_what_is_left_in_all(runner: Runner) -> None:
    dear = ScriptedPlanner(FinalAnswer("dear"), worst=Usage(60, 60))
    planner = ScriptedPlanner(PlannerError("test/busy", "busy"))
    limits = Limits(max_total_tokens=100)
    done = await runner.run(planner=planner, limits=limits, middleware=[Fallback(dear)])
    assert done.failure is not None
    assert done.failure.code == "test/busy"


@pytest.mark.parametrize(
    ("remaining", "fits"),
    [
        (Remaining(1), True),
        (Remaining(1, input_tokens=100, output_tokens=50, total_tokens=150, cost=1.0), True),
        (Remaining(1, input_tokens=99), False),
        (Remaining(1, output_tokens=49), False),
        (Remaining(1, total_tokens=149), False),
        (Remaining(1, cost=0.99), False),
    ],
)
def test_what_is_left_covers_a_worst_case_or_does_not(remaining: Remaining, fits: bool) -> None:
    assert remaining.covers(WORST) is fits
    nothing_left = Remaining(1, cost=0.0)
    assert not nothing_left.covers(Usage()), "with nothing left, nothing more is begun"


async def test_a_fallback_is_made_again_itself_and_streams(runner: Runner) -> None:
    bill = Bill()

    class Other(Failing):
        def plan(self, context: Context) -> Any:
            if self.failures:
                return super().plan(context)
            return Streamed("he", "re", plan=FinalAnswer("other")).pieces()

    own = ScriptedPlanner(PlannerError("test/down", "down"))
    done = await runner.run(planner=own, middleware=[quick(), Fallback(Other(bill, 1))])
    assert bill.calls == 1, "the call that failed; the other one streams"
    assert done.result == "other"
    deltas = [e.data["text"] for e in await runner.events(done) if e.type == "run.delta"]
    assert "".join(deltas) == "here"


async def test_a_pause_cuts_a_fallback_short_like_any_other_answer(runner: Runner) -> None:
    spoken, task = asyncio.Event(), new_task()

    async def slowly() -> None:
        spoken.set()
        await asyncio.sleep(0.002)

    other = ScriptedPlanner(
        lambda context: Streamed(
            *["more "] * (500 if not context.continuation else 1), plan=DONE, pause=slowly
        ),
        worst=WORST,
    )
    planner = ScriptedPlanner(PlannerError("test/down", "down"))
    async with runner.host(planner=planner, middleware=[Fallback(other)]) as host:
        await host.dispatch(task)
        await spoken.wait()
        await host.pause(task.id)
        await asyncio.wait_for(host.wait(task.id, TaskStatus.PAUSED), 10)
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "done"
    assert replay(await runner.events(task)).spent.usage == Usage(110, 55, cost=1.1)


async def test_the_same_planner_named_twice_is_asked_once_more_and_not_for_ever(
    runner: Runner,
) -> None:
    bill = Bill()
    other = Failing(bill)
    planner = Failing(bill)
    done = await runner.run(planner=planner, middleware=[Fallback(other, other)])
    assert done.failure is not None
    assert (done.failure.code, bill.calls) == ("test/busy", 2)


async def test_an_endless_row_of_fallbacks_ends(runner: Runner) -> None:
    bill = Bill()

    class Always:
        async def on_error(self, context: Context, error: Exception) -> Recovery:
            return Recovery("fallback", planner=Failing(bill))

    done = await runner.run(planner=Failing(bill), middleware=[Always()])
    assert done.failure is not None
    assert (done.failure.code, bill.calls) == ("engine/retries", 10)

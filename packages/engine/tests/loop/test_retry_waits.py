"""A pause, a drain, a kill and the limit of time, while a call waits to be made again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Usage
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed

from ..conftest import Until
from ..failing import DONE, WORST, Bill, Failing, reason, slow
from ..scripting import Runner, new_task


async def failed_once(runner: Runner, until: Until, task: Task) -> None:
    """Until the first call has failed and the run is in its wait."""
    planner: Any = runner.loop.planner
    await until(lambda: planner.bill.calls == 1)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_pause_takes_effect_in_the_wait_and_keeps_what_was_spent(
    runner: Runner, until: Until
) -> None:
    task = new_task()
    async with runner.host(planner=Failing(Bill(), 1), middleware=[slow()]) as host:
        await host.dispatch(task)
        await failed_once(runner, until, task)
        await host.pause(task.id)
        paused = await asyncio.wait_for(host.wait(task.id, TaskStatus.PAUSED), 10)
        assert paused.status is TaskStatus.PAUSED
        assert reason(paused) == "interrupt"
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "done"
    events = await runner.events(task)
    assert replay(events).spent.usage == Usage(110, 55, cost=1.1)
    assert not [e for e in events if e.type == "run.entered"], "nothing was forfeited twice"


async def test_a_drain_takes_effect_in_the_wait(runner: Runner, until: Until) -> None:
    task = new_task()
    async with runner.host(planner=Failing(Bill(), 1), middleware=[slow()]) as host:
        await host.dispatch(task)
        await failed_once(runner, until, task)
        await asyncio.wait_for(host.drain(), 10)
    async with runner.host(planner=Failing(Bill(), 0)) as second:
        assert (await second.wait(task.id)).result == "done"
    assert replay(await runner.events(task)).spent.usage == Usage(110, 55, cost=1.1)


async def test_a_kill_takes_effect_in_the_wait(runner: Runner, until: Until) -> None:
    task, bill = new_task(), Bill()
    async with runner.host(planner=Failing(bill, 1), middleware=[slow()]) as host:
        await host.dispatch(task)
        await failed_once(runner, until, task)
        await host.kill(task.id)
        killed = await asyncio.wait_for(host.wait(task.id), 10)
    assert killed.status is TaskStatus.CANCELLED
    assert bill.calls == 1


async def test_a_pause_that_is_withdrawn_in_the_wait_leaves_the_run_waiting(
    runner: Runner, until: Until
) -> None:
    """The wait goes on to its end, and the call is made again."""
    task, bill = new_task(), Bill()
    async with runner.host(planner=Failing(bill, 1), middleware=[slow(0.3)]) as host:
        await host.dispatch(task)
        await failed_once(runner, until, task)
        await host.pause(task.id)
        await host.resume(task.id)
        assert (await asyncio.wait_for(host.wait(task.id), 10)).result == "done"
    assert bill.calls == 2


@pytest.mark.parametrize("delay", [600.0, 5.0])
async def test_a_wait_that_would_outlast_the_run_is_not_begun(runner: Runner, delay: float) -> None:
    """Nor is one that ends just then, because nothing new is begun any more."""
    bill = Bill()
    done = await asyncio.wait_for(
        runner.run(
            planner=Failing(bill, 1), middleware=[slow(delay)], limits=Limits(max_seconds=5),
            clock=lambda: 0.0,
        ),
        10,
    )  # fmt: skip
    assert (reason(done), bill.calls) == ("timeout", 1)


@pytest.mark.parametrize(
    ("delay", "says"),
    [
        (0.0, "seconds; raise max_seconds"),
        (0.01, "made again only after 0.1 seconds more; raise max_seconds"),
        (600.0, "made again only after 600.0 seconds more; raise max_seconds"),
    ],
)
async def test_the_end_of_time_names_a_wait_only_if_there_is_one(
    runner: Runner, delay: float, says: str
) -> None:
    now = [0.0]

    class Late:
        async def on_error(self, context: Context, error: Exception) -> Recovery:
            now[0] = 99.0
            return Recovery("retry", delay=delay)

    done = await runner.run(
        planner=Failing(Bill(), 1), middleware=[Late()], limits=Limits(max_seconds=50),
        clock=lambda: now[0],
    )  # fmt: skip
    assert done.failure is not None
    assert says in done.failure.message
    assert ("only after" in done.failure.message) == (delay > 0)


async def test_a_failure_while_the_clock_runs_out_in_the_wait_is_the_end(runner: Runner) -> None:
    bill, now = Bill(), [0.0]

    class Ticks:
        async def on_error(self, context: Context, error: Exception) -> Recovery:
            asyncio.get_running_loop().call_later(0.01, now.__setitem__, 0, 99.0)
            return Recovery("retry", delay=0.2)

    done = await runner.run(
        planner=Failing(bill, 1), middleware=[Ticks()], limits=Limits(max_seconds=50),
        clock=lambda: now[0],
    )  # fmt: skip
    assert (reason(done), bill.calls) == ("timeout", 1)


async def test_an_answer_that_the_limit_of_time_cuts_short_has_spent_its_reservation(
    runner: Runner,
) -> None:
    now = iter(range(1_000))
    said = Streamed(*["more "] * 100, plan=DONE)
    done = await runner.run(
        planner=ScriptedPlanner(said, worst=WORST), limits=Limits(max_seconds=20),
        clock=lambda: float(next(now)),
    )  # fmt: skip
    events = await runner.events(done)
    assert reason(done) == "timeout"
    assert replay(events).spent.usage == WORST
    (cut,) = [e.data for e in events if e.type == "run.cut"]
    assert cut["text"].startswith("more more ")

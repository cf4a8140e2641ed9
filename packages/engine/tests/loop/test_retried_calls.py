"""A planner's call that is made again: reserved anew, within every cap, and paused in between."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import FinalAnswer
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Usage
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.middlewares import Fallback
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner

from ..conftest import Crash, TappedStore
from ..failing import Bill, Failing, quick, reason
from ..scripting import Runner, new_task


@pytest.mark.rule("R17")
@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(max_input_tokens=350), "max_tokens"),
        (Limits(max_output_tokens=175), "max_tokens"),
        (Limits(max_total_tokens=500), "max_tokens"),
        (Limits(max_cost=3.5), "max_cost"),
    ],
    ids=["input", "output", "total", "cost"],
)
async def test_no_cap_is_passed_by_calls_that_are_made_again(
    runner: Runner, limits: Limits, why: str, fallback: bool
) -> None:
    bill = Bill()
    others = [Failing(bill) for _ in range(5)]
    middleware = [Fallback(*others)] if fallback else [quick()]
    done = await runner.run(planner=Failing(bill), limits=limits, middleware=middleware)
    again = replay(await runner.events(done))
    assert bill.calls == 3
    assert again.spent.usage == bill.charged
    # Fallback leaves planners alone that do not fit, so the first failure stands.
    assert reason(done) == ("error" if fallback else why)


@pytest.mark.rule("R17")
async def test_a_call_is_on_record_as_reserved_before_it_is_made_again(runner: Runner) -> None:
    """Whatever reaches the provider is in the store by then, as spent or as reserved."""
    bill = Bill()
    runner.store = TappedStore()
    task = new_task()
    covered: list[bool] = []

    class Watched(Failing):
        async def plan(self, context: Context) -> Any:
            record = await runner.store.load(task.id)
            state = msgspec.json.decode(record.state or b"{}")
            spent, reserved = state.get("spent", {}), state.get("reserved") or {}
            known = spent.get("input_tokens", 0) + reserved.get("input_tokens", 0)
            covered.append(known >= 100 * (self.bill.calls + 1))
            return await super().plan(context)

    planner = Watched(bill, 2)
    async with runner.host(planner=planner, middleware=[quick()]) as host:
        done = await host.run(task)
    assert done.result == "done"
    assert covered == [True] * 3
    used = replay(await runner.events(done)).spent.usage
    assert used == Usage(210, 105, cost=2.1)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("failures", [1, 2])
async def test_a_crash_in_a_call_that_was_made_again_forfeits_every_call(
    runner: Runner, crash: Crash, failures: int
) -> None:
    bill, reached = Bill(), asyncio.Event()

    class Hanging(Failing):
        async def plan(self, context: Context) -> Any:
            if not self.failures and not reached.is_set():
                self.bill.calls += 1
                reached.set()
                await asyncio.Event().wait()
            return await super().plan(context)

    planner, task = Hanging(bill, failures), new_task()
    host = runner.mortal(planner=planner, middleware=[quick()])
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    async with runner.host(planner=planner, middleware=[quick()]) as second:
        done = await second.wait(task.id)
    assert done.result == "done"
    events = await runner.events(task)
    assert replay(events).spent.usage == Usage(
        100 * (failures + 1) + 10, 50 * (failures + 1) + 5, cost=failures + 1.1
    )
    assert len([e for e in events if e.type == "run.entered"]) == 1
    assert len([e for e in events if e.type == "plan.failed"]) == failures


async def test_a_call_without_a_worst_case_is_made_again_without_a_write(runner: Runner) -> None:
    class Unknown:
        def __init__(self, failures: int) -> None:
            self.failures = failures

        async def plan(self, context: Context) -> Any:
            if context.failures < self.failures:
                raise PlannerError("test/busy", "busy")
            return FinalAnswer("done")

    writes = []
    for failures in (0, 5):
        runner.store = TappedStore()
        await runner.run(planner=Unknown(failures), middleware=[quick()])
        writes.append(runner.store.count("commit"))
    assert writes[0] == writes[1]


async def test_what_is_left_is_told_anew_to_every_call(runner: Runner) -> None:
    planner = Failing(Bill(), 2)
    limits = Limits(max_input_tokens=1_000, max_total_tokens=2_000, max_cost=9.0)
    await runner.run(planner=planner, limits=limits, middleware=[quick()])
    assert [each.input_tokens for each in planner.seen] == [1_000, 900, 800]
    assert [each.output_tokens for each in planner.seen] == [2_000, 1_850, 1_700]
    assert [each.total_tokens for each in planner.seen] == [2_000, 1_850, 1_700]
    assert [each.cost for each in planner.seen] == [9.0, 8.0, 7.0]


async def test_what_a_skipped_and_a_final_failure_may_have_used_up_is_spent(
    runner: Runner,
) -> None:
    class Skips:
        async def on_error(self, context: Context, error: Exception) -> Recovery | None:
            return Recovery("skip") if context.step == 0 else None

    done = await runner.run(planner=Failing(Bill()), middleware=[Skips()])
    events = await runner.events(done)
    assert [e.data["then"] for e in events if e.type == "plan.failed"] == ["skip", "fail"]
    assert replay(events).spent.usage == Usage(200, 100, cost=2.0)
    (stopped,) = [e.data for e in events if e.type == "run.stopped"]
    assert stopped["usage"] == {"input_tokens": 200, "output_tokens": 100, "cost": 2.0}


async def test_what_middleware_adds_to_a_context_is_reserved_too(runner: Runner) -> None:
    class Adds:
        async def before_model(self, context: Context) -> None:
            context.memories = [*context.memories, "x" * 500]

    class Counts(ScriptedPlanner):
        def worst_case(self, context: Context) -> Usage:
            return Usage(100 + sum(map(len, context.memories)))

    limits = Limits(max_input_tokens=500)
    planner = Counts(FinalAnswer("done"))
    done = await runner.run(planner=planner, limits=limits, middleware=[Adds()])
    assert reason(done) == "max_tokens"
    assert (await runner.run(planner=planner, limits=limits)).result == "done"

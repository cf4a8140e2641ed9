"""A call that gives no plan: its known use is counted, and only an unknown use its reservation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agentic_kernel import Failure, TaskStatus
from agentic_kernel_engine import Host, Job
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import NOTHING_USED, Delta, Plan, Usage
from agentic_kernel_engine.seams.middlewares import Recorder, Replayer, Retry
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner

from ..conftest import Acting, Crash, TappedStore
from ..scripting import Runner, new_task

WORST = Usage(100, 50, cost=1.0)


class Refusing:
    """Fails ``times`` times with a usage, then answers."""

    def __init__(self, usage: Any, times: int = 100) -> None:
        self.usage = usage
        self.left = times

    def worst_case(self, context: Context) -> Usage:
        return WORST

    async def plan(self, context: Context) -> Any:
        if self.left:
            self.left -= 1
            raise PlannerError("test/refused", "no", usage=self.usage)
        return Plan((FinalAnswer("done"),), usage=Usage(10, 5, cost=0.1))


@pytest.mark.rule("R17")
@pytest.mark.parametrize(
    ("usage", "spent", "forfeited"),
    [
        (NOTHING_USED, NOTHING_USED, {}),
        (Usage(7, 3, cost=0.25), Usage(7, 3, cost=0.25), {}),
        (None, WORST, {"input_tokens": 100, "output_tokens": 50, "cost": 1.0}),
    ],
    ids=["nothing", "counted", "unknown"],
)
async def test_a_failed_call_costs_what_is_known_of_it(
    runner: Runner, usage: Usage | None, spent: Usage, forfeited: dict[str, Any]
) -> None:
    done = await runner.run(planner=Refusing(usage), limits=Limits(max_cost=5.0))
    assert done.failure is not None
    assert done.failure.code == "test/refused"
    events = await runner.events(done)
    (failed,) = [event for event in events if event.type == "plan.failed"]
    assert failed.data["forfeited"] == forfeited
    assert ("usage" in failed.data) == (usage is not None)
    assert replay(events).spent.usage == spent


async def test_refusals_leave_the_budget_untouched(runner: Runner) -> None:
    """The budget is enough for one call in the worst case, and no more."""
    planner = Refusing(NOTHING_USED, times=5)
    seen: list[float | None] = []

    class Watched(Retry):
        async def on_error(self, context: Context, error: Exception) -> Any:
            seen.append(context.remaining.cost)
            return await super().on_error(context, error)

    again = Watched(["test/refused"], times=9, first=0, longest=0)
    done = await runner.run(planner=planner, limits=Limits(max_cost=1.0), middleware=[again])
    assert done.result == "done"
    assert seen == [1.0] * 5
    assert replay(await runner.events(done)).spent.usage == Usage(10, 5, cost=0.1)


@pytest.mark.rule("R17")
async def test_every_further_call_is_reserved_after_a_known_use(runner: Runner) -> None:
    """The store knows of each call, as spent or as reserved, before the call is made."""
    runner.store = TappedStore()
    task, covered = new_task(), []

    class Watched(Refusing):
        async def plan(self, context: Context) -> Any:
            record = await runner.store.load(task.id)
            state = msgspec.json.decode(record.state or b"{}")
            spent, reserved = state.get("spent", {}), state.get("reserved") or {}
            known = spent.get("input_tokens", 0) + reserved.get("input_tokens", 0)
            covered.append(known - 7 * context.failures)
            return await super().plan(context)

    planner = Watched(Usage(7, 3, cost=0.25), times=3)
    again = Retry(["test/refused"], times=9, first=0, longest=0)
    async with runner.host(planner=planner, middleware=[again]) as host:
        assert (await host.run(task)).result == "done"
    assert covered == [100] * 4


@pytest.mark.parametrize(
    "usage",
    [Usage(-1), Usage(cost=float("nan")), Usage(10**13), "7", Usage(1.5)],  # type: ignore[arg-type]
    ids=str,
)
async def test_an_impossible_usage_of_a_failed_call_is_an_error_of_its_own(
    runner: Runner, usage: Any
) -> None:
    done = await runner.run(planner=Refusing(usage), limits=Limits(max_cost=5.0))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert "usage" in done.failure.message
    assert "no" in done.failure.message
    assert replay(await runner.events(done)).spent.usage == WORST


async def test_the_use_of_an_answer_that_cannot_be_used_is_counted(runner: Runner) -> None:
    class Wrong(Refusing):
        async def plan(self, context: Context) -> Any:
            call = ToolCall("x" * 1_000, {})
            return Plan((call,), usage=Usage(7, 3, cost=0.25))

    done = await runner.run(planner=Wrong(None), limits=Limits(max_cost=5.0))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert replay(await runner.events(done)).spent.usage == Usage(7, 3, cost=0.25)


class Streaming:
    """Streams two pieces with the use so far, then waits, breaks, or ends."""

    def __init__(self, then: str = "wait") -> None:
        self.then = then
        self.said = asyncio.Event()
        self.calls = 0

    def worst_case(self, context: Context) -> Usage:
        return WORST

    async def plan(self, context: Context) -> AsyncIterator[Any]:
        self.calls += 1
        if self.calls > 1:
            yield Plan((FinalAnswer("done"),), usage=Usage(10, 5, cost=0.1))
            return
        yield Delta("", usage=Usage(20, 50, cost=0.75))
        yield Delta("hel")
        yield Delta("lo", usage=Usage(20, 40, cost=0.5))
        self.said.set()
        if self.then == "break":
            raise ConnectionError("cut")
        if self.then == "odd":
            yield Delta("!", usage=Usage(-1))
        while self.then == "wait":
            await asyncio.sleep(0.001)
            yield Delta(".")


async def test_a_pause_counts_the_use_that_the_stream_told_last(runner: Runner) -> None:
    planner, task = Streaming(), new_task()
    async with runner.host(planner=planner, limits=Limits(max_cost=5.0)) as host:
        await host.dispatch(task)
        await planner.said.wait()
        await host.pause(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        events = await runner.events(task)
        (cut,) = [event for event in events if event.type == "run.cut"]
        assert cut.data["text"].startswith("hello")
        assert cut.data["usage"] == {"input_tokens": 20, "output_tokens": 40, "cost": 0.5}
        assert cut.data["forfeited"] == {}
        pieces = [event.data["text"] for event in events if event.type == "run.delta"]
        assert "".join(pieces).startswith("hello")
        assert "" not in pieces
        await host.resume(task.id)
        done = await host.wait(task.id)
    assert done.result == "done"
    assert replay(await runner.events(task)).spent.usage == Usage(30, 45, cost=0.6)


@pytest.mark.parametrize(
    ("then", "code"),
    [("break", "engine/unhandled_error"), ("odd", "engine/bad_plan"), ("end", "engine/bad_plan")],
)
async def test_a_stream_that_breaks_costs_the_use_that_it_told_last(
    runner: Runner, then: str, code: str
) -> None:
    done = await runner.run(planner=Streaming(then), limits=Limits(max_cost=5.0))
    assert done.failure is not None
    assert done.failure.code == code
    assert replay(await runner.events(done)).spent.usage == Usage(20, 40, cost=0.5)


async def test_a_recording_keeps_the_usage_of_failed_calls(runner: Runner) -> None:
    recorder = Recorder(Refusing(Usage(7, 3, cost=0.25), times=1))
    again = Retry(["test/refused"], times=9, first=0, longest=0)
    done = await runner.run(planner=recorder, middleware=[again, recorder])
    recording = recorder.take(done.id)
    kept = msgspec.json.decode(msgspec.json.encode(recording), type=type(recording))
    replayer = Replayer(kept)
    once_more = await runner.run(planner=replayer, middleware=[again, replayer])
    used = [replay(await runner.events(each)).spent.usage for each in (done, once_more)]
    assert used == [Usage(17, 8, cost=0.35)] * 2


@pytest.mark.parametrize("end", ["complete", "crash", "fail", "kill"])
async def test_the_call_that_an_end_from_outside_cut_stands_beside_the_usage(
    runner: Runner, crash: Crash, end: str
) -> None:
    """The Host's account has both as one sum."""
    asked, worst = asyncio.Event(), Usage(100, 50, cost=0.125)

    class Hangs:
        def worst_case(self, context: Context) -> Usage:
            return worst

        async def plan(self, context: Context) -> Plan:
            if context.step:
                asked.set()
                await asyncio.Event().wait()
            return Plan((ToolCall("add", {"a": 1, "b": 2}),), usage=Usage(10, 5, cost=0.0625))

    task = new_task()
    host = runner.mortal(planner=Hangs())
    await host.dispatch(task)
    await asked.wait()
    if end == "crash":
        await crash(host)
    else:
        failure = Failure("acme/over", "over")
        with_what: dict[str, tuple[Any, ...]] = {"complete": ("result",), "fail": (failure,)}
        await getattr(host, end)(task.id, *with_what.get(end, ()))
        await host.close()
    async with Host(store=runner.store) as reader:
        outcome, account = await reader.outcome(task.id), await reader.account(task.id)
    assert outcome.usage == Usage(10, 5, cost=0.0625)
    assert outcome.reserved == worst
    assert account.spent.cost == outcome.usage.cost + outcome.reserved.cost
    assert account.spent.output_tokens == outcome.usage.output_tokens + worst.output_tokens


async def test_a_task_that_ended_by_itself_has_nothing_reserved(runner: Runner) -> None:
    planner = ScriptedPlanner(FinalAnswer("done"), worst=Usage(100, 50))
    async with runner.host(planner=planner) as host:
        outcome = await host.outcome((await host.run(new_task())).id)
    assert outcome.state is not None
    assert outcome.state["reserved"] == {"input_tokens": 100, "output_tokens": 50}
    assert outcome.reserved == NOTHING_USED


@pytest.mark.parametrize(
    "state", [None, {}, {"reserved": None}, {"reserved": 3}, {"reserved": {"cost": "9"}}]
)
async def test_a_foreign_state_reserves_nothing(acting: type[Acting], state: Any) -> None:
    committed = asyncio.Event()

    async def act(job: Job) -> Any:
        await job.commit(state)
        committed.set()
        await asyncio.Event().wait()

    async with Host(acting(act), grace=0) as host:
        task = new_task()
        await host.dispatch(task)
        await committed.wait()
        await host.kill(task.id)
        assert (await host.outcome(task.id)).reserved == NOTHING_USED

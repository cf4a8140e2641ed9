"""A planner's call that is made again: reserved anew, within every cap, and paused in between."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_engine.loop import answering
from agentic_kernel_engine.loop.action import FinalAnswer, ToolCall
from agentic_kernel_engine.loop.context import Context
from agentic_kernel_engine.loop.ending import PlannerError
from agentic_kernel_engine.loop.limits import Limits, Remaining
from agentic_kernel_engine.loop.plan import Plan, Usage
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.middlewares import Fallback, Retry
from agentic_kernel_engine.seams.planner import ScriptedPlanner, Streamed

from ..conftest import Crash, TappedStore, Until
from .conftest import Runner, new_task

WORST = Usage(100, 50, cost=1.0)
DONE = Plan((FinalAnswer("done"),), usage=Usage(10, 5, cost=0.1))


class Bill:
    """What a provider charges: the worst case of every call that reaches it, failed or not."""

    def __init__(self) -> None:
        self.calls = 0

    @property
    def charged(self) -> Usage:
        return Usage(100 * self.calls, 50 * self.calls, cost=1.0 * self.calls)


class Failing:
    """A planner whose calls are charged and fail, as often as it is told to, and then answer."""

    def __init__(self, bill: Bill, failures: int = 99, answer: Any = DONE) -> None:
        self.bill = bill
        self.failures = failures
        self.answer = answer
        self.seen: list[Remaining] = []

    def worst_case(self, context: Context) -> Usage:
        return WORST

    async def plan(self, context: Context) -> Any:
        self.bill.calls += 1
        self.seen.append(context.remaining)
        if self.failures:
            self.failures -= 1
            raise PlannerError("test/busy", "busy")
        return self.answer


def quick() -> Retry:
    return Retry(["test/busy"], times=9, first=0, longest=0)


def slow(delay: float = 600.0) -> Retry:
    return Retry(["test/busy"], first=delay, longest=delay, jitter=lambda: 1.0)


def reason(task: Task) -> Any:
    return task.metadata["engine/stop_reason"]


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
    host = runner.host(planner=planner, middleware=[quick()])
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


# The wait before it


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


# Another planner in its place


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


# What middleware and planners say that makes no sense


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"verb": "again"}, "verb"),
        ({"verb": "fallback"}, "planner"),
        ({"verb": "retry", "plan": Plan(())}, "planner"),
        ({"verb": "retry", "delay": -1}, "delay"),
        ({"verb": "retry", "delay": float("nan")}, "delay"),
        ({"verb": "retry", "delay": float("inf")}, "delay"),
    ],
    ids=str,
)
def test_a_recovery_that_makes_no_sense_is_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidValue, match=what):
        Recovery(**given)


class Unreadable(Exception):
    code = "test/unreadable"

    def __str__(self) -> str:
        raise ValueError("not even that")


class Odd(Exception):
    code = object()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a\0b \ud800"),
        Unreadable(),
        Odd("odd"),
        PlannerError("test/\0", "a\0"),
        PlannerError("test/odd", 5),  # type: ignore[arg-type]
        OSError("x" * 10_000_000),
    ],
    ids=range(6),
)
async def test_a_failure_that_cannot_be_stored_as_it_is_can_be_got_over(
    runner: Runner, error: Exception
) -> None:
    planner = ScriptedPlanner(error)
    other = ScriptedPlanner(FinalAnswer("other"))
    done = await runner.run(planner=planner, middleware=[Fallback(other)])
    assert done.result == "other"
    (failed,) = [e.data for e in await runner.events(done) if e.type == "plan.failed"]
    assert isinstance(failed["code"], str)
    assert len(failed["message"]) <= 500


ODD_USAGE: list[tuple[str, Any]] = [
    ("input_tokens", "5"), ("input_tokens", None), ("output_tokens", 1.5), ("cost", "1"),
]  # fmt: skip
BAD_USAGE: list[Any] = [
    Usage(-1), Usage(output_tokens=-5), Usage(cost=-0.1), Usage(cost=float("nan")),
    Usage(cost=float("inf")), Usage(10**30), Usage(True),
    *(Usage(**{name: each}) for name, each in ODD_USAGE),
    None, {"input_tokens": 1}, "none",
]  # fmt: skip


@pytest.mark.parametrize("usage", BAD_USAGE, ids=repr)
async def test_a_usage_that_cannot_be_is_refused(runner: Runner, usage: Any) -> None:
    """A negative one would lift the caps, and no state could be read back with some of the rest."""
    plan = Plan((ToolCall("add", {"a": 1, "b": 1}),), usage=usage)
    done = await runner.run(plan, FinalAnswer(1), limits=Limits(max_cost=1.0))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert replay(await runner.events(done)).spent.usage == Usage()


@pytest.mark.parametrize("usage", BAD_USAGE, ids=repr)
async def test_a_forecast_that_cannot_be_is_refused(runner: Runner, usage: Any) -> None:
    planner = ScriptedPlanner(FinalAnswer(1), worst=usage)
    done = await runner.run(planner=planner, limits=Limits(max_cost=1.0))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_forecast"


@pytest.mark.parametrize(
    "plan",
    [
        Plan((FinalAnswer(1),), text=None),  # type: ignore[arg-type]
        Plan((FinalAnswer(1),), reasoning=5),  # type: ignore[arg-type]
        Plan((FinalAnswer(1),), model=["m"]),  # type: ignore[arg-type]
        Plan((ToolCall(None, {}), FinalAnswer(1))),  # type: ignore[arg-type]
        Plan((ToolCall("add", {"a": 1, "b": 1}, id=7), FinalAnswer(1))),  # type: ignore[arg-type]
        Plan((ToolCall("add", ["a"]), FinalAnswer(1))),  # type: ignore[arg-type]
    ],
    ids=range(6),
)
async def test_an_answer_that_could_not_be_read_back_is_refused(runner: Runner, plan: Plan) -> None:
    done = await runner.run(plan)
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert replay(await runner.events(done)).status == "failure"


async def test_a_stream_of_empty_pieces_ends(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "LENGTH", 100)
    pieces = [""] * 101
    done = await runner.run(Streamed(*pieces, plan=FinalAnswer(1)))
    assert done.failure is not None
    assert done.failure.code == "engine/endless_answer"

"""Middleware that raises, or gives what it may not: the run fails, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event, TaskFailed
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.loop.state import State
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.ending import End, PlannerError
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.plans.reasons import StopReason
from agentic_kernel_engine.seams.middleware import HOOKS, Recovery
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.policies import BasicPolicy
from agentic_kernel_engine.tools.scheduler import SequentialScheduler

from ..conftest import Crash, TappedStore
from ..scripting import Runner, World, new_task

FAILED = "engine/middleware_failed"
USED = Usage(10, 5, cost=0.5)


def write(text: str) -> ToolCall:
    return ToolCall("write", {"text": text})


class Does:
    """A middleware with one hook, which does one thing.

    Args:
        hook: Its name.
        what: What it raises, if it is an exception, or gives.
        only: The texts of the calls that it is about; empty for all.
    """

    def __init__(self, hook: str, what: Any, only: str = "") -> None:
        self.calls = 0

        async def run(*args: Any) -> Any:
            if only and args[0].arguments["text"] not in only:
                return None
            self.calls += 1
            if isinstance(what, BaseException):
                raise what
            return what

        setattr(self, hook, run)


def code(task: Task) -> str:
    assert task.status is TaskStatus.FAILURE
    assert task.failure is not None
    return task.failure.code


def observed(events: list[Event]) -> list[dict[str, Any]]:
    (step,) = [e.data["observations"] for e in events if e.type == "step.observed"]
    return list(step)


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hook_that_raises_fails_the_run_and_is_named(runner: Runner, hook: str) -> None:
    script = (PlannerError("test/down", "down"),) if hook == "on_error" else ()
    done = await runner.run(
        *script, write("a"), FinalAnswer("done"), middleware=[Does(hook, KeyError("x"))]
    )
    assert code(done) == FAILED
    assert done.failure is not None
    assert done.failure.message == f"Does.{hook} failed: KeyError: 'x'"
    metadata = dict(done.failure.metadata or {})
    assert metadata.pop("line") > 0
    assert metadata == {"hook": f"Does.{hook}", "file": __file__}
    assert done.metadata["engine/stop_reason"] == "error"
    assert replay(await runner.events(done)).reason is StopReason.ERROR


async def test_without_the_hook_the_same_run_ends_well(runner: Runner) -> None:
    assert (await runner.run(write("a"), FinalAnswer("done"))).result == "done"


@pytest.mark.parametrize(
    ("raised", "expected", "reason"),
    [
        (OSError("no"), FAILED, "error"),
        (asyncio.CancelledError(), FAILED, "error"),
        (OSError("\0 \udc80"), FAILED, "error"),
        (TaskFailed("mine/broken", "no"), "mine/broken", "error"),
        (PlannerError("mine/down", "no"), "mine/down", "error"),
        (End(StopReason.GUARDRAIL, "no"), "engine/guardrail", "guardrail"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("hook", ["before_model", "after_model", "before_tool", "after_tool"])
async def test_what_is_raised_says_how_the_run_ends(
    runner: Runner, hook: str, raised: BaseException, expected: str, reason: str
) -> None:
    done = await runner.run(write("a"), FinalAnswer("done"), middleware=[Does(hook, raised)])
    assert code(done) == expected
    assert done.metadata["engine/stop_reason"] == reason


async def test_an_effect_is_settled_when_after_tool_raises(runner: Runner, world: World) -> None:
    done = await runner.run(
        write("a"), FinalAnswer("done"), middleware=[Does("after_tool", OSError("no"))]
    )
    events = await runner.events(done)
    assert code(done) == FAILED
    assert world.done == ["write a"]
    types = [e.type for e in events]
    assert (
        types.index("effects.prepared") < types.index("step.observed") < types.index("run.stopped")
    )
    assert observed(events) == [{"output": "written", "tool": "write"}]
    assert replay(events).spent.tool_calls == 1


async def test_an_effect_is_not_begun_when_before_tool_raises(runner: Runner, world: World) -> None:
    done = await runner.run(
        write("a"), FinalAnswer("done"), middleware=[Does("before_tool", OSError("no"))]
    )
    events = await runner.events(done)
    assert code(done) == FAILED
    assert world.done == []
    assert [each["error"] for each in observed(events)] == ["skipped"]
    assert replay(events).spent.tool_calls == 0


@pytest.mark.parametrize("hook", ["before_tool", "after_tool"])
async def test_nothing_more_of_a_batch_is_begun(runner: Runner, world: World, hook: str) -> None:
    counted: list[int] = []

    class Watches:
        async def on_run_end(self, state: State, end: End) -> None:
            counted.append(state.spent.tool_calls)

    batch = [write("a"), write("b"), write("c")]
    done = await runner.run(
        batch, FinalAnswer("done"), scheduler=SequentialScheduler(),
        middleware=[Does(hook, OSError("no"), only="b"), Watches()],
    )  # fmt: skip
    events = await runner.events(done)
    assert code(done) == FAILED
    wrote = ["write a"] if hook == "before_tool" else ["write a", "write b"]
    assert world.done == wrote
    errors = [each.get("error", "") for each in observed(events)]
    assert errors == [""] * len(wrote) + ["skipped"] * (3 - len(wrote))
    assert [replay(events).spent.tool_calls] == counted == [len(wrote)]


async def test_a_call_beside_the_one_that_is_tripped_is_not_cut_short(runner: Runner) -> None:
    tripped, done_beside = asyncio.Event(), []

    class Trips:
        async def after_tool(self, invocation: Any, observation: Observation) -> None:
            if invocation.arguments["text"] == "fast":
                tripped.set()
                raise End(StopReason.GUARDRAIL, "no")

    async def write(text: str) -> str:
        if text == "slow":
            await tripped.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            done_beside.append(text)
        return text

    batch = [ToolCall("write", {"text": "slow"}), ToolCall("write", {"text": "fast"})]
    done = await runner.run(batch, tools=[write], middleware=[Trips()])
    assert code(done) == "engine/guardrail"
    assert done_beside == ["slow"]
    assert [o.get("output") for o in observed(await runner.events(done))] == ["slow", "fast"]


@pytest.mark.parametrize("hook", ["after_model", "after_tool", "on_run_end"])
async def test_what_a_model_used_up_is_counted_all_the_same(runner: Runner, hook: str) -> None:
    script = (Plan((write("a"),), usage=USED), Plan((FinalAnswer(1),), usage=USED))
    done = await runner.run(*script, middleware=[Does(hook, OSError("no"))])
    assert code(done) == FAILED
    again = replay(await runner.events(done))
    calls = 2 if hook == "on_run_end" else 1
    assert again.spent.usage == Usage(10 * calls, 5 * calls, cost=0.5 * calls)
    assert again.spent.iterations == calls


async def test_an_answer_that_is_made_unfit_is_counted_all_the_same(runner: Runner) -> None:
    unfit = Does("after_model", Plan((FinalAnswer(float("nan")),)))
    done = await runner.run(Plan((FinalAnswer(1),), usage=USED), middleware=[unfit])
    assert code(done) == "engine/bad_plan"
    assert replay(await runner.events(done)).spent.usage == USED


async def test_nobody_is_asked_about_an_answer_that_ended_the_run(runner: Runner) -> None:
    ends = Does("after_model", End(StopReason.GUARDRAIL, "no"))
    async with runner.host(write("a"), middleware=[ends], policy=BasicPolicy()) as host:
        task = new_task()
        await host.dispatch(task)
        done = await host.wait(task.id, TaskStatus.PAUSED)
    assert code(done) == "engine/guardrail"
    assert "plan.decided" not in [e.type for e in await runner.events(done)]


async def test_every_hook_at_the_end_is_called(runner: Runner) -> None:
    others = [Does("on_run_end", None), Does("on_run_end", OSError("no")), Does("on_run_end", None)]
    assert code(await runner.run(FinalAnswer(1), middleware=others)) == FAILED
    assert [each.calls for each in others] == [1, 1, 1]


@pytest.mark.parametrize(
    ("hook", "given", "expected"),
    [
        ("after_model", "a text", FAILED),
        ("after_model", Plan((FinalAnswer(float("nan")),)), "engine/bad_plan"),
        ("after_model", Plan(("no action",)), "engine/bad_plan"),  # type: ignore[arg-type]
        ("before_tool", "a text", FAILED),
        ("before_tool", Observation(float("nan")), FAILED),
        ("after_tool", {"output": 1}, FAILED),
        ("after_tool", Observation({1, 2}), FAILED),
        ("after_tool", Observation(message="\0"), FAILED),
        ("after_tool", Observation(error=None), FAILED),  # type: ignore[arg-type]
    ],
)
async def test_a_hook_that_gives_what_it_may_not_fails_the_run(
    runner: Runner, world: World, hook: str, given: Any, expected: str
) -> None:
    done = await runner.run(write("a"), FinalAnswer("done"), middleware=[Does(hook, given)])
    assert code(done) == expected
    assert len(world.done) == (hook == "after_tool")
    if world.done:
        assert observed(await runner.events(done)) == [{"output": "written", "tool": "write"}]


async def test_a_preset_response_that_is_no_plan_fails_the_run(runner: Runner) -> None:
    class Presets:
        async def before_model(self, context: Any) -> None:
            context.response = "a text"

    assert code(await runner.run(FinalAnswer(1), middleware=[Presets()])) == "engine/bad_plan"


async def test_a_fallback_that_cannot_be_stored_fails_the_run(runner: Runner) -> None:
    answer = Recovery("fallback", Plan((FinalAnswer(float("nan")),)))
    done = await runner.run(
        PlannerError("test/down", "down"), middleware=[Does("on_error", answer)]
    )
    assert code(done) == "engine/bad_plan"


async def test_a_recovery_that_is_none_fails_the_run(runner: Runner) -> None:
    done = await runner.run(
        PlannerError("test/down", "down"), middleware=[Does("on_error", "retry")]
    )
    assert code(done) == FAILED


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_on_run_start_changes_is_in_one_commit_whenever_a_crash_comes(
    runner: Runner, crash: Crash, when: str
) -> None:
    """Before the first commit it is called again, with a state that nobody has touched."""
    runner.store = store = TappedStore()
    reached, found = asyncio.Event(), list[dict[str, Any]]()

    class Starts:
        async def on_run_start(self, state: State) -> None:
            found.append(dict(state.variables))
            state.variables["started"] = state.variables.get("started", 0) + 1

    async def hold(record: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    def variables(context: Context) -> Any:
        return FinalAnswer(dict(context.variables))

    setattr(store, f"{when}_commit", hold)
    host = runner.mortal(variables, middleware=[Starts()])
    task = new_task()
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    setattr(store, f"{when}_commit", None)
    async with runner.host(variables, middleware=[Starts()]) as second:
        done = await second.wait(task.id)
    assert done.result == {"started": 1}
    assert found == [{}] * (2 if when == "before" else 1)
    events = await runner.events(task)
    assert len([event for event in events if event.type == "run.started"]) == 1


async def test_on_run_end_is_called_again_after_a_crash_before_the_end_is_committed(
    runner: Runner, crash: Crash
) -> None:
    reached, ends = asyncio.Event(), list[Any]()

    class Ends:
        async def on_run_end(self, state: State, end: End) -> None:
            ends.append(end.output)
            if len(ends) == 1:
                reached.set()
                await asyncio.Event().wait()

    host = runner.mortal(write("a"), FinalAnswer("done"), middleware=[Ends()])
    task = new_task()
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    async with runner.host(write("a"), FinalAnswer("done"), middleware=[Ends()]) as second:
        assert (await second.wait(task.id)).result == "done"
    assert ends == ["done", "done"]
    stops = [event for event in await runner.events(task) if event.type == "run.stopped"]
    assert len(stops) == 1

"""``max_seconds`` ends a call at its deadline: of a planner, of a tool, of a wait for a child."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import Action, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Delta, Plan, Usage
from agentic_kernel_engine.seams.on_runtime import OnRuntime
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools import deadline
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool

from ..delegating import Held, Roles, join, spawn, told
from ..scripting import Runner, new_task

SHORT = Limits(max_seconds=0.05)
FOREVER = 60.0
"""Seconds that no test waits for."""
WORST = Usage(100, 50, cost=1.0)
Wait = Callable[[], Awaitable[object]]


def code(task: Task) -> str:
    assert task.failure is not None
    return task.failure.code


class Asked:
    """A planner that waits before its answer, and notes how its call ended."""

    def __init__(self, wait: Wait) -> None:
        self.wait = wait
        self.ended: list[str] = []

    def worst_case(self, context: Context) -> Usage:
        return WORST

    async def plan(self, context: Context) -> Action:
        try:
            await self.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return FinalAnswer("late")


class Streaming(Asked):
    """The same, in the middle of a stream."""

    def plan(self, context: Context) -> Any:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[Any]:
        yield Delta("so ")
        yield Delta("far", usage=Usage(20, 50, cost=0.6))
        try:
            await self.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        finally:
            self.ended.append("closed")
        yield FinalAnswer("late")


async def sleep() -> None:
    await asyncio.sleep(FOREVER)


async def stubborn() -> None:
    """Swallows its cancellation."""
    while True:
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            if gone.is_set():
                raise


gone = threading.Event()
"""Set when a test is over, so that its stubborn calls end."""


@pytest.fixture(autouse=True)
async def quick(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Shorten the grace, and end the abandoned calls after the test."""
    monkeypatch.setattr(deadline, "GRACE", 0.05)
    gone.clear()
    async with asyncio.timeout(20):
        yield
    gone.set()
    for task in list(deadline._abandoned):
        task.cancel()
        await asyncio.wait([task], timeout=5)


async def test_a_planner_that_does_not_stream_is_cancelled(runner: Runner) -> None:
    planner = Asked(sleep)
    done = await runner.run(planner=planner, limits=SHORT)
    assert code(done) == "engine/timeout"
    assert planner.ended == ["cancelled"]
    events = await runner.events(done)
    (cut,) = [event for event in events if event.type == "run.cut"]
    assert cut.data == {
        "text": "", "forfeited": {"input_tokens": 100, "output_tokens": 50, "cost": 1.0}
    }  # fmt: skip
    assert replay(events).spent.usage == WORST


async def test_a_stream_is_ended_between_two_pieces(runner: Runner) -> None:
    planner = Streaming(sleep)
    done = await runner.run(planner=planner, limits=SHORT)
    assert code(done) == "engine/timeout"
    assert planner.ended == ["cancelled", "closed"]
    events = await runner.events(done)
    (cut,) = [event for event in events if event.type == "run.cut"]
    assert (cut.data["text"], cut.data["forfeited"]) == ("so far", {})
    assert replay(events).spent.usage == Usage(20, 50, cost=0.6)


@pytest.mark.parametrize("kind", [Asked, Streaming])
async def test_a_planner_that_swallows_its_cancellation_is_abandoned(
    runner: Runner, caplog: pytest.LogCaptureFixture, kind: type[Asked]
) -> None:
    began = time.monotonic()
    done = await runner.run(planner=kind(stubborn), limits=SHORT)
    assert code(done) == "engine/timeout"
    assert time.monotonic() - began < 5
    assert len(deadline._abandoned) == 1
    (record,) = [each for each in caplog.records if each.name == "agentic_kernel_engine.tools"]
    assert f"for task {done.id} did not end within 0.05 seconds" in record.getMessage()


async def test_a_stream_that_does_not_close_after_its_answer_is_abandoned(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    class Lingers:
        async def plan(self, context: Context) -> Any:
            try:
                yield Delta("an")
                yield FinalAnswer("answer")
            finally:
                await stubborn()

    began = time.monotonic()
    done = await runner.run(planner=Lingers(), limits=SHORT)
    assert done.result == "answer"  # It was complete before the deadline.
    assert time.monotonic() - began < 5
    assert len(deadline._abandoned) == 1
    assert "did not end within 0.05 seconds" in caplog.text


async def test_a_cancelled_call_is_not_waited_for_beyond_the_deadline(runner: Runner) -> None:
    """A kill cancels the call; the run unwinds although the call does not end."""
    limits = Limits(max_seconds=0.3)
    began = time.monotonic()
    async with runner.host(planner=Asked(stubborn), limits=limits) as host:
        task = new_task()
        await host.dispatch(task)
        await asyncio.sleep(0.02)
        await host.kill(task.id)
    assert time.monotonic() - began < 5
    assert len(deadline._abandoned) == 1


@pytest.mark.parametrize("kind", [Asked, Streaming])
async def test_an_answer_in_time_is_used(runner: Runner, kind: type[Asked]) -> None:
    async def at_once() -> None:
        await asyncio.sleep(0)

    planner = kind(at_once)
    done = await runner.run(planner=planner, limits=Limits(max_seconds=FOREVER))
    assert done.result == "late"
    assert not asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.parametrize("kind", [Asked, Streaming])
async def test_a_kill_ends_a_call_that_has_a_deadline(runner: Runner, kind: type[Asked]) -> None:
    reached = asyncio.Event()

    async def wait() -> None:
        reached.set()
        await sleep()

    planner, task = kind(wait), new_task()
    async with runner.host(planner=planner, limits=Limits(max_seconds=FOREVER)) as host:
        await host.dispatch(task)
        await reached.wait()
        await host.kill(task.id)
        assert (await host.wait(task.id)).status == "cancelled"
    assert planner.ended[0] == "cancelled"


@pytest.mark.parametrize("kind", [Asked, Streaming])
@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (PlannerError("test/no", "no"), "test/no"),
        (SystemExit(3), "engine/unhandled_error"),
        (GeneratorExit(), "engine/unhandled_error"),
    ],
    ids=repr,
)
async def test_a_fault_before_the_deadline_is_the_fault_itself(
    runner: Runner, kind: type[Asked], fault: BaseException, failure: str
) -> None:
    async def wait() -> None:
        raise fault

    done = await runner.run(planner=kind(wait), limits=Limits(max_seconds=FOREVER))
    assert code(done) == failure


async def test_a_stream_runs_in_one_asyncio_task(runner: Runner) -> None:
    """So a stream may hold an `asyncio.timeout` or a context variable over its pieces."""
    tasks, variable = set(), contextvars.ContextVar("variable", default=0)

    class Held:
        async def plan(self, context: Context) -> AsyncIterator[Any]:
            token = variable.set(1)
            async with asyncio.timeout(FOREVER):
                for text in "abc":
                    tasks.add(asyncio.current_task())
                    yield Delta(text)
            assert variable.get() == 1
            variable.reset(token)
            yield FinalAnswer("done")

    done = await runner.run(planner=Held(), limits=Limits(max_seconds=FOREVER))
    assert done.result == "done"
    assert len(tasks) == 1


async def test_the_deadline_is_that_of_the_runs_own_clock(runner: Runner) -> None:
    """A timer that rings early by the run's clock ends nothing."""
    now = 0.0

    async def wait() -> None:
        nonlocal now
        await asyncio.sleep(0.2)
        now = 1.0

    done = await runner.run(planner=Asked(wait), limits=Limits(max_seconds=0.02), clock=lambda: now)
    assert done.result == "late"


def acting(wait: Wait, **declared: Any) -> Tool:
    async def act(arguments: dict[str, Any]) -> str:
        await wait()
        return "done"

    return Tool("act", act, input_schema={"type": "object"}, **declared)


def observed(events: Any) -> list[dict[str, Any]]:
    return [
        each
        for event in events
        if event.type == "step.observed"
        for each in event.data["observations"]
    ]


@pytest.mark.parametrize("timeout", [None, FOREVER])
@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("calls", [1, 3])
async def test_a_tool_is_cancelled(
    runner: Runner, timeout: float | None, effect: Any, calls: int
) -> None:
    batch = [ToolCall("act", {"n": n}) for n in range(calls)]
    done = await runner.run(
        batch, FinalAnswer("late"), tools=[acting(sleep, effect=effect, timeout=timeout)],
        limits=SHORT,
    )  # fmt: skip
    assert code(done) == "engine/timeout"
    seen = observed(await runner.events(done))
    assert [each["error"] for each in seen] == ["timeout"] * calls
    assert all("effects it had by then remain" in each["message"] for each in seen)


async def test_a_tools_own_timeout_still_counts(runner: Runner) -> None:
    done = await runner.run(
        ToolCall("act"), FinalAnswer("done"), tools=[acting(sleep, timeout=0.02)],
        limits=Limits(max_seconds=FOREVER),
    )  # fmt: skip
    assert done.result == "done"
    (seen, _) = observed(await runner.events(done))
    assert "within 0.02 seconds" in seen["message"]


async def test_a_tool_that_swallows_its_cancellation_is_abandoned(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    done = await runner.run(
        ToolCall("act"), FinalAnswer("late"), tools=[acting(stubborn)], limits=SHORT
    )
    assert code(done) == "engine/timeout"
    assert "the tool 'act' did not end" in caplog.text


async def test_a_tool_in_a_thread_is_abandoned(runner: Runner) -> None:
    @tool(effect="none")
    def hang(context: ToolContext) -> None:
        """Hang."""
        gone.wait(FOREVER)

    done = await runner.run(ToolCall("hang"), FinalAnswer("late"), tools=[hang], limits=SHORT)
    assert code(done) == "engine/timeout"
    (seen,) = observed(await runner.events(done))
    assert seen["error"] == "timeout"


async def test_a_run_that_ends_at_its_deadline_ends_for_that_reason(runner: Runner) -> None:
    limits = Limits(max_seconds=0.05, max_failures=1)
    done = await runner.run(ToolCall("act"), tools=[acting(sleep)], limits=limits)
    assert code(done) == "engine/timeout"


async def test_a_wait_for_a_child_ends_and_the_child_has_no_more_time_than_its_parent() -> None:
    held = Held()
    there = Loop(Roles(child=[ToolCall("hold"), FinalAnswer("child's")]), [held.tool()])
    async with Host(there, runtime_kinds=["there"]) as other:
        planner = Roles(root=[spawn("child"), join, told])
        here = Loop(planner, delegation=OnRuntime(other, runtime_kind="there"), limits=SHORT)
        async with Host(here) as host:
            done = await host.run(new_task(instructions="root"))
            events = (await host.outcome(done.id)).events
        assert code(done) == "engine/timeout"
        seen = observed(events)[-1]
        assert seen["error"] == "timeout"
        # The tool is let go after the child's end, which may be a little later than its parent's.
        assert code(await other.wait(seen["output"]["child"])) == "engine/timeout"
        held.go.set()


async def test_a_run_without_a_limit_of_time_has_no_further_asyncio_task(runner: Runner) -> None:
    tasks = set()

    async def wait() -> None:
        tasks.add(asyncio.current_task())

    planner = ScriptedPlanner(ToolCall("act"), Plan((FinalAnswer("done"),)))
    seen: list[Any] = []

    class Watched:
        async def plan(self, context: Context) -> Any:
            seen.append(asyncio.current_task())
            return await planner.plan(context)  # type: ignore[misc]

    done = await runner.run(planner=Watched(), tools=[acting(wait)])
    assert done.result == "done"
    assert tasks == set(seen)

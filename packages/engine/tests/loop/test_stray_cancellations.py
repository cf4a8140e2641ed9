"""A ``CancelledError`` of a part, of a run that is not being cancelled, is a fault of that part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Job
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.decision import Decision
from agentic_kernel_engine.plans.limits import Limits, Remaining
from agentic_kernel_engine.plans.observation import INDETERMINATE, Observation
from agentic_kernel_engine.plans.plan import Delta
from agentic_kernel_engine.seams.child_tasks import ChildTasks
from agentic_kernel_engine.seams.compactor import Compaction
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory import Item, Memory
from agentic_kernel_engine.seams.memory_governor import Proposal
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.policies import RiskPolicy
from agentic_kernel_engine.seams.policy import AllowAll, Hiding, decided
from agentic_kernel_engine.tools.tool import tool

from ..delegating import Roles, join, spawn
from ..scripting import Runner, World, new_task
from .remembering import Governing, in_session, run

ADD = ToolCall("add", {"a": 1, "b": 2})
DONE = FinalAnswer("done")


def stray(*args: Any, **named: Any) -> Any:
    raise asyncio.CancelledError


async def later(*args: Any, **named: Any) -> Any:
    stray()


class Answers:
    """A planner whose first call gives a stray cancellation."""

    calls = 0

    async def plan(self, context: Context) -> Any:
        self.calls += 1
        if self.calls == 1:
            inner = asyncio.ensure_future(asyncio.Event().wait())
            inner.cancel()
            await asyncio.wait([inner])
            inner.result()
        return DONE


class Streams:
    """The same, in the middle of a stream."""

    calls = 0

    async def plan(self, context: Context) -> Any:
        self.calls += 1
        yield Delta("so far")
        if self.calls == 1:
            stray()
        yield DONE


class Retries:
    """A middleware that has a failed call made again, and keeps the errors."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def on_error(self, context: Context, error: Exception) -> Recovery:
        self.errors.append(error)
        return Recovery("retry")


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize("kind", [Answers, Streams])
async def test_a_planners_reaches_the_middleware(
    runner: Runner, kind: Callable[[], Any], seconds: float | None
) -> None:
    retries = Retries()
    task = await runner.run(
        planner=kind(), middleware=[retries], limits=Limits(max_seconds=seconds)
    )
    assert task.result == "done"
    assert [type(error) for error in retries.errors] == [RuntimeError]
    assert "the planner raised CancelledError" in str(retries.errors[0])


async def test_a_planners_fails_the_task_if_nothing_recovers_it(runner: Runner) -> None:
    assert_failed(task := await runner.run(planner=Answers()), "the planner raised CancelledError")
    kinds = [event.type for event in await runner.events(task)]
    assert kinds[-3:] == ["plan.failed", "run.stopped", "task.failed"]


class Denies:
    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    async def authorize(self, action: Any, context: Context) -> Decision:
        raise self._fault


POLICIES = [
    Denies(asyncio.CancelledError()),
    Denies(SystemExit(1)),
    Denies(GeneratorExit()),
    Denies(BaseExceptionGroup("both", [asyncio.CancelledError()])),
    RiskPolicy(stray),
    RiskPolicy(later),
]


async def test_the_end_of_the_process_passes_a_policy() -> None:
    context: Any = None
    with pytest.raises(KeyboardInterrupt):
        await decided(Denies(KeyboardInterrupt()), ADD, context)


@pytest.mark.parametrize("policy", POLICIES, ids=range(6))
async def test_a_policys_denies_the_action(runner: Runner, world: World, policy: Any) -> None:
    class OnlyTools:
        async def authorize(self, action: Any, context: Context) -> Decision:
            if isinstance(action, ToolCall):
                given: Decision = await policy.authorize(action, context)
                return given
            return Decision("allow")

    task = await runner.run(ADD, DONE, policy=OnlyTools())
    assert task.result == "done"
    assert world.done == []


async def test_a_compactors_is_recorded(runner: Runner) -> None:
    class Compacts:
        def compact(self, shown: Sequence[Any], remaining: Remaining) -> Compaction | None:
            stray()
            raise AssertionError

    task = await runner.run(ADD, DONE, compactor=Compacts())
    assert task.result == "done"
    events = [e for e in await runner.events(task) if e.type == "run.not_compacted"]
    assert [event.data["why"] for event in events] == ["it raised CancelledError: "] * 2


class Waits(ChildTasks):
    async def join(self, job: Job, child: str) -> Task:
        stray()
        raise AssertionError


async def test_that_of_a_wait_for_a_child_fails_the_task(runner: Runner) -> None:
    planner = Roles(root=[spawn("child"), join, DONE], child=[DONE])
    async with runner.host(planner=planner, delegation=Waits()) as host:
        await host.dispatch(task := new_task(instructions="root"))
        done = await asyncio.wait_for(host.wait(task.id), 10)
    assert_failed(done, "CancelledError")


async def test_a_governors_of_one_item_does_not_stop_the_others(runner: Runner) -> None:
    class Keeps(Governing):
        async def keep(self, memory: Memory, item: Item) -> None:
            kept.append(item.text)
            if item.text == "first":
                stray()
            await super().keep(memory, item)

    kept: list[str] = []
    governor = Keeps(of_end=[Proposal("first"), Proposal("second")])
    done = await run(runner, in_session(), DONE, memory=InMemoryMemory(), governor=governor)
    assert done.result == "done"
    assert kept == ["first", "second"]


class Forecasts(Answers):
    calls = 1

    def worst_case(self, context: Context) -> Any:
        stray()


class Hides(AllowAll, Hiding):
    def visible(self, tool: Any, context: Context) -> bool:
        stray()
        raise AssertionError


class Schedules:
    run = later


class Hooks:
    before_model = later


OTHERS: dict[str, dict[str, Any]] = {
    "a forecast": {"planner": Forecasts()},
    "a hook": {"middleware": [Hooks()]},
    "a policy that hides tools": {"policy": Hides()},
    "a scheduler": {"scheduler": Schedules()},
    "should_cancel": {"should_cancel": stray},
}


@pytest.mark.parametrize("part", OTHERS)
async def test_that_of_another_part_ends_the_run_on_record(runner: Runner, part: str) -> None:
    task = await runner.run(ADD, DONE, **OTHERS[part])
    assert_failed(task, "CancelledError")
    assert "run.stopped" in [event.type for event in await runner.events(task)]


def assert_failed(task: Task, message: str) -> None:
    assert task.failure is not None
    assert task.failure.code in ("engine/unhandled_error", "engine/middleware_failed")
    assert message in task.failure.message
    assert task.metadata["engine/stop_reason"] == "error"


@pytest.mark.parametrize("part", ["hook", "tool"])
async def test_a_part_that_cancels_its_own_run_leaves_an_unknown_outcome_and_no_crash_is_told(
    runner: Runner, part: str
) -> None:
    cancelled: list[str] = []

    async def cancel_once() -> None:
        if not cancelled:
            cancelled.append(part)
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(0)

    @tool(effect="write")
    async def pay() -> str:
        if part == "tool":
            await cancel_once()
        return "paid"

    class Hook:
        async def after_tool(self, invocation: Any, observation: Observation) -> Observation:
            if part == "hook":
                await cancel_once()
            return observation

    task = await runner.run(
        ToolCall("pay"), DONE, tools=[pay], middleware=[Hook()], parallel_tools=False
    )
    assert task.result == "done"
    assert cancelled == [part]
    told = replay(await runner.events(task)).observations[0]
    assert told.error == INDETERMINATE
    assert told.message == (
        "an earlier run of this task began the call and ended before it recorded the outcome; "
        "whether the call took effect is not known; find out before you repeat it"
    )

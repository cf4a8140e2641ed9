"""A commit that the store refuses: the end of the run puts on record all that it would have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Event, MemoryStore, Record, StoreError
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.plan import Delta, Plan, Usage
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.tool import tool

from ..approving import AskForWrites, paused
from ..scripting import Runner, new_task


class Refusing(MemoryStore):
    """A MemoryStore that refuses the first commit with an event of one type, for good.

    The Host makes a commit again after a `StoreError`, so that is raised three times.

    Args:
        landed: True if the commit is made nevertheless.
    """

    def __init__(
        self, type: str, fault: BaseException | None = None, *, landed: bool = False
    ) -> None:
        super().__init__()
        self._mark = f'"{type}"'.encode()
        self._fault = fault or StoreError("the disk is full")
        self._refusals = 3 if isinstance(self._fault, StoreError) else 1
        self._landed = landed

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        if self._refusals and any(self._mark in event for event in events):
            self._refusals -= 1
            if self._landed:
                await super().commit(before, after, events)
            raise self._fault
        await super().commit(before, after, events)


def told(events: Sequence[Event], *types: str) -> list[str]:
    return [event.type for event in events if event.type in types]


FAULTS: list[tuple[BaseException, str]] = [
    (StoreError("the disk is full"), "engine/store_error"),
    (asyncio.CancelledError(), "engine/unhandled_error"),
    (BaseExceptionGroup("both", [SystemExit(1)]), "engine/unhandled_error"),
]


@pytest.mark.parametrize(("fault", "code"), FAULTS, ids=range(3))
async def test_an_approval_that_a_run_acted_on_is_not_recorded_as_ignored(
    runner: Runner, fault: BaseException, code: str
) -> None:
    ran: list[str] = []

    @tool(effect="read")
    async def write(text: str) -> None:
        ran.append(text)

    runner.store = Refusing("step.observed", fault)
    script = (ToolCall("write", {"text": "a"}), FinalAnswer("done"))
    async with runner.host(*script, tools=[write], policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        await host.approve(task.id, request["digest"], by="ann")
        done = await host.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == code
    assert ran == ["a"]
    events = await runner.events(task)
    kinds = told(events, "approval.given", "approval.ignored", "step.observed", "run.stopped")
    assert kinds == ["approval.given", "step.observed", "run.stopped"]


async def test_a_commit_that_landed_before_a_stray_cancellation_is_not_written_twice(
    runner: Runner,
) -> None:
    runner.store = Refusing("step.observed", asyncio.CancelledError(), landed=True)
    task = await runner.run(ToolCall("add", {"a": 1, "b": 2}), FinalAnswer("done"))
    assert task.status == "failure"
    kinds = told(await runner.events(task), "step.observed", "run.stopped")
    assert kinds == ["step.observed", "run.stopped"]


@pytest.mark.parametrize("name", ["add", "write"])
async def test_the_outcome_of_a_step_and_its_usage_are_on_record(runner: Runner, name: str) -> None:
    runner.store = Refusing("step.observed")
    given: dict[str, Any] = {"a": 1, "b": 2} if name == "add" else {"text": "a"}
    plan = Plan((ToolCall(name, given),), usage=Usage(10, 5))
    async with runner.host(plan, FinalAnswer("done")) as host:
        task = await host.run(new_task())
        outcome = await host.outcome(task.id)
    assert task.status == "failure"
    kinds = told(outcome.events, "plan.made", "step.observed", "run.stopped")
    assert kinds == ["plan.made", "step.observed", "run.stopped"]
    assert outcome.events[-2].data["steps"] == 1
    assert outcome.usage == Usage(10, 5)


@pytest.mark.parametrize(("fault", "code"), FAULTS, ids=range(3))
async def test_a_run_that_could_not_pause_waits_for_nothing(
    runner: Runner, fault: BaseException, code: str
) -> None:
    runner.store = Refusing("task.paused", fault)
    task = await runner.run(AskUser("which?"), FinalAnswer("done"))
    assert task.failure is not None
    assert task.failure.code == code
    assert task.metadata.get("engine/waiting_for") is None
    assert task.metadata["engine/stop_reason"] == "error"


async def test_a_variable_that_may_not_be_stored_loses_no_outcome(runner: Runner) -> None:
    class Spoils:
        async def on_run_start(self, state: Any) -> None:
            self.variables = state.variables

        async def after_tool(self, invocation: Any, observation: Any) -> None:
            self.variables["bad"] = object()

    task = await runner.run(
        ToolCall("write", {"text": "a"}), FinalAnswer("done"), middleware=[Spoils()]
    )
    assert task.status == "failure"
    events = await runner.events(task)
    assert told(events, "step.observed", "run.stopped") == ["step.observed", "run.stopped"]


async def test_a_text_that_a_pause_cut_short_counts_though_its_commit_failed(
    runner: Runner,
) -> None:
    class Streams:
        calls = 0

        async def plan(self, context: Context) -> Any:
            Streams.calls += 1
            if Streams.calls == 1:
                await host.pause(context.task.id)
            yield Delta("so far", usage=Usage(7))
            yield Plan((FinalAnswer("done"),), usage=Usage(10, 5))

    class Retries:
        async def on_error(self, context: Context, error: Exception) -> Recovery:
            return Recovery("retry")

    runner.store = Refusing("run.cut")
    host = runner.host(planner=Streams(), middleware=[Retries()])
    async with host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.resume(task.id)
        await host.wait(task.id)
        outcome = await host.outcome(task.id)
    assert "run.cut" in told(outcome.events, "run.cut")

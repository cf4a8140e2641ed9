"""A crash, a pause or an end between what is remembered and what is on record."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import StoreError
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer
from agentic_kernel_engine.plans.ending import End
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory_governor import Proposal, SessionMemoryGovernor
from agentic_kernel_engine.seams.planner import Context

from ..conftest import Crash, TappedStore
from ..scripting import Runner
from .remembering import ADD, ANN, MONDAY, Gated, Governing, Seen, in_session, run, said


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_between_the_write_and_the_next_commit_leaves_one_item(
    runner: Runner, crash: Crash, when: str
) -> None:
    memory = Gated(when)
    script = (ADD, FinalAnswer("done"))
    options: Any = {
        "memory": memory, "principal": ANN, "governor": Governing(Proposal("learned", "key")),
    }  # fmt: skip
    task = in_session()
    host = runner.mortal(*script, **options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    exported = await memory.export(MONDAY)
    assert len(exported["items"]) == (when == "after")
    memory.held = False
    async with runner.host(*script, **options) as second:
        done = await second.wait(task.id)
    assert done.result == "done"
    # Brought in again after the crash, under the same id; the second step's took its place.
    assert memory.proposed[:2] == [f"{task.id}:0:0"] * (2 if when == "before" else 1)
    first, second_item = (await memory.export(MONDAY))["items"]
    assert (first["id"], first["successor"]) == (f"{task.id}:0:0", f"{task.id}:1:0")
    assert (second_item["id"], second_item["predecessor"]) == (f"{task.id}:1:0", f"{task.id}:0:0")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_between_the_write_and_the_end_ends_the_run_as_it_was_about_to(
    runner: Runner, crash: Crash, when: str
) -> None:
    """A planner that says something else every time is not asked again."""
    memory, count = Gated(when), itertools.count(1)
    ends: list[str] = []

    class Counting:
        async def plan(self, context: Context) -> Any:
            return FinalAnswer(f"answer {next(count)}")

    class Ending:
        async def on_run_end(self, state: Any, end: End) -> None:
            ends.append(end.output)

    options: Any = {
        "planner": Counting(), "memory": memory, "governor": SessionMemoryGovernor(),
        "principal": ANN, "middleware": [Ending()],
    }  # fmt: skip
    task = in_session()
    host = runner.mortal(**options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    memory.held = False
    async with runner.host(**options) as second:
        done = await second.wait(task.id)
    assert done.status is TaskStatus.SUCCESS
    assert done.result == "answer 1"
    assert ends == ["answer 1"]
    (item,) = (await memory.export(MONDAY))["items"]
    assert item["text"] == "Asked: do it\nAnswered: answer 1"
    stops = await said(runner, task, "run.stopped")
    assert [data["reason"] for data in stops] == ["final"]
    assert len(await said(runner, task, "plan.made")) == 1


async def test_a_failure_is_put_on_record_before_memory_is_written_too(
    runner: Runner, crash: Crash
) -> None:
    memory = Gated("after")
    options: Any = {
        "memory": memory, "principal": ANN, "limits": Limits(max_iterations=1),
        "governor": Governing(of_end=[Proposal("it was too much")]),
    }  # fmt: skip
    task = in_session()
    host = runner.mortal(ADD, ADD, **options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    memory.held = False
    async with runner.host(ADD, ADD, **options) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_iterations"
    assert [item["text"] for item in (await memory.export(MONDAY))["items"]] == ["it was too much"]


async def test_a_step_that_was_never_committed_is_not_remembered(
    runner: Runner, crash: Crash
) -> None:
    store = TappedStore()
    runner.store = store
    memory, reached = InMemoryMemory(), asyncio.Event()

    async def hold(record: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    store.before_commit = hold
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    host = runner.mortal(ADD, FinalAnswer(1), **options)
    task = in_session()
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    assert (await memory.export(MONDAY))["items"] == []
    store.before_commit = None
    async with runner.host(ADD, FinalAnswer(1), **options) as second:
        await second.wait(task.id)
    assert len((await memory.export(MONDAY))["items"]) == 2


async def test_what_waits_at_a_pause_is_in_memory_when_the_task_goes_on(runner: Runner) -> None:
    memory = InMemoryMemory()
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    script = ([ADD, AskUser("Which?")], FinalAnswer("done"))
    async with runner.host(*script, **options) as host:
        task = in_session()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.answer(task.id, "this", by="ann")
        await host.wait(task.id)
    assert len((await memory.export(MONDAY))["items"]) == 2


async def test_what_waits_for_a_governor_that_is_gone_is_said_to_be_lost(
    runner: Runner, crash: Crash
) -> None:
    memory = Gated("before")
    options: Any = {"memory": memory, "principal": ANN}
    task = in_session()
    host = runner.mortal(ADD, FinalAnswer(1), governor=SessionMemoryGovernor(), **options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    async with runner.host(ADD, FinalAnswer(1), **options) as second:
        assert (await second.wait(task.id)).status is TaskStatus.SUCCESS
    assert await said(runner, task, "memory.lost") == [{"items": [f"{task.id}:0:0"]}]


async def test_an_end_that_cannot_be_put_on_record_is_kept_and_nothing_remembered(
    runner: Runner,
) -> None:
    store = TappedStore()
    runner.store = store

    async def refuse(record: Any) -> None:
        if record.state is not None and b'"ended"' in record.state:
            raise StoreError("no space left")

    store.before_commit = refuse
    memory, task = InMemoryMemory(), in_session()
    done = await run(
        runner, task, ADD, FinalAnswer("done"), memory=memory, governor=SessionMemoryGovernor()
    )
    assert done.result == "done"
    texts = [item["text"] for item in (await memory.export(MONDAY))["items"]]
    assert texts == ['add({"a":1,"b":2}) gave 3']
    events = await runner.events(task)
    assert [event.type for event in events][-4:] == [
        "memory.failed", "memory.lost", "run.stopped", "task.completed",
    ]  # fmt: skip
    assert len([event for event in events if event.type == "plan.made"]) == 2


async def test_a_fault_ends_the_run_with_what_was_learned_before_it(runner: Runner) -> None:
    memory, asked = InMemoryMemory(), []

    class Asked(SessionMemoryGovernor):
        async def of_end(self, *_: Any) -> Any:
            asked.append(True)
            return ()

    done = await run(runner, in_session(), ADD, KeyError("x"), memory=memory, governor=Asked())
    assert done.failure is not None
    assert asked == []
    assert len((await memory.export(MONDAY))["items"]) == 1


async def test_a_killed_run_writes_nothing_more(runner: Runner) -> None:
    memory, planner = Gated("before"), Seen(ADD, FinalAnswer(1))
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    async with runner.host(planner=planner, **options) as host:
        task = in_session()
        await host.dispatch(task)
        await memory.reached.wait()
        await host.kill(task.id)
        assert (await host.wait(task.id)).status is TaskStatus.CANCELLED
    assert len(planner.memories) == 1, "the planner is not asked any more"
    assert (await memory.export(MONDAY))["items"] == []

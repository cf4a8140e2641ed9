"""R10: when a pause takes effect, and when it does not."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import TaskStatus
from agentic_kernel_engine import InMemoryObserver, Job, MemoryStore

from ..conftest import Acting, Crash, NewTask, Until
from ..crashing import Line

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED
SUCCESS = TaskStatus.SUCCESS


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


@pytest.mark.rule("R10")
async def test_resume_withdraws_a_pause_that_waits_and_drops_the_extra(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        await job.checkpoint("past")
        return list(job.task.supplements)

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.pause(task.id)
        receipt = await host.resume(task.id, "dropped")
        assert receipt.effect == "withdrawn"
        assert not receipt.changed
        assert not receipt.snapshot.supplements
        go.set()
        done = await host.wait(task.id)
    assert done.status is SUCCESS
    assert done.result == []


@pytest.mark.rule("R10")
async def test_without_a_living_owner_the_pauser_commits(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    worker = Host(acting(forever), Line(store))
    task = new_task()
    await worker.dispatch(task)
    await crash(worker)
    async with Host(store=store) as control:
        assert (await control.pause(task.id)).changed
        record = await control.record(task.id)
    assert record.task.status is PAUSED
    assert record.owner is None


@pytest.mark.rule("R10")
async def test_entry_with_a_pause_that_waits_commits_it_before_executing(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    worker = Host(acting(forever), Line(store), interval=60)
    task = new_task()
    await worker.dispatch(task)
    assert (await worker.pause(task.id)).effect == "requested"
    await crash(worker)
    entered = []

    async def act(job: Job) -> Any:
        entered.append(job)

    async with Host(acting(act), store, claims=False) as successor:
        assert (await successor.claim(task.id)).effect == "claimed"
        record = await successor.record(task.id)
        assert record.task.status is PAUSED
        assert record.inbox == ()
        assert not entered


@pytest.mark.rule("R10")
async def test_a_result_before_the_pause_commit_wins(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        return "first"

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.pause(task.id)
        go.set()
        done = await host.wait(task.id)
    assert done.result == "first"


@pytest.mark.rule("R10")
async def test_a_result_after_the_pause_commit_is_dropped_with_an_event(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    observer = InMemoryObserver()
    entries = []
    hold = asyncio.Event()

    async def act(job: Job) -> Any:
        entries.append(job)
        if len(entries) > 1:
            await hold.wait()
            return "of the next run"
        with contextlib.suppress(asyncio.CancelledError):
            await job.pause("kept")
        return "late"

    async with Host(acting(act), observer=observer) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: "run.result_dropped" in observer.types(task.id))
        record = await host.record(task.id)
        assert record.task.status is PAUSED
        assert record.state == b'"kept"'
        await host.resume(task.id)
        hold.set()
        assert (await host.wait(task.id)).result == "of the next run"
        types = [event.type async for event in host.stream(task.id)]
    assert types.count("run.result_dropped") == 1


@pytest.mark.rule("R10")
async def test_a_pause_that_waits_outlasts_the_moment_of_the_substrates_own_pause(
    new_task: NewTask, acting: type[Acting]
) -> None:
    """The Task sleeps until a moment; the person who asked for a pause wants it to stay paused."""
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        await job.pause("slept", due=datetime.now(UTC))

    async with Host(acting(act), claims=False) as host:
        task = new_task()
        await host.dispatch(task)
        assert (await host.pause(task.id)).effect == "requested"
        go.set()
        await host.wait(task.id, PAUSED)
        record = await host.record(task.id)
    assert record.due_at is None
    assert record.inbox == ()

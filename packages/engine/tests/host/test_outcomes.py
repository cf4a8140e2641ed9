"""R4–R6: what was accepted is brought to its end, and what a write came to is known."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Dispatch, TaskStatus, apply
from agentic_kernel_engine import Job, MemoryStore, Record, StoreError, UnknownOutcome

from ..conftest import Acting, NewTask, TappedStore

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED
SUCCESS = TaskStatus.SUCCESS
CANCELLED = TaskStatus.CANCELLED


@pytest.mark.rule("R4")
async def test_a_caller_that_times_out_leaves_no_task_that_nobody_runs(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    held = asyncio.Event()

    async def hold() -> None:
        await held.wait()

    async def act(job: Job) -> Any:
        return "ran"

    tapped.before_insert = hold
    async with Host(acting(act), tapped, interval=60) as host:
        task = new_task()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await host.dispatch(task)
        held.set()
        while tapped.count("commit") == 0:
            await asyncio.sleep(0)
        assert (await host.wait(task.id)).result == "ran"


@pytest.mark.rule("R4")
async def test_the_end_of_a_run_is_retried_while_it_owns_the_task(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    faults = [StoreError("the disk is full"), StoreError("still full"), UnknownOutcome("no answer")]

    async def fail(after: Record) -> None:
        if faults:
            raise faults.pop(0)

    entries = []

    async def act(job: Job) -> Any:
        entries.append(job)
        return "kept"

    tapped.before_commit = fail
    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
    assert done.result == "kept"
    assert not faults
    assert len(entries) == 1, "the work was done again instead"
    assert (await tapped.load(done.id)).task == done, "what was told is not what is stored"


@pytest.mark.rule("R4")
async def test_the_reaper_runs_what_the_host_owns_and_nobody_runs(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        return "reaped"

    async with Host(acting(act), interval=0.01) as host:
        task = new_task()
        started = apply(task, Dispatch(), task.created_at)
        await host.store.insert(Record(started, owner=f"{host.name}:1"))
        assert (await host.wait(task.id)).result == "reaped"


@pytest.mark.rule("R4")
async def test_the_reaper_does_not_run_again_what_has_ended_while_it_looked(
    new_task: NewTask, acting: type[Acting]
) -> None:
    entries: list[str] = []
    looked, ended = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        """One whose answer about the Tasks of an owner is on its way for long."""

        async def find(self, **which: Any) -> Any:
            page = await super().find(**which)
            if which.get("owner") and page:
                looked.set()
                await ended.wait()
            return page

    async def act(job: Job) -> Any:
        entries.append(job.task.id)
        await looked.wait()

    async with Host(acting(act), Slow(), interval=0.01) as host:
        task = new_task()
        await host.run(task)
        ended.set()
        await asyncio.sleep(0.1)
    assert entries == [task.id]


@pytest.mark.rule("R5")
@pytest.mark.parametrize("landed", [True, False])
async def test_an_unknown_outcome_is_read_back_and_nothing_is_written_twice(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, landed: bool
) -> None:
    pending = [UnknownOutcome("the connection dropped")]

    async def lose(after: Record) -> None:
        if after.step == 2 and pending:
            raise pending.pop()

    if landed:
        tapped.after_commit = lose
    else:
        tapped.before_commit = lose

    async def act(job: Job) -> Any:
        for n in range(4):
            await job.commit(n, [{"type": "acme.step", "n": n}])
        return "done"

    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
        events = [e.data["n"] async for e in host.stream(done.id) if e.type == "acme.step"]
    assert not pending
    assert events == [0, 1, 2, 3]
    assert (await tapped.load(done.id)).step == 5


@pytest.mark.rule("R5")
@pytest.mark.parametrize("landed", [True, False])
async def test_a_commit_that_was_cancelled_is_read_back(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, landed: bool
) -> None:
    async def hang(after: Record) -> None:
        if after.step == 1:
            await asyncio.Event().wait()

    if landed:
        tapped.after_commit = hang
    else:
        tapped.before_commit = hang

    async def act(job: Job) -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await job.commit("first", [{"type": "acme.step", "n": 1}])
        tapped.before_commit = tapped.after_commit = None
        await job.commit("second", [{"type": "acme.step", "n": 2}])
        return "done"

    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
        events = [e.data["n"] async for e in host.stream(done.id) if e.type == "acme.step"]
    assert done.status is SUCCESS, done.failure
    assert events == ([1, 2] if landed else [2])


@pytest.mark.rule("R5")
@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("by", ["timeout", "kill"])
async def test_a_cancellation_is_not_lost_while_an_unknown_outcome_is_read_back(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, landed: bool, by: str
) -> None:
    reading, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def lose(after: Record) -> None:
        if after.step == 1:
            tapped.before_load = hang
            tapped.after_commit = tapped.before_commit = None
            raise UnknownOutcome("no answer")

    async def hang(task_id: str) -> None:
        tapped.before_load = None
        reading.set()
        await go.wait()

    if landed:
        tapped.after_commit = lose
    else:
        tapped.before_commit = lose

    async def act(job: Job) -> Any:
        try:
            try:
                async with asyncio.timeout(0.05 if by == "timeout" else None):
                    await job.commit("first", [{"type": "acme.step", "n": 1}])
                    await asyncio.Event().wait()
            except TimeoutError:
                pass
            await job.commit("second", [{"type": "acme.step", "n": 2}])
        finally:
            ended.set()
        return "done"

    here, other = (Host(acting(act), tapped, interval=0.01) for _ in range(2))
    async with here as host, other:
        task = new_task()
        await host.dispatch(task)
        await reading.wait()
        if by == "kill":
            await other.kill(task.id)
        await asyncio.sleep(0.1)  # The time is over, or the polling has seen the kill.
        go.set()
        async with asyncio.timeout(2):
            await ended.wait()
        done = await host.wait(task.id)
        events = [e.data["n"] async for e in host.stream(task.id) if e.type == "acme.step"]
    if by == "kill":
        assert done.status is CANCELLED
        assert events == ([1] if landed else [])
    else:
        assert done.status is SUCCESS, done.failure
        assert events == ([1, 2] if landed else [2])


@pytest.mark.rule("R6")
async def test_commit_never_unwinds_and_checkpoint_does(
    new_task: NewTask, acting: type[Acting]
) -> None:
    prepared = asyncio.Event()
    go = asyncio.Event()
    effects = []

    async def act(job: Job) -> Any:
        if job.state is None:
            prepared.set()
            await go.wait()
            await job.commit("prepared")
            effects.append("ran")
            await job.checkpoint("settled")
        return job.state

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await prepared.wait()
        assert (await host.pause(task.id)).effect == "requested"
        go.set()
        await host.wait(task.id, PAUSED)
        assert effects == ["ran"], "the pause took effect between prepare and effect"
        assert (await host.record(task.id)).state == b'"settled"'
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "settled"

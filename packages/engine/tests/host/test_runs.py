"""R7: one write at a time, and how a run unwinds."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import CannotStart, TaskStatus
from agentic_kernel_engine import InMemoryObserver, Job, Record
from agentic_kernel_engine.events import RESULT_DROPPED

from ..conftest import Acting, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED
RUNNING = TaskStatus.RUNNING
SUCCESS = TaskStatus.SUCCESS


@pytest.mark.rule("R7")
async def test_concurrent_checkpoints_are_made_one_at_a_time(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    waits = iter(range(20, 0, -2))

    async def the_earlier_the_slower(after: Record) -> None:
        for _ in range(next(waits, 0)):
            await asyncio.sleep(0)

    tapped.before_commit = the_earlier_the_slower

    async def act(job: Job) -> Any:
        job.emit({"type": "acme.said"})
        async with asyncio.TaskGroup() as group:
            for n in range(10):
                group.create_task(job.checkpoint({"n": n}, [{"type": "acme.step", "n": n}]))
        return "done"

    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
        events = [event async for event in host.stream(done.id)]
    assert done.status is SUCCESS, done.failure
    assert [e.data["n"] for e in events if e.type == "acme.step"] == list(range(10))
    assert [e.type for e in events].count("acme.said") == 1
    assert (await tapped.load(done.id)).state == b'{"n":9}'


@pytest.mark.rule("R7")
async def test_a_pause_met_in_a_child_task_unwinds_the_whole_run(
    new_task: NewTask, acting: type[Acting]
) -> None:
    left: list[str | Exception] = []
    ready = asyncio.Event()

    async def sibling() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("sibling")

    async def act(job: Job) -> Any:
        if job.state is not None:
            return "went on"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(sibling())

                async def work() -> None:
                    ready.set()
                    while True:
                        await asyncio.sleep(0)
                        await job.checkpoint("in the group")

                group.create_task(work())
        except Exception as escaped:  # an exception group would be one
            left.append(escaped)
            raise
        finally:
            left.append("root")

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await ready.wait()
        await host.pause(task.id)
        await host.wait(task.id, PAUSED)
        while "root" not in left:
            await asyncio.sleep(0)
        assert left == ["sibling", "root"]
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "went on"


@pytest.mark.rule("R7")
async def test_a_run_that_will_not_unwind_is_reported_and_keeps_its_slot(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    release = asyncio.Event()
    observer = InMemoryObserver()

    async def act(job: Job) -> Any:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async with Host(acting(act), observer=observer, max_in_flight=1, unwind_timeout=0.02) as host:
        task = new_task()
        await host.dispatch(task)
        await asyncio.sleep(0)
        assert (await host.kill(task.id)).changed
        await until(lambda: "run.abandoned" in observer.types(task.id))
        with pytest.raises(CannotStart, match="max_in_flight"):
            await host.dispatch(new_task())
        release.set()
        assert (await host.run(new_task())).result == "at last", "its slot is free again"
        release.clear()
        await host.dispatch(stubborn := new_task())
        await asyncio.sleep(0)
        await host.drain(timeout=0.01)
        assert (await host.record(stubborn.id)).owner, "its coroutine lives, so it is not let go"
        release.set()
    assert (await host.get(task.id)).status is TaskStatus.CANCELLED


@pytest.mark.rule("R7")
async def test_an_old_run_that_lingers_does_not_touch_its_successor(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    linger = asyncio.Event()
    entries, unwound = [], []

    async def act(job: Job) -> Any:
        entries.append(job)
        if len(entries) == 1:
            try:
                await job.pause("one")
            except asyncio.CancelledError:
                await linger.wait()
                return "stale"
        await job.checkpoint("two")
        try:
            await asyncio.Event().wait()
        finally:
            unwound.append(True)

    async with Host(acting(act), unwind_timeout=60, interval=60) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, PAUSED)
        await host.resume(task.id)
        await until(lambda: len(entries) == 2)
        linger.set()
        async for event in host.stream(task.id):
            if event.type == RESULT_DROPPED:
                break
        assert (await host.get(task.id)).status is RUNNING
        await host.kill(task.id)
        await until(lambda: unwound)


@pytest.mark.rule("R7")
async def test_unwinding_is_one_cancellation_so_clean_up_may_wait(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    cleaned = []

    async def act(job: Job) -> Any:
        try:
            await job.pause("here")
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, PAUSED)
        await until(lambda: cleaned)


class NoJob:
    async def execute(self) -> Any:
        return "done"


class AtOnce:
    def execute(self, job: Job) -> Any:
        raise ValueError("on purpose")


class NoCoroutine:
    def execute(self, job: Job) -> Any:
        return 5


@pytest.mark.parametrize("substrate", [NoJob, AtOnce, NoCoroutine])
async def test_a_substrate_that_cannot_begin_ends_the_run_and_not_its_dispatch(
    substrate: Any, new_task: NewTask
) -> None:
    async with Host(substrate()) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.code == "engine/unhandled_error"

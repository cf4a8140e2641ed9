"""Children on any substrate (R13): a parent spawns its own once, and a kill sweeps them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Kill, TaskExists, TaskStatus, apply
from agentic_kernel_engine import Job, MemoryStore
from agentic_kernel_engine.host.change import successor

from ..conftest import Acting, Crash, NewTask, Until
from ..crashing import Line

Host = partial(engine.Host, grace=0)
CANCELLED = TaskStatus.CANCELLED


@pytest.mark.rule("R13")
async def test_a_child_recorded_by_the_prepare_is_spawned_once(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    spawned = []
    gate = asyncio.Event()

    async def act(job: Job) -> Any:
        if job.task.instructions == "child":
            await gate.wait()
            return "child's"
        state = job.state
        if state is None:
            state = {"child": new_task().id}
            await job.commit(state)
        child = new_task(id=state["child"], instructions="child")
        spawned.append((await job.spawn(child)).changed)
        return (await job.join(child.id)).result

    first = Host(acting(act), Line(store))
    task = new_task()
    await first.dispatch(task)
    while not spawned:
        await asyncio.sleep(0.001)
    await crash(first)
    gate.set()
    async with Host(acting(act), store) as second:
        assert (await second.wait(task.id)).result == "child's"
    assert spawned == [True, False]


@pytest.mark.rule("R13")
async def test_an_id_of_somebody_elses_task_is_no_child(
    new_task: NewTask, acting: type[Acting]
) -> None:
    other = new_task(instructions="other")

    async def act(job: Job) -> Any:
        if job.task.id == other.id:
            return "other"
        await job.spawn(new_task(id=other.id))

    async with Host(acting(act)) as host:
        await host.run(other)
        failed = await host.run(new_task())
    assert failed.failure is not None
    assert failed.failure.metadata["type"] == TaskExists.__name__


@pytest.mark.rule("R13")
async def test_kill_sweeps_the_children_and_theirs(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    depth = {"root": "child", "child": "grandchild"}
    born = []

    async def act(job: Job) -> Any:
        born.append(job.task.id)
        below = depth.get(job.task.instructions)
        if below:
            child = new_task(instructions=below)
            await job.commit(child.id)
            await job.spawn(child)
        await asyncio.Event().wait()

    async with Host(acting(act)) as host:
        task = new_task(instructions="root")
        await host.dispatch(task)
        await until(lambda: len(born) == 3)
        await host.kill(task.id)
        assert {(await host.get(id)).status for id in born} == {CANCELLED}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.rule("R13")
async def test_a_kill_whose_sweep_did_not_land_reaches_children_that_run(
    new_task: NewTask, acting: type[Acting], until: Until, apart: bool
) -> None:
    """On the parent's Host, and on another one."""
    store = MemoryStore()
    born = []

    async def act(job: Job) -> Any:
        born.append(job.task.id)
        if job.task.instructions == "root":
            child = new_task(instructions="child")
            await job.commit(child.id)
            if apart:
                await other.spawn(child, job.task.id)
            else:
                await job.spawn(child)
        await asyncio.Event().wait()

    other = Host(acting(act), store, interval=0.01)
    async with other, Host(acting(act), store, interval=0.01) as host:
        task = new_task(instructions="root")
        await host.dispatch(task)
        await until(lambda: len(born) == 2)
        record = await store.load(task.id)
        killed = apply(record.task, Kill(), record.task.created_at)
        await store.commit(record, successor(record, task=killed, owner=None))
        assert (await host.wait(born[1])).status is CANCELLED


@pytest.mark.rule("R13")
async def test_a_child_checks_its_parent_on_entry(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    born = []

    async def act(job: Job) -> Any:
        born.append(job.task.id)
        if job.task.instructions == "root":
            child = new_task(instructions="child")
            await job.commit(child.id)
            await job.spawn(child)
        await asyncio.Event().wait()

    first = Host(acting(act), Line(store))
    task = new_task(instructions="root")
    await first.dispatch(task)
    while len(born) < 2:
        await asyncio.sleep(0.001)
    await crash(first)
    # The kill lands and its sweep does not: only the parent's own record changes.
    record = await store.load(task.id)
    killed = apply(record.task, Kill(), record.task.created_at)
    await store.commit(record, successor(record, task=killed, owner=None))
    async with Host(acting(act), store, interval=0.01) as second:
        assert (await second.wait(born[1])).status is CANCELLED
    assert len(born) == 2, "the orphan was executed"

"""R8, R9: several hosts on one store: who notices, who runs what, who lets go."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import CannotStart, TaskStatus
from agentic_kernel_engine import Job, MemoryStore

from ..conftest import Acting, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED
RUNNING = TaskStatus.RUNNING
SUCCESS = TaskStatus.SUCCESS


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


@pytest.mark.rule("R8")
async def test_a_remote_kill_reaches_a_run_that_never_commits(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    unwound = asyncio.Event()

    async def act(job: Job) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()

    async with Host(acting(act), store, interval=0.01) as worker, Host(store=store) as control:
        task = new_task()
        await worker.dispatch(task)
        assert (await control.kill(task.id)).changed
        await unwound.wait()


@pytest.mark.rule("R8")
async def test_one_look_serves_all_the_runs_of_a_host(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    class Asked(TappedStore):
        async def changed(self, versions: Any) -> Any:
            asked.append(len(versions))
            return await super().changed(versions)

    asked: list[int] = []
    tapped = Asked()
    async with Host(acting(forever), tapped, interval=0.001) as host:
        for _ in range(50):
            await host.dispatch(new_task())
        loads = tapped.count("load")
        asked.clear()
        await until(lambda: len(asked) >= 3)
        assert set(asked) == {50}
        assert tapped.count("load") == loads, "an unchanged record was loaded"


@pytest.mark.rule("R9")
async def test_drain_leaves_tasks_running_and_claimable_and_another_host_goes_on(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    stepping = asyncio.Event()

    async def act(job: Job) -> Any:
        n = job.state or 0
        while n < 3 or job.task.id in held:
            n += 1
            stepping.set()
            await asyncio.sleep(0)
            await job.checkpoint(n)
        return n

    task = new_task()
    held = {task.id}
    async with Host(acting(act), store) as first:
        await first.dispatch(task)
        await stepping.wait()
        await first.drain()
        record = await first.record(task.id)
        assert record.task.status is RUNNING
        assert record.owner is None
        assert record.step > 0
        with pytest.raises(CannotStart, match="draining"):
            await first.dispatch(new_task())
    held.clear()
    async with Host(acting(act), store) as second:
        done = await second.wait(task.id)
    assert done.status is SUCCESS
    assert done.result >= record.step


@pytest.mark.rule("R9")
async def test_drain_with_pause_pauses(new_task: NewTask, acting: type[Acting]) -> None:
    async def act(job: Job) -> Any:
        while True:
            await asyncio.sleep(0)
            await job.checkpoint("here")

    async with Host(acting(act)) as host:
        tasks = [new_task() for _ in range(5)]
        for task in tasks:
            await host.dispatch(task)
        await host.drain(pause=True)
        records = [await host.record(task.id) for task in tasks]
    assert {record.task.status for record in records} == {PAUSED}
    assert {record.owner for record in records} == {None}


@pytest.mark.rule("R9")
@pytest.mark.parametrize("pause", [True, False])
async def test_drain_lets_go_of_runs_that_reach_no_safe_point(
    new_task: NewTask, acting: type[Acting], pause: bool
) -> None:
    async with Host(acting(forever), unwind_timeout=1) as host:
        task = new_task()
        await host.dispatch(task)
        await asyncio.sleep(0)
        await host.drain(pause=pause, timeout=0.01)
        record = await host.record(task.id)
    assert record.task.status is (PAUSED if pause else RUNNING)
    assert record.owner is None


@pytest.mark.rule("R9")
async def test_a_control_planes_resume_is_taken_up_by_a_host_that_serves_the_kind(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()

    async def act(job: Job) -> Any:
        if not job.task.supplements:
            await job.pause(None)
        return list(job.task.supplements)

    async with (
        Host(acting(act), store, runtime_kinds={"test"}, interval=0.01) as worker,
        Host(acting(forever), store, runtime_kinds={"other"}, interval=0.01) as other,
        Host(store=store) as control,
    ):
        task = new_task()
        await worker.dispatch(task)
        await control.wait(task.id, PAUSED)
        assert (await other.resume(task.id, "go")).changed
        done = await control.wait(task.id)
        assert done.result == ["go"]
        events = [event async for event in control.stream(task.id)]
    claims = [event.data["by"] for event in events if event.type == "task.claimed"]
    assert claims == [worker.name]


@pytest.mark.rule("R9")
async def test_dispatch_takes_its_slot_before_anything_is_durable(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async with Host(acting(forever), tapped, max_in_flight=1) as host:
        await host.dispatch(new_task())
        writes = len([call for call in tapped.calls if call in ("insert", "commit")])
        refused = new_task()
        with pytest.raises(CannotStart, match="max_in_flight is 1"):
            await host.dispatch(refused)
        assert len([call for call in tapped.calls if call in ("insert", "commit")]) == writes
        assert not await host.get_many([refused.id])


@pytest.mark.rule("R9")
async def test_run_waits_for_a_slot_and_a_cancelled_wait_takes_none(
    new_task: NewTask, acting: type[Acting]
) -> None:
    here, at_once = 0, []

    async def act(job: Job) -> Any:
        nonlocal here
        here += 1
        at_once.append(here)
        await asyncio.sleep(0)
        here -= 1
        return "done"

    async with Host(acting(act), max_in_flight=2) as host:
        waits = [asyncio.ensure_future(host.run(new_task())) for _ in range(10)]
        await asyncio.sleep(0)
        waits[5].cancel()
        results: list[Any] = await asyncio.gather(*waits, return_exceptions=True)
        assert isinstance(results[5], asyncio.CancelledError)
        assert all(task.status is SUCCESS for task in results[:5] + results[6:])
        assert max(at_once) <= 2
        assert (await host.run(new_task())).status is SUCCESS


@pytest.mark.rule("R9")
async def test_a_child_uses_its_parents_slot(new_task: NewTask, acting: type[Acting]) -> None:
    async def act(job: Job) -> Any:
        if job.task.instructions == "child":
            return "from the child"
        child = new_task(instructions="child")
        await job.commit({"child": child.id})
        await job.spawn(child)
        return (await job.join(child.id)).result

    async with Host(acting(act), max_in_flight=1) as host:
        assert (await host.run(new_task())).result == "from the child"

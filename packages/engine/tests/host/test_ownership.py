"""R1, R2, R14: who may write, and who may take over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Complete, Dispatch, TaskStatus, apply
from agentic_kernel_engine import Conflict, Job, MemoryStore, Record, RunEnded
from agentic_kernel_engine.host.change import successor
from agentic_kernel_engine.record import owner_name

from ..conftest import Acting, Crash, NewTask, TappedStore
from ..crashing import Line

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


@pytest.mark.rule("R1")
async def test_a_run_that_swallows_its_cancellation_writes_nothing_after_a_kill(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    refusals = []
    woken = asyncio.Event()

    async def act(job: Job) -> Any:
        await job.commit({"n": 1})
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            touched = len(tapped.calls)
            for call in (job.commit, job.checkpoint):
                with pytest.raises(RunEnded):
                    await call({"n": 2}, [{"type": "late"}])
                refusals.append(len(tapped.calls) == touched)
            says: list[Callable[[], None]] = [
                lambda: job.emit({"type": "late"}),
                lambda: job.note("a/b", 1),
            ]
            for say in says:
                with pytest.raises(RunEnded):
                    say()
            woken.set()
        return "late"

    async with Host(acting(act), tapped) as host:
        task = new_task()
        await host.dispatch(task)
        while (await host.record(task.id)).step == 0:
            await asyncio.sleep(0)
        killed = await host.kill(task.id)
        await woken.wait()
        assert refusals == [True, True], "a dead job touched the store"
    record = await tapped.load(task.id)
    assert killed.changed
    assert record.task == killed.snapshot
    assert record.version == killed.version
    assert record.state == b'{"n":1}'


@pytest.mark.rule("R1")
async def test_the_first_refusal_kills_the_job(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    seen = asyncio.Event()
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        with pytest.raises(RunEnded):
            await job.commit({"n": 1})
        calls = len(tapped.calls)
        with pytest.raises(RunEnded):
            await job.commit({"n": 2})
        assert len(tapped.calls) == calls
        seen.set()

    async with Host(acting(act), tapped, interval=60) as host:
        task = new_task()
        await host.dispatch(task)
        record = await tapped.load(task.id)
        done = apply(record.task, Complete("elsewhere"), record.task.created_at)
        await tapped.commit(record, successor(record, task=done, owner=None))
        go.set()
        await seen.wait()
    assert (await tapped.load(task.id)).task.result == "elsewhere"


@pytest.mark.rule("R1")
@pytest.mark.parametrize("moved", ["version", "owner", "terminal"])
async def test_a_store_refuses_a_commit_whose_ground_has_moved(
    new_task: NewTask, acting: type[Acting], moved: str
) -> None:
    store = MemoryStore()

    async def act(job: Job) -> Any:
        await asyncio.Event().wait()

    async with Host(acting(act), store) as host:
        task = new_task()
        await host.dispatch(task)
        before = await store.load(task.id)
        if moved == "version":
            await host.post(task.id, {"type": "x"})
        elif moved == "owner":
            before = before.changed(owner="somebody:1")
        else:
            await host.kill(task.id)
            before = await store.load(task.id)
        latest = await store.load(task.id)
        with pytest.raises(Conflict):
            await store.commit(before, successor(before, state=b"1"), [b"{}"])
        assert await store.load(task.id) == latest


@pytest.mark.rule("R2")
async def test_no_two_acquisitions_have_the_same_owner(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    owners = []

    async def act(job: Job) -> Any:
        owners.append((await store.load(job.task.id)).owner)
        await job.pause(None)

    async with Host(acting(act), store) as one, Host(acting(act), store) as two:
        assert one.name != two.name
        task = new_task()
        await one.dispatch(task)
        for host in (two, one, one):
            await host.wait(task.id, PAUSED)
            await host.resume(task.id)
            await host.wait(task.id, PAUSED)
    assert len(set(owners)) == 4
    names = [owner.split(":")[0] for owner in owners if owner is not None]
    assert names == [one.name, two.name, one.name, one.name]


@pytest.mark.rule("R14")
async def test_a_living_owner_is_not_taken_over_and_a_dead_one_is_by_one_claimer(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    entries = []

    async def act(job: Job) -> Any:
        entries.append(job)
        await asyncio.Event().wait()

    owner = Host(acting(act), Line(store))
    task = new_task()
    await owner.dispatch(task)
    claimers = [Host(acting(act), store, claims=False) for _ in range(5)]
    refused = await asyncio.gather(*(host.claim(task.id) for host in claimers))
    assert {receipt.effect for receipt in refused} == {"none"}
    await crash(owner)
    receipts = await asyncio.gather(*(host.claim(task.id) for host in claimers))
    assert sorted(receipt.effect for receipt in receipts) == ["claimed"] + ["none"] * 4
    await asyncio.sleep(0)
    assert len(entries) == 2
    for host in claimers:
        await host.close()


@pytest.mark.rule("R14")
async def test_a_host_is_alive_before_the_first_commit_that_names_it(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async with Host(acting(forever), tapped) as host:
        await host.dispatch(new_task())
    assert tapped.calls.index("join") < tapped.calls.index("insert")


@pytest.mark.rule("R4")
async def test_what_a_host_owns_and_does_not_run_is_run_however_much_it_is(
    new_task: NewTask, acting: type[Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_kernel_engine.host.polling._PAGE", 2)
    ran: list[str] = []

    async def act(job: Job) -> Any:
        ran.append(job.task.id)

    store, now = MemoryStore(), datetime.now(UTC)
    async with Host(acting(act), store, interval=0.001) as host:
        lost = [apply(new_task(), Dispatch(), now) for _ in range(5)]
        for task in lost:
            await store.insert(Record(task, owner=owner_name(host.name, 1)))
        async with asyncio.timeout(10):
            for task in lost:
                await host.wait(task.id)
    assert sorted(ran) == sorted(task.id for task in lost)

"""R1–R7: who may write, what a write means, and how a run unwinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import (
    CannotStart,
    Complete,
    Dispatch,
    Failure,
    IllegalTransition,
    TaskStatus,
    apply,
)
from agentic_kernel_engine import (
    Conflict,
    InMemoryObserver,
    Job,
    MemoryStore,
    Record,
    RunEnded,
    StoreError,
    UnknownOutcome,
)
from agentic_kernel_engine.mutators import successor

from .conftest import Acting, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0)
PAUSED, RUNNING, SUCCESS = TaskStatus.PAUSED, TaskStatus.RUNNING, TaskStatus.SUCCESS


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
            before = replace(before, owner="somebody:1")
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


@pytest.mark.rule("R3")
async def test_of_many_resumers_exactly_one_wins_and_its_run_is_the_only_one(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    entries = []

    async def act(job: Job) -> Any:
        if job.state is None:
            await job.pause({"asked": True})
        entries.append(job.task.supplements[-1])
        await job.commit({"asked": False})
        return len(entries)

    hosts = [Host(acting(act), store) for _ in range(6)]
    try:
        task = new_task()
        await hosts[0].dispatch(task)
        await hosts[0].wait(task.id, PAUSED)
        receipts = await asyncio.gather(
            *(host.resume(task.id, f"extra {n}") for n, host in enumerate(hosts))
        )
        done = await hosts[0].wait(task.id)
    finally:
        for host in hosts:
            await host.close()
    assert sum(receipt.changed for receipt in receipts) == 1
    assert len(entries) == 1
    assert list(done.supplements) == entries


@pytest.mark.rule("R3")
async def test_a_yes_to_one_question_does_not_answer_the_next(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        asked = 0 if job.state is None else job.state
        if asked < 2:
            await job.pause(asked + 1, reason=f"question {asked + 1}")
        return list(job.task.supplements)

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, PAUSED)
        first = (await host.record(task.id)).version
        assert (await host.resume(task.id, "yes", at_version=first)).changed
        await host.wait(task.id, PAUSED)
        late = await host.resume(task.id, "yes again", at_version=first)
        assert not late.changed
        assert late.snapshot.status is PAUSED
        await host.resume(task.id, "to the second")
        assert (await host.wait(task.id)).result == ["yes", "to the second"]


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
        assert (await host.run(new_task())).result == "kept"
    assert not faults
    assert len(entries) == 1, "the work was done again instead"


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
        await until(lambda: host._runs.slots.free)
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
        assert len(host._runs.live) == 2
        linger.set()
        await until(lambda: len(host._runs.live) == 1)
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


async def test_verbs_on_a_paused_task_that_the_table_forbids_change_nothing(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        await job.pause(None)

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, PAUSED)
        before = await host.record(task.id)
        with pytest.raises(IllegalTransition, match="resume it first"):
            await host.complete(task.id, 1)
        with pytest.raises(IllegalTransition):
            await host.fail(task.id, Failure("a/b", "c"))
        assert await host.record(task.id) == before

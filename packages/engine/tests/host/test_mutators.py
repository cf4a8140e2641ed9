"""R3: every foreign change is one decision on the latest record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Failure, IllegalTransition, Kill, TaskStatus, apply
from agentic_kernel_engine import Conflict, Job, MemoryStore, Record, StoreError
from agentic_kernel_engine.host import change
from agentic_kernel_engine.host.change import successor

from ..conftest import Acting, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


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


class SlowReads(MemoryStore):
    """A store whose reads take longer than a run needs from one commit to the next."""

    async def load(self, task_id: str) -> Record:
        record = await super().load(task_id)
        for _ in range(20):
            await asyncio.sleep(0)
        return record


@pytest.mark.rule("R7")
@pytest.mark.parametrize("whose", ["the run's own host", "another host"])
async def test_a_run_that_commits_without_a_pause_starves_nobody(
    new_task: NewTask, acting: type[Acting], whose: str
) -> None:
    store = SlowReads()

    async def act(job: Job) -> Any:
        while True:
            await asyncio.sleep(0)
            await job.commit("on and on")

    async with Host(acting(act), store) as worker, Host(store=store) as other:
        task = new_task()
        await worker.dispatch(task)
        caller = worker if whose == "the run's own host" else other
        async with asyncio.timeout(5):
            assert (await caller.pause(task.id)).effect == "requested"
            assert (await caller.resume(task.id)).effect == "withdrawn"
            assert (await caller.kill(task.id)).changed


class Unpublished(MemoryStore):
    """A store whose refusals name a rival's kill that it has not acknowledged yet."""

    def __init__(self) -> None:
        super().__init__()
        self.rival: Record | None = None
        self.refusals = 0

    async def refuse_after_a_kill(self, task_id: str) -> Record:
        """Refuse each commit from now on, for a rival's kill; return the record before it."""
        before = await self.load(task_id)
        killed = apply(before.task, Kill(), datetime.now(UTC))
        self.rival = successor(before, task=killed, owner=None)
        return before

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        if self.rival is not None:
            self.refusals += 1
            raise Conflict(before.task.id, self.rival)
        await super().commit(before, after, events)


@pytest.mark.rule("R3")
@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "given up"])
async def test_what_is_not_acknowledged_yet_is_waited_for(
    new_task: NewTask, acting: type[Acting], until: Until, acknowledged: bool
) -> None:
    store = Unpublished()
    async with Host(acting(forever), store) as host:
        task = new_task()
        await host.dispatch(task)
        before = await store.refuse_after_a_kill(task.id)
        call = asyncio.create_task(host.kill(task.id))
        await until(lambda: store.refusals)
        done, _ = await asyncio.wait([call], timeout=0.05)
        assert not done, "an answer from a write that may yet be given up"
        assert store.refusals == 1, "the wait is spent on attempts that cannot land"
        rival, store.rival = store.rival, None
        assert rival is not None
        if acknowledged:
            await store.commit(before, rival)
        assert (await call).changed is not acknowledged
        assert (await host.get(task.id)).status is TaskStatus.CANCELLED


@pytest.mark.rule("R3")
async def test_a_write_that_is_never_acknowledged_ends_the_wait(
    new_task: NewTask, acting: type[Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "STALLED", 0.0)
    monkeypatch.setattr(change, "SPELLS", 3)
    store = Unpublished()
    async with Host(acting(forever), store) as host:
        task = new_task()
        await host.dispatch(task)
        await store.refuse_after_a_kill(task.id)
        with pytest.raises(StoreError, match="has not been acknowledged"):
            await host.kill(task.id)
        store.rival = None


@pytest.mark.rule("R3")
async def test_one_lost_attempt_does_not_begin_a_chase(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async def on_and_on(job: Job) -> None:
        while True:
            await asyncio.sleep(0)
            await job.commit("on and on")

    async def act(job: Job) -> Any:
        await asyncio.gather(*(on_and_on(job) for _ in range(3)))

    async with Host(acting(act), tapped) as worker, Host(store=tapped) as other:
        task = new_task()
        await worker.dispatch(task)

        async def overtaken(after: Record) -> None:
            if after.task.status is TaskStatus.CANCELLED:
                tapped.before_commit = None
                await other.post(task.id, {"type": "acme/remark"})

        tapped.before_commit = overtaken
        before = tapped.count("commit")
        assert (await worker.kill(task.id)).changed
        assert tapped.count("commit") - before < 20

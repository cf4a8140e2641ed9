"""R22: one bad record never hides another, and a kill buries it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Pause, TaskStatus, apply
from agentic_kernel_engine import Conflict, Job, MemoryStore, Record, StoreError, Unreadable
from agentic_kernel_engine.host.change import successor
from agentic_kernel_engine.stored import buried

from ..conftest import Acting, LookedAt, NewTask, Until

Host = partial(engine.Host, grace=0, interval=0.01)


class Damaged(LookedAt):
    """A store in which some records cannot be read, as a durable one may have them."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: dict[str, Unreadable] = {}

    def damage(self, task_id: str, version: int, *, newer: bool = False) -> None:
        self.bad[task_id] = Unreadable(task_id, version, newer=newer, why="for the test")

    async def load(self, task_id: str) -> Record:
        if task_id in self.bad:
            raise self.bad[task_id]
        return await super().load(task_id)

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        return await super().load_many([id for id in task_ids if id not in self.bad])

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        if before.task.id in self.bad:
            raise self.bad[before.task.id]
        await super().commit(before, after, events)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        if task_id in self.bad:
            raise self.bad[task_id]
        return await super().claim(task_id, host, events)

    async def find(self, **options: Any) -> Sequence[Record]:
        return [each for each in await super().find(**options) if each.task.id not in self.bad]

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        bad = self.bad.get(task_id)
        if bad is None or bad.version != version:
            raise Conflict(task_id)
        if bad.newer and not force:
            raise bad
        del self.bad[task_id]
        before = await self.load(task_id)
        after = buried(task_id, before.version + 1, at or datetime.now(UTC))
        self._replace(self._shelf(task_id), after, events)
        return after


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


async def done(job: Job) -> Any:
    return "done"


async def lost(store: MemoryStore, new_task: NewTask, acting: type[Acting], **fields: Any) -> str:
    """A Task that a host began and left behind."""
    async with Host(acting(forever), store, claims=False) as host:
        await host.dispatch(task := new_task(**fields))
    return str(task.id)


class Listed(Damaged):
    """Its pages show a record that has become unreadable since."""

    async def find(self, **options: Any) -> Sequence[Record]:
        return await LookedAt.find(self, **options)


@pytest.mark.rule("R22")
@pytest.mark.parametrize("store", [Damaged(), Listed()], ids=["left out", "between two reads"])
async def test_a_bad_record_keeps_no_other_task_from_being_taken_up_or_woken(
    new_task: NewTask, acting: type[Acting], until: Until, store: Damaged,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    bad, good = [await lost(store, new_task, acting, id=id) for id in ("a", "b")]
    asleep = [await lost(store, new_task, acting, id=id) for id in ("c", "d")]
    for task_id in asleep:
        before = await store.load(task_id)
        now = datetime.now(UTC)
        paused = apply(before.task, Pause(), now)
        await store.commit(before, successor(before, task=paused, due_at=now - timedelta(hours=1)))
    for task_id in (bad, asleep[0]):
        store.damage(task_id, (await store.load(task_id)).version)
    async with Host(acting(done), store, interval=0.001) as host:
        assert (await host.wait(good)).result == "done"
        assert (await host.wait(asleep[1])).result == "done"
        enough = store.rounds + 6
        await until(lambda: store.rounds >= enough)
        with pytest.raises(Unreadable):
            await host.wait(bad)
    said = [line for line in caplog.records if "cannot be read" in line.getMessage()]
    assert len(said) <= 2, "each is said once"


@pytest.mark.rule("R22")
@pytest.mark.parametrize("fault", [StoreError("this one"), ValueError("that one")], ids=repr)
async def test_a_fault_of_one_task_keeps_no_other_from_being_taken_up(
    new_task: NewTask, acting: type[Acting], until: Until, fault: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    class Odd(LookedAt):
        async def claim(self, task_id: str, *args: Any) -> Any:
            if task_id == "a":
                raise fault
            return await super().claim(task_id, *args)

    store = Odd()
    for id in ("a", "b"):
        await lost(store, new_task, acting, id=id)
    async with Host(acting(done), store, interval=0.001) as host:
        assert (await host.wait("b")).result == "done"
        enough = store.rounds + 6
        await until(lambda: store.rounds >= enough)
    assert len([line for line in caplog.records if "'a'" in line.getMessage()]) == 1


@pytest.mark.rule("R22")
async def test_a_kill_buries_a_record_that_cannot_be_read_and_sweeps_its_children(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = Damaged()
    parent = await lost(store, new_task, acting)
    async with Host(acting(forever), store, claims=False) as host:
        child = await host.spawn(new_task(), parent)
        version = (await store.load(parent)).version
        store.damage(parent, version)
        receipt = await host.kill(parent)
        assert (receipt.changed, receipt.version) == (True, version + 1)
        assert (await host.get(parent)).status is TaskStatus.CANCELLED
        assert (await host.get(child.snapshot.id)).status is TaskStatus.CANCELLED
        types = [event.type for event in (await host.outcome(parent)).events]
    assert types[0] == "task.dispatched"
    assert types[-1] == "task.killed"


@pytest.mark.rule("R22")
async def test_a_kill_ends_the_run_whose_record_cannot_be_read(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store, begun, stopped = Damaged(), asyncio.Event(), asyncio.Event()

    async def act(job: Job) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Host(acting(act), store, interval=3600) as host:
        task = (await host.dispatch(new_task())).snapshot
        await begun.wait()
        store.damage(task.id, (await store.load(task.id)).version)
        await host.kill(task.id)
        async with asyncio.timeout(10):
            await stopped.wait()
        assert (await host.get(task.id)).status is TaskStatus.CANCELLED


@pytest.mark.rule("R22")
async def test_a_record_of_a_newer_form_is_buried_with_force_only(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = Damaged()
    task_id = await lost(store, new_task, acting)
    store.damage(task_id, (await store.load(task_id)).version, newer=True)
    async with Host(store=store) as host:
        with pytest.raises(Unreadable, match="force"):
            await host.kill(task_id)
        with pytest.raises(Unreadable):
            await host.pause(task_id)
        assert (await host.kill(task_id, force=True)).changed
        assert not (await host.kill(task_id)).changed


@pytest.mark.rule("R22")
@pytest.mark.parametrize("cut", ["while it runs", "as it ends"])
async def test_a_run_whose_record_becomes_unreadable_is_let_go_and_others_go_on(
    new_task: NewTask, acting: type[Acting], cut: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    store = Damaged()
    begun, damaged = asyncio.Event(), asyncio.Event()

    async def act(job: Job) -> Any:
        if job.task.id == "bad":
            begun.set()
            await (damaged.wait() if cut == "as it ends" else asyncio.Event().wait())
        return "done"

    async with Host(acting(act), store, max_in_flight=1) as host:
        await host.dispatch(new_task(id="bad"))
        await begun.wait()
        store.damage("bad", 2)
        if cut == "while it runs":
            store._shelf("bad").record = successor(store._shelf("bad").record)
        damaged.set()
        assert (await host.run(new_task())).result == "done", "its slot is free again"
    assert len([line for line in caplog.records if "cannot be read" in line.getMessage()]) == 1

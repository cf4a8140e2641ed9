"""A Host does not read from the store what it knows: reads of what runs here are counted."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Job, MemoryStore, StoreTraits

from ..conftest import NewTask

BRISK: dict[str, Any] = {"interval": 0.01, "grace": 0.0}


class Counted(MemoryStore):
    """Counts the records that are read, and says so of each Task whose versions it compares."""

    traits = StoreTraits()

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0
        self.compared = asyncio.Event()
        self.meanwhile: asyncio.Event | None = None
        """If set: `changed` says that it began, and answers after this."""

    async def load(self, task_id: str) -> Any:
        self.loads += 1
        return await super().load(task_id)

    async def changed(self, versions: Any) -> Any:
        self.compared.set()
        if self.meanwhile is not None:
            await self.meanwhile.wait()
        return await super().changed(versions)


class Held:
    """Commits when it may, and ends when it may."""

    def __init__(self) -> None:
        self.may_commit, self.committed, self.may_end = (asyncio.Event() for _ in range(3))

    async def execute(self, job: Job) -> str:
        await self.may_commit.wait()
        await job.checkpoint(1)
        self.committed.set()
        await self.may_end.wait()
        return "done"


async def test_a_wait_for_a_task_that_runs_here_reads_nothing(new_task: NewTask) -> None:
    store, work = Counted(), Held()
    async with Host(work, store) as host:
        task = (await host.dispatch(new_task())).snapshot
        read = store.loads
        waiting = asyncio.create_task(host.wait(task.id))
        work.may_commit.set()
        await work.committed.wait()
        assert not waiting.done()
        work.may_end.set()
        assert (await waiting).status is TaskStatus.SUCCESS
        assert store.loads == read


async def test_a_wait_here_hears_of_a_kill_by_another_host(new_task: NewTask) -> None:
    store, work = Counted(), Held()
    async with Host(work, store, **BRISK) as host, Host(store=store, **BRISK) as other:
        task = (await host.dispatch(new_task())).snapshot
        waiting = asyncio.create_task(host.wait(task.id))
        await asyncio.sleep(0)
        await other.kill(task.id)
        assert (await asyncio.wait_for(waiting, 20)).status is TaskStatus.CANCELLED


async def test_a_commit_of_ones_own_during_a_look_is_no_news(new_task: NewTask) -> None:
    store, work = Counted(), Held()
    async with Host(work, store, **BRISK) as host:
        await host.dispatch(new_task())
        store.meanwhile = asyncio.Event()
        store.compared.clear()
        await store.compared.wait()  # The look has noted the version that it compares.
        read = store.loads
        work.may_commit.set()
        await work.committed.wait()
        store.compared.clear()
        store.meanwhile.set()
        await store.compared.wait()  # The next look has begun, so that one is over.
        assert store.loads == read
        work.may_end.set()


async def test_another_hosts_kill_during_a_look_is_seen_by_the_next(new_task: NewTask) -> None:
    store, work = Counted(), Held()
    async with Host(work, store, **BRISK) as host, Host(store=store) as other:
        task = (await host.dispatch(new_task())).snapshot
        store.meanwhile = asyncio.Event()
        store.compared.clear()
        await store.compared.wait()
        work.may_commit.set()
        await work.committed.wait()
        await other.kill(task.id)
        store.meanwhile.set()
        assert (await asyncio.wait_for(host.wait(task.id), 20)).status is TaskStatus.CANCELLED

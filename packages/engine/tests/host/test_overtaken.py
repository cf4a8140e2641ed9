"""R1: a Host decides about a Task of its own, and another owner comes before the write."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Dispatch, TaskStatus, apply
from agentic_kernel_engine import Job, MemoryStore, Record
from agentic_kernel_engine.host.change import successor
from agentic_kernel_engine.record import owner_name

from ..conftest import Acting, NewTask, Until

Host = partial(engine.Host, grace=0)
OTHER = "another host"


class Overtaken(MemoryStore):
    """Gives a Task to another Host at the load before which it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        """The number of loads before that one; None for never."""
        self.given: Record | None = None

    async def load(self, task_id: str) -> Record:
        if self.left == 0:
            mine = await super().load(task_id)
            self.given = successor(mine, owner=owner_name(OTHER, mine.version + 1))
            await self.commit(mine, self.given)
        if self.left is not None:
            self.left -= 1
        return await super().load(task_id)


@pytest.mark.rule("R1")
@pytest.mark.parametrize("pause", [False, True])
async def test_a_host_that_lets_a_task_go_leaves_it_to_its_new_owner(
    new_task: NewTask, acting: type[Acting], *, pause: bool
) -> None:
    store, begun = Overtaken(), asyncio.Event()

    async def act(job: Job) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with Host(acting(act), store, interval=60) as host:
        await store.join(OTHER)
        await host.dispatch(task := new_task())
        await begun.wait()
        store.left = 0
        await host.drain(pause=pause, timeout=0)
    assert store.given is not None
    latest = await store.load(task.id)
    assert latest == store.given
    assert latest.task.status is TaskStatus.RUNNING


@pytest.mark.rule("R1")
async def test_a_restart_leaves_a_task_to_its_new_owner(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    task, store, entries = apply(new_task(), Dispatch(), datetime.now(UTC)), Overtaken(), 0

    async def act(job: Job) -> Any:
        nonlocal entries
        entries += 1

    async with Host(acting(act), store, interval=0.001) as host:
        await store.join(OTHER)
        await store.insert(Record(task, owner=owner_name(host.name, 1)))
        store.left = 1  # The first load finds it; the second one is the look of the write.
        await until(lambda: store.left is not None and store.left < 0)
    assert await store.load(task.id) == store.given
    assert not entries

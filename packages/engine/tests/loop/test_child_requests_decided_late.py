"""A child asks people, and they decide between two looks of its parent: the child hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, MemoryStore, Record

from ..conftest import TappedStore
from ..families import WAYS, Family, asks, ignored
from ..scripting import World, new_task


@WAYS
async def test_a_decision_that_comes_while_the_child_has_another_one_is_kept_over_a_pause(
    way: str, world: World
) -> None:
    """It was given while the Task asked for it; before the child asks again, the Task pauses."""
    store = TappedStore()
    family = Family(way, 1, world, store)
    async with family.hosts() as (host, *_), asyncio.timeout(10):
        task = new_task(instructions="writes a batch")
        await host.dispatch(task)
        one, other = (await asks(host, task))["requests"]

        async def meanwhile(record: Record) -> None:
            if record.parent is not None and record.task.status is TaskStatus.RUNNING:
                store.after_commit = None
                await host.approve(task.id, other["digest"])
                await host.pause(task.id)

        store.after_commit = meanwhile
        await host.approve(task.id, one["digest"])
        await paused_by_request(host, task)
        await host.resume(task.id)
        assert (await host.wait(task.id)).status is TaskStatus.SUCCESS
        assert await ignored(host, task) == []
    assert world.done == ["write a", "write b"]


class LateLoads(MemoryStore):
    """Lets something happen while a record is read."""

    def __init__(self) -> None:
        super().__init__()
        self.before_load: Callable[[str], Awaitable[None]] | None = None

    async def load(self, task_id: str) -> Record:
        if self.before_load is not None:
            await self.before_load(task_id)
        return await super().load(task_id)


async def test_an_answer_that_comes_as_the_task_asks_again_is_the_childs(world: World) -> None:
    """Resumed without an answer, the Task looks at its child; then somebody answers."""
    store = LateLoads()
    family = Family("spawn", 1, world, store)
    async with family.hosts() as (host, *_), asyncio.timeout(10):
        task = new_task(instructions="asks")
        await host.dispatch(task)
        child = (await asks(host, task))["task"]

        async def meanwhile(task_id: str) -> None:
            if task_id == child:
                store.before_load = None
                await host.answer(task.id, "this")

        store.before_load = meanwhile
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == ["this"]


async def paused_by_request(host: Host, task: Task) -> None:
    """Wait until somebody's pause takes effect."""
    async for event in host.stream(task.id):
        if event.type == "task.paused" and event.data["reason"] == "requested":
            return
    raise AssertionError(await host.get(task.id))

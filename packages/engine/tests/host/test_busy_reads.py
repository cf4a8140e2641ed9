"""R21: a read or a commit that a busy store refuses for a moment ends no Task."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import TaskStatus
from agentic_kernel_engine import Job, MemoryStore, Record, StoreError, UnknownOutcome

from ..conftest import Acting, NewTask

Host = partial(engine.Host, grace=0, interval=0.01)


class Busy(MemoryStore):
    """A MemoryStore that refuses the next calls of a method, as often as `refuse` says."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse: dict[str, int] = {}
        self.unanswered = False
        """True if the next commit lands without an answer."""

    def _met(self, call: str) -> None:
        if self.refuse.get(call):
            self.refuse[call] -= 1
            raise StoreError("busy; try again")

    async def events(self, *given: Any, **options: Any) -> Any:
        self._met("events")
        return await super().events(*given, **options)

    async def load(self, task_id: str) -> Record:
        self._met("load")
        return await super().load(task_id)

    async def commit(self, *given: Any) -> None:
        self._met("commit")
        await super().commit(*given)
        if self.unanswered:
            self.unanswered = False
            raise UnknownOutcome("no answer")


class Entries:
    """A substrate that pauses at first, and reads its history at each later entry.

    Args:
        refused: The number of reads that the store refuses at the first of these entries.
    """

    def __init__(self, store: Busy, refused: int) -> None:
        self.begun = asyncio.Event()
        self._store = store
        self._refused = refused
        self._holds = False

    async def execute(self, job: Job) -> Any:
        if job.state is None:
            job.note("acme/kept", 7)
            await job.commit("half", [{"type": "acme/begun"}])
            if job.task.metadata.get("acme/holds"):
                self.begun.set()
                await asyncio.Event().wait()
            await job.pause("half")
        self._store.refuse["events"], self._refused = self._refused, 0
        return [job.state, sum(event.type == "acme/begun" for event in await job.history())]


@pytest.mark.rule("R21")
@pytest.mark.parametrize("refused", [1, 4])
@pytest.mark.parametrize("entry", ["resume", "recover", "watch"])
async def test_a_history_that_cannot_be_read_for_a_moment_ends_no_task(
    new_task: NewTask, entry: str, refused: int
) -> None:
    store = Busy()
    substrate = Entries(store, refused)
    task = new_task(metadata={"acme/holds": entry != "resume"})
    first = Host(substrate, store, interval=60)
    await first.dispatch(task)
    if entry == "resume":
        await first.wait(task.id, TaskStatus.PAUSED)
    else:
        await substrate.begun.wait()
    await first.close()
    async with Host(substrate, store, claims=entry == "watch") as host, asyncio.timeout(10):
        if entry == "resume":
            await host.resume(task.id)
        elif entry == "recover":
            assert await host.recover() == [task.id]
        done = await host.wait(task.id)
        assert (done.status, done.result) == ("success", ["half", 1])
        assert done.metadata["acme/kept"] == 7


@pytest.mark.rule("R21")
async def test_a_damaged_event_ends_its_task_at_once_and_is_named(
    new_task: NewTask, acting: type[Acting]
) -> None:
    class Damaged(MemoryStore):
        async def events(self, *given: Any, **options: Any) -> Any:
            return [(where, b"{") for where, _ in await super().events(*given, **options)]

    async def act(job: Job) -> Any:
        return await job.history()

    async with Host(acting(act), Damaged()) as host, asyncio.timeout(10):
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.code == "engine/store_error"
    assert "event (1, 0) is damaged" in done.failure.message


async def test_a_run_goes_on_if_its_child_cannot_be_read_for_a_moment(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = Busy()

    async def act(job: Job) -> Any:
        if job.task.instructions == "child":
            return "child's"
        await job.commit(1)
        child = new_task(instructions="child")
        await job.spawn(child)
        store.refuse["load"] = 2
        return (await job.join(child.id)).result

    async with Host(acting(act), store) as host, asyncio.timeout(10):
        assert (await host.run(new_task())).result == "child's"
    assert not store.refuse["load"]


@pytest.mark.rule("R5")
async def test_an_outcome_is_read_back_though_the_store_is_busy(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = Busy()

    async def act(job: Job) -> Any:
        store.unanswered = True
        store.refuse = {"load": 2, "events": 4}
        await job.commit(1, [{"type": "acme/did"}])
        return len(await job.history())

    async with Host(acting(act), store) as host, asyncio.timeout(10):
        assert (await host.run(new_task())).result == 2


@pytest.mark.rule("R21")
async def test_a_commit_that_is_refused_for_a_moment_ends_no_task(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = Busy()

    async def act(job: Job) -> Any:
        job.note("acme/kept", 7)
        job.emit({"type": "acme/charged"})
        store.refuse["commit"] = 2
        await job.commit(1, [{"type": "acme/did"}])
        return [event.type for event in await job.history()]

    async with Host(acting(act), store) as host, asyncio.timeout(10):
        done = await host.run(new_task())
    assert done.result == ["task.dispatched", "acme/charged", "acme/did"]
    assert done.metadata["acme/kept"] == 7

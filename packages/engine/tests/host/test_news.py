"""A store that tells of writes has a Host look sooner than it would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Job, MemoryStore, Record, StoreTraits
from agentic_kernel_engine.host import polling

from ..conftest import Acting, NewTask, Until

HOURS = 10_000.0
"""An interval after which no test looks."""


class TellingStore(MemoryStore):
    """Tells of every commit from a thread of its own, as a connection that listens would."""

    traits = StoreTraits(listens=True)

    def __init__(self) -> None:
        super().__init__()
        self.ears: list[Callable[[str], None]] = []

    def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
        self.ears.append(tell)
        return lambda: self.ears.remove(tell)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after, events)
        for tell in list(self.ears):
            thread = threading.Thread(target=tell, args=(after.task.id,))
            thread.start()
            thread.join()


class CountingStore(TellingStore):
    """Also counts the comparisons of the version of one Task."""

    traits = StoreTraits(listens=True)

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0
        self.watched = ""

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        self.compared += self.watched in versions
        return await super().changed(versions)


async def forever(job: Job) -> None:
    while True:
        await job.checkpoint(None)
        await asyncio.sleep(0.001)


async def idle(job: Job) -> None:
    await job.commit(None)
    while not job.stopping:
        await job.news()
    await job.checkpoint(None)


@pytest.mark.rule("R8")
@pytest.mark.parametrize(
    ("verb", "status"), [("pause", TaskStatus.PAUSED), ("kill", TaskStatus.CANCELLED)]
)
async def test_what_another_host_wants_is_noticed_at_once(
    acting: type[Acting], new_task: NewTask, verb: str, status: TaskStatus
) -> None:
    store, task = TellingStore(), new_task()
    control = Host(store=store, interval=HOURS)
    async with Host(acting(forever), store, interval=10.0) as host, control:
        await host.dispatch(task)
        await getattr(control, verb)(task.id)
        async with asyncio.timeout(5.0):
            assert (await control.wait(task.id, status)).status is status


@pytest.mark.rule("R8")
async def test_a_task_that_another_host_resumed_is_taken_up_at_once(
    acting: type[Acting], new_task: NewTask
) -> None:
    store, task, entered = TellingStore(), new_task(), asyncio.Event()

    async def twice(job: Job) -> str:
        if job.state is None:
            await job.pause("paused")
        entered.set()
        return "done"

    control = Host(store=store, interval=HOURS)
    async with Host(acting(twice), store, interval=10.0) as host, control:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await control.resume(task.id)
        async with asyncio.timeout(5.0):
            assert (await host.wait(task.id)).result == "done"


async def test_a_host_that_is_closed_listens_no_more(
    acting: type[Acting], new_task: NewTask
) -> None:
    store = TellingStore()
    async with Host(acting(forever), store) as host:
        await host.dispatch(new_task())
        assert len(store.ears) == 1
    assert store.ears == []


@pytest.mark.rule("R8")
async def test_one_piece_of_news_is_looked_at_once(
    acting: type[Acting], new_task: NewTask, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """A Host that looked at its news waits for the next ones, and does not go on looking."""
    monkeypatch.setattr(polling, "GAP", 0.0)
    task, looks = new_task(), 0

    class Counting(TellingStore):
        traits = StoreTraits(listens=True)  # A subclass does not promise what its base does.

        async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
            nonlocal looks
            looks += 1
            return await super().changed(versions)

    async def waiting(job: Job) -> None:
        """Commits nothing, so that nothing but the test makes news."""
        await asyncio.Event().wait()

    store = Counting()
    async with Host(acting(waiting), store, interval=HOURS) as host:
        await host.dispatch(task)
        await until(lambda: store.ears)

        async def settled() -> int:
            for _ in range(200):
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            return looks

        before = await settled()  # The commits of the dispatch were news, too.
        store.ears[0](task.id)
        await until(lambda: looks > before)
        after = looks
        assert await settled() <= after + 1
        await host.kill(task.id)


@pytest.mark.rule("R8")
@pytest.mark.parametrize("claims", [False, True])
async def test_a_host_compares_no_versions_because_of_foreign_tasks(
    acting: type[Acting], new_task: NewTask, claims: bool
) -> None:
    store, mine, foreign = CountingStore(), new_task(), new_task()
    store.watched = mine.id
    host = Host(acting(idle), store, interval=HOURS, claims=claims)
    other = Host(acting(idle), store, interval=HOURS, claims=False)

    async def heard() -> None:
        while host._polling._named:
            await asyncio.sleep(0)

    async with host, other:
        await host.dispatch(mine)
        await other.dispatch(foreign)
        await heard()
        before = store.compared
        for verb in (other.pause, other.resume, other.kill):
            await verb(foreign.id)
            await heard()
        unmoved = store.compared - before
        await other.kill(mine.id)
        async with asyncio.timeout(5.0):
            while host._live.current:
                await asyncio.sleep(0)
    assert unmoved == 0

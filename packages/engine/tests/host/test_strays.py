"""A cancellation that foreign code raises of its own ends no task of the Host."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import CannotStart, TaskStatus
from agentic_kernel_engine import Job, MemoryStore, Record, StoreTraits, UnknownOutcome
from agentic_kernel_engine.host.takeover import Backoff

from ..conftest import Acting, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0, interval=0.01)
STRAYS = [asyncio.CancelledError("a driver's own"), SystemExit("a driver's own")]


class Straying(MemoryStore):
    """A store whose methods raise a stray, once for each name in `bad`."""

    def __init__(self, stray: BaseException) -> None:
        super().__init__()
        self.bad: list[str] = []
        self._stray = stray

    def _met(self, call: str) -> None:
        if call in self.bad:
            self.bad.remove(call)
            raise self._stray

    async def changed(self, versions: Any) -> Any:
        self._met("changed")
        return await super().changed(versions)

    async def find(self, **options: Any) -> Any:
        self._met("find")
        return await super().find(**options)

    async def load(self, task_id: str) -> Record:
        self._met("load")
        return await super().load(task_id)

    async def claim(self, *given: Any) -> Any:
        self._met("claim")
        return await super().claim(*given)

    async def commit(self, *given: Any) -> None:
        self._met("commit")
        await super().commit(*given)
        self._met("committed")

    async def insert(self, *given: Any) -> None:
        self._met("insert")
        await super().insert(*given)
        self._met("inserted")

    async def join(self, host: str) -> None:
        self._met("join")
        await super().join(host)


class NeverWaiting(Straying):
    traits = StoreTraits(never_waits=True)


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


@pytest.mark.rule("R8")
@pytest.mark.parametrize("stray", STRAYS, ids=lambda stray: type(stray).__name__)
@pytest.mark.parametrize("call", ["changed", "find"])
async def test_the_watch_goes_on_after_a_stray_of_its_store(
    new_task: NewTask,
    acting: type[Acting],
    until: Until,
    caplog: pytest.LogCaptureFixture,
    call: str,
    stray: BaseException,
) -> None:
    store = Straying(stray)
    async with Host(acting(forever), store) as host, Host(store=store, interval=60) as control:
        task = new_task()
        await host.dispatch(task)
        store.bad = [call]
        await until(lambda: not store.bad)
        await control.kill(task.id)
        await until(lambda: task.id not in host._live.current)
    assert "one step of the polling failed" in caplog.text


@pytest.mark.rule("R22")
@pytest.mark.parametrize("call", ["claim", "load"])
async def test_a_stray_at_one_task_keeps_the_watch_from_no_other(
    new_task: NewTask, acting: type[Acting], until: Until, call: str
) -> None:
    store = Straying(asyncio.CancelledError())
    async with Host(acting(forever), store) as first:
        tasks = [new_task(), new_task()]
        for task in tasks:
            await first.dispatch(task)
    store.bad = [call]
    async with Host(acting(forever), store) as host:
        await until(lambda: host._live.current.keys() == {task.id for task in tasks})


@pytest.mark.rule("R5")
@pytest.mark.parametrize("stray", STRAYS, ids=lambda stray: type(stray).__name__)
@pytest.mark.parametrize("kind", [Straying, NeverWaiting])
async def test_a_stray_at_a_write_of_a_verb_is_an_unknown_outcome(
    new_task: NewTask, acting: type[Acting], kind: type[Straying], stray: BaseException
) -> None:
    store, task = kind(stray), new_task()
    host = Host(acting(forever), store, interval=60)
    store.bad = ["join"]
    with pytest.raises(UnknownOutcome, match="instead of an answer: a driver's own"):
        await host.dispatch(task)
    async with host, asyncio.timeout(5):
        store.bad = ["insert"]
        with pytest.raises(CannotStart, match="nothing was stored"):
            await host.dispatch(task)
        store.bad = ["inserted"]
        assert (await host.dispatch(task)).changed
        store.bad = ["commit", "committed"]
        assert (await host.kill(task.id)).changed
        store.bad = ["load"]
        with pytest.raises(UnknownOutcome):
            await host.kill(task.id)
    assert not store.bad


@pytest.mark.rule("R8")
@pytest.mark.parametrize("stray", STRAYS, ids=lambda stray: type(stray).__name__)
async def test_a_stray_of_should_cancel_does_not_blind_the_watch(
    new_task: NewTask, acting: type[Acting], until: Until, stray: BaseException
) -> None:
    def should_cancel() -> bool:
        asked.append(None)
        raise stray

    asked: list[None] = []
    store = MemoryStore()
    async with Host(acting(forever), store) as host, Host(store=store, interval=60) as control:
        other = new_task()
        await host.dispatch(new_task(), should_cancel=should_cancel)
        await host.dispatch(other)
        await until(lambda: len(asked) > 1)
        await control.kill(other.id)
        await until(lambda: other.id not in host._live.current)


@pytest.mark.rule("R21")
async def test_a_stray_at_the_end_of_a_run_does_not_lose_its_result(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    entries, faults = 0, [asyncio.CancelledError()]

    async def act(job: Job) -> Any:
        nonlocal entries
        entries += 1
        return "done"

    async def stray(after: Record) -> None:
        if faults:
            raise faults.pop()

    tapped.before_commit = stray
    async with Host(acting(act), tapped) as host, asyncio.timeout(5):
        assert (await host.run(new_task())).result == "done"
    assert entries == 1


async def test_a_clock_that_fails_does_not_end_the_watch(
    new_task: NewTask,
    acting: type[Acting],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rings(backoff: Backoff) -> bool:
        if faults:
            raise faults.pop()
        return False

    faults = [OSError("no clock")]
    monkeypatch.setattr(Backoff, "rings", rings)
    store = MemoryStore()
    async with Host(acting(forever), store) as host, Host(store=store, interval=60) as control:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: not faults)
        await control.kill(task.id)
        await until(lambda: task.id not in host._live.current)
        assert (await host.get(task.id)).status is TaskStatus.CANCELLED

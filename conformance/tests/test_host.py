"""A Host over the reference store passes the contracts of a Runtime and a Query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from agentic_kernel import Task, TaskStatus
from agentic_kernel_conformance import (
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    ScriptedSubstrate,
    ScriptedWork,
)
from agentic_kernel_conformance.system import Hold
from agentic_kernel_engine import CompositeObserver, Event, Host, InMemoryObserver, MemoryStore
from agentic_kernel_engine.record import Record

from .speaking import Speaking

SPEAKS = RuntimeFeatures(
    pauses=True, keeps_partial_output=True, streams=True, refuses=True, holdable=True
)
FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True, holdable=True)


class HeldStore(MemoryStore):
    """A store whose commits can be held up, as a slow disk would."""

    def __init__(self) -> None:
        super().__init__()
        self._open = asyncio.Event()
        self._open.set()

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._open.wait()
        await super().commit(before, after, events)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()


class _HostFixtures:
    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork()

    @pytest_asyncio.fixture
    async def held_store(self) -> HeldStore:
        return HeldStore()

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, held_store: HeldStore) -> AsyncIterator[Host]:
        async with Host(ScriptedSubstrate(work), held_store, interval=0.01) as host:
            yield host

    @pytest.fixture
    def hold(self, held_store: HeldStore) -> Hold:
        return held_store.held


class TestHost(_HostFixtures, RuntimeContract):
    features = FEATURES


class TestHostThatSpeaks(_HostFixtures, RuntimeContract):
    features = SPEAKS

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, held_store: HeldStore) -> AsyncIterator[Host]:
        async with Host(Speaking(work), held_store, interval=0.01) as host:
            yield host

    @pytest_asyncio.fixture
    async def elsewhere(self, held_store: HeldStore) -> AsyncIterator[Host]:
        async with Host(store=held_store, interval=0.01) as host:
            yield host


class TestHostAsQuery(_HostFixtures, QueryContract):
    features = FEATURES


class _Faulty:
    """An observer that always raises."""

    def observe(self, task_id: str, event: Event) -> None:
        raise RuntimeError("an observer with a fault")


@pytest.mark.rule("observer")
@pytest.mark.parametrize("script", ["succeed", "steps", "fail"])
async def test_an_observer_that_raises_touches_no_run(script: str) -> None:
    """Nor does it keep an event from the observer beside it."""
    work, beside = ScriptedWork(), InMemoryObserver()
    quiet = InMemoryObserver()
    told: list[list[str]] = []
    ends: list[TaskStatus] = []
    for observer, seen in ((CompositeObserver(_Faulty(), beside), beside), (quiet, quiet)):
        async with Host(ScriptedSubstrate(work), observer=observer) as host:
            task = Task.new(summary="", instructions=script, runtime_kind="scripted")
            done = await host.run(task)
            ends.append(done.status)
            told.append(seen.types(task.id))
    assert ends[0] is ends[1]
    assert told[0] == told[1]
    assert told[0]

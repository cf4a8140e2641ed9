"""Shared by the engine's tests: Tasks, substrates made of one function, a store that can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job, MemoryStore, Record

from . import crashing
from .scripting import Runner, World


class Acting:
    """A substrate that is one function."""

    def __init__(self, act: Callable[[Job], Awaitable[Any]]) -> None:
        self._act = act

    async def execute(self, job: Job) -> Any:
        return await self._act(job)


class LookedAt(MemoryStore):
    """A MemoryStore that counts the rounds of the Hosts that look for Tasks to run."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0
        """A round begins with the Tasks that the Host owns itself."""

    async def find(self, **options: Any) -> Sequence[Record]:
        self.rounds += options.get("owner") is not None
        return await super().find(**options)


class TappedStore(LookedAt):
    """A MemoryStore whose writes can be counted, held up, and made to fail before or after."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.before_commit: Callable[[Record], Awaitable[None]] | None = None
        self.after_commit: Callable[[Record], Awaitable[None]] | None = None
        self.before_insert: Callable[[], Awaitable[None]] | None = None
        self.before_claim: Callable[[], Awaitable[None]] | None = None
        self.before_load: Callable[[str], Awaitable[None]] | None = None

    def count(self, call: str) -> int:
        return self.calls.count(call)

    async def join(self, host: str) -> None:
        self.calls.append("join")
        await super().join(host)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        self.calls.append("insert")
        if self.before_insert is not None:
            await self.before_insert()
        await super().insert(record, events)

    async def load(self, task_id: str) -> Record:
        self.calls.append("load")
        if self.before_load is not None:
            await self.before_load(task_id)
        return await super().load(task_id)

    async def load_many(self, task_ids: Collection[str]) -> Any:
        self.calls.append("load_many")
        return await super().load_many(task_ids)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        self.calls.append("commit")
        if self.before_commit is not None:
            await self.before_commit(after)
        await super().commit(before, after, events)
        if self.after_commit is not None:
            await self.after_commit(after)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Any:
        self.calls.append("claim")
        if self.before_claim is not None:
            await self.before_claim()
        return await super().claim(task_id, host, events)

    async def changed(self, versions: Any) -> Any:
        self.calls.append("changed")
        return await super().changed(versions)


def _task(**fields: Any) -> Task:
    return Task.new(**{"summary": "", "instructions": "do", "runtime_kind": "test", **fields})


async def _until(condition: Callable[[], Any], turns: int = 2000) -> None:
    """Let the loop turn until something holds that other coroutines bring about."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition never held")


NewTask = Callable[..., Task]
Until = Callable[[Callable[[], Any]], Awaitable[None]]
Crash = Callable[[Host], Awaitable[None]]


@pytest.fixture
def new_task() -> NewTask:
    return _task


@pytest.fixture
def acting() -> type[Acting]:
    return Acting


@pytest.fixture
def until() -> Until:
    return _until


@pytest.fixture
def tapped() -> TappedStore:
    return TappedStore()


@pytest.fixture
def crash() -> Crash:
    return crashing.crash


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def runner(world: World) -> Runner:
    return Runner(world)

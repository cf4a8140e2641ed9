"""A process that dies, as far as a store and the other Hosts can tell: a line to a store, cut."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from agentic_kernel_engine import Cursor, Host, Record, Store, StoreError, StoreTraits
from agentic_kernel_engine.errors import Unreadable

T = TypeVar("T")


class Line:
    """One Host's line to a store; once it is cut, nothing passes in either direction.

    The store itself goes on, for other Hosts. A call that is under way when the line is cut is
    broken off where it is, and raises. A Host whose line is cut closes, and has not left.

    Args:
        store: The store at its other end.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_cut = False
        self._callers: set[asyncio.Task[Any]] = set()

    @property
    def traits(self) -> StoreTraits:
        return self.store.traits

    def cut(self) -> None:
        self.is_cut = True
        for caller in self._callers:
            caller.cancel()

    async def _through(self, call: Coroutine[Any, Any, T]) -> T:
        if self.is_cut:
            call.close()
            raise StoreError("the line to the store is cut")
        caller = asyncio.current_task()
        if caller is None:  # A callback of the event loop, which cannot wait.
            return await call
        self._callers.add(caller)
        try:
            return await call
        except asyncio.CancelledError:
            if self.is_cut and not caller.uncancel():
                raise StoreError("the line to the store was cut") from None
            raise
        finally:
            self._callers.discard(caller)

    async def join(self, host: str) -> None:
        await self._through(self.store.join(host))

    async def leave(self, host: str) -> None:
        if not self.is_cut:  # The process is gone, so it cannot even leave.
            await self._through(self.store.leave(host))

    async def alive(self, owner: str) -> bool:
        return await self._through(self.store.alive(owner))

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await self._through(self.store.insert(record, events))

    async def load(self, task_id: str) -> Record:
        if self.is_cut:  # A Host reads again and again after any other error.
            raise Unreadable(task_id, 0, why="the line to the store is cut")
        return await self._through(self.store.load(task_id))

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        return await self._through(self.store.load_many(task_ids))

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._through(self.store.commit(before, after, events))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        return await self._through(self.store.claim(task_id, host, events))

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        return await self._through(self.store.events(task_id, after, limit))

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        return await self._through(self.store.changed(versions))

    async def find(self, **options: Any) -> Sequence[Record]:
        return await self._through(self.store.find(**options))

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        return await self._through(self.store.unreadable(after, limit))

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        buried = self.store.bury(task_id, version, events, force=force, at=at)
        return await self._through(buried)

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        return await self._through(self.store.prune(ended_before, limit))


async def crash(host: Host) -> None:
    """End a Host as a power cut would: nothing more is committed, and its store sees it gone.

    The Host is one over a `Line`. Its runs may be what calls this: they end as every other.
    """
    dying = asyncio.create_task(_crash(host))
    await asyncio.shield(dying)


async def _crash(host: Host) -> None:
    line = host.store
    assert isinstance(line, Line), "a Host that is to crash works on Line(store)"
    line.cut()
    await host.drain(timeout=0)
    await host.close()
    await line.store.leave(host.name)

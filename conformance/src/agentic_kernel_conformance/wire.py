"""Wire: an unreliable connection to a store: calls are delayed, requests and answers are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from agentic_kernel_engine import Record, Store, UnknownOutcome

from .races import Script

T = TypeVar("T")


class Wire:
    """A `Store` that passes each call on to another one, over an unreliable connection.

    ``load`` and the writes yield to the event loop before and after the call. A write may never be
    sent, or its answer may be lost; in both cases it raises `UnknownOutcome`.
    """

    def __init__(self, store: Store, script: Script) -> None:
        self._store = store
        self._script = script

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def load(self, task_id: str) -> Record:
        return await self._delayed(self._store.load(task_id))

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await self._sent(self._store.insert(record, events))

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._sent(self._store.commit(before, after, events))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        return await self._sent(self._store.claim(task_id, host, events))

    async def _delayed(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            await self._turns()
            answer = await call
        finally:
            call.close()  # the call has not started if the caller was cancelled before it
        await self._turns()
        return answer

    async def _sent(self, call: Coroutine[Any, Any, T]) -> T:
        if self._script.happens(self._script.race.unsent):
            call.close()
            raise UnknownOutcome("the request was lost on its way")
        answer = await self._delayed(call)
        if self._script.happens(self._script.race.silence):
            raise UnknownOutcome("the answer was lost on its way")
        return answer

    async def _turns(self) -> None:
        for _ in range(self._script.chance.randrange(3)):
            await asyncio.sleep(0)

"""Shared by random histories: a store whose answers come late, and the seed of a failure."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from agentic_kernel_engine import Cursor, MemoryStore, Record, UnknownOutcome

T = TypeVar("T")
PATIENCE = 20.0
"""Seconds that one history may take."""


async def play(seeds: Iterable[int], history: Callable[[int], Awaitable[None]]) -> None:
    """One history after the other; what breaks one says its seed."""
    for seed in seeds:
        try:
            async with asyncio.timeout(PATIENCE):
                await history(seed)
        except BaseException as broken:
            broken.add_note(f"seed {seed}")
            raise


class JitteryStore(MemoryStore):
    """Waits at random before and after whatever it does; sometimes a write gives no answer."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    async def _jitter(self) -> None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)

    async def _answer(self) -> None:
        await self._jitter()
        if self._chance.random() < 0.05:
            raise UnknownOutcome("no answer")

    async def _late(self, read_it: Callable[..., Awaitable[T]], *args: Any, **which: Any) -> T:
        await self._jitter()
        read = await read_it(*args, **which)
        await self._jitter()
        return read

    async def load(self, task_id: str) -> Record:
        return await self._late(super().load, task_id)

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        return await self._late(super().load_many, task_ids)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        return await self._late(super().changed, versions)

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        return await self._late(super().events, task_id, after, limit)

    async def find(self, **which: Any) -> Sequence[Record]:
        return await self._late(super().find, **which)

    async def alive(self, owner: str) -> bool:
        return await self._late(super().alive, owner)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await self._jitter()
        await super().insert(record, events)
        await self._answer()

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._answer()
        await super().commit(before, after, events)
        await self._answer()

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        await self._answer()
        claimed = await super().claim(task_id, host, events)
        await self._answer()
        return claimed

"""A store in memory of which single records can be made unreadable; healthy in all else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

from agentic_kernel import TaskNotFound
from agentic_kernel_engine import Conflict, MemoryStore, Record, StoreError, Unreadable
from agentic_kernel_engine.search import Search, SearchOptions, created
from agentic_kernel_engine.stored import buried


class FragileStore(MemoryStore):
    """Cannot read the records whose ids are in ``bad``."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[str] = set()

    def refusal(self, task_id: str) -> Unreadable:
        record = self._shelf(task_id).record
        return Unreadable(task_id, record.version, record.task.status, why="it was spoilt")

    async def load(self, task_id: str) -> Record:
        record = await super().load(task_id)
        if task_id in self.bad:
            raise self.refusal(task_id)
        return record

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        found = await super().load_many(task_ids)
        return {id: record for id, record in found.items() if id not in self.bad}

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        if task_id in self.bad:
            raise self.refusal(task_id)
        return await super().claim(task_id, host, events)

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        search = Search.of(**options)
        found: list[Record] = []
        place: Any = search.older_than if search.newest else search.after
        while len(found) < search.limit:
            page = await super().find(**{**options, "after": place})
            found += [record for record in page if record.task.id not in self.bad]
            if len(page) < search.limit:
                break
            place = created(page[-1]) if search.newest else page[-1].task.id
        return found[: search.limit]

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        Search.of(after=after, limit=limit)
        ids = sorted(id for id in self.bad if after is None or id > after)
        return [self.refusal(task_id) for task_id in ids[:limit]]

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        stored = self._shelf(task_id).record
        if task_id not in self.bad or stored.version != version:
            raise Conflict(task_id)
        if stored.owner is not None and await self.alive(stored.owner):
            raise StoreError(f"{stored.owner} is alive and holds task {task_id!r}; kill it there")
        grave = buried(task_id, version + 1, at or datetime.now(UTC))
        self.bad.discard(task_id)
        with self._lock:
            self._replace(self._shelf(task_id), grave, events)
        return grave

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        hidden = {id: self._shelves.pop(id) for id in self.bad if id in self._shelves}
        for task_id, shelf in hidden.items():
            self._by_status[shelf.record.task.status].discard(task_id)
        try:
            return await super().prune(ended_before, limit)
        finally:
            for task_id, shelf in hidden.items():
                self._shelves[task_id] = shelf
                self._by_status[shelf.record.task.status].add(task_id)

    async def spoil(self, task_id: str) -> None:
        if task_id not in self._shelves:
            raise TaskNotFound(task_id)
        self.bad.add(task_id)

"""Queries: the methods of a Host that only read; the kernel's `Query` defines three of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agentic_kernel import InvalidValue, Task, TaskNotFound, TaskStatus

from .. import edges, values
from ..record import Record
from ..search import MAX_LIMIT
from ..store import Store


class Queries(ABC):
    """Reads the Tasks of a store; reading changes nothing and needs no ownership."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store that the methods read."""

    async def get(self, task_id: str) -> Task:
        """The latest snapshot."""
        return (await self.record(task_id)).task

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        """The latest snapshots of those ids that are stored."""
        known = []
        for task_id in edges.ids(task_ids, "task_ids"):
            with suppress(TaskNotFound):
                known.append(checked_id(task_id))
        found = await self.store.load_many(known)
        return {task_id: record.task for task_id, record in found.items()}

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        """One page of Tasks in ascending order of id; see `agentic_kernel.Query.find`."""
        wanted = None if status is None else edges.one_status(status, "status")
        place = None if after is None else edges.text(after, "after")
        size = edges.whole(limit, "limit", 1, MAX_LIMIT)
        found = await self.store.find(status=wanted, after=place, limit=size)
        return [record.task for record in found]

    async def record(self, task_id: str) -> Record:
        """The latest record: the snapshot with its version, owner, state and inbox."""
        return await self.store.load(checked_id(task_id))


def checked_id(task_id: Any) -> str:
    """Check an id before it is looked up.

    Raises:
        InvalidValue: The id is not a string.
        TaskNotFound: No store can hold this id, so it is the id of no Task.
    """
    if not isinstance(task_id, str):
        raise InvalidValue("task_id", f"must be a string, not {type(task_id).__name__}")
    try:
        return values.check_known_id(task_id, "task_id")
    except InvalidValue:
        raise TaskNotFound(task_id) from None

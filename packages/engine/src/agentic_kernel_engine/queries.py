"""Queries: the reading half of a Host, as every Query has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agentic_kernel import InvalidValue, Task, TaskNotFound, TaskStatus

from . import values
from .record import Record
from .store import Store

_STATUSES = [status.value for status in TaskStatus]


class Queries(ABC):
    """Snapshots of what a store holds; reading changes nothing and needs no ownership."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store that is read."""

    async def get(self, task_id: str) -> Task:
        """The latest snapshot."""
        return (await self.record(task_id)).task

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        """The latest snapshots of those ids that are stored."""
        known = []
        for task_id in task_ids:
            with suppress(TaskNotFound):
                known.append(checked_id(task_id))
        found = await self.store.load_many(known)
        return {task_id: record.task for task_id, record in found.items()}

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        """One page of Tasks in ascending order of id; see `agentic_kernel.Query.find`."""
        if not isinstance(limit, int) or limit < 1:
            raise InvalidValue("limit", f"is {limit!r}; use a whole number of at least 1")
        if status is not None and status not in _STATUSES:
            raise InvalidValue("status", f"{status!r} is none of {', '.join(_STATUSES)}")
        wanted = None if status is None else TaskStatus(status)
        found = await self.store.find(status=wanted, after=after, limit=limit)
        return [record.task for record in found]

    async def record(self, task_id: str) -> Record:
        """The latest record: the snapshot with its version, owner, state and inbox."""
        return await self.store.load(checked_id(task_id))


def checked_id(task_id: Any) -> str:
    """An id that may be looked up; one that no store can hold is the id of no Task.

    Raises:
        InvalidValue: It is no string.
        TaskNotFound: No store can hold it.
    """
    if not isinstance(task_id, str):
        raise InvalidValue("task_id", f"must be a string, not {type(task_id).__name__}")
    try:
        return values.check_id(task_id, "task_id")
    except InvalidValue:
        raise TaskNotFound(task_id) from None

"""Query port: it reads Tasks on request. Subscriptions are built on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from .task import Task, TaskStatus


@runtime_checkable
class Query(Protocol):
    """The reads of Tasks.

    Each snapshot is atomic on its own (rule 3). Several snapshots are not taken at one moment
    (rule 5). A reader never waits for a mutator, and a mutator never waits for a reader (rule 4).
    A caller reads its own writes (rule 6) and never sees a Task run backwards (rule 7).
    """

    async def get(self, task_id: str) -> Task:
        """Return the latest snapshot of one Task.

        Raises:
            TaskNotFound: No Task with this id is stored.
        """
        ...

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        """Return the snapshots by id; ids that are not stored are left out."""
        ...

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        """Return one page of Tasks in ascending order of id.

        Args:
            status: Only Tasks in this status.
            after: Only Tasks whose id is greater; pass the last id of one page to get the next.
            limit: The maximal number of Tasks; at least 1.
        """
        ...

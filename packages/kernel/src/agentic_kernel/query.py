"""Query: how Tasks are observed. Pull is the floor; everything else is built above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from .task import Task, TaskStatus


@runtime_checkable
class Query(Protocol):
    """Readers of Tasks.

    Each snapshot is atomic on its own (rule 3) and no two are taken together (rule 5). Readers
    wait for nobody and nobody waits for them (rule 4). A caller reads its own writes (rule 6) and
    never sees a Task run backwards (rule 7).
    """

    async def get(self, task_id: str) -> Task:
        """The latest snapshot of one Task.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        ...

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        """The snapshots of those Tasks that are stored; unknown ids are left out."""
        ...

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        """One page of Tasks in ascending order of id.

        Args:
            status: Only Tasks in this status.
            after: Only Tasks whose id is greater; pass the last id of one page to get the next.
            limit: How many at the most; at least 1.
        """
        ...

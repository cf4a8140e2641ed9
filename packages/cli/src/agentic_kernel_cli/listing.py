"""Listing: finds Tasks, newest first, and says how far it looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from agentic_kernel import Task
    from agentic_kernel_engine import Host, Record

    from .costs import Used
    from .origin import Tools

FAR: Final = 10_000
"""The most Tasks that one search for a text looks at."""
_PAGE: Final = 1_000


@dataclass(frozen=True)
class Listed:
    """The Tasks that were found, newest first."""

    records: Sequence[Record]
    lost: Mapping[str, Tools]
    """Those that run although no living process runs them, by their ids; with their tools."""
    used: Mapping[str, Used]
    """The use of each Task, if it is known."""
    looked: int
    """The number of Tasks that were looked at."""
    last: Task | None
    """The last of these."""
    ended: bool
    """True if no older Task is left."""


async def found(
    host: Host, filters: dict[str, Any], text: str | None, after: str | None, limit: int
) -> Listed:
    """Find Tasks, newest first; with a text, look at `FAR` Tasks at most.

    Raises:
        TaskNotFound: There is no Task ``after``.
    """
    from .costs import used_by
    from .origin import Tools
    from .place import find_task, orphaned

    place = None if after is None else _place((await find_task(host, after)).task)
    wanted = None if text is None else text.casefold()
    records: list[Record] = []
    looked, last, ended = 0, None, False
    while len(records) < limit and looked < FAR and not ended:
        size = limit + 1 if wanted is None else min(_PAGE, FAR - looked)
        page = await host.store.find(newest=True, after=place, limit=size, **filters)
        ended = len(page) < size
        for record in page:
            if len(records) == limit:
                ended = False
                break
            looked, last = looked + 1, record.task
            place = _place(last)
            if wanted is None or wanted in _words(last):
                records.append(record)
    lost = {record.task.id: Tools() for record in records if await orphaned(host, record)}
    used = {
        record.task.id: await used_by(host, record, lost.get(record.task.id)) for record in records
    }
    known = {task_id: each for task_id, each in used.items() if each is not None}
    return Listed(records, lost, known, looked, last, ended)


def _place(task: Task) -> tuple[datetime, str]:
    return task.created_at, task.id


def _words(task: Task) -> str:
    return "\n".join((task.id, task.summary, task.instructions, *task.supplements)).casefold()

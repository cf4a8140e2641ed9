"""History: a Task's durable events, read from the store page by page."""

from __future__ import annotations

from typing import Final

from ..cursor import Cursor
from ..events import Event, from_stored
from ..store import Store

PAGE: Final = 1000
"""The most events that one read of the store returns."""


async def history(store: Store, task_id: str, after: Cursor | None = None) -> list[Event]:
    """All durable events of a Task after a cursor, in order.

    Raises:
        TaskNotFound: No such Task is stored.
        StoreError: The store cannot be read.
    """
    found: list[Event] = []
    while True:
        page = await store.events(task_id, after, PAGE)
        found += [from_stored(event_id, text) for event_id, text in page]
        if len(page) < PAGE:
            return found
        after = page[-1][0]

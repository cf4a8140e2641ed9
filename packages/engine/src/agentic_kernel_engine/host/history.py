"""History: a Task's durable events, read from the store page by page."""

from __future__ import annotations

from functools import partial
from typing import Final

from ..cursor import Cursor
from ..events import Event, from_stored
from ..readback import patiently
from ..store import Store

PAGE: Final = 1000
"""The most events that one read of the store returns."""


async def history(store: Store, task_id: str, after: Cursor | None = None) -> list[Event]:
    """All durable events of a Task after a cursor, in order.

    Raises:
        TaskNotFound: No such Task is stored.
        StoreError: The store cannot be read, or an event is damaged.
    """
    return [from_stored(*each) for each in await stored(store, task_id, after)]


async def stored(store: Store, task_id: str, after: Cursor | None) -> list[tuple[Cursor, bytes]]:
    """The same events in their stored form; a store that is only busy is asked again."""
    found: list[tuple[Cursor, bytes]] = []
    while True:
        since = found[-1][0] if found else after
        page = await patiently(partial(store.events, task_id, since, PAGE))
        found += page
        if len(page) < PAGE:
            return found

"""Watching: a Task's history and the live events of its run, as one stream (R20).

The store is the only channel between Hosts, so a reader elsewhere sees what is stored. Text in
progress is stored while it streams. A reader on the Host that runs the Task also gets every event
at the moment at which it is emitted; its stored copy is then left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from ..cursor import Cursor
from ..events import Event, TaskEvent, from_stored
from .history import PAGE
from .live_runs import LiveRuns
from .news import Follower

Items = asyncio.Queue[TaskEvent | Exception | None]
"""The events of several Tasks; a fault of a reader; and None for each Task that is read to its end.
"""
_CHILDREN: Final = 1_000
"""The most children of one Task that a page of a search gives."""
_AHEAD: Final = 100
"""The most events that wait for the reader of a Task with children."""


class Watching:
    """Reads one Task, or a Task and its children, from any Host.

    Args:
        live: The runs of this Host, whose events are known before they are stored.
    """

    def __init__(self, live: LiveRuns) -> None:
        self._store = live.parts.store
        self._news = live.news
        self._live = live

    async def watch(
        self, task_id: str, after: Cursor | None, *, children: bool
    ) -> AsyncGenerator[TaskEvent]:
        """See `Host.watch`."""
        if not children:
            async with aclosing(self._one(self._news.follow(task_id), after)) as events:
                async for event in events:
                    yield event
            return
        queue: Items = asyncio.Queue(_AHEAD)
        readers: dict[str, asyncio.Task[None]] = {}
        readers[task_id] = asyncio.create_task(self._into(queue, readers, task_id, after))
        try:
            ended = 0
            while ended < len(readers):
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    ended += 1
                    continue
                yield item
        finally:
            for reader in readers.values():
                reader.cancel()
            await asyncio.wait(readers.values())

    async def _into(
        self,
        queue: Items,
        readers: dict[str, asyncio.Task[None]],
        task_id: str,
        after: Cursor | None = None,
    ) -> None:
        """Put the events of one Task into the queue, and None after the last one.

        Its children get readers of their own: those that it has now, those that it has after each
        commit, and those that it has at its end.
        """
        version = 0
        try:
            await self._find_children(task_id, readers, queue)
            async with aclosing(self._one(self._news.follow(task_id), after)) as events:
                async for event in events:
                    await queue.put(event)
                    if event.id is not None and event.id[0] != version:
                        version = event.id[0]
                        await self._find_children(task_id, readers, queue)
            await self._find_children(task_id, readers, queue)
        except Exception as fault:
            await queue.put(fault)
        else:
            await queue.put(None)

    async def _find_children(
        self, parent: str, readers: dict[str, asyncio.Task[None]], queue: Items
    ) -> None:
        """Begin to read every child in this store that is not read yet."""
        after: str | None = None
        while True:
            page = await self._store.find(parent=parent, after=after, limit=_CHILDREN)
            for record in page:
                child = record.task.id
                if child not in readers:
                    readers[child] = asyncio.create_task(self._into(queue, readers, child))
            if len(page) < _CHILDREN:
                return
            after = page[-1].task.id

    async def _one(self, follower: Follower, after: Cursor | None) -> AsyncGenerator[TaskEvent]:
        """The events of one Task, until it is terminal.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        task_id = follower.task_id
        run = self._live.current.get(task_id)
        if run is not None:
            # The history up to the run's last commit, then what it has emitted since.
            follower.items.append((run.record.version, 0))
            follower.items.extend(from_stored(None, line) for line in run.emitted())
        told: set[Cursor] = set()
        """The stored events that this reader has had live."""
        try:
            while True:
                waiter = self._news.waiter(task_id, follower.seen)
                follower.waiter = waiter
                try:
                    while follower.items:
                        item = follower.items.popleft()
                        if isinstance(item, Event):
                            yield _of(task_id, item)
                            continue
                        version, count = item
                        told.update((version, index) for index in range(count))
                        async with aclosing(self._stored(task_id, after, version)) as events:
                            async for event in events:
                                after = event.id
                                if event.id not in told:
                                    yield event
                        told.clear()
                        follower.known = max(follower.known, version)
                    record = await self._store.load(task_id)
                    latest = self._latest(follower, record.version)
                    if not follower.items:
                        async with aclosing(self._stored(task_id, after, latest)) as events:
                            async for event in events:
                                if follower.items:
                                    break
                                after = event.id
                                yield event
                    if follower.items:
                        continue
                    if record.task.status.terminal and latest == record.version:
                        return
                    follower.seen = latest
                    await self._news.after(waiter, latest)
                finally:
                    follower.waiter = None
                    self._news.leave(waiter)
        finally:
            self._news.unfollow(follower)

    def _latest(self, follower: Follower, version: int) -> int:
        """The version up to which stored events may be read now.

        While a run is here, a version that the run has not adopted yet may hold events that the
        reader has had live; it is told of that version in a moment.
        """
        run = self._live.current.get(follower.task_id)
        if run is None or run.ended is not None:
            return version
        return min(version, max(run.record.version, follower.known))

    async def _stored(
        self, task_id: str, after: Cursor | None, version: int
    ) -> AsyncGenerator[TaskEvent]:
        """The stored events after a cursor, up to a version."""
        while True:
            page = await self._store.events(task_id, after, PAGE)
            for event_id, text in page:
                if event_id[0] > version:
                    return
                after = event_id
                yield _of(task_id, from_stored(event_id, text))
            if len(page) < PAGE:
                return


def _of(task_id: str, event: Event) -> TaskEvent:
    return TaskEvent(event.type, event.data, event.at, event.id, task_id)

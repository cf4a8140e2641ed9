"""News: the observer and the waiting callers of one Host hear of every commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Container, Sequence
from typing import Final

from agentic_kernel import Task, TaskStatus

from ..cursor import Cursor
from ..errors import HostClosed
from ..events import Event, from_stored
from ..faults import report
from ..observer import Observer
from ..plans.reasons import STOP_REASON, StopReason
from ..record import Record
from .desk import Desk
from .history import PAGE
from .parts import Parts


class News:
    """Tells the observer, the approvals' desk and every waiting caller of one Host.

    Args:
        parts: Its store is read for the callers that wait; its complaints log a fault of the desk.
        observer: Receives every event, live and durable.
        desk: Receives every committed record.
    """

    def __init__(self, parts: Parts, observer: Observer | None, desk: Desk | None) -> None:
        self.closed = False
        """True after the Host is closed: no more news comes."""
        self.observed = observer is not None
        """True if an observer or a follower receives events when they are emitted."""
        self._parts = parts
        self._observer = observer
        self._desk = desk
        self._faulty = False
        self._waiting: dict[str, Waiter | set[Waiter]] = {}
        """By Task: its waiter, or a set of several. Most Tasks have one, which needs no set (memory
        in benchmarks/loop.py)."""
        self._followers: dict[str, set[Follower]] = {}

    def tell(self, task_id: str, event: Event) -> None:
        """Tell the observer and the followers of an event that is not stored yet.

        A fault of the observer never reaches a run: every exception is caught here, also a
        ``SystemExit`` and a cancellation. Only a ``KeyboardInterrupt`` passes (R21).
        """
        if self._followers:
            for follower in self._followers.get(task_id, ()):
                follower.tell(event)
        if self._observer is not None:
            self._observe(task_id, event)

    def _observe(self, task_id: str, event: Event) -> None:
        assert self._observer is not None
        try:
            self._observer.observe(task_id, event)
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            if not self._faulty:
                self._faulty = True
                version = 0 if event.id is None else event.id[0]
                report(fault, task_id, version, "the observer (this is reported once)", "version")

    def published(self, after: Record, written: Sequence[bytes], live: int = 0) -> None:
        """Pass on a commit: its events to the observer, its record to the desk and the waiters.

        Args:
            live: The number of events, from the first on, that were emitted live before; the
                observer has received these already.
        """
        task_id = after.task.id
        if self._followers:
            for follower in self._followers.get(task_id, ()):
                follower.committed(after.version, live)
        if self._observer is not None:
            for index in range(live, len(written)):
                self._observe(task_id, from_stored((after.version, index), written[index]))
        if self._desk is not None:
            try:
                self._desk.saw(after)
            except Exception as fault:
                self._parts.complaints.add(task_id, after.version, fault)
        waiters = self._waiting.get(task_id)
        if type(waiters) is Waiter:
            waiters.news(after)
        elif waiters:
            for waiter in _each(waiters):
                waiter.news(after)

    def close(self) -> None:
        """End every wait with `HostClosed`."""
        self.closed = True
        for waiters in self._waiting.values():
            for waiter in _each(waiters):
                waiter.give_up()

    def wake(self, task_id: str) -> None:
        """Have the callers that wait for this Task look at the store again."""
        for waiter in _each(self._waiting.get(task_id, ())):
            waiter.news(None)

    def watched(self, known: Container[str]) -> list[tuple[str, int]]:
        """The unknown Tasks that have a waiting caller, each with the version last seen."""
        return [
            (task_id, min(waiter.version for waiter in _each(waiters)))
            for task_id, waiters in self._waiting.items()
            if task_id not in known
        ]

    async def wait(
        self, task_id: str, statuses: Collection[TaskStatus] = (), here: Record | None = None
    ) -> Task:
        """Wait for one of these statuses or a terminal one; return the first such snapshot.

        Args:
            here: The record of the Task's run if it runs here. The store is not read then: this
                Host makes the next commit itself, or its polling notices that another made it.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        wanted = (_TERMINAL | frozenset(statuses)) if statuses else _TERMINAL
        seen = 0
        while True:
            waiter = self.waiter(task_id, seen, wanted)
            try:
                record = here or await self._parts.load(task_id)
                here = None
                if record.task.status in wanted:
                    return record.task
                seen = record.version
                task = await self.after(waiter, seen)
                if task is not None:
                    return task
            finally:
                self.leave(waiter)

    async def wait_for_cancelled(self, task_id: str) -> Task:
        """Wait until the Task is terminal, or paused because its caller's function said so."""
        while True:
            task = await self.wait(task_id, (TaskStatus.PAUSED,))
            if task.status.terminal or task.metadata.get(STOP_REASON) == StopReason.CANCELLED:
                return task
            await self.wait(task_id, (TaskStatus.RUNNING,))

    async def stream(self, task_id: str, after: Cursor | None) -> AsyncGenerator[Event]:
        """Durable events after a cursor, each once and in order, until the Task is terminal.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        seen = 0
        while True:
            waiter = self.waiter(task_id, seen)
            try:
                # The record first: the events that are read after it include those of its end.
                record = await self._parts.store.load(task_id)
                page = await self._parts.store.events(task_id, after, PAGE)
                for event_id, text in page:
                    after = event_id
                    yield from_stored(event_id, text)
                if len(page) == PAGE:
                    continue
                if record.task.status.terminal:
                    return
                seen = record.version
                await self.after(waiter, seen)
            finally:
                self.leave(waiter)

    def end_of(self, task_id: str) -> Waiter:
        """A wait for the end or the first pause of a Task that is not dispatched yet.

        The caller registers it before the dispatch, so it misses no commit. It ends it by `leave`.
        """
        return self.waiter(task_id, 0, _AT_REST)

    def after(self, waiter: Waiter, version: int) -> Waiter:
        """Make a wait continue with records later than this version.

        Raises:
            HostClosed: No more news comes.
        """
        if self.closed:
            raise HostClosed
        waiter.version = max(waiter.version, version)
        return waiter

    def waiter(
        self, task_id: str, seen: int, wanted: frozenset[TaskStatus] | None = None
    ) -> Waiter:
        """Register a wait for news. The caller does so before it reads the store."""
        waiter = Waiter(task_id, seen, wanted)
        others = self._waiting.setdefault(task_id, waiter)
        if isinstance(others, set):
            others.add(waiter)
        elif others is not waiter:
            self._waiting[task_id] = {others, waiter}
        return waiter

    def follow(self, task_id: str) -> Follower:
        """Hear of a Task's events when they are emitted, until `unfollow`."""
        follower = Follower(task_id)
        self._followers.setdefault(task_id, set()).add(follower)
        self.observed = True
        return follower

    def unfollow(self, follower: Follower) -> None:
        """Hear no more."""
        others = self._followers[follower.task_id]
        others.discard(follower)
        if not others:
            del self._followers[follower.task_id]
        self.observed = self._observer is not None or bool(self._followers)

    def leave(self, waiter: Waiter) -> None:
        """End a wait."""
        waiters = self._waiting[waiter.task_id]
        if isinstance(waiters, set):
            waiters.discard(waiter)
        if not waiters or waiters is waiter:
            del self._waiting[waiter.task_id]


MOST_BEHIND: Final = 10_000
"""The most events that wait for one reader; a reader that is slower reads them from the store."""
_TERMINAL = frozenset(status for status in TaskStatus if status.terminal)
_AT_REST = _TERMINAL | {TaskStatus.PAUSED}


class Waiter(asyncio.Future[Task | None]):
    """A caller's wait for news of one Task: its snapshot, or None if the store must be read.

    It is a future itself, because there may be very many waits (memory in benchmarks/host.py).

    Args:
        version: The latest version that the caller has seen; 0 for none.
        wanted: The statuses that end the wait, the terminal ones among them; None for any commit.
    """

    __slots__ = ("_wanted", "task_id", "version")

    def __init__(self, task_id: str, version: int, wanted: frozenset[TaskStatus] | None) -> None:
        super().__init__()
        self.task_id = task_id
        self.version = version
        self._wanted = wanted

    def news(self, record: Record | None) -> None:
        """End the wait, unless the record is not later or has a status that is not waited for."""
        if record is not None:
            if record.version <= self.version:
                return
            self.version = record.version
            if self._wanted is not None and record.task.status not in self._wanted:
                return
        if not self.done():
            self.set_result(None if record is None else record.task)

    def give_up(self) -> None:
        if not self.done():
            self.set_exception(HostClosed())
            self.exception()  # Marks it as retrieved: the caller may have stopped waiting.


def _each(waiters: Waiter | Collection[Waiter]) -> Collection[Waiter]:
    return (waiters,) if isinstance(waiters, Waiter) else waiters


class Follower:
    """A reader of one Task's events at the moment at which they are emitted.

    Attributes:
        items: News that the reader has not taken yet, in order: an event that was emitted, or the
            version of a commit with the number of its first events that were emitted before.
        known: The latest version that the reader was told of and has read.
        seen: The latest version that the reader has read from the store.
        waiter: The reader's wait for news, if it waits.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.items: deque[Event | tuple[int, int]] = deque()
        self.known = 0
        self.seen = 0
        self.waiter: Waiter | None = None
        self._behind = False
        """True if events were dropped since the last commit; the reader gets them once stored."""

    def tell(self, event: Event) -> None:
        """Take an event that was emitted."""
        if len(self.items) >= MOST_BEHIND:
            commits = [item for item in self.items if not isinstance(item, Event)]
            self.items.clear()
            # The reader has missed live events of these commits, so it reads all their events.
            self.items.extend((version, 0) for version, _ in commits[-1:])
            self._behind = True
        if not self._behind:
            self.items.append(event)
            self._wake()

    def committed(self, version: int, live: int) -> None:
        """Take the news of a commit, whose first ``live`` events were emitted before."""
        self.items.append((version, 0 if self._behind else live))
        self._behind = False
        self._wake()

    def _wake(self) -> None:
        if self.waiter is not None:
            self.waiter.news(None)

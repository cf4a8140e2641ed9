"""News: the observer and the waiting callers of one Host hear of every commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Container, Sequence

from agentic_kernel import Task, TaskStatus

from ..cursor import Cursor
from ..errors import HostClosed
from ..events import Event, from_stored
from ..faults import report
from ..observer import Observer
from ..record import Record
from .approvals import Desk
from .complaints import Complaints
from .history import PAGE
from .parts import Parts


class News:
    """Tells the observer, the approvals' desk and every waiting caller of one Host.

    Args:
        parts: Its store is read for the callers that wait.
        complaints: Logs a fault of the desk.
        observer: Receives every event, live and durable.
        desk: Receives every committed record.
    """

    def __init__(
        self, parts: Parts, complaints: Complaints, observer: Observer | None, desk: Desk | None
    ) -> None:
        self.closed = False
        """True after the Host is closed: no more news comes."""
        self.observed = observer is not None
        self._parts = parts
        self._complaints = complaints
        self._observer = observer
        self._desk = desk
        self._faulty = False
        self._waiting: dict[str, Waiter | set[Waiter]] = {}

    def tell(self, task_id: str, event: Event) -> None:
        """Tell the observer of an event.

        A fault of the observer never reaches a run: every exception is caught here, also a
        ``SystemExit`` and a cancellation. Only a ``KeyboardInterrupt`` passes (R21).
        """
        if self._observer is None:
            return
        try:
            self._observer.observe(task_id, event)
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            if not self._faulty:
                self._faulty = True
                version = 0 if event.id is None else event.id[0]
                report(fault, task_id, version, "the observer (this is reported once)", "version")

    def tell_stored(self, task_id: str, id: Cursor | None, text: bytes) -> None:
        """Tell the observer of an event in its stored form."""
        if self._observer is not None:
            self.tell(task_id, from_stored(id, text))

    def published(self, after: Record, written: Sequence[bytes], live: int = 0) -> None:
        """Pass on a commit: its events to the observer, its record to the desk and the waiters.

        Args:
            live: The number of events, from the first on, that were emitted live before; the
                observer has received these already.
        """
        task_id = after.task.id
        if self._observer is not None:
            for index in range(live, len(written)):
                self.tell(task_id, from_stored((after.version, index), written[index]))
        if self._desk is not None:
            try:
                self._desk.saw(after)
            except Exception as fault:
                self._complaints.add(task_id, after.version, fault)
        waiters = self._waiting.get(task_id)
        if waiters is not None:
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

    async def wait(self, task_id: str, statuses: Collection[TaskStatus] = ()) -> Task:
        """Wait for one of these statuses or a terminal one; return the first such snapshot.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        wanted = (_TERMINAL | frozenset(statuses)) if statuses else _TERMINAL
        seen = 0
        while True:
            waiter = self._waiter(task_id, seen, wanted)
            try:
                record = await self._parts.store.load(task_id)
                if record.task.status in wanted:
                    return record.task
                seen = record.version
                task = await self._after(waiter, seen)
                if task is not None:
                    return task
            finally:
                self.leave(waiter)

    async def stream(self, task_id: str, after: Cursor | None) -> AsyncIterator[Event]:
        """Durable events after a cursor, each once and in order, until the Task is terminal.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        seen = 0
        while True:
            waiter = self._waiter(task_id, seen)
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
                await self._after(waiter, seen)
            finally:
                self.leave(waiter)

    def end_of(self, task_id: str) -> Waiter:
        """A wait for the end of a Task that is not dispatched yet, so that no end is missed.

        The caller ends the wait by `leave`.
        """
        return self._waiter(task_id, 0, _TERMINAL)

    def _after(self, waiter: Waiter, version: int) -> Waiter:
        """Make a wait continue with records later than this version.

        Raises:
            HostClosed: No more news comes.
        """
        if self.closed:
            raise HostClosed
        waiter.version = max(waiter.version, version)
        return waiter

    def _waiter(
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

    def leave(self, waiter: Waiter) -> None:
        """End a wait."""
        waiters = self._waiting[waiter.task_id]
        if isinstance(waiters, set):
            waiters.discard(waiter)
        if not waiters or waiters is waiter:
            del self._waiting[waiter.task_id]


_TERMINAL = frozenset(status for status in TaskStatus if status.terminal)


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

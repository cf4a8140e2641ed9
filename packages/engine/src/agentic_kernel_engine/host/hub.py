"""Hub: what the parts of one Host share, and where news of a Task goes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from agentic_kernel import CannotStart, IllegalTransition, Task, TaskNotFound, TaskStatus

from ..errors import HostClosed, StoreError, Unreadable
from ..events import Event, from_stored
from ..faults import is_a, passes, report, said
from ..observer import Observer
from ..record import Record
from ..store import EventId, Store
from .shielded import Shielded

if TYPE_CHECKING:
    from ..seams.approvals import Desk
    from .change import Change

_log = logging.getLogger(__name__)
_PAGE = 1000
_REMEMBERED = 10_000
"""How many complaints are remembered, so as not to be repeated."""


class Hub:
    """One Host's name, store, clock and asyncio tasks, its observer, and those who wait.

    The name is a random nonce: two hosts never share one, so an owner that carries it is this
    host's beyond doubt (R2). Together with the number of an act it names one write beyond doubt,
    which is how a write is recognised whose answer was lost (R5).
    """

    def __init__(
        self, store: Store, clock: Callable[[], datetime], observer: Observer | None
    ) -> None:
        self.store = store
        self.clock = clock
        self.name = secrets.token_hex(8)
        self.acts = itertools.count(1)
        self.owned = Shielded()
        self.immediate = store.traits.never_waits
        """Whether no method of the store ever waits, so that no cancellation can interrupt one:
        a write then needs no asyncio task of its own."""
        self.closed = False
        self.desk: Desk | None = None
        """Told of every commit, where people are to learn of what is asked."""
        self._observer = observer
        self._faulty = False
        self.in_a_row = 0
        """How many commits of runs followed each other since one let the event loop go on."""
        self._complained: dict[tuple[str, int], None] = {}
        self._waiting: dict[str, Waiter | set[Waiter]] = {}

    @property
    def observed(self) -> bool:
        """Whether there is an observer to tell."""
        return self._observer is not None

    def tell(self, task_id: str, event: Event) -> None:
        """Tell the observer; a fault of its own never touches a run.

        Whatever it raises stays here, a ``SystemExit`` and a cancellation included; only a
        ``KeyboardInterrupt`` passes (R21).
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

    def tell_stored(self, task_id: str, id: EventId | None, text: bytes) -> None:
        """The same for an event in its stored form."""
        if self._observer is not None:
            self.tell(task_id, from_stored(id, text))

    def landed(self, done: Change, live: int = 0) -> None:
        """Pass on a commit: events to the observer, but not those it was told live, and wake."""
        self.published(done.after, done.events, live)

    def published(self, after: Record, written: Sequence[bytes], live: int = 0) -> None:
        """As `landed`, for a commit that has no `Change`.

        Args:
            live: How many of the events, from the first, were emitted live before.
        """
        task_id = after.task.id
        if self._observer is not None:
            for index in range(live, len(written)):
                self.tell(task_id, from_stored((after.version, index), written[index]))
        if self.desk is not None:
            try:
                self.desk.saw(after)
            except Exception as fault:
                self.complain(after.task.id, after.version, fault)
        waiters = self._waiting.get(task_id)
        if waiters is not None:
            for waiter in _each(waiters):
                waiter.news(after)

    def complain(self, task_id: str, version: int, fault: BaseException) -> None:
        """Log that one Task cannot be handled, once for each of its versions (R22)."""
        key = task_id, version
        if key in self._complained:
            return
        self._complained[key] = None
        if len(self._complained) > _REMEMBERED:
            del self._complained[next(iter(self._complained))]
        if is_a(fault, StoreError):
            _log.warning("task %r is left alone: %s", task_id, said(fault))
        else:
            report(fault, task_id, version, "its handling", "version")

    @contextmanager
    def sparing(self, task_id: str, version: int) -> Iterator[None]:
        """Keep a fault in handling one Task from all others: it is logged once (R22).

        What says that the Task has moved on, or cannot be taken now, is no fault.
        """
        try:
            yield
        except (TaskNotFound, IllegalTransition, CannotStart, HostClosed):
            return
        except Unreadable as bad:
            self.complain(bad.task_id, bad.version, bad)
        except BaseException as fault:
            passes(fault)
            self.complain(task_id, version, fault)

    def close(self) -> None:
        """End every wait: from now on there is no news."""
        self.closed = True
        for waiters in self._waiting.values():
            for waiter in _each(waiters):
                waiter.give_up()

    def wake(self, task_id: str) -> None:
        """Let those who wait for this Task look again."""
        for waiter in _each(self._waiting.get(task_id, ())):
            waiter.news(None)

    def watched(self, known: Container[str]) -> list[tuple[str, int]]:
        """The other Tasks that somebody waits for, each with the version last seen."""
        return [
            (task_id, min(waiter.version for waiter in _each(waiters)))
            for task_id, waiters in self._waiting.items()
            if task_id not in known
        ]

    async def wait(self, task_id: str, statuses: Collection[TaskStatus] = ()) -> Task:
        """The first snapshot seen in one of these statuses; in a terminal one by default.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        wanted = (_TERMINAL | frozenset(statuses)) if statuses else _TERMINAL
        seen = 0
        while True:
            waiter = self._waiter(task_id, seen, wanted)
            try:
                record = await self.store.load(task_id)
                if record.task.status in wanted:
                    return record.task
                seen = record.version
                task = await self._after(waiter, seen)
                if task is not None:
                    return task
            finally:
                self.leave(waiter)

    async def stream(self, task_id: str, after: EventId | None) -> AsyncIterator[Event]:
        """Durable events after a cursor, each once and in order, until the Task is terminal.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
        """
        seen = 0
        while True:
            waiter = self._waiter(task_id, seen)
            try:
                # The record first: events read after it include all that it ended with.
                record = await self.store.load(task_id)
                page = await self.store.events(task_id, after, _PAGE)
                for event_id, text in page:
                    after = event_id
                    yield from_stored(event_id, text)
                if len(page) == _PAGE:
                    continue
                if record.task.status.terminal:
                    return
                seen = record.version
                await self._after(waiter, seen)
            finally:
                self.leave(waiter)

    def end_of(self, task_id: str) -> Waiter:
        """What a Task that will be dispatched ends as, or None when somebody has to look.

        Registered before the Task is there, so that its end is not missed; see `leave`.
        """
        return self._waiter(task_id, 0, _TERMINAL)

    def _after(self, waiter: Waiter, version: int) -> Waiter:
        """Done once there is news of a record later than this one, which was looked at.

        Raises:
            HostClosed: There will be none.
        """
        if self.closed:
            raise HostClosed
        waiter.version = max(waiter.version, version)
        return waiter

    def _waiter(
        self, task_id: str, seen: int, wanted: frozenset[TaskStatus] | None = None
    ) -> Waiter:
        """A wait for news, registered before the next look."""
        waiter = Waiter(task_id, seen, wanted)
        others = self._waiting.setdefault(task_id, waiter)
        if isinstance(others, set):
            others.add(waiter)
        elif others is not waiter:
            self._waiting[task_id] = {others, waiter}
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        waiters = self._waiting[waiter.task_id]
        if isinstance(waiters, set):
            waiters.discard(waiter)
        if not waiters or waiters is waiter:
            del self._waiting[waiter.task_id]

    async def history(self, task_id: str, after: EventId | None = None) -> list[Event]:
        """All durable events after a cursor, in order."""
        found: list[Event] = []
        while True:
            page = await self.store.events(task_id, after, _PAGE)
            found += [from_stored(event_id, text) for event_id, text in page]
            if len(page) < _PAGE:
                return found
            after = page[-1][0]


_TERMINAL = frozenset(status for status in TaskStatus if status.terminal)


class Waiter(asyncio.Future[Task | None]):
    """Somebody's wait for one piece of news of a Task: its snapshot, or None for a reason to look.

    Very many may wait, so there is no more to it than the future.

    Args:
        version: The latest that was seen; 0 for none.
        wanted: Statuses, the terminal ones among them, whose news wakes; None for all news.
    """

    __slots__ = ("_wanted", "task_id", "version")

    def __init__(self, task_id: str, version: int, wanted: frozenset[TaskStatus] | None) -> None:
        super().__init__()
        self.task_id = task_id
        self.version = version
        self._wanted = wanted

    def news(self, record: Record | None) -> None:
        """A later record, or an unknown one; a status that is not waited for wakes nobody."""
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
            self.exception()  # Who does not wait any more need not hear of it.


def _each(waiters: Waiter | Collection[Waiter]) -> Collection[Waiter]:
    return (waiters,) if isinstance(waiters, Waiter) else waiters

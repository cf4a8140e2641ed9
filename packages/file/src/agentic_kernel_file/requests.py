"""Requests: the writes that wait for the writer, each with the check that decides about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from agentic_kernel import TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine.errors import Conflict
from agentic_kernel_engine.record import Record, host_of, owner_name

from .catalog import Change
from .frames import Entry, change, entry_of, insertion, removal


class Hosts(Protocol):
    """Where hosts are declared alive and gone."""

    def join(self, host: str) -> None:
        """Declare a host alive. For the holder of the folder's lock."""
        ...


class Latest(Protocol):
    """The end of the log, as the holder of the lock sees it."""

    def latest(self, task_id: str) -> Entry | None:
        """A Task's latest entry, published or not."""
        ...

    def record(self, entry: Entry) -> Record:
        """The record of that entry."""
        ...

    def alive(self, host: str) -> bool:
        """Whether a host is alive."""
        ...


Decision = tuple[bytes, Change]
"""The frame to append, and what it means for the index."""


class Request:
    """A write on its way through the writer.

    What can be prepared (the encoding above all) was prepared in the caller's thread, so that
    the holder of the lock has little left to do.
    """

    __slots__ = ("error", "future", "loop", "result", "settled")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.settled = False
        self.result: Any = None
        self.error: BaseException | None = None

    def decide(self, tip: Latest, at: int) -> Decision | None:
        """What to append, if the write holds at the end of the log; None if nothing is.

        Args:
            at: Where the frame will be.

        Raises:
            KernelError: The write does not hold.
        """
        raise NotImplementedError


class Join(Request):
    """Declare a host alive; nothing is appended."""

    __slots__ = ("_host", "_hosts")

    def __init__(self, hosts: Hosts, host: str) -> None:
        super().__init__()
        self._hosts = hosts
        self._host = host

    def decide(self, tip: Latest, at: int) -> None:
        self._hosts.join(self._host)


class Insert(Request):
    """Store a new record."""

    __slots__ = ("_draft", "_record")

    def __init__(self, record: Record, events: Sequence[bytes]) -> None:
        super().__init__()
        self._record = record
        self._draft = insertion(record, events)

    def decide(self, tip: Latest, at: int) -> Decision:
        task_id = self._record.task.id
        if tip.latest(task_id) is not None:
            raise TaskExists(task_id)
        return self._draft.frame(0), entry_of(self._record, at)


class Commit(Request):
    """Replace a record by its successor."""

    __slots__ = ("_draft", "_entry", "_owner", "_version")

    def __init__(self, before: Record, after: Record, events: Sequence[bytes]) -> None:
        super().__init__()
        self._version = before.version
        self._owner = before.owner
        self._draft = change(before, after, events)
        self._entry = entry_of(after, 0)

    def decide(self, tip: Latest, at: int) -> Decision:
        task_id = self._entry.task_id
        entry = tip.latest(task_id)
        if entry is None:
            raise TaskNotFound(task_id)
        if entry.version != self._version or entry.owner != self._owner or entry.status.terminal:
            raise Conflict(task_id, tip.record(entry))
        self._entry.at = at
        return self._draft.frame(entry.at), self._entry


class Claim(Request):
    """Take over a running Task without a living owner; the result is its record, or None."""

    __slots__ = ("_events", "_host", "_task_id")

    def __init__(self, task_id: str, host: str, events: Sequence[bytes]) -> None:
        super().__init__()
        self._task_id = task_id
        self._host = host
        self._events = events

    def decide(self, tip: Latest, at: int) -> Decision | None:
        entry = tip.latest(self._task_id)
        if entry is None:
            raise TaskNotFound(self._task_id)
        if entry.status is not TaskStatus.RUNNING or (
            entry.owner is not None and tip.alive(host_of(entry.owner))
        ):
            return None
        before = tip.record(entry)
        version = before.version + 1
        self.result = before.changed(
            version=version,
            owner=owner_name(self._host, version),
            attempts=before.attempts + 1,
        )
        draft = change(before, self.result, self._events)
        return draft.frame(entry.at), entry_of(self.result, at)


class Prune(Request):
    """Remove Tasks that ended before a moment; the result is how many."""

    __slots__ = ("_ended_before", "_task_ids")

    def __init__(self, task_ids: Sequence[str], ended_before: int) -> None:
        super().__init__()
        self._task_ids = task_ids
        self._ended_before = ended_before

    def decide(self, tip: Latest, at: int) -> Decision | None:
        gone = [task_id for task_id in self._task_ids if self._expired(tip.latest(task_id))]
        self.result = len(gone)
        return (removal(gone).frame(0), gone) if gone else None

    def _expired(self, entry: Entry | None) -> bool:
        return entry is not None and entry.ended is not None and entry.ended < self._ended_before


def answer(batch: Sequence[Request]) -> None:
    """Complete the futures of a batch in their own event loops: one call per loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in batch:
        by_loop.setdefault(request.loop, []).append(request)
    for loop, requests in by_loop.items():
        try:
            loop.call_soon_threadsafe(_complete, requests)
        except RuntimeError:
            continue  # the loop is closed: nobody waits any more


def _complete(requests: Sequence[Request]) -> None:
    for request in requests:
        request.settled = True
        future = request.future
        if future.done():
            continue
        if request.error is None:
            future.set_result(request.result)
        else:
            future.set_exception(request.error)

"""Requests: the writes that wait for the writer, each with the check that accepts or refuses it."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from agentic_kernel import TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine.errors import Conflict, StoreError, Unreadable
from agentic_kernel_engine.record import Record, host_of, owner_name
from agentic_kernel_engine.stored import buried

from .catalog import Change
from .frames import Entry, burial, change, entry_of, insertion, origin_of, removal
from .states import Kept


class Hosts(Protocol):
    """The registry in which hosts are declared alive."""

    def join(self, host: str) -> None:
        """Declare a host alive. The caller holds the folder's lock."""
        ...


class Latest(Protocol):
    """The end of the log, as the holder of the lock sees it."""

    def latest(self, task_id: str) -> Entry | None:
        """A Task's latest entry, published or not."""
        ...

    def record(self, entry: Entry) -> Record:
        """The record of that entry."""
        ...

    def owner(self, entry: Entry) -> str | None:
        """The owner of a Task, if that can be read."""
        ...

    def alive(self, host: str) -> bool:
        """True if a host is alive."""
        ...

    def check_not_lost(self, host: str) -> None:
        """Refuse a host that was alive in a folder that is gone.

        Raises:
            HostGone: The host was; the message and the cause say what happened to the folder.
        """
        ...

    def check_not_left(self, host: str) -> None:
        """Refuse a host that is known to have left or died.

        Raises:
            HostGone: It is.
        """
        ...


Decision = tuple[bytes, Change]
"""The frame to append, and its effect on the index."""


class Request:
    """A write in the writer's queue.

    The caller's thread prepares as much as possible, above all the encoding, so that the writer
    holds the lock only for a short time.
    """

    __slots__ = ("error", "future", "kept", "loop", "result", "schema", "settled", "superseded")

    def __init__(self, schema: int = 1, kept: Kept | None = None) -> None:
        self.loop = get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.settled = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.schema = schema if kept is None else 2
        """The oldest schema of a folder that can hold the appended frame."""
        self.kept = kept
        """The file of the state, if the state has a file of its own."""
        self.superseded: Sequence[str] = ()
        """Names of the states' files that no record needs after the write."""

    def decide(self, tip: Latest, at: int) -> Decision | None:
        """The frame to append, if the write is accepted at the end of the log; None if no frame.

        Args:
            at: The place in the log that the frame will have.

        Raises:
            KernelError: The write is refused.
        """
        raise NotImplementedError


class Join(Request):
    """Declare a host alive; no frame is appended."""

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

    def __init__(self, record: Record, events: Sequence[bytes], kept: Kept | None) -> None:
        super().__init__(record.needs_schema, kept)
        self._record = record
        self._draft = insertion(record, events, None if kept is None else kept.reference)

    def decide(self, tip: Latest, at: int) -> Decision:
        record = self._record
        task_id = record.task.id
        if tip.latest(task_id) is not None:
            raise TaskExists(task_id)
        if record.owner is not None:
            tip.check_not_lost(host_of(record.owner))
        entry = entry_of(record, at, origin_of(record))
        if self.kept is not None:
            entry.state = entry.loaded = self.kept.reference
        return self._draft.frame(0), entry


class Commit(Request):
    """Replace a record by its successor."""

    __slots__ = ("_after", "_before", "_draft", "_entry", "_events", "_moved")

    def __init__(
        self,
        before: Record,
        after: Record,
        events: Sequence[bytes],
        kept: Kept | None,
        *,
        moved: bool,
    ) -> None:
        """Prepare the commit; ``moved`` is True if the state has changed."""
        # Like `Request.__init__`, but without the call, because most requests are commits
        # (benchmarks/file.py).
        self.loop = loop = get_running_loop()
        self.future = loop.create_future()
        self.settled = False
        self.result = self.error = None
        # The other fields that need schema 2 were written with the input.
        self.schema = 1 if kept is None and after.form == before.form else 2
        self.kept = kept
        self.superseded = ()
        self._before = before
        self._after = after
        self._events = events
        self._moved = moved
        self._draft = change(before, after, events, None if kept is None else kept.reference)
        self._entry = entry_of(after, 0)

    def decide(self, tip: Latest, at: int) -> Decision:
        ours, before = self._entry, self._before
        task_id = ours.task_id
        entry = tip.latest(task_id)
        if entry is None:
            raise TaskNotFound(task_id)
        if (
            entry.version != before.version
            or entry.owner != before.owner
            or entry.status.terminal
            or entry.damaged
        ):
            raise Conflict(task_id, tip.record(entry))
        if ours.owner is not None and ours.owner != before.owner:
            tip.check_not_lost(host_of(ours.owner))
        ours.at = at
        ours.origin = entry.origin
        if entry.state is not None or self.kept is not None:
            self._keep_apart(entry)
        return self._draft.frame(entry.at), ours

    def _keep_apart(self, entry: Entry) -> None:
        """Update the entry for a state that is, or was, in a file of its own."""
        ours = self._entry
        if not self._moved:
            ours.state = ours.loaded = entry.state
            return
        if self.kept is not None:
            ours.state = ours.loaded = self.kept.reference
        else:  # the frame has to say that the record no longer refers to the file
            self._draft = change(self._before, self._after, self._events, None, entry.state)
        if entry.state is not None:
            self.superseded = [entry.state.name]


class Claim(Request):
    """Take over a running Task that has no living owner; the result is its record, or None."""

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
        tip.check_not_lost(self._host)
        tip.check_not_left(self._host)
        before = tip.record(entry)
        version = before.version + 1
        self.result = before.changed(
            version=version,
            owner=owner_name(self._host, version),
            attempts=before.attempts + 1,
        )
        draft = change(before, self.result, self._events)
        ours = entry_of(self.result, at, entry.origin)
        ours.state = ours.loaded = entry.state
        return draft.frame(entry.at), ours


class Bury(Request):
    """Replace a record that cannot be read; the result is the new record."""

    __slots__ = ("_at", "_events", "_force", "_task_id", "_version")

    def __init__(
        self, task_id: str, version: int, events: Sequence[bytes], at: datetime, *, force: bool
    ) -> None:
        super().__init__(schema=2)
        self._task_id = task_id
        self._version = version
        self._events = events
        self._at = at
        self._force = force

    def decide(self, tip: Latest, at: int) -> Decision:
        task_id = self._task_id
        entry = tip.latest(task_id)
        if entry is None:
            raise TaskNotFound(task_id)
        try:
            raise Conflict(task_id, tip.record(entry))
        except Unreadable as error:
            if entry.version != self._version:
                raise Conflict(task_id) from error
            if error.newer and not self._force:
                raise
        owner = tip.owner(entry)
        if owner is not None and tip.alive(host_of(owner)):
            raise StoreError(
                f"task {task_id!r} is owned by {ascii(owner)[:80]}, which is alive; kill the Task "
                "there, or end that process and then bury the Task"
            )
        self.result = buried(task_id, entry.version + 1, self._at)
        self.superseded = _states([entry])
        draft = burial(self.result, self._events)
        return draft.frame(entry.at), entry_of(self.result, at, origin_of(self.result))


class Prune(Request):
    """Remove Tasks that ended before a moment; the result is their number."""

    __slots__ = ("_ended_before", "_task_ids")

    def __init__(self, task_ids: Sequence[str], ended_before: int) -> None:
        super().__init__()
        self._task_ids = task_ids
        self._ended_before = ended_before

    def decide(self, tip: Latest, at: int) -> Decision | None:
        entries = (tip.latest(task_id) for task_id in self._task_ids)
        expired = [entry for entry in entries if entry is not None and self._expired(entry)]
        gone = [entry.task_id for entry in expired]
        self.result = len(gone)
        self.superseded = _states(expired)
        return (removal(gone).frame(0), gone) if gone else None

    def _expired(self, entry: Entry) -> bool:
        return entry.ended is not None and entry.ended < self._ended_before


def _states(entries: Sequence[Entry]) -> list[str]:
    return [entry.state.name for entry in entries if entry.state is not None]


def answer(batch: Sequence[Request]) -> None:
    """Complete the futures of a batch in their own event loops: one call per loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in batch:
        by_loop.setdefault(request.loop, []).append(request)
    for loop, requests in by_loop.items():
        try:
            loop.call_soon_threadsafe(_complete, requests)
        except RuntimeError:
            continue  # the loop is closed, so no caller waits any more


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

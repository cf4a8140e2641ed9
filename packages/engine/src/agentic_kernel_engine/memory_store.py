"""MemoryStore: the reference Store, in one process, as long as the process lives."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from agentic_kernel import TaskExists, TaskNotFound, TaskStatus

from .errors import Conflict
from .record import Record, host_of, owner_name
from .store import EventId

_RUNNING = TaskStatus.RUNNING
_TERMINAL = frozenset(status for status in TaskStatus if status.terminal)
_NONE: frozenset[str] = frozenset()


class _Commit(msgspec.Struct, frozen=True, gc=False):
    """The events of one commit, in order."""

    version: int
    events: tuple[bytes, ...]


def _version(commit: _Commit) -> int:
    return commit.version


class _Shelf(msgspec.Struct, gc=False):
    """One Task: its record, and its events in order.

    There may be very many, so of all this the garbage collector knows the list alone.
    """

    record: Record
    commits: list[_Commit] = []
    """Those that wrote events."""

    def append(self, version: int, events: Sequence[bytes]) -> None:
        # In one go: a reader in another thread sees all of a commit's events, or none.
        if events:
            self.commits.append(_Commit(version, tuple(events)))

    def events(self, after: EventId | None, limit: int) -> list[tuple[EventId, bytes]]:
        start = 0 if after is None else bisect_left(self.commits, after[0], key=_version)
        found = (
            ((commit.version, index), text)
            for commit in self.commits[start : start + limit + 1]
            for index, text in enumerate(commit.events)
        )
        return list(islice((each for each in found if after is None or each[0] > after), limit))


class MemoryStore:
    """A `Store` that keeps everything in the process's memory; nothing survives the process.

    Safe to share between hosts, event loops and threads. No method waits for anything, so no
    caller can be cancelled in the middle of one. The cost of a commit does not grow with the
    number of Tasks or with history.
    """

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._ids: list[str] = []
        self._by_status: dict[TaskStatus, set[str]] = {status: set() for status in TaskStatus}
        self._by_holder: dict[str, set[str]] = {}
        self._children: dict[str, set[str]] = {}
        self._hosts: set[str] = set()
        self._lock = threading.Lock()

    async def join(self, host: str) -> None:
        with self._lock:
            self._hosts.add(host)

    async def leave(self, host: str) -> None:
        with self._lock:
            self._hosts.discard(host)

    async def alive(self, owner: str) -> bool:
        return host_of(owner) in self._hosts

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        task_id = record.task.id
        with self._lock:
            if task_id in self._shelves:
                raise TaskExists(task_id)
            shelf = self._shelves[task_id] = _Shelf(record)
            if not self._ids or task_id > self._ids[-1]:
                self._ids.append(task_id)
            else:
                insort(self._ids, task_id)
            self._by_status[record.task.status].add(task_id)
            self._hold(task_id, _holder(record))
            if record.parent is not None:
                self._children.setdefault(record.parent, set()).add(task_id)
            shelf.append(record.version, events)

    async def load(self, task_id: str) -> Record:
        return self._shelf(task_id).record

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        shelves = self._shelves
        return {id: shelves[id].record for id in task_ids if id in shelves}

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        with self._lock:
            shelf = self._shelves.get(before.task.id)
            if shelf is None:
                raise TaskNotFound(before.task.id)
            stored = shelf.record
            if (
                stored.version != before.version
                or stored.owner != before.owner
                or stored.task.status in _TERMINAL
                or after.version != before.version + 1
            ):
                raise Conflict(before.task.id, stored)
            self._replace(shelf, after, events)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        with self._lock:
            shelf = self._shelf(task_id)
            stored = shelf.record
            if not self._claimable(stored):
                return None
            version = stored.version + 1
            claimed = stored.changed(
                version=version,
                owner=owner_name(host, version),
                attempts=stored.attempts + 1,
            )
            self._replace(shelf, claimed, events)
            return claimed

    async def events(
        self, task_id: str, after: EventId | None = None, limit: int = 1000
    ) -> Sequence[tuple[EventId, bytes]]:
        return self._shelf(task_id).events(after, limit)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        moved, shelves = {}, self._shelves
        for task_id, version in versions.items():
            shelf = shelves.get(task_id)
            current = 0 if shelf is None else shelf.record.version
            if current != version:
                moved[task_id] = current
        return moved

    async def find(
        self,
        *,
        status: TaskStatus | None = None,
        kinds: Collection[str] | None = None,
        owner: str | None = None,
        claimable: bool = False,
        parent: str | None = None,
        due: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[Record]:
        found: list[Record] = []
        with self._lock:
            for task_id in self._candidates(status, owner, claimable, parent, due, after):
                record = self._shelves[task_id].record
                if (
                    (status is None or record.task.status is status)
                    and (kinds is None or record.task.runtime_kind in kinds)
                    and (owner is None or _holder(record) == owner)
                    and (not claimable or self._claimable(record))
                    and (parent is None or record.parent == parent)
                    and (due is None or _is_due(record, due))
                ):
                    found.append(record)
                    if len(found) >= limit:
                        break
        return found

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        removed = 0
        with self._lock:
            for status in TaskStatus:
                if not status.terminal:
                    continue
                for task_id in list(self._by_status[status]):
                    ended = self._shelves[task_id].record.task.ended_at
                    if removed < limit and ended is not None and ended < ended_before:
                        self._remove(task_id)
                        removed += 1
        return removed

    def _shelf(self, task_id: str) -> _Shelf:
        try:
            return self._shelves[task_id]
        except KeyError:
            raise TaskNotFound(task_id) from None

    def _claimable(self, record: Record) -> bool:
        return record.task.status is _RUNNING and (
            record.owner is None or host_of(record.owner) not in self._hosts
        )

    def _replace(self, shelf: _Shelf, after: Record, events: Sequence[bytes]) -> None:
        before = shelf.record
        moved = after.task.status is not before.task.status
        if moved:
            task_id = after.task.id
            self._by_status[before.task.status].discard(task_id)
            self._by_status[after.task.status].add(task_id)
        if moved or after.owner != before.owner:
            task_id = after.task.id
            self._let_go(task_id, _holder(before))
            self._hold(task_id, _holder(after))
        shelf.record = after
        shelf.append(after.version, events)

    def _hold(self, task_id: str, holder: str | None) -> None:
        if holder is not None:
            self._by_holder.setdefault(holder, set()).add(task_id)

    def _let_go(self, task_id: str, holder: str | None) -> None:
        if holder is not None:
            held = self._by_holder[holder]
            held.discard(task_id)
            if not held:
                del self._by_holder[holder]

    def _candidates(
        self,
        status: TaskStatus | None,
        owner: str | None,
        claimable: bool,
        parent: str | None,
        due: datetime | None,
        after: str | None,
    ) -> Iterator[str]:
        """Ids in order, from the smallest set that must hold every match."""
        sets: list[set[str] | frozenset[str]] = []
        if parent is not None:
            sets.append(self._children.get(parent, _NONE))
        if owner is not None:
            sets.append(self._by_holder.get(owner, _NONE))
        if claimable:
            gone = self._by_holder.keys() - self._hosts
            sets.append({key for host in gone for key in self._by_holder[host]})
        if due is not None:
            sets.append(self._by_status[TaskStatus.PAUSED])
        if status is not None and not status.terminal:
            sets.append(self._by_status[status])
        ids = sorted(min(sets, key=len)) if sets else self._ids
        start = 0 if after is None else bisect_right(ids, after)
        return (ids[index] for index in range(start, len(ids)))

    def _remove(self, task_id: str) -> None:
        record = self._shelves.pop(task_id).record
        del self._ids[bisect_right(self._ids, task_id) - 1]
        self._by_status[record.task.status].discard(task_id)
        self._let_go(task_id, _holder(record))
        if record.parent is not None:
            self._children.get(record.parent, set()).discard(task_id)


def _holder(record: Record) -> str | None:
    """Whose hands a record is in: a host, nobody's (``""``) while it runs, or it is at rest."""
    if record.owner is not None:
        return host_of(record.owner)
    return "" if record.task.status is _RUNNING else None


def _is_due(record: Record, moment: datetime) -> bool:
    return (
        record.task.status is TaskStatus.PAUSED
        and record.due_at is not None
        and record.due_at <= moment
    )

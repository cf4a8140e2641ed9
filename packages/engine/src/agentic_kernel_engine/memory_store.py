"""MemoryStore: the reference Store, in one process, as long as the process lives."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from heapq import nlargest
from itertools import islice
from typing import Unpack

import msgspec

from agentic_kernel import TaskExists, TaskNotFound, TaskStatus

from .cursor import Cursor
from .errors import Conflict, HostGone, Unreadable
from .moments import aware
from .record import Record, host_of, owner_name
from .search import Search, SearchOptions, created, page_size
from .store import StoreTraits

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

    Only the list is tracked by the garbage collector; there may be thousands of entries.
    """

    record: Record
    commits: list[_Commit] = []
    """The commits that wrote events, oldest first."""

    def append(self, version: int, events: Sequence[bytes]) -> None:
        # One append: a reader in another thread sees all of a commit's events, or none.
        if events:
            self.commits.append(_Commit(version, tuple(events)))

    def events(self, after: Cursor | None, limit: int) -> list[tuple[Cursor, bytes]]:
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
    number of Tasks or with history; a search for the newest looks at every Task that matches.
    """

    traits = StoreTraits(never_waits=True)
    """Of this class; a subclass that does not declare its own traits may wait."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "traits" not in cls.__dict__:
            cls.traits = StoreTraits()

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._ids: list[str] = []
        """Every id, in ascending order."""
        self._by_status: dict[TaskStatus, set[str]] = {status: set() for status in TaskStatus}
        self._by_holder: dict[str, set[str]] = {}
        """Ids by `_holder`. No set is empty; a record without a holder is in none."""
        self._children: dict[str, set[str]] = {}
        """Ids by their parent's id; no set is empty."""
        self._hosts: set[str] = set()
        """Hosts that joined and did not leave."""
        self._left: set[str] = set()
        """Hosts that are gone for good; a name for each Host that was ever closed."""
        self._lock = threading.Lock()
        """Held by each write and by `find`; the other reads look at one Task at a time."""

    async def join(self, host: str) -> None:
        with self._lock:
            if host in self._left:
                raise HostGone(host)
            self._hosts.add(host)

    async def leave(self, host: str) -> None:
        with self._lock:
            self._hosts.discard(host)
            self._left.add(host)

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
            _put(self._by_holder, _holder(record), task_id)
            if record.parent is not None:
                _put(self._children, record.parent, task_id)
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
                or after.task.id != before.task.id
            ):
                raise Conflict(before.task.id, stored)
            self._replace(shelf, after, events)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        with self._lock:
            shelf = self._shelf(task_id)
            stored = shelf.record
            if not self._claimable(stored):
                return None
            if host in self._left:
                raise HostGone(host)
            version = stored.version + 1
            claimed = stored.changed(
                version=version,
                owner=owner_name(host, version),
                attempts=stored.attempts + 1,
            )
            self._replace(shelf, claimed, events)
            return claimed

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        return self._shelf(task_id).events(after, limit)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        moved, shelves = {}, self._shelves
        for task_id, version in versions.items():
            shelf = shelves.get(task_id)
            current = 0 if shelf is None else shelf.record.version
            if current != version:
                moved[task_id] = current
        return moved

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        search = Search.of(**options)
        place, found = search.older_than, list[Record]()
        with self._lock:
            gone = self._by_holder.keys() - self._hosts if search.claimable else _NONE
            # A plain loop: the polling of a Host goes through all of its runs.
            for task_id in self._candidates(search, gone) if search.limit else ():
                record = self._shelves[task_id].record
                if search.matches(record, gone):
                    found.append(record)
                    if len(found) == search.limit and not search.newest:
                        break
        if search.newest:
            older = (record for record in found if place is None or created(record) < place)
            return nlargest(search.limit, older, key=created)
        return found

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        Search.of(after=after, limit=limit)
        return ()  # Records are kept as objects here, so there is none that cannot be read.

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        raise Conflict(task_id, self._shelf(task_id).record)

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        bound, most = aware("ended_before", ended_before), page_size(limit)
        removed = 0
        with self._lock:
            for status in _TERMINAL:
                for task_id in list(self._by_status[status]):
                    ended = self._shelves[task_id].record.task.ended_at
                    if removed < most and ended is not None and ended < bound:
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
        if moved or after.owner != before.owner:
            task_id = after.task.id
            if moved:
                self._by_status[before.task.status].discard(task_id)
                self._by_status[after.task.status].add(task_id)
            _drop(self._by_holder, _holder(before), task_id)
            _put(self._by_holder, _holder(after), task_id)
        shelf.record = after
        shelf.append(after.version, events)

    def _candidates(self, search: Search, gone: Collection[str]) -> Iterable[str]:
        """Ids in order, from the smallest set that must hold every match."""
        sets: list[Set[str]] = []
        if search.parent is not None:
            sets.append(self._children.get(search.parent, _NONE))
        if search.owner is not None:
            sets.append(self._by_holder.get(search.owner, _NONE))
        if search.claimable:
            sets.append({task_id for host in gone for task_id in self._by_holder[host]})
        if search.due is not None:
            sets.append(self._by_status[TaskStatus.PAUSED])
        if search.status is not None and not search.status.terminal:
            sets.append(self._by_status[search.status])
        smallest = min(sets, key=lambda each: len(each)) if sets else None
        ids = self._ids if smallest is None else sorted(smallest)
        start = 0 if search.after is None else bisect_right(ids, search.after)
        return islice(ids, start, None)

    def _remove(self, task_id: str) -> None:
        record = self._shelves.pop(task_id).record
        del self._ids[bisect_right(self._ids, task_id) - 1]
        self._by_status[record.task.status].discard(task_id)
        _drop(self._by_holder, _holder(record), task_id)
        _drop(self._children, record.parent, task_id)


def _put(index: dict[str, set[str]], key: str | None, task_id: str) -> None:
    if key is not None:
        index.setdefault(key, set()).add(task_id)


def _drop(index: dict[str, set[str]], key: str | None, task_id: str) -> None:
    if key is not None:
        ids = index[key]
        ids.discard(task_id)
        if not ids:
            del index[key]


def _holder(record: Record) -> str | None:
    """The owner's host; ``""`` for a running record without an owner; None for the others."""
    if record.owner is not None:
        return host_of(record.owner)
    return "" if record.task.status is _RUNNING else None

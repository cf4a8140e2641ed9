"""Index: the Tasks in the log, and those that have not ended or have an owner, kept in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from agentic_kernel import TaskStatus
from agentic_kernel_engine.record import host_of
from agentic_kernel_engine.search import Search

from .frames import Entry, Origin, moment

_RUNNING: Final = TaskStatus.RUNNING
_FEW: Final = 8
"""For a page of the newest, a set is sorted by itself if it has at most 1/_FEW of all entries."""


class Index:
    """Entries by id, and sets by which a filter finds its Tasks without a scan of all entries."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.removed: set[str] = set()
        """Ids of pruned Tasks that the table may still hold."""
        self.states: set[str] = set()
        """Names of the states' files that the entries refer to."""
        self._ids: list[str] = []
        self._unsorted = False
        self._created: list[tuple[int, str]] | None = None
        """The creation time and id of each Task; None until a search asks for the newest."""
        self._created_unsorted = False
        self._by_status: dict[TaskStatus, set[str]] = {status: set() for status in TaskStatus}
        self._by_holder: dict[str, set[str]] = {}
        self._children: dict[str, set[str]] = {}

    def put(self, entry: Entry) -> None:
        """Store the entry of a Task's latest frame."""
        task_id = entry.task_id
        before = self.entries.get(task_id)
        self.entries[task_id] = entry
        if before is None:
            self._add(entry)
        else:
            self._move(before, entry)
            if entry.record is None:
                entry.record, entry.loaded = before.record, before.loaded
            if entry.origin is None:
                entry.origin = before.origin
        if entry.status.terminal:
            entry.record = None  # rarely read again; memory must not grow with ended Tasks

    def _add(self, entry: Entry) -> None:
        task_id = entry.task_id
        self._unsorted = self._unsorted or bool(self._ids and task_id < self._ids[-1])
        self._ids.append(task_id)
        if self._created is not None:
            if entry.origin is None:
                self._created = None
            else:
                place = entry.origin.created, task_id
                self._created_unsorted |= bool(self._created and place < self._created[-1])
                self._created.append(place)
        self._by_status[entry.status].add(task_id)
        if entry.parent is not None:
            self._children.setdefault(entry.parent, set()).add(task_id)
        if entry.state is not None:
            self.states.add(entry.state.name)
        self._hold(task_id, _holder(entry))

    def _move(self, before: Entry, entry: Entry) -> None:
        task_id = entry.task_id
        if before.status is not entry.status or before.owner != entry.owner:
            self._by_status[before.status].discard(task_id)
            self._by_status[entry.status].add(task_id)
            self._let_go(task_id, _holder(before))
            self._hold(task_id, _holder(entry))
        if before.state is not entry.state:
            if before.state is not None:
                self.states.discard(before.state.name)
            if entry.state is not None:
                self.states.add(entry.state.name)
        if before.parent != entry.parent:  # a burial removes the parent
            self._orphan(before)
            if entry.parent is not None:
                self._children.setdefault(entry.parent, set()).add(task_id)
        if before.origin is not entry.origin and entry.origin is not None:
            self._created = None

    def drop(self, task_ids: Iterable[str]) -> None:
        """Forget Tasks that were pruned."""
        gone = set(task_ids)
        self.removed |= gone
        for task_id in gone:
            entry = self.entries.pop(task_id, None)
            if entry is None:
                continue
            self._by_status[entry.status].discard(task_id)
            self._let_go(task_id, _holder(entry))
            self._orphan(entry)
            if entry.state is not None:
                self.states.discard(entry.state.name)
        self._ids = [task_id for task_id in self._ids if task_id not in gone]
        self._created = None

    def hides(self, task_id: str) -> bool:
        """True if the table's row of the Task is outdated."""
        return task_id in self.entries or task_id in self.removed

    def holders(self) -> Collection[str]:
        """The hosts that own Tasks; ``""`` if a running Task has no owner."""
        return self._by_holder.keys()

    def candidates(self, search: Search, gone: Collection[str]) -> Iterator[Entry]:
        """Entries in order of id, from the smallest set that must hold every match.

        Args:
            gone: Holders that are not alive; used only in a search for claimable Tasks.
        """
        smallest = self._smallest(search, gone)
        ids = self._sorted() if smallest is None else sorted(smallest)
        start = 0 if search.after is None else bisect_right(ids, search.after)
        return (self.entries[ids[place]] for place in range(start, len(ids)))

    def newest(
        self,
        search: Search,
        gone: Collection[str],
        origin: Callable[[Entry], Origin | None],
    ) -> Iterator[Entry]:
        """Like `candidates`, but from newest to oldest, and without entries that have no origin.

        Args:
            origin: Reads the record if the entry does not know its origin.
        """
        smallest = self._smallest(search, gone)
        if smallest is None or len(smallest) * _FEW > len(self.entries):
            places = self._by_created(origin)
        else:
            places = self._places(smallest, origin)
        end = len(places)
        if search.older_than is not None:
            end = bisect_left(places, (moment(search.older_than[0]), search.older_than[1]))
        return (self.entries[places[index][1]] for index in range(end - 1, -1, -1))

    def at_rest(self) -> Iterator[Entry]:
        """Entries of ended Tasks."""
        for status, ids in self._by_status.items():
            if status.terminal:
                yield from (self.entries[task_id] for task_id in sorted(ids))

    def ids_after(self, task_id: str | None) -> Iterator[str]:
        """Ids greater than ``task_id``, in order."""
        ids = self._sorted()
        start = 0 if task_id is None else bisect_right(ids, task_id)
        return (ids[place] for place in range(start, len(ids)))

    def _smallest(self, search: Search, gone: Collection[str]) -> set[str] | None:
        sets: list[set[str]] = []
        if search.parent is not None:
            sets.append(self._children.get(search.parent, set()))
        if search.owner is not None:
            sets.append(self._by_holder.get(search.owner, set()))
        if search.claimable:
            sets.append({id for host in gone for id in self._by_holder[host]})
        if search.due is not None:
            sets.append(self._by_status[TaskStatus.PAUSED])
        if search.status is not None:
            sets.append(self._by_status[search.status])
        return min(sets, key=len) if sets else None

    def _sorted(self) -> list[str]:
        if self._unsorted:
            self._ids.sort()
            self._unsorted = False
        return self._ids

    def _by_created(self, origin: Callable[[Entry], Origin | None]) -> list[tuple[int, str]]:
        if self._created is None:
            self._created = self._places(self._ids, origin)
        elif self._created_unsorted:
            self._created.sort()
        self._created_unsorted = False
        return self._created

    def _places(
        self, ids: Collection[str], origin: Callable[[Entry], Origin | None]
    ) -> list[tuple[int, str]]:
        found = ((origin(self.entries[task_id]), task_id) for task_id in ids)
        return sorted((known.created, task_id) for known, task_id in found if known is not None)

    def _hold(self, task_id: str, holder: str | None) -> None:
        if holder is not None:
            self._by_holder.setdefault(holder, set()).add(task_id)

    def _let_go(self, task_id: str, holder: str | None) -> None:
        if holder is not None:
            held = self._by_holder[holder]
            held.discard(task_id)
            if not held:
                del self._by_holder[holder]

    def _orphan(self, entry: Entry) -> None:
        if entry.parent is not None:
            children = self._children[entry.parent]
            children.discard(entry.task_id)
            if not children:
                del self._children[entry.parent]


def _holder(entry: Entry) -> str | None:
    """The host that owns a Task; ``""`` if it runs without an owner; else None."""
    if entry.owner is not None:
        return host_of(entry.owner)
    return "" if entry.status is _RUNNING else None

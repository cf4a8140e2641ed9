"""Index: the Tasks that the log or somebody's hands hold, in memory, found by what filters ask."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from agentic_kernel import TaskStatus
from agentic_kernel_engine.record import host_of

from .frames import Entry

_RUNNING: Final = TaskStatus.RUNNING


class Index:
    """Entries by id, and the sets that keep every filter from looking at Tasks at rest."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.removed: set[str] = set()
        """Ids that the table may still hold, but that were pruned since."""
        self._ids: list[str] = []
        self._unsorted = False
        self._by_status: dict[TaskStatus, set[str]] = {status: set() for status in TaskStatus}
        self._by_holder: dict[str, set[str]] = {}
        self._children: dict[str, set[str]] = {}

    def put(self, entry: Entry) -> None:
        """Take note of a Task's latest frame."""
        task_id = entry.task_id
        before = self.entries.get(task_id)
        self.entries[task_id] = entry
        if before is None:
            self._unsorted = self._unsorted or bool(self._ids and task_id < self._ids[-1])
            self._ids.append(task_id)
            self._by_status[entry.status].add(task_id)
            if entry.parent is not None:
                self._children.setdefault(entry.parent, set()).add(task_id)
            self._hold(task_id, _holder(entry))
        else:
            self._move(before, entry)
            if entry.record is None:
                entry.record = before.record
        if entry.status.terminal:
            entry.record = None  # rarely read again, and memory must not grow with what ended

    def _move(self, before: Entry, entry: Entry) -> None:
        task_id = entry.task_id
        if before.status is not entry.status or before.owner != entry.owner:
            self._by_status[before.status].discard(task_id)
            self._by_status[entry.status].add(task_id)
            self._let_go(task_id, _holder(before))
            self._hold(task_id, _holder(entry))

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
            if entry.parent is not None:
                self._children[entry.parent].discard(task_id)
        self._ids = [task_id for task_id in self._ids if task_id not in gone]

    def hides(self, task_id: str) -> bool:
        """Whether what the table says about the Task no longer counts."""
        return task_id in self.entries or task_id in self.removed

    def holders(self) -> Collection[str]:
        """The hosts in whose hands Tasks are; ``""`` stands for nobody."""
        return self._by_holder.keys()

    def candidates(
        self,
        *,
        status: TaskStatus | None,
        owner: str | None,
        gone: Collection[str] | None,
        parent: str | None,
        due: bool,
        after: str | None,
    ) -> Iterator[Entry]:
        """Entries in order of id, from the smallest set that must hold every match.

        Args:
            gone: Holders that are not alive: only what is in their hands.
            due: Only what is paused.
        """
        sets: list[set[str]] = []
        if parent is not None:
            sets.append(self._children.get(parent, set()))
        if owner is not None:
            sets.append(self._by_holder.get(owner, set()))
        if gone is not None:
            sets.append({id for host in gone for id in self._by_holder[host]})
        if due:
            sets.append(self._by_status[TaskStatus.PAUSED])
        if status is not None:
            sets.append(self._by_status[status])
        if sets:
            smallest = min(sets, key=len)
            ids = sorted(smallest)
        else:
            ids = self._sorted()
        start = 0 if after is None else bisect_right(ids, after)
        return (self.entries[ids[place]] for place in range(start, len(ids)))

    def at_rest(self) -> Iterator[Entry]:
        """Entries of Tasks that ended."""
        for status, ids in self._by_status.items():
            if status.terminal:
                yield from (self.entries[task_id] for task_id in sorted(ids))

    def _sorted(self) -> list[str]:
        if self._unsorted:
            self._ids.sort()
            self._unsorted = False
        return self._ids

    def _hold(self, task_id: str, holder: str | None) -> None:
        if holder is not None:
            self._by_holder.setdefault(holder, set()).add(task_id)

    def _let_go(self, task_id: str, holder: str | None) -> None:
        if holder is not None:
            held = self._by_holder[holder]
            held.discard(task_id)
            if not held:
                del self._by_holder[holder]


def _holder(entry: Entry) -> str | None:
    """Whose hands a Task is in: a host, nobody's (``""``) while it runs, or it is at rest."""
    if entry.owner is not None:
        return host_of(entry.owner)
    return "" if entry.status is _RUNNING else None

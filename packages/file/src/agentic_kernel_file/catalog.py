"""Catalog: the store's durable content up to one position: table, log, and the index over both."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine.codec import decode_change, decode_record
from agentic_kernel_engine.record import Record, host_of
from agentic_kernel_engine.store import EventId

from .errors import Damaged
from .frames import INSERT, PRUNE, Entry, Frame, frames_in, moment
from .index import Index
from .log import Batch, Log, Position
from .table import NOT_ENDED, Row, Table

Change = Entry | list[str]
"""What one frame means for the index: a Task's new entry, or the ids of Tasks that are gone."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of `Store.find`."""

    status: TaskStatus | None = None
    kinds: frozenset[str] | None = None
    owner: str | None = None
    claimable: bool = False
    parent: str | None = None
    due: datetime | None = None
    after: str | None = None


class _Hit(NamedTuple):
    """A match: the id to sort by, and where its record is."""

    task_id: str
    source: Entry | Row


class Catalog:
    """What readers see. Not locked: its owner lets one thread in at a time."""

    def __init__(self, log: Log, table: Table | None) -> None:
        self.log = log
        self.table = table
        self.index = Index()
        self.position = Position(log.start, 0)
        if table is not None:
            for entry in table.held():
                self.index.put(entry)

    def advance(self, until: int) -> None:
        """Take in what was published since."""
        for batch in self.log.scan(self.position, until):
            self.apply(changes_of(batch, self.index.entries.get), batch.end)

    def apply(self, changes: Iterable[Change], end: Position) -> None:
        """Take in the changes that lead to a position."""
        for change in changes:
            if isinstance(change, Entry):
                self.index.put(change)
            else:
                self.index.drop(change)
        self.position = end

    def keep_records(self, known: Catalog) -> None:
        """Take over records that were decoded already."""
        for task_id, entry in self.index.entries.items():
            before = known.index.entries.get(task_id)
            if before is not None and before.version == entry.version:
                entry.record = before.record

    def latest(self, task_id: str) -> Entry | None:
        """A Task's entry, or None if no such Task is stored."""
        entry = self.index.entries.get(task_id)
        if entry is None and self.table is not None and task_id not in self.index.removed:
            return self.table.entry(task_id)
        return entry

    def record(self, entry: Entry) -> Record:
        """The record of an entry."""
        known = entry.record
        if known is not None and known.version == entry.version:
            return known
        bodies: list[bytes] = []
        record = known
        for frame in self._back(entry):
            if frame.head.kind == INSERT:
                record = self._decoded(decode_record, frame.body)
                break
            bodies.append(frame.body)
            if known is not None and known.version == frame.head.version - 1:
                break
        else:
            record = self._table_record(entry.task_id)
        assert record is not None
        for body in reversed(bodies):
            record = self._decoded(decode_change, record, body)
        if not entry.status.terminal:
            entry.record = record
        return record

    def events(
        self, entry: Entry, after: EventId | None, limit: int
    ) -> list[tuple[EventId, bytes]]:
        """A page of a Task's events."""
        places: list[int] = []
        found: list[tuple[EventId, bytes]] = []
        for frame in self._back(entry):
            if after is not None and frame.head.version < after[0]:
                break
            if frame.head.events:
                places.append(frame.at)
            if frame.head.kind == INSERT:
                break
        else:
            row = None if self.table is None else self.table.find(entry.task_id)
            if row is not None and self.table is not None:
                found = self.table.events(row, after, limit)
        while places and len(found) < limit:
            frame = self.log.frame(places.pop())
            found.extend(
                ((frame.head.version, index), text)
                for index, text in enumerate(frame.texts())
                if after is None or (frame.head.version, index) > after
            )
        return found[: max(limit, 0)]

    def find(self, filters: Filters, alive: Callable[[str], bool], limit: int) -> list[Record]:
        """A page of records in order of id."""
        hits = heapq.merge(
            self._in_memory(filters, alive), self._in_table(filters), key=lambda hit: hit.task_id
        )
        return [
            self.record(source) if isinstance(source, Entry) else self._of_row(source)
            for _, source in islice(hits, max(limit, 0))
        ]

    def expired(self, ended_before: int, limit: int) -> list[str]:
        """Ids of Tasks that ended before a moment."""
        found = [
            entry.task_id
            for entry in self.index.at_rest()
            if entry.ended is not None and entry.ended < ended_before
        ]
        if self.table is not None and len(found) < limit:
            for _, row in self.table.after(None):
                if NOT_ENDED < row.ended < ended_before:
                    task_id = self.table.id_of(row)
                    if not self.index.hides(task_id):
                        found.append(task_id)
                        if len(found) >= limit:
                            break
        return found[:limit]

    def _in_memory(self, filters: Filters, alive: Callable[[str], bool]) -> Iterator[_Hit]:
        gone: Collection[str] | None = None
        if filters.claimable:
            gone = {host for host in self.index.holders() if not (host and alive(host))}
        due = None if filters.due is None else moment(filters.due)
        for entry in self.index.candidates(
            status=filters.status, owner=filters.owner, gone=gone, parent=filters.parent,
            due=due is not None, after=filters.after,
        ):  # fmt: skip
            if (
                (filters.status is None or entry.status is filters.status)
                and (filters.kinds is None or entry.runtime_kind in filters.kinds)
                and (filters.owner is None or _held_by(entry, filters.owner))
                and (gone is None or _claimable(entry, gone))
                and (filters.parent is None or entry.parent == filters.parent)
                and (due is None or _is_due(entry, due))
            ):
                yield _Hit(entry.task_id, entry)

    def _in_table(self, filters: Filters) -> Iterator[_Hit]:
        """Tasks at rest; all others are in memory."""
        table = self.table
        wanted = filters.status
        if table is None or filters.owner is not None or filters.claimable or filters.due:
            return
        if wanted is not None and not wanted.terminal:
            return
        codes = None
        if filters.kinds is not None:
            codes = {code for kind in filters.kinds if (code := table.code(kind)) is not None}
        rows: Iterable[tuple[int, Row]]
        if filters.parent is not None:
            rows = ((place, table.row(place)) for place in table.children(filters.parent))
        elif wanted is not None:
            rows = table.after_with(wanted, filters.after)
        else:
            rows = table.after(filters.after)
        for _, row in rows:
            if codes is not None and row.kind not in codes:
                continue
            task_id = table.id_of(row)
            if self.index.hides(task_id):
                continue
            if filters.parent is not None:
                record = table.record(row)
                if (
                    record.parent != filters.parent
                    or (wanted is not None and record.task.status is not wanted)
                    or (filters.after is not None and task_id <= filters.after)
                ):
                    continue
            yield _Hit(task_id, row)

    def _back(self, entry: Entry) -> Iterator[Frame]:
        """A Task's frames from the latest one back; stops where the table goes on."""
        at = entry.at
        while at >= self.log.start:
            frame = self.log.frame(at)
            yield frame
            at = frame.head.link

    def _of_row(self, row: Row) -> Record:
        assert self.table is not None
        return self.table.record(row)

    def _table_record(self, task_id: str) -> Record:
        row = None if self.table is None else self.table.find(task_id)
        if row is None or self.table is None:
            raise Damaged(f"the first record of task {task_id!r} is missing; restore from a copy")
        return self.table.record(row)

    @staticmethod
    def _decoded(decode: Callable[..., Record], *parts: object) -> Record:
        try:
            return decode(*parts)
        except InvalidValue as error:
            raise Damaged(f"a record in the log does not read: {error}") from error


def changes_of(batch: Batch, latest: Callable[[str], Entry | None]) -> list[Change]:
    """What a batch means for the index.

    Raises:
        Damaged: It continues a Task that is not there.
    """
    changes: list[Change] = []
    fresh: dict[str, Entry | None] = {}
    try:
        for frame in frames_in(batch.frames, batch.at):
            if frame.head.kind == PRUNE:
                changes.append(frame.removed)
                fresh.update(dict.fromkeys(frame.removed))
            else:
                task_id = frame.task_id
                before = fresh[task_id] if task_id in fresh else latest(task_id)
                entry = frame.entry(before)
                fresh[task_id] = entry
                changes.append(entry)
    except (ValueError, TypeError, IndexError) as error:
        raise Damaged(f"the log does not read at {batch.at}: {error}") from error
    return changes


def _held_by(entry: Entry, host: str) -> bool:
    return entry.owner is not None and host_of(entry.owner) == host


def _claimable(entry: Entry, gone: Collection[str]) -> bool:
    return entry.status is TaskStatus.RUNNING and (
        entry.owner is None or host_of(entry.owner) in gone
    )


def _is_due(entry: Entry, due: int) -> bool:
    return entry.status is TaskStatus.PAUSED and entry.due is not None and entry.due <= due

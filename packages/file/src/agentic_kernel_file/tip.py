"""Tip: the unpublished end of the log, as the holder of the folder's lock sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from agentic_kernel_engine.errors import Unreadable
from agentic_kernel_engine.record import Record

from .catalog import Change, changes_of
from .folder import Folder
from .frames import Entry
from .head import NOTHING, Published
from .liveness import Liveness
from .log import Position
from .reader import Reader


class _Pending(NamedTuple):
    """One batch that is written but not yet published."""

    start: int
    end: Position
    changes: Sequence[Change]


class Tip:
    """The published catalog plus the unpublished batches of this and of other processes.

    Only the writer's thread uses it. Readers never see a batch before it is durable: `settle` moves
    published batches into the readers' catalog, and `forget` drops the unpublished ones.
    """

    def __init__(self, folder: Folder, reader: Reader, liveness: Liveness) -> None:
        self.alive: Callable[[str], bool] = liveness.alive
        self.check_not_lost: Callable[[str], None] = liveness.check_not_lost
        self.check_not_left: Callable[[str], None] = liveness.check_not_left
        self._folder = folder
        self._reader = reader
        self._fresh: dict[str, Entry | None] = {}
        self._pending: deque[_Pending] = deque()
        self.position = reader.catalog.position
        self._settled = NOTHING
        """The latest publication, if all of it was applied; else `NOTHING`."""
        self.generation = 0
        """The generation of the manifest whose active segment holds `position`."""

    def latest(self, task_id: str) -> Entry | None:
        if task_id in self._fresh:
            return self._fresh[task_id]
        entry = self._reader.catalog.index.entries.get(task_id)
        if entry is not None:
            return entry
        with self._reader.lock:
            return self._reader.catalog.latest(task_id)

    def record(self, entry: Entry) -> Record:
        """The record of an entry, built from the published record, not from the insert."""
        with self._reader.lock:
            catalog = self._reader.catalog
            published = catalog.latest(entry.task_id)
            if entry.record is None and published is not None and published is not entry:
                with suppress(Unreadable):
                    entry.record, entry.loaded = catalog.record(published), published.state
            return catalog.record(entry)

    def owner(self, entry: Entry) -> str | None:
        """The owner of a Task, if that can be read."""
        with self._reader.lock:
            return self._reader.catalog.owner(entry)

    def refers(self, name: str) -> bool:
        """True if a record, published or not, has its state in that file."""
        catalog = self._reader.catalog
        if name in catalog.index.states:
            return True
        if catalog.table is not None and name in catalog.table.states:
            return True
        entries = (change for pending in self._pending for change in pending.changes)
        return any(
            isinstance(entry, Entry) and entry.state is not None and entry.state.name == name
            for entry in entries
        )

    @property
    def unpublished(self) -> bool:
        """True if a batch waits for its fsync."""
        return bool(self._pending)

    def catch_up(self) -> bool:
        """Read the batches that were written since; True if a torn write follows them.

        The caller holds the folder's lock.
        """
        reader = self._reader
        published = self._folder.head.read()
        if published.turn and published == self._settled:
            return self._read_tail()  # only this writer has published
        with reader.lock:
            if published.generation != reader.manifest.generation:
                reader.reload()
                self.forget()
                if published.generation != reader.manifest.generation:
                    published = self._repair()
            self.settle(published)
            reader.refresh(published)
            if self.position.at < reader.catalog.position.at:
                self.forget()
            self.position = reader.catalog.log.normal(self.position)
            self.generation = reader.manifest.generation
        return self._read_tail()

    def _read_tail(self) -> bool:
        batches, torn = self._reader.catalog.log.tail(self.position)
        for batch in batches:
            changes = changes_of(batch, self.latest, self._reader.catalog.log.folder)
            for change in changes:
                self.decided(change)
            self.note(changes, batch.end)
        return torn

    def decided(self, change: Change) -> None:
        """Let later requests of the same batch see the change of an earlier one."""
        if isinstance(change, Entry):
            self._fresh[change.task_id] = change
        else:
            self._fresh.update(dict.fromkeys(change))

    def note(self, changes: Sequence[Change], end: Position) -> None:
        """Add a written batch and its changes to the unpublished batches."""
        self._pending.append(_Pending(self.position.at, end, changes))
        self.position = end

    def settle(self, published: Published) -> None:
        """Move published batches to the readers' catalog."""
        pending = self._pending
        if pending:
            with self._reader.lock:
                catalog = self._reader.catalog
                while pending and pending[0].end.at <= published.durable:
                    start, end, changes = pending.popleft()
                    if start == catalog.log.normal(catalog.position).at:
                        catalog.apply(changes, end)
        if not pending:
            self._fresh.clear()
            # If another process has begun a new segment, `catch_up` has to read its manifest, even
            # if the segment is empty.
            self._settled = published if published.generation == self.generation else NOTHING

    def forget(self) -> None:
        """Drop the unpublished batches; `catch_up` reads again those that are still in the log."""
        self._pending.clear()
        self._fresh.clear()
        self._settled = NOTHING
        self.position = self._reader.catalog.position

    def _repair(self) -> Published:
        """Publish again, after a crash that left the head older than the manifest, or lost it."""
        with self._folder.publishing:
            manifest, head = self._reader.manifest, self._folder.head
            published = head.read()
            durable = max(published.durable, manifest.active.start)
            return head.write(manifest.generation, durable, published)

"""Compaction: merges the old table and the sealed part of the log into a new table."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from agentic_kernel import InvalidValue, KernelError
from agentic_kernel_engine.faults import said
from agentic_kernel_engine.stored import encode_record

from .catalog import Catalog
from .folder import COMPACTION, DATA_FILE, Folder
from .frames import Origin, origin_of
from .liveness import Liveness
from .log import Log
from .manifest import Manifest
from .stored import Stored
from .table import Table, table_name
from .table_writer import TableWriter

_STRIDE = 32
_BREATH = 0.0005
_log = logging.getLogger(__name__)


class Compaction:
    """One compaction, in a thread of its own.

    It locks the folder twice and briefly: to reserve a file number, and to switch files at its end.
    It reads only files that cannot change: sealed segments and a finished table. No process reads
    the new table before the manifest names it. So a compaction may die at any point, and the next
    one starts again. It removes the files that the manifest no longer names; a reader that has
    them open can use them until it reads the manifest again.
    """

    def __init__(self, folder: Folder, liveness: Liveness, manifest: Manifest) -> None:
        """Prepare to compact everything before the active segment of a manifest."""
        self._folder = folder
        self._liveness = liveness
        self._manifest = manifest
        self._thread = threading.Thread(target=self._run, name="file-store-compaction", daemon=True)
        self.failed_at = 0
        """The position up to which it failed; the writer tries again when the log has grown."""

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            turn = self._folder.directory.open(COMPACTION, os.O_RDWR | os.O_CREAT)
            if turn.try_lock():  # else another process compacts
                self._compact()
        except (OSError, KernelError, ValueError) as error:
            self.failed_at = self._manifest.active.start
            _log.warning(
                "the log could not be compacted; no data is lost, and it is tried again when the "
                "log has grown: %s",
                said(error),
            )

    def _compact(self) -> None:
        folder, manifest = self._folder, self._manifest
        sealed = manifest.segments[:-1]
        with folder.lock, folder.publishing:
            latest = folder.manifest()
            if not _continues(latest, manifest):
                return
            number = latest.next_number
            folder.replace(latest.reserved())
        directory = folder.directory
        table = None
        if manifest.table is not None:
            table = Table(directory.open(table_name(manifest.table)), folder.states.read)
        catalog = Catalog(Log(directory, manifest), table, folder.states.read)
        catalog.advance(manifest.active.start)
        writer = TableWriter(directory, number)
        _write(catalog, writer)
        writer.finish()
        with folder.lock, folder.publishing:
            latest = folder.manifest()
            if _continues(latest, manifest):
                folder.replace(latest.compacted(number, sealed))
            self._sweep()

    def _sweep(self) -> None:
        """Remove files that the manifest does not name, and dead hosts. The caller has the lock."""
        directory = self._folder.directory
        manifest = self._folder.manifest()
        named = {("log", segment.number) for segment in manifest.segments}
        named.add(("table", manifest.table or 0))
        for name in directory.names():
            match = DATA_FILE.fullmatch(name)
            if match is None:
                continue
            kind, number = match[1], int(match[2])
            if number < manifest.next_number and (kind, number) not in named:
                directory.remove(name)
        self._liveness.sweep()


def _continues(latest: Manifest, earlier: Manifest) -> bool:
    """True if the latest manifest still has the earlier one's table and sealed segments."""
    sealed = earlier.segments[:-1]
    return latest.table == earlier.table and latest.segments[: len(sealed)] == sealed


def _write(catalog: Catalog, writer: TableWriter) -> None:
    """Write every Task of a catalog in order of id; unreadable bytes are copied unchanged."""
    table, index = catalog.table, catalog.index
    ids = sorted(index.entries, reverse=True)

    def from_index(bound: str | None) -> Iterator[str]:
        while ids and (bound is None or ids[-1] < bound):
            yield ids.pop()

    def add(task_id: str) -> None:
        entry = index.entries.pop(task_id)
        stored, origin = catalog.stored(entry), entry.origin
        with suppress(InvalidValue):
            record = stored.folded()  # a state in a file of its own stays there
            stored = Stored(encode_record(record), state=stored.state)
            origin = origin or origin_of(record)
        origin = origin or Origin(entry.ended or 0, "", "", {})
        writer.add(entry, stored, origin, catalog.raw_events(entry))

    done = 0
    extras = None if table is None else table.extras()
    for row in () if table is None else table.after(None):
        assert table is not None
        assert extras is not None
        task_id = table.id_of(row)
        if task_id is not None:
            for earlier in from_index(task_id):
                add(earlier)
                done = _breathe(done)
            entry = index.entries.get(task_id)
            if entry is not None and entry.at:
                continue  # the log holds a newer record, which is written in its turn
            if entry is not None:
                ids.pop()
                writer.hold(entry, catalog.origin(entry))
            elif task_id in index.removed:
                continue
        writer.add_block(*table.copied(row, extras))
        done = _breathe(done)
    for task_id in from_index(None):
        add(task_id)
        done = _breathe(done)


def _breathe(done: int) -> int:
    """Let other threads run after every `_STRIDE` Tasks, because they answer callers."""
    if done % _STRIDE == 0:
        time.sleep(_BREATH)
    return done + 1

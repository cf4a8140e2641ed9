"""MemoryLog: the open folder of a memory, its log, and the items that the log leads to.

    batch   length u32 · crc u32 · entries, one JSON text a line      one append, atomic

The folder, its locks and the files of the log are those of a `FileStore` (see `folder` and `log`);
the entries are different. A writer holds the folder's lock while it reads the end of the log,
decides, appends and syncs; then it publishes the end. A reader takes no lock and reads only what
was published.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from agentic_kernel import KernelError
from agentic_kernel_engine.errors import UnknownOutcome
from agentic_kernel_engine.faults import said

from .errors import Damaged, FolderGone, FolderGoneMidway
from .files import File, Files
from .folder import DATA_FILE, Folder, as_store_error
from .frames import seal_batch
from .log import Appender, Batch, Log, Position, create_segment, segment_name
from .manifest import MEMORY, Manifest, SegmentEntry
from .memory_entries import Entry, Known, decode, encode
from .presence import Presence

_TRIES: Final = 10
_RECOVERY_WAIT: Final = 1.0
_REMEDY: Final = (
    "put the folder back as it was; the next call uses the folder that the path leads to then"
)
_log = logging.getLogger(__name__)


class Request:
    """A change that waits to be written, and then its outcome."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.result: bool | int = False
        self.error: BaseException | None = None


class MemoryLog:
    """One open folder. One thread uses it at a time.

    After an error other than `KernelError` of a single request, `known` may hold changes that are
    not in the log: the caller drops the object and opens the folder again.
    """

    manifest: Manifest
    """The manifest that was read last."""
    known: Known
    """All items up to the end of the log as it was read last."""
    _log: Log
    _position: Position

    def __init__(self, path: Path, files: Files, timeout: float, *, create: bool) -> None:
        """Open the folder, and read its log.

        Raises:
            FileNotFoundError: It does not exist or is empty, and ``create`` is False.
            OSError: It cannot be read, or created.
            StoreError: It is not a memory's folder, or this version cannot read it.
        """
        self.folder = Folder(path, files, timeout, create=create, format=MEMORY)
        self._appender: Appender | None = None
        self._first = 0
        """The number of the log's first file."""
        self._load()
        self.presence = Presence(self.folder, self, None, _REMEDY)
        self.refresh()
        if self.folder.writable:
            # A reader can skip the recovery: a writer recovers before its first batch.
            wait = timeout if create else min(timeout, _RECOVERY_WAIT)
            with nullcontext() if create else suppress(OSError):
                self.folder.lock.acquire(wait)
                try:
                    self._catch_up()
                finally:
                    self.folder.lock.release()

    def files(self) -> dict[str, File]:
        """The open files by name."""
        return self._log.files()

    @property
    def length(self) -> int:
        """The bytes of the log."""
        return self._position.at - self.manifest.start

    def refresh(self) -> None:
        """Read what other processes have published since.

        Raises:
            FolderGone: The folder, or a file in it, was removed, renamed or replaced.
            Damaged: Durable bytes do not match their checksum.
        """
        self.presence.check()
        published = self.folder.head.read()
        if published.generation != self.manifest.generation:
            self._load()
        until = max(published.durable, self.manifest.active.start)
        if until > self._position.at:
            for batch in self._log.scan(self._position, until):
                self._replay(batch)

    def write(self, requests: Sequence[Request]) -> None:
        """Decide requests in order, and append the changes in one durable batch.

        Each request then has a result, or an error of its own.

        Raises:
            UnknownOutcome: The batch may or may not be in the log.
            StoreError, OSError: The batch is not in the log.
        """
        with self.folder.lock:
            self.refresh()
            torn = self._catch_up()
            lines = []
            for request in requests:
                try:
                    request.result, change = self.known.apply(request.entry)
                    if change is not None:
                        lines.append(encode(change))
                except KernelError as error:
                    request.error = error
            if lines:
                self._append(lines, torn=torn)

    def compact(self) -> None:
        """Replace the log by one without the bytes that no item needs.

        Raises:
            StoreError, OSError: It could not be replaced; no item is lost.
        """
        with self.folder.lock:
            self.refresh()
            self._catch_up()
            if not self.known:
                return
            before, directory = self.manifest, self.folder.directory
            number, start = before.next_number, self._position.at
            end = self._write_snapshot(SegmentEntry(number, start))
            create_segment(directory, number + 1, end)
            successor = replace(
                before,
                generation=before.generation + 1,
                next_number=number + 2,
                # A reader reads up to the start of the last segment, whatever was published.
                segments=(SegmentEntry(number, start, end), SegmentEntry(number + 1, end)),
                dead=(),
            )
            with self.folder.publishing:
                self.folder.replace(successor)
            self._sweep(successor)
            self._begin(successor)
            self.refresh()

    def _load(self) -> None:
        """Open the files that the manifest names; begin anew if the log was compacted."""
        missing: FileNotFoundError | None = None
        for _ in range(_TRIES):
            manifest = self.folder.manifest()
            try:
                if self._first == manifest.segments[0].number:
                    self._log = Log(self.folder.directory, manifest, self._log)
                    self.manifest = manifest
                else:
                    self._begin(manifest)
                return
            except FileNotFoundError as error:
                missing = error  # compacted after the manifest was read: read the next one
        raise Damaged(
            f"{self.folder.path} lacks a file that its manifest names; restore it from a copy"
        ) from missing

    def _begin(self, manifest: Manifest) -> None:
        """Start to read at the beginning of a manifest's log."""
        self._log = Log(self.folder.directory, manifest)
        self._position = self._log.normal(Position(self._log.start, 0))
        self.known = Known()
        self.manifest = manifest
        self._first = manifest.segments[0].number

    def _catch_up(self) -> bool:
        """Publish what a dead writer left; True if a torn batch follows it.

        The caller has the folder's lock.
        """
        self._position = self._log.normal(self._position)
        batches, torn = self._log.tail(self._position)
        if batches:
            # Synced first: an item that a caller is told of must not be lost with the machine.
            self._opened().sync()
            for batch in batches:
                self._replay(batch)
            self._publish()
        return torn

    def _replay(self, batch: Batch) -> None:
        where = f"{self.folder.path}, at {batch.at}"
        if batch.damaged:
            raise Damaged(f"{where}: the log is damaged; restore the folder from a copy")
        try:
            for line in batch.frames.split(b"\n"):
                self.known.apply(decode(line))
        except (ValueError, KernelError) as error:
            raise Damaged(f"{where}: {said(error)}; upgrade, or restore from a copy") from error
        self._position = batch.end

    def _append(self, lines: Sequence[bytes], *, torn: bool) -> None:
        appender, start = self._opened(), self._position.at
        if torn:
            appender.cut(start)
        data, crc = seal_batch(b"\n".join(lines), self._position.crc)
        appender.append(start, data)
        end = start + len(data)
        try:
            appender.sync()
            self.presence.check()
            self._position = Position(end, crc)
            self._publish()
        except FolderGone as error:
            raise FolderGoneMidway(error.reason) from error
        except OSError as error:
            failure = as_store_error(error, self.folder.path, "write to")
            if self._give_up(start, end):
                raise failure from error
            raise UnknownOutcome(
                f"{failure}; read back to learn whether the write landed"
            ) from error

    def _publish(self) -> None:
        """Publish the end of the log, which is synced. The caller has the folder's lock."""
        with self.folder.publishing:
            published = self.folder.head.read()
            self.folder.head.write(self.manifest.generation, self._position.at, published)

    def _give_up(self, start: int, end: int) -> bool:
        """Seal the log before a batch whose sync failed; True if no process can ever read it."""
        folder = self.folder
        try:
            with folder.publishing:
                manifest = folder.manifest()
                if folder.head.read().durable >= end:
                    return False
                reach = Appender(folder.directory, manifest.active).reach
                successor = manifest.rotated(start, max(reach, end))
                create_segment(folder.directory, successor.active.number, successor.active.start)
                folder.replace(successor)
        except (OSError, KernelError) as error:
            _log.warning("the log could not be sealed before a failed write: %s", said(error))
            return False
        return True

    def _write_snapshot(self, entry: SegmentEntry) -> int:
        """Write all items to a new segment, durable when this method returns; return its end."""
        directory = self.folder.directory
        create_segment(directory, entry.number, entry.start)
        log = Log(directory, replace(self.manifest, segments=(entry,)))
        end = log.normal(Position(entry.start, 0))
        appender = Appender(directory, entry)
        for lines in self.known.snapshot():
            data, crc = seal_batch(b"\n".join(lines), end.crc)
            appender.append(end.at, data)
            end = Position(end.at + len(data), crc)
        appender.sync()
        return end.at

    def _sweep(self, manifest: Manifest) -> None:
        """Remove the files that the manifest does not name. The caller has the lock."""
        named = {segment_name(entry.number) for entry in manifest.segments}
        for name in self.folder.directory.names():
            match = DATA_FILE.fullmatch(name)
            if match and name not in named and int(match[2]) < manifest.next_number:
                self.folder.directory.remove(name)

    def _opened(self) -> Appender:
        """The active segment, open for writing."""
        active = self.manifest.active
        if self._appender is None or self._appender.number != active.number:
            self._appender = Appender(self.folder.directory, active)
        return self._appender

"""Writer: the single writer thread of a store, and the protocol of a group commit.

Take the waiting requests from the queue → lock the folder → read the batches that other processes
wrote since → decide each request in order → append the accepted ones in one write → unlock →
fdatasync → check that the path still leads to this folder → publish → answer. While one batch is
synced, the queue collects the next batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from agentic_kernel import KernelError
from agentic_kernel_engine.errors import StoreError, UnknownOutcome
from agentic_kernel_engine.faults import said

from .catalog import Change
from .compaction import Compaction
from .errors import FolderGone, FolderGoneMidway
from .folder import Folder, as_store_error
from .frames import BATCH, seal_batch
from .head import Published
from .liveness import Liveness
from .log import Appender, Position, create_segment, segment_name
from .presence import Presence
from .reader import Reader
from .requests import Request, answer
from .sizes import Sizes
from .states import STATES
from .threads import Threads
from .tip import Tip

_IDLE = 2.0
_MOST = 1024
"""Requests per batch; the limit keeps a long queue from holding the lock for long."""
_log = logging.getLogger(__name__)


class Writer:
    """Serialises the writes of this process with each other and with those of other processes.

    Its thread starts with the first request and ends after two idle seconds. If no thread can
    start, the caller does the work. The thread never prevents the interpreter from exiting, and an
    exit may interrupt it safely at any point.
    """

    def __init__(
        self,
        folder: Folder,
        reader: Reader,
        liveness: Liveness,
        presence: Presence,
        threads: Threads,
        sizes: Sizes,
    ) -> None:
        self._folder = folder
        self._presence = presence
        self._threads = threads
        self._reader = reader
        self._liveness = liveness
        self._sizes = sizes
        self._queue: SimpleQueue[Request] = SimpleQueue()
        self._running = False
        self._starting = threading.Lock()
        self._tip = Tip(folder, reader, liveness)
        self._appender: Appender | None = None
        self._recovered = False
        self._doubt: int | None = None
        """The end of a batch that could be neither published nor given up."""
        self._compaction: Compaction | None = None

    def submit(self, request: Request) -> None:
        """Queue a request; its future is completed in its own event loop."""
        self._queue.put(request)
        if not self._running:
            self._start()

    def recover(self, timeout: float) -> None:
        """Publish the batches that a crash left in the log unpublished. Called once per process.

        Raises:
            OSError: The log could not be synced, or the lock was not free in time.
        """
        self._folder.lock.acquire(timeout)
        try:
            self._recover()
        finally:
            self._folder.lock.release()

    def _start(self) -> None:
        with self._starting:
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._run, name="file-store-writer", daemon=True).start()
        except RuntimeError:  # The system has no thread left, or the interpreter ends.
            self._run(idle=0.0)

    def _run(self, idle: float = _IDLE) -> None:
        while True:
            try:
                batch = [self._queue.get(timeout=idle)]
            except Empty:
                self._running = False
                # A caller that still saw this thread running may have queued a request just now.
                if self._queue.empty():
                    return
                with self._starting:
                    if self._running:
                        return
                    self._running = True
                continue
            while len(batch) < _MOST and not self._queue.empty():
                batch.append(self._queue.get_nowait())  # only this thread takes from the queue
            try:
                self._serve(batch)
            except BaseException as error:  # a defect: the thread goes on, and no caller hangs
                self._tip.forget()
                _log.error("a defect in the writer, which goes on: %s", said(error))
                _refuse(
                    batch,
                    UnknownOutcome(f"{said(error)}; read back to learn whether the write landed"),
                )
                answer(batch)
            del batch

    def _serve(self, batch: Sequence[Request]) -> None:
        try:
            accepted = self._write(batch)
        except OSError as error:
            self._tip.forget()
            _refuse(batch, self._failure(error))
        except BaseException as error:  # a defect: every caller gets the error, and none hangs
            self._tip.forget()
            _refuse(batch, error)
        else:
            if self._tip.unpublished:
                self._make_durable(batch, accepted)
                return
        answer(batch)

    def _write(self, batch: Sequence[Request]) -> list[Request]:
        """Append the accepted requests and return those whose outcome depends on the fsync."""
        if self._doubt is not None:
            self._settle_doubt(self._doubt)
        accepted: list[Request] = []
        frames: list[bytes] = []
        changes: list[Change] = []
        needed = 1
        tip = self._tip
        with self._folder.lock:
            self._presence.check()
            if not self._recovered:
                self._recover()
            appender = self._ready()
            start = tip.position.at
            at = start + BATCH.size
            for request in batch:
                try:
                    decision = request.decide(tip, at)
                except KernelError as error:
                    request.error = error
                    continue
                if decision is not None:
                    frame, change = decision
                    tip.decided(change)
                    frames.append(frame)
                    changes.append(change)
                    accepted.append(request)
                    if request.schema > needed:
                        needed = request.schema
                    at += len(frame)
            if frames:
                if needed > self._reader.manifest.schema:
                    self._raise_schema(needed, changes)
                data, crc = seal_batch(b"".join(frames), tip.position.crc)
                appender.append(start, data)
                tip.note(changes, Position(at, crc))
        return accepted

    def _raise_schema(self, needed: int, changes: Sequence[Change]) -> None:
        """Raise the folder's schema, so that older code refuses it before the batch is written.

        A process of an older version that has the folder open finds the new generation before its
        next read or write, reads the manifest, and refuses.
        """
        with self._folder.publishing:
            manifest = self._folder.manifest()
            if manifest.schema < needed:
                self._folder.replace(manifest.raised(needed))
        self._tip.catch_up()
        for change in changes:
            self._tip.decided(change)

    def _make_durable(self, batch: Sequence[Request], accepted: Sequence[Request]) -> None:
        end = self._tip.position.at
        try:
            assert self._appender is not None
            self._appender.sync()
            self._presence.check()
            superseded: list[str] = []
            for request in accepted:
                if request.superseded:
                    superseded += request.superseded
                if request.kept is not None and not request.kept.there():
                    raise StoreError(
                        f"the file of a state was removed from {self._folder.path}/{STATES} "
                        "during a write; let no other program change the folder, and try again"
                    )
            published = self._publish(end)
            if published is None:
                raise StoreError(
                    f"another process met a disk error in {self._folder.path} and gave this write "
                    "up; check the disk and try again"
                )
        except FolderGone as error:
            self._tip.forget()
            _refuse(accepted, error if self._taken_back(end) else FolderGoneMidway(error.reason))
            answer(batch)
        except OSError as error:
            self._tip.forget()
            failure = self._failure(error)
            if not self._give_up(end):
                self._doubt = end
                failure = UnknownOutcome(f"{failure}; read back to learn whether the write landed")
            _refuse(accepted, failure)
            answer(batch)
        else:
            # The published records do not need these files. A reader that is behind reads again.
            if superseded:
                self._remove_states(superseded)
            answer(batch)
            self._tip.settle(published)  # a reader that comes before this reads the log itself

    def _taken_back(self, end: int) -> bool:
        """True if no process can ever read a batch that was written to a folder that is gone.

        The folder that replaced it may be a copy that was made after the append.
        """
        appender, folder = self._appender, self._folder
        assert appender is not None
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                if not folder.directory.look_at(folder.path).same(folder.directory.identity()):
                    return False
                with suppress(FileNotFoundError):
                    folder.directory.look(segment_name(appender.number))
                    return False
                return appender.lost
            if appender.lost:
                return True
            self._presence.check_inside()
        except OSError:
            return False
        return self._give_up(end)

    def _remove_states(self, names: Sequence[str]) -> None:
        if not names:
            return
        states = self._folder.states

        def remove() -> None:
            try:
                states.remove(names)
            except OSError as error:
                _log.warning("an unused state's file could not be removed yet: %s", said(error))

        self._threads.start(remove)

    def _sweep_states(self) -> None:
        """Remove the unused states' files that a crash left. The caller holds the folder's lock."""
        try:
            names = self._folder.states.forgotten(self._tip.refers)
        except OSError as error:
            _log.warning("the unused states' files could not be found yet: %s", said(error))
        else:
            self._remove_states(names)

    def _publish(self, end: int) -> Published | None:
        """Publish a durable position; None if another process gave its batch up before."""
        folder = self._folder
        with folder.publishing:
            published = folder.head.read()
            generation = published.generation
            if generation != self._tip.generation:  # the manifest changed meanwhile
                manifest = folder.manifest()
                if manifest.given_up(end):
                    return None
                generation = manifest.generation
            if published.durable < end:
                published = folder.head.write(generation, end, published)
        return published

    def _give_up(self, end: int) -> bool:
        """Seal the segment before a batch that could not be made durable; True if that worked.

        After that no process reads the batch, even if parts of it are on the disk. False if the
        sealing failed too, or if another process has published the batch meanwhile.
        """
        folder = self._folder
        try:
            with folder.lock, folder.publishing:
                manifest = folder.manifest()
                if manifest.given_up(end):
                    return True
                durable = max(
                    folder.head.read().durable,
                    manifest.active.start,
                    self._reader.catalog.position.at,  # in case the head itself is damaged
                )
                if durable >= end:
                    return False
                size = Appender(folder.directory, manifest.active).reach
                successor = manifest.rotated(durable, max(size, end))
                create_segment(folder.directory, successor.active.number, successor.active.start)
                folder.replace(successor)
        except (OSError, KernelError) as error:
            _log.warning("the log could not be sealed before a failed write: %s", said(error))
            return False
        return True

    def _settle_doubt(self, end: int) -> None:
        if not self._give_up(end) and self._folder.head.read().durable < end:
            raise StoreError(
                f"the outcome of an earlier write to {self._folder.path} is unknown, and it could "
                "not be given up; check the disk and try again"
            )
        self._doubt = None

    def _settle_synced(self) -> None:
        """Publish all batches of the tip, which are synced. The caller holds the folder's lock."""
        published = self._publish(self._tip.position.at)
        if published is not None:
            self._tip.settle(published)

    def _recover(self) -> None:
        self._tip.catch_up()
        if self._tip.unpublished:
            appender = Appender(self._folder.directory, self._reader.manifest.active)
            appender.sync()
            self._settle_synced()
        self._sweep_states()
        self._recovered = True

    def _ready(self) -> Appender:
        """The active segment, read to its end and ready for an append."""
        torn = self._tip.catch_up()
        appender = self._opened()
        if torn:
            appender.cut(self._tip.position.at)
        length = appender.length(self._tip.position.at)
        if length > self._sizes.segment or (length and self._compactable()):
            self._rotate(appender)
            appender = self._opened()
        return appender

    def _opened(self) -> Appender:
        active = self._reader.manifest.active
        if self._appender is None or self._appender.number != active.number:
            self._appender = Appender(self._folder.directory, active)
        return self._appender

    def _compactable(self) -> bool:
        end = self._tip.position.at
        if end - self._reader.manifest.start <= self._sizes.tail:
            return False
        table = self._reader.catalog.table
        enough = max(self._sizes.tail, 0 if table is None else table.size // 2)
        failed = 0 if self._compaction is None else self._compaction.failed_at
        return (
            end - self._reader.manifest.start > enough
            and end - failed > self._sizes.tail
            and not (self._compaction is not None and self._compaction.running)
        )

    def _rotate(self, appender: Appender) -> None:
        """Seal the active segment and continue in a new one."""
        compact = self._compactable()
        end = self._tip.position.at
        try:
            appender.sync()
        except OSError:
            self._doubt = end
            raise
        self._settle_synced()
        folder = self._folder
        with folder.publishing:
            successor = folder.manifest().rotated(end, end)
            create_segment(folder.directory, successor.active.number, successor.active.start)
            folder.replace(successor)
        self._tip.catch_up()
        if compact:
            self._sweep_states()
            self._compaction = Compaction(folder, self._liveness, successor)
            self._compaction.start()

    def _failure(self, error: OSError) -> StoreError:
        return as_store_error(error, self._folder.path, "write to")


def _refuse(requests: Sequence[Request], error: BaseException) -> None:
    for request in requests:
        if request.error is None:
            request.error = error
            if isinstance(error, StoreError):  # each caller gets an exception of its own
                request.error = type(error)(error.reason)
                request.error.__cause__ = error

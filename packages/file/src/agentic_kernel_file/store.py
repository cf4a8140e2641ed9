"""FileStore: the Store port over one folder of files."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from agentic_kernel import TaskNotFound, TaskStatus
from agentic_kernel_engine import values
from agentic_kernel_engine.errors import Conflict, StoreError
from agentic_kernel_engine.record import Record, host_of
from agentic_kernel_engine.store import EventId

from .catalog import Catalog, Filters
from .files import Files
from .folder import Folder, as_store_error
from .frames import Entry, moment
from .liveness import Liveness
from .reader import Reader
from .requests import Claim, Commit, Insert, Join, Prune, Request
from .sizes import Sizes
from .writer import Writer

T = TypeVar("T")

_RECOVERY_WAIT: Final = 1.0


class _Open:
    """The parts of an open store; a forked child makes its own."""

    def __init__(
        self, path: Path, files: Files, timeout: float, sizes: Sizes, *, create: bool
    ) -> None:
        self.folder = Folder(path, files, timeout, create=create)
        self.liveness = Liveness(self.folder)
        self.reader = Reader(self.folder)
        self.writer = Writer(self.folder, self.reader, self.liveness, sizes)
        if self.folder.writable:
            # Whoever reads can do without: the writer does it before its first batch.
            with nullcontext() if create else suppress(OSError):
                self.writer.recover(timeout if create else min(timeout, _RECOVERY_WAIT))

    def abandon(self) -> None:
        """Let go of what a forked child shares with its parent, without changing it."""
        self.liveness.abandon()
        self.folder.abandon()


class FileStore:
    """A `Store` in one folder, for any number of processes on one machine.

    Durable means: on the disk, as far as the operating system and the disk tell the truth. A
    write that returned survives the death of every process and of the machine; one that raised
    anything but `UnknownOutcome` left nothing. Reads take no lock and wait for no writer. Bytes
    written per commit do not grow with the Task's history, nor time with the number of Tasks.

    One object may be used from many event loops and threads at once. A forked child may go on
    using the object; hosts that joined before the fork are the parent's. The folder belongs on a
    local file system: locks and syncs are what that system says they are.

    Args:
        folder: Created with the first write if it is not there. A folder that holds something
            else is refused and left as it is.
        lock_timeout: How many seconds a write waits for other processes; then it raises
            `StoreBusy`.
        files: Every operation on the disk goes through it.
        sizes: When segments are sealed and the log is compacted.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        lock_timeout: float = 10.0,
        files: Files | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self._timeout = lock_timeout
        self._files = files or Files()
        self._sizes = sizes or Sizes()
        self._open: _Open | None = None
        self._opening = threading.Lock()
        _stores.add(self)

    def __repr__(self) -> str:
        return f"FileStore({str(self.folder)!r})"

    async def join(self, host: str) -> None:
        opened = await self._for_writing()
        await self._write(opened, Join(opened.liveness, host))

    async def leave(self, host: str) -> None:
        if self._open is not None:
            try:
                self._open.liveness.leave(host)
            except OSError as error:
                raise self._error(error, "write to") from error

    async def alive(self, owner: str) -> bool:
        opened = await self._for_reading()
        try:
            return opened is not None and opened.liveness.alive(host_of(owner))
        except OSError as error:
            raise self._error(error, "read") from error

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        values.check_id(record.task.id, "task.id")
        opened = self._open or await self._for_writing()
        await self._write(opened, Insert(record, events))

    async def load(self, task_id: str) -> Record:
        return await self._read(
            lambda catalog: catalog.record(_stored(catalog, task_id)), TaskNotFound(task_id)
        )

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        def look(catalog: Catalog) -> Mapping[str, Record]:
            entries = ((task_id, catalog.latest(task_id)) for task_id in task_ids)
            return {id: catalog.record(entry) for id, entry in entries if entry is not None}

        return await self._read(look, {})

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        if after.version != before.version + 1 or after.task.id != before.task.id:
            raise Conflict(before.task.id)
        opened = self._open or await self._for_writing()
        await self._write(opened, Commit(before, after, events))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        opened = await self._for_writing()
        record: Record | None = await self._write(opened, Claim(task_id, host, events))
        return record

    async def events(
        self, task_id: str, after: EventId | None = None, limit: int = 1000
    ) -> Sequence[tuple[EventId, bytes]]:
        return await self._read(
            lambda catalog: catalog.events(_stored(catalog, task_id), after, limit),
            TaskNotFound(task_id),
        )

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        def look(catalog: Catalog) -> Mapping[str, int]:
            moved = {}
            for task_id, version in versions.items():
                entry = catalog.latest(task_id)
                current = 0 if entry is None else entry.version
                if current != version:
                    moved[task_id] = current
            return moved

        return await self._read(look, {id: 0 for id, version in versions.items() if version})

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
        wanted = None if kinds is None else frozenset(kinds)
        filters = Filters(status, wanted, owner, claimable, parent, due, after)
        opened = await self._for_reading()
        if opened is None:
            return []
        alive = opened.liveness.alive
        return await self._read(lambda catalog: catalog.find(filters, alive, limit), [])

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        bound = moment(ended_before)
        nothing: list[str] = []
        expired = await self._read(lambda catalog: catalog.expired(bound, limit), nothing)
        if not expired:
            return 0
        opened = await self._for_writing()
        removed: int = await self._write(opened, Prune(expired, bound))
        return removed

    def close(self) -> None:
        """Give back threads and descriptors; hosts that joined here are gone.

        A write that is under way is finished. The store opens itself again when it is used.
        """
        opened, self._open = self._open, None
        if opened is not None:
            opened.liveness.leave_all()

    async def _for_writing(self) -> _Open:
        """The open store; created if it is not there."""
        opened = self._open or await asyncio.to_thread(self._opened, create=True)
        assert opened is not None
        return opened

    async def _for_reading(self) -> _Open | None:
        """The open store, or None if there is none yet."""
        return self._open or await asyncio.to_thread(self._opened, create=False)

    def _opened(self, *, create: bool) -> _Open | None:
        with self._opening:
            if self._open is None:
                try:
                    self._open = _Open(
                        self.folder, self._files, self._timeout, self._sizes, create=create
                    )
                except FileNotFoundError as error:
                    if create:
                        raise self._error(error, "create") from error
                except OSError as error:
                    raise self._error(error, "open") from error
            return self._open

    async def _read(self, look: Callable[[Catalog], T], nothing: T | TaskNotFound) -> T:
        """What ``look`` finds in the catalog; ``nothing`` if there is no store yet."""
        opened = self._open or await self._for_reading()
        if opened is None:
            if isinstance(nothing, TaskNotFound):
                raise nothing
            return nothing
        try:
            with opened.reader.lock:
                return look(opened.reader.current())
        except OSError as error:
            raise self._error(error, "read") from error

    async def _write(self, opened: _Open, request: Request) -> Any:
        """The result of a write; if the caller is cancelled, it is settled first (R5)."""
        opened.writer.submit(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            while not request.settled:
                request.future = request.loop.create_future()
                with suppress(asyncio.CancelledError, Exception):
                    await request.future
            raise

    def _error(self, error: OSError, doing: str) -> StoreError:
        return as_store_error(error, str(self.folder), doing)


def _stored(catalog: Catalog, task_id: str) -> Entry:
    entry = catalog.latest(task_id)
    if entry is None:
        raise TaskNotFound(task_id)
    return entry


_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


def _after_fork() -> None:
    """A child shares its parent's locks until it closes them, and has none of its threads."""
    for store in list(_stores):
        opened, store._open = store._open, None
        store._opening = threading.Lock()
        if opened is not None:
            opened.abandon()


os.register_at_fork(after_in_child=_after_fork)

"""FileStore: the Store port over one folder of files."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, Unpack, cast

from agentic_kernel import InvalidValue, TaskNotFound
from agentic_kernel_engine.cursor import Cursor
from agentic_kernel_engine.errors import Conflict, StoreError, UnknownOutcome, Unreadable
from agentic_kernel_engine.faults import said
from agentic_kernel_engine.moments import aware
from agentic_kernel_engine.record import Record, host_of
from agentic_kernel_engine.search import Search, SearchOptions, page_size
from agentic_kernel_engine.store import StoreTraits

from .catalog import Catalog
from .edges import checked_events, checked_record, checked_text, folder_path, seconds
from .errors import FolderGone
from .files import Files
from .folder import Folder, as_store_error
from .frames import Entry, moment
from .liveness import Liveness, Past
from .presence import Presence
from .reader import Reader
from .requests import Bury, Claim, Commit, Insert, Join, Prune, Request
from .sizes import Sizes
from .states import Kept
from .threads import Threads
from .writer import Writer

T = TypeVar("T")

_log = logging.getLogger(__name__)
_RECOVERY_WAIT: Final = 1.0
_TRIES: Final = 10
"""Attempts of one read. It starts again if the folder was replaced or a state superseded."""


class _Open:
    """The parts of an open store; a forked child makes its own parts."""

    def __init__(
        self,
        path: Path,
        files: Files,
        timeout: float,
        sizes: Sizes,
        past: Past,
        threads: Threads,
        *,
        create: bool,
    ) -> None:
        self.folder = Folder(path, files, timeout, create=create)
        self.liveness = Liveness(self.folder, past)
        self.reader = Reader(self.folder)
        self.presence = Presence(self.folder, self.reader, self.liveness)
        self.writer = Writer(self.folder, self.reader, self.liveness, self.presence, threads, sizes)
        if self.folder.writable:
            # A reader can skip the recovery: the writer recovers before its first batch.
            with nullcontext() if create else suppress(OSError):
                self.writer.recover(timeout if create else min(timeout, _RECOVERY_WAIT))

    def abandon(self) -> None:
        """Close the files in a forked child, which shares them; the parent keeps its locks."""
        self.liveness.abandon()
        self.folder.abandon()


class FileStore:
    """A `Store` in one folder, for any number of processes on one machine.

    Durable means: on the disk, if the operating system and the disk report a sync correctly. A
    write that returned survives the death of every process and of the machine. A write that raised
    any error but `UnknownOutcome` left no change. Reads take no lock and wait for no writer. The
    bytes written per commit do not grow with the Task's history. The time per commit does not grow
    with the number of Tasks.

    One object may be used from many event loops and threads at once. A forked child may go on
    using the object; hosts that joined before the fork belong to the parent. Use a folder on a
    local file system: the store relies on the locks and syncs of that file system.

    If the folder, or a file of the store in it, is removed, renamed or replaced, a write raises
    `FolderGone` instead of being acknowledged. The next call opens the folder that the path leads
    to then. A damaged record does not hide other records.

    Args:
        folder: The first `join` or `insert` creates the folder if it does not exist; no other
            write creates it. The store refuses a folder that holds other files, and leaves it
            unchanged.
        lock_timeout: Seconds that a write waits for a lock that another process holds; then it
            raises `StoreBusy`.
        files: The object that every operation on the disk goes through.
        sizes: The limits at which a segment is sealed, the log is compacted, and a state gets a
            file of its own.

    Raises:
        InvalidValue: An argument cannot be used; the error's path is its name.
    """

    traits = StoreTraits()

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        lock_timeout: float = 10.0,
        files: Files | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        self.folder = folder_path(folder)
        self._timeout = seconds("lock_timeout", lock_timeout)
        if not isinstance(files, Files | None):
            raise InvalidValue("files", f"must be a Files, not {type(files).__name__}")
        if not isinstance(sizes, Sizes | None):
            raise InvalidValue("sizes", f"must be a Sizes, not {type(sizes).__name__}")
        self._files = files or Files()
        self._sizes = sizes or Sizes()
        self._past = Past(set(), {})
        self._threads = Threads()
        self._open: _Open | None = None
        self._seen = False
        """True after the store was open once; a folder that is missing after that is gone."""
        self._opening = threading.Lock()
        _stores.add(self)

    def __repr__(self) -> str:
        return f"FileStore({str(self.folder)!r})"

    async def join(self, host: str) -> None:
        checked_text("host", host)
        opened = await self._for_writing()
        await self._write(opened, Join(opened.liveness, host))

    async def leave(self, host: str) -> None:
        checked_text("host", host)
        if self._open is not None:
            try:
                self._open.liveness.leave(host)
            except OSError as error:
                raise self._error(error, "write to") from error

    async def alive(self, owner: str) -> bool:
        host = host_of(checked_text("owner", owner))
        opened = await self._present()
        try:
            return opened is not None and opened.liveness.alive(host)
        except OSError as error:
            raise self._error(error, "read") from error

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        checked_record("record", record)
        checked_events(events)
        opened = self._open or await self._for_writing()
        kept = await self._kept(opened, record.state)
        await self._settled(opened, kept, lambda: Insert(record, events, kept))

    async def load(self, task_id: str) -> Record:
        checked_text("task_id", task_id)
        return await self._read(
            lambda catalog: catalog.record(_stored(catalog, task_id)), TaskNotFound(task_id)
        )

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        wanted = [checked_text("task_ids", task_id) for task_id in task_ids]

        def look(catalog: Catalog) -> Mapping[str, Record]:
            found = {}
            for task_id in wanted:
                entry = catalog.latest(task_id)
                if entry is not None:
                    with suppress(Unreadable):
                        found[task_id] = catalog.record(entry)
            return found

        return await self._read(look, {})

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        if type(before) is not Record or type(after) is not Record or after.owner != before.owner:
            checked_record("before", before)
            checked_record("after", after)
        # The most common case, one event, is checked here without a call.
        kind = type(events)
        if (
            (kind is not list and kind is not tuple)
            or len(events) != 1
            or type(events[0]) is not bytes
        ):
            checked_events(events)
        old, new = before.task, after.task
        if after.version != before.version + 1 or (new is not old and new.id != old.id):
            raise Conflict(before.task.id)
        opened = self._open or await self._for_changing(before.task.id)
        state = after.state
        moved = state is not before.state and state != before.state
        if moved and state is not None:
            if type(state) is not bytes:
                checked_record("after", after)
            if len(state) > self._sizes.apart:
                await self._commit_apart(opened, before, after, events)
                return
        request = Commit(before, after, events, None, moved=moved)
        # Like `_write`, but without its coroutine, because most writes are commits (the figures
        # for durable steps in benchmarks/file.py need it).
        opened.writer.submit(request)
        try:
            await request.future
        except (asyncio.CancelledError, FolderGone) as error:
            await self._left(opened, request, error)
            raise

    async def _commit_apart(
        self, opened: _Open, before: Record, after: Record, events: Sequence[bytes]
    ) -> None:
        """Commit a record whose state is written to a file of its own."""
        checked_record("after", after)
        kept = await self._kept(opened, after.state)
        await self._settled(opened, kept, lambda: Commit(before, after, events, kept, moved=True))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        checked_text("task_id", task_id)
        checked_text("host", host)
        checked_events(events)
        opened = await self._for_changing(task_id)
        record: Record | None = await self._write(opened, Claim(task_id, host, events))
        return record

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        checked_text("task_id", task_id)
        place, most = _event_id(after), page_size(limit)
        return await self._read(
            lambda catalog: catalog.events(_stored(catalog, task_id), place, most),
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

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        search = Search.of(**options)
        opened = await self._for_reading()
        if opened is None:
            return []
        return await self._read(lambda catalog: catalog.find(search, self._alive), [])

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        search = Search.of(after=after, limit=limit)
        found: list[Unreadable] = []
        place = search.after
        while len(found) < search.limit:
            nothing: tuple[list[Unreadable], str | None] = [], None
            look = partial(Catalog.unreadable, after=place)
            more, place = await self._read(look, nothing)
            found += more
            if place is None:
                break
            await asyncio.sleep(0)  # many records are read; let other asyncio tasks run
        return found[: search.limit]

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        checked_text("task_id", task_id)
        checked_events(events)
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidValue("version", f"must be a whole number, not {type(version).__name__}")
        when = datetime.now(UTC) if at is None else aware("at", at)
        opened = await self._for_changing(task_id)
        request = Bury(task_id, version, events, when, force=force)
        record: Record = await self._write(opened, request)
        return record

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        bound, most = moment(aware("ended_before", ended_before)), page_size(limit)
        nothing: list[str] = []
        expired = await self._read(lambda catalog: catalog.expired(bound, most), nothing)
        if not expired:
            if self._open is None and self._seen:
                raise self._gone()
            return 0
        opened = await self._for_changing(expired[0])
        removed: int = await self._write(opened, Prune(expired, bound))
        return removed

    def close(self) -> None:
        """Release threads and file descriptors; hosts that joined through this object are gone.

        A write that is under way is finished. The next call opens the store again.
        """
        opened, self._open = self._open, None
        if opened is not None:
            opened.liveness.leave_all()

    async def _for_writing(self) -> _Open:
        """The open store; it is created if it does not exist."""
        opened = self._open or await self._threads.run(lambda: self._opened(create=True))
        assert opened is not None
        return opened

    async def _for_changing(self, task_id: str) -> _Open:
        """The open store, for a write to an existing Task: such a write creates no folder.

        Raises:
            FolderGone: There is no store any more.
            TaskNotFound: There is no store yet.
        """
        opened = await self._for_reading()
        if opened is not None:
            return opened
        raise self._gone() if self._seen else TaskNotFound(task_id)

    def _gone(self) -> FolderGone:
        return FolderGone(
            f"{self.folder} holds no store any more; put the folder back as it was, or make a new "
            "Host: its first join or dispatch begins an empty store there"
        )

    async def _for_reading(self) -> _Open | None:
        """The open store, or None if there is none yet."""
        return self._open or await self._threads.run(lambda: self._opened(create=False))

    async def _present(self) -> _Open | None:
        """The open store, as `_for_reading`, after a check that the path still leads to it."""
        for _ in range(_TRIES):
            opened = await self._for_reading()
            if opened is None:
                return None
            try:
                opened.presence.check()
            except FolderGone as error:
                if self._drop(opened, error):
                    _log.error("%s", said(error))
            except OSError as error:
                raise self._error(error, "read") from error
            else:
                return opened
        raise FolderGone(
            f"{self.folder} was replaced {_TRIES} times during one read; stop the program that "
            "replaces it, and try again"
        )

    def _opened(self, *, create: bool) -> _Open | None:
        with self._opening:
            if self._open is None:
                try:
                    self._open = _Open(
                        self.folder, self._files, self._timeout, self._sizes, self._past,
                        self._threads, create=create,
                    )  # fmt: skip
                except FileNotFoundError as error:
                    if create:
                        raise self._error(error, "create") from error
                except OSError as error:
                    raise self._error(error, "open") from error
                else:
                    self._seen = True
            return self._open

    def _drop(self, opened: _Open, why: FolderGone) -> bool:
        """Forget an open store whose folder is gone; True for the first caller that notices."""
        with self._opening:
            first = self._open is opened
            if first:
                self._open = None
        opened.liveness.lose_all(why.reason)
        return first

    async def _read(self, look: Callable[[Catalog], T], nothing: T | TaskNotFound) -> T:
        """The result of ``look`` on the catalog; ``nothing`` if there is no store yet."""
        for _ in range(_TRIES):
            opened = await self._present()
            if opened is None:
                if isinstance(nothing, TaskNotFound):
                    raise nothing
                return nothing
            reader = opened.reader
            try:
                with reader.lock:
                    catalog = reader.current()
                    seen, catalog.missed = catalog.position, False
                    found, refused = None, None
                    try:
                        found = look(catalog)
                    except Unreadable as error:
                        refused = error
                    if not catalog.missed or reader.current().position == seen:
                        if refused is not None:
                            raise refused
                        return cast(T, found)
            except StoreError:
                raise
            except OSError as error:
                raise self._error(error, "read") from error
        raise StoreError(
            f"{self.folder} changed during each of {_TRIES} attempts to read it; try again when "
            "fewer writers are active"
        )

    async def _kept(self, opened: _Open, state: bytes | None) -> Kept | None:
        """The file of a large state, durable before the log refers to it; None for other states."""
        if state is None or len(state) <= self._sizes.apart:
            return None
        states = opened.folder.states
        _ = opened.folder.lock  # refuse a folder that cannot be written
        try:
            return await self._threads.run(
                lambda: states.put(state), lambda kept: states.settle(kept, landed=False)
            )
        except OSError as error:
            raise self._error(error, "write to") from error

    async def _settled(
        self, opened: _Open, kept: Kept | None, request: Callable[[], Request]
    ) -> None:
        """Submit a write that may refer to a state's file; remove the file if it did not land."""
        if kept is None:
            await self._write(opened, request())
            return
        landed: bool | None = False
        try:
            made = request()
            landed = None
            try:
                await self._write(opened, made)
            finally:
                if made.settled:
                    unknown = isinstance(made.error, UnknownOutcome)
                    landed = None if unknown else made.error is None
        finally:
            self._threads.start(lambda: opened.folder.states.settle(kept, landed=landed))

    async def _write(self, opened: _Open, request: Request) -> Any:
        """The result of a write. If the caller is cancelled, the write is settled first (R5)."""
        opened.writer.submit(request)
        try:
            return await request.future
        except (asyncio.CancelledError, FolderGone) as error:
            await self._left(opened, request, error)
            raise

    async def _left(self, opened: _Open, request: Request, why: BaseException) -> None:
        """Clean up before an exception leaves a write: drop a gone folder, or settle the write."""
        if isinstance(why, FolderGone):
            self._drop(opened, why)
            return
        while not request.settled:
            request.future = request.loop.create_future()
            with suppress(asyncio.CancelledError, Exception):
                await request.future

    def _alive(self, host: str) -> bool:
        opened = self._open
        return opened is not None and opened.liveness.alive(host)

    def _error(self, error: OSError, doing: str) -> StoreError:
        return as_store_error(error, str(self.folder), doing)


def _stored(catalog: Catalog, task_id: str) -> Entry:
    entry = catalog.latest(task_id)
    if entry is None:
        raise TaskNotFound(task_id)
    return entry


def _event_id(after: Cursor | None) -> Cursor | None:
    if after is None:
        return None
    if not (
        isinstance(after, tuple)
        and len(after) == 2
        and all(isinstance(part, int) and not isinstance(part, bool) for part in after)
    ):
        raise InvalidValue("after", "must be the id of an event, a tuple of two whole numbers")
    return after


_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


def _after_fork() -> None:
    """Reset every store in a forked child, which shares its parent's locks but not its threads."""
    for store in list(_stores):
        opened, store._open = store._open, None
        store._opening = threading.Lock()
        store._threads = Threads()
        if opened is not None:
            opened.abandon()


os.register_at_fork(after_in_child=_after_fork)

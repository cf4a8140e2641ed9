"""The points at which a process kills itself, and the seams through which it is caught there."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from agentic_kernel_engine import Record, Store
from agentic_kernel_file import Files, FileStore, Sizes

from .sqlite_store import SQLiteStore

BEFORE: Final = "before the commit"
COMMIT: Final = "in the commit"
AFTER: Final = "after the commit"
ANSWER: Final = "before the answer"
WORK: Final = "in the substrate's work"
COMPACTION: Final = "in compaction"
PRUNE: Final = "in prune"
POINTS: Final = (BEFORE, COMMIT, AFTER, ANSWER, WORK, COMPACTION, PRUNE)

STORES: Final = ("file", "sqlite")
SMALL: Final = Sizes(segment=2048, tail=2048)
"""So that the log of one trial is sealed and compacted several times."""
LEASE: Final = 60.0
"""Longer than any trial: a lease here ends by `expire`, never because the machine is busy."""


class Knife:
    """Counts how often the process passes each point, and kills it at one of those moments.

    Args:
        point: Where to kill; None for nowhere.
        at: At which passing of that point, 0 being the first.
    """

    def __init__(self, point: str | None = None, at: int = 0) -> None:
        self.passed: Counter[str] = Counter()
        self._point = point
        self._at = at
        self._inside: Counter[str] = Counter()
        self._lock = threading.Lock()

    def passes(self, point: str) -> None:
        """The process is at this point, and may not leave it."""
        with self._lock:
            if point == self._point and self.passed[point] == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed[point] += 1

    @contextmanager
    def inside(self, point: str) -> Iterator[None]:
        """Every `operation` of the process meanwhile is a passing of this point."""
        self._inside[point] += 1
        try:
            yield
        finally:
            self._inside[point] -= 1

    def operation(self) -> None:
        """The store is about to do one thing to the disk or to the database."""
        if threading.current_thread().name == "file-store-compaction":
            self.passes(COMPACTION)
        for point, calls in list(self._inside.items()):
            if calls:
                self.passes(point)


class CutFiles(Files):
    """The operating system's files, with a knife before everything that others could notice.

    Reading is left out: who dies before a read leaves what the operation before it left.
    """

    def __init__(self, knife: Knife) -> None:
        self._knife = knife

    def open(self, folder: int, name: str, flags: int) -> int:
        self._knife.operation()
        return super().open(folder, name, flags)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self._knife.operation()
        return super().write(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._knife.operation()
        super().truncate(fd, size)

    def allocate(self, fd: int, offset: int, size: int) -> None:
        self._knife.operation()
        super().allocate(fd, offset, size)

    def sync(self, fd: int) -> None:
        self._knife.operation()
        super().sync(fd)

    def sync_data(self, fd: int) -> None:
        self._knife.operation()
        super().sync_data(fd)

    def rename(self, folder: int, old: str, new: str) -> None:
        self._knife.operation()
        super().rename(folder, old, new)

    def remove(self, folder: int, name: str) -> None:
        self._knife.operation()
        super().remove(folder, name)

    def try_lock(self, fd: int) -> bool:
        self._knife.operation()
        return super().try_lock(fd)

    def unlock(self, fd: int) -> None:
        self._knife.operation()
        super().unlock(fd)


class CutSQLiteStore(SQLiteStore):
    """An `SQLiteStore` with a knife before every instruction of SQLite's virtual machine."""

    def __init__(self, path: Path, knife: Knife) -> None:
        super().__init__(path, LEASE)
        self._knife = knife

    def _connection(self) -> sqlite3.Connection:
        db = super()._connection()
        db.set_progress_handler(self._knife.operation, 1)
        return db


class CutStore:
    """A `Store` that is another one, with a knife before, in and after each of its writes."""

    def __init__(self, store: Store, knife: Knife) -> None:
        self._store = store
        self._knife = knife

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        self._knife.passes(BEFORE)
        with self._knife.inside(COMMIT):
            await self._store.insert(record, events)
        self._knife.passes(AFTER)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        self._knife.passes(BEFORE)
        with self._knife.inside(COMMIT):
            await self._store.commit(before, after, events)
        self._knife.passes(AFTER)

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        with self._knife.inside(PRUNE):
            return await self._store.prune(ended_before, limit)


def open_store(kind: str, folder: Path, knife: Knife | None = None) -> FileStore | SQLiteStore:
    """The store of a trial's folder, as the victim opens it with its knife, or as all others do."""
    if kind == "file":
        files = None if knife is None else CutFiles(knife)
        return FileStore(folder / "state", files=files, sizes=SMALL)
    path = folder / "state.db"
    return SQLiteStore(path, LEASE) if knife is None else CutSQLiteStore(path, knife)


def expire(folder: Path, host: str) -> None:
    """Let the lease of a dead host run out, where there are leases, instead of waiting for it."""
    db = sqlite3.connect(folder / "state.db", LEASE)
    try:
        with db:
            db.execute("UPDATE hosts SET until = 1 WHERE name = ?", [host])
    finally:
        db.close()

"""SQLiteGuardStore: the guard's state in one file that several processes share."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .port import StoreFailed
from .sql import FIRST, Run, SQLGuardStore

WAIT = 30.0
"""The most seconds that a call waits for the writers of other processes."""
VERSION = 1


class SQLiteGuardStore(SQLGuardStore):
    """Keeps the state in one file. What a call has answered is on the disk (synchronous FULL).

    Args:
        path: The file, made if it does not exist; its folder exists. It is for one machine: the
            locks of files do not hold over a network.

    Raises:
        StoreFailed: At the first call: the file cannot be used, or a newer version wrote it.
    """

    _AT = len(FIRST) + 1
    ACTION = f"substr(body, {_AT}, instr(substr(body, {_AT}), '\"') - 1)"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._open: sqlite3.Connection | None = None
        super().__init__(str(self._path))

    def troubles(self) -> tuple[type[Exception], ...]:
        """The errors of SQLite."""
        return (sqlite3.Error,)

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """A transaction that no other writer overlaps."""
        with self._in("BEGIN IMMEDIATE") as run:
            yield run

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """A transaction that reads."""
        with self._in("BEGIN") as run:
            yield run

    def shut(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def _in(self, begin: str) -> Iterator[Run]:
        if self._open is None:
            self._open = self._opened()
        connection = self._open
        connection.execute(begin)
        try:
            yield lambda sql, *values: connection.execute(sql, values).fetchall()
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _opened(self) -> sqlite3.Connection:
        """The file, opened. Another process that opens a new file at this moment is waited for.

        SQLite itself does not wait while the form of the journal changes.
        """
        until = time.monotonic() + WAIT
        while True:
            try:
                return self._tried()
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def _tried(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            version: Any = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise StoreFailed(
                    f"{self._path}: has version {version}, this release reads {VERSION}; upgrade"
                )
            for table in self.tables():
                connection.execute(table)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

"""SQLiteGuardStore: the guard's state in one file that several processes share."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from agentic_kernel import InvalidValue

from .port import FIRST, StoreFailed
from .sql import Run, SQLGuardStore

WAIT: Final = 30.0
"""The most seconds that a call waits for the writers of other processes."""
MODE: Final = 0o600
"""The permissions of a new file: only its owner reads and writes it."""
_log = logging.getLogger("agentic_kernel_guard")


class SQLiteGuardStore(SQLGuardStore):
    """Keeps the state in one file. What a call has answered is on the disk (synchronous FULL).

    A new file can be read by its owner alone, and so can the two files that SQLite keeps beside
    it. A file that others may read is used, and the log warns of it.

    Args:
        path: The file, made if it does not exist; its folder exists. It is for one machine: the
            locks of files do not hold over a network.

    Raises:
        InvalidValue: The path is no path.
        StoreFailed: At the first call: the file cannot be used, a newer version wrote it, or it is
            another program's.
    """

    _AT = len(FIRST) + 1
    ACTION = f"substr(body, {_AT}, instr(substr(body, {_AT}), '\"') - 1)"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._path = Path(path).absolute()
        except TypeError:
            raise InvalidValue(
                "path", f"must be the path of a file, not {type(path).__name__}"
            ) from None
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
        _make(self._path)
        connection = sqlite3.connect(
            self._path, timeout=WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            self._prepare(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        exposed = said_of_others(self._path)
        if exposed:
            _log.warning("%s", exposed)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or bring those of an older version to this one."""

        def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            return connection.execute(sql, values).fetchall()

        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        ((version,),) = run("PRAGMA user_version")
        if tables and "guard_chain" not in tables:
            raise StoreFailed(
                f"{self._path}: is the database of another program; name another file"
            )
        self.prepare(
            run, version, lambda table: {row[1] for row in run(f"PRAGMA table_info({table})")}
        )
        run(f"PRAGMA user_version = {self.VERSION}")


def said_of_others(path: Path) -> str:
    """The warning if other users may open the file of a store, or a file beside it.

    SQLite keeps ``-wal`` and ``-shm`` beside it while it is open. "" if only its owner opens them.
    """
    found = []
    for end in ("", "-wal", "-shm"):
        each = Path(f"{path}{end}")
        with suppress(OSError):
            if stat.S_IMODE(each.stat().st_mode) & 0o077:
                found.append(str(each))
    if not found:
        return ""
    return (
        f"{path}: other users may open it, and it holds whole results; chmod 600 {' '.join(found)}"
    )


def _make(path: Path) -> None:
    """Make a file that only its owner opens, whatever the umask is, if there is none.

    SQLite gives the mode of this file to the files that it makes beside it.
    """
    with suppress(OSError):  # It is there already; or SQLite says why it cannot be made.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, MODE)
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, MODE)
        finally:
            os.close(descriptor)

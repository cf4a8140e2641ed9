"""PostgresGuardStore: the guard's state in Postgres, shared by any number of machines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import seconds, text

from .port import StoreFailed
from .sql import Run, SQLGuardStore

if TYPE_CHECKING:
    from psycopg import Connection


GRACE: Final = 1.0
"""Seconds after which the client gives up a call that the server should have ended."""


class PostgresGuardStore(SQLGuardStore):
    """Keeps the state in one schema of a database. What a call has answered is committed.

    Args:
        place: The connection URL. It is in no message.
        schema: The schema, made if it does not exist.
        timeout: The most seconds that a statement, or a wait for another writer, takes. A call
            that is not answered a second later fails, also if the server itself is stopped.

    Raises:
        InvalidValue: The URL is no text, the schema's name is not 1 to 63 small letters, digits and
            underlines, or the timeout is not a time above 0.
        StoreFailed: The extra ``postgres`` is not installed. At the first call: the server cannot
            be reached, or refuses, or a newer version made the tables.
    """

    ACTION = "split_part(body, '\"', 4)"

    def __init__(self, place: str, *, schema: str = "guard", timeout: float = 30.0) -> None:
        text(place, "place", empty=False)
        if not isinstance(schema, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            raise InvalidValue("schema", "use 1 to 63 small letters, digits and underlines")
        seconds(timeout, "timeout", zero=False)
        self._psycopg = _psycopg()
        self._url, self._schema, self._timeout = place, schema, timeout
        self._open: Connection[Any] | None = None
        super().__init__(f"schema {schema}")

    def troubles(self) -> tuple[type[Exception], ...]:
        """The errors of psycopg."""
        return (self._psycopg.Error,)

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """A transaction that no other writer overlaps."""
        with self.reading() as run:
            run("SELECT pg_advisory_xact_lock(hashtextextended(?, 4))", f"guard {self._schema}")
            yield run

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """A transaction."""
        if self._open is None or self._open.closed:
            self._open = self._opened()
        connection = self._open
        with connection.transaction():
            yield lambda sql, *values: _rows(connection, sql, values)

    def bound(self) -> float | None:
        """The most seconds of a call; the server's own limit comes first, if the server runs."""
        return self._timeout + GRACE

    def cut(self) -> None:
        """Shut the connection's socket down, so that the thread waits no more."""
        connection = self._open
        if connection is not None and not connection.closed:
            with (
                suppress(OSError, self._psycopg.Error),
                socket(fileno=os.dup(connection.fileno())) as plug,
            ):
                plug.shutdown(SHUT_RDWR)

    def shut(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _opened(self) -> Connection[Any]:
        milliseconds = int(self._timeout * 1_000)
        connection = self._connected()
        try:
            for setting in (
                f"statement_timeout = {milliseconds}",
                "synchronous_commit = on",
                "default_transaction_isolation = 'read committed'",
                f"search_path = {self._schema}",
            ):
                connection.execute(f"SET {setting}".encode())
            with connection.transaction():
                lock = f"guard {self._schema}"
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 4))", [lock])
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}".encode())
                self._prepare(lambda sql, *values: _rows(connection, sql, values))
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, run: Run) -> None:
        """Make the tables, or bring those of an older version to this one."""
        known = "SELECT column_name FROM information_schema.columns WHERE table_schema = ? "
        known += "AND table_name = ?"

        def columns(table: str) -> set[str]:
            return {name for (name,) in run(known, self._schema, table)}

        version = 1 if columns("guard_chain") else 0
        run("CREATE TABLE IF NOT EXISTS guard_version (version BIGINT NOT NULL)")
        for (written,) in run("SELECT version FROM guard_version"):
            version = max(version, written)
        self.prepare(run, version, columns)
        if version < self.VERSION:
            run("DELETE FROM guard_version")
            run("INSERT INTO guard_version (version) VALUES (?)", self.VERSION)

    def _connected(self) -> Connection[Any]:
        """A connection. The errors of the driver repeat what they cannot read of a URL."""
        try:
            facts = self._psycopg.conninfo.conninfo_to_dict(self._url)
            ports = str(facts.get("port") or "0").split(",")
            readable = all(map(str.isdecimal, ports)) and "@" not in str(facts.get("dbname"))
        except (self._psycopg.Error, ValueError, TypeError, AttributeError):
            readable, facts = False, {}
        if not readable:
            raise StoreFailed(
                f"{self._place}: the connection URL cannot be read; write "
                "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with marks as %40 and the like"
            ) from None
        try:
            made: Connection[Any] = self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=max(1, int(self._timeout))
            )
        except self._psycopg.Error as error:
            said = " ".join(str(error).split())
            for name in ("password", "sslpassword"):
                if facts.get(name):
                    said = said.replace(str(facts[name]), "[hidden]")
            raise StoreFailed(f"{self._place}: {said}; check the URL and the server") from None
        return made


def _psycopg() -> ModuleType:
    try:
        import psycopg
    except ImportError as error:
        remedy = "install agentic-kernel-guard[postgres]"
        raise StoreFailed(f"Postgres needs the extra: {remedy}") from error
    return psycopg


def _rows(connection: Connection[Any], sql: str, values: Any) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []

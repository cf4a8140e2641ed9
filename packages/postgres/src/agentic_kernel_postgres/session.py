"""Session: one event loop's connections to the database."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from agentic_kernel_engine.errors import StoreError

from .connections import Connections
from .errors import as_store_error, no_answer, settled
from .writes import session_name

Row = tuple[Any, ...]
Values = Sequence[object] | Mapping[str, object]
Cursor = AsyncCursor[Row]
Pool = AsyncConnectionPool[Any]
_MOST: Final = 4
"""Connections in the store's own pool on one event loop."""
_STALE: Final = 10
"""Attempts of one read; after a restart of the server every pooled connection is broken."""


class Session:
    """A pool of connections, and the number that identifies its writes, so they can be given up.

    Args:
        place: The user's pool, or the connection string for a pool of the store's own.
        schema: The store's schema in the database.
        name: The name of the place in messages.
        timeout: Seconds that a call waits for a connection, and a write for its answer.
        patience: Seconds that a read waits for its answer; None for no limit.
    """

    def __init__(
        self,
        place: Pool | str,
        schema: str,
        name: str,
        timeout: float,
        patience: float | None = None,
    ) -> None:
        self.schema = schema
        self.name = name
        self.timeout = timeout
        self.patience = patience
        self.raised = False
        """True if the schema is known to keep processes of version 0.1 from writing."""
        self.number = secrets.randbits(62)
        self.doubts: list[int] = []
        """Session numbers of writes whose outcome is not known yet."""
        self._pool = Connections(place, _MOST) if isinstance(place, str) else place
        self._settling = asyncio.Lock()

    def close(self) -> None:
        """Close the connections of the store's own pool."""
        if isinstance(self._pool, Connections):
            self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection in autocommit mode, for the duration of the block.

        Raises:
            StoreError: No connection became free in time, or the server cannot be reached.
        """
        try:
            connection = await self._pool.getconn(timeout=self.timeout)
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            raise as_store_error(error, self.name) from error
        before = connection.autocommit
        try:
            if not before:
                await connection.set_autocommit(True)
            yield connection
        finally:
            if not before and not connection.closed:
                with suppress(psycopg.Error):
                    await connection.set_autocommit(False)
            await self._pool.putconn(connection)

    async def query(self, text: str, values: Values = ()) -> list[Row]:
        """The rows of a statement that is safe to run twice; it is retried if a connection breaks.

        Raises:
            StoreError: The database refused it, cannot be reached, or does not answer in time.
        """
        if self.doubts:
            await self.settle()
        fault: Exception | None = None
        for _ in range(_STALE):
            async with self.connection() as connection:
                try:
                    cursor = cursor_of(connection)
                    async with asyncio.timeout(self.patience):
                        await cursor.execute(text.format(schema=self.schema), values)
                        return await cursor.fetchall() if cursor.description else []
                except TimeoutError as error:
                    connection.pgconn.finish()
                    raise no_answer(self.name, self.patience) from error
                except (psycopg.Error, UnicodeError) as error:
                    if settled(error) and not connection.closed:
                        raise as_store_error(error, self.name) from error
                    fault = error
        assert fault is not None
        raise as_store_error(fault, self.name) from fault

    def lost(self) -> None:
        """Note that a write got no answer: take a new number; `settle` gives up the old one."""
        self.doubts.append(self.number)
        self.number = secrets.randbits(62)

    async def settle(self) -> None:
        """Give up every number in doubt: after that its writes are visible, or never will be.

        Raises:
            StoreError: The database could not be reached in time.
        """
        async with self._settling:
            deadline = time.monotonic() + self.timeout
            while self.doubts:
                try:
                    async with self.connection() as connection:
                        await _give_up(connection, self.schema, self.doubts[0])
                    self.doubts.pop(0)
                except (StoreError, psycopg.Error) as error:
                    if time.monotonic() > deadline:
                        fault = as_store_error(error, self.name)
                        raise StoreError(
                            f"{fault}; the outcome of an earlier write is not known yet, try again"
                        ) from error
                    await asyncio.sleep(0.05)


def cursor_of(connection: AsyncConnection[Any]) -> Cursor:
    """A cursor that returns tuples, independent of the settings of the user's pool."""
    return AsyncCursor(connection, row_factory=tuple_row)


async def _give_up(connection: AsyncConnection[Any], schema: str, session: int) -> None:
    """Make the database refuse a session's later writes, and wait for a write under way."""
    gone = "(name, until, gone) VALUES (%s, now(), true) ON CONFLICT DO NOTHING"
    await connection.execute(f"INSERT INTO {schema}.hosts {gone}", [session_name(session)])
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", [session])

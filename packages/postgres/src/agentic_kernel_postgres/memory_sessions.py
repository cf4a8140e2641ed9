"""Sessions: a memory's connections, on every event loop that asks."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from agentic_kernel_engine.errors import StoreError

from .errors import as_store_error, settled
from .place import conninfo_of, name_of
from .schema import check_server, migrate
from .session import Session, cursor_of

_log: Final = logging.getLogger(__name__)
_TIMEOUT: Final = 10.0
"""Seconds that a call waits for a connection."""
_EXTENSION: Final = """
SELECT quote_ident(nspname) FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
"""


class Opened(NamedTuple):
    """What there is on one event loop."""

    session: Session
    extension: str
    """The schema that pgvector is in; empty if it is not there, or nobody asked for it."""


class Sessions:
    """Opens the place on each event loop with its first call, and closes it on all of them.

    Args:
        place: Where the database is; a pool of the user's serves one event loop, and stays open.
        schema: The part of the database, made and migrated if need be.
        vectors: Whether the extension is wanted.
    """

    def __init__(
        self, place: str | AsyncConnectionPool[Any] | None, schema: str, vectors: bool
    ) -> None:
        self.name = name_of(place)
        self._place = place
        self._schema = schema
        self._vectors = vectors
        self._process = os.getpid()
        self._opened: dict[asyncio.AbstractEventLoop, asyncio.Task[Opened]] = {}
        self._closed = False

    async def here(self) -> Opened:
        """What there is on this event loop.

        Raises:
            StoreError: The database cannot be reached, or is not fit.
        """
        loop = asyncio.get_running_loop()
        if os.getpid() != self._process:
            raise StoreError(f"{self.name}: opened by another process; make a new memory")
        if self._closed:
            raise StoreError(f"{self.name}: the memory is closed; make a new one")
        opening = self._opened.get(loop)
        if opening is None:
            self._sweep()
            opening = self._opened[loop] = loop.create_task(self._made())
            opening.add_done_callback(self._forget_failed)
        return await asyncio.shield(opening)

    async def close(self) -> None:
        """Give every connection back but those of the user's pool."""
        self._closed = True
        self._sweep()
        here = asyncio.get_running_loop()
        for loop in list(self._opened):
            if loop is here:
                await self._close_on(loop)
            else:
                done = asyncio.run_coroutine_threadsafe(self._close_on(loop), loop)
                await asyncio.wrap_future(done)

    async def _close_on(self, loop: asyncio.AbstractEventLoop) -> None:
        opening = self._opened.get(loop)
        if opening is not None:
            with suppress(StoreError):
                (await opening).session.close()
            self._opened.pop(loop, None)

    def _sweep(self) -> None:
        """Let go of what is left of event loops that have ended."""
        for loop in list(self._opened):
            opening = self._opened.pop(loop, None) if loop.is_closed() else None
            if opening is not None and opening.done() and not opening.cancelled():
                with suppress(StoreError):
                    opening.result().session.close()

    def _forget_failed(self, opening: asyncio.Task[Opened]) -> None:
        """Let the next call try again."""
        if opening.cancelled() or opening.exception() is not None:
            self._opened.pop(opening.get_loop(), None)

    async def _made(self) -> Opened:
        try:
            if isinstance(self._place, AsyncConnectionPool):
                if len(self._opened) > 1:
                    raise StoreError(
                        f"{self.name} serves one event loop; for others, name the place instead"
                    )
                session = Session(self._place, self._schema, self.name, _TIMEOUT)
                async with session.connection() as connection:
                    return Opened(session, await self._prepare(connection))
            conninfo = await asyncio.to_thread(conninfo_of, self._place)
            async with await AsyncConnection.connect(conninfo, autocommit=True) as connection:
                extension = await self._prepare(connection)
            return Opened(Session(conninfo, self._schema, self.name, _TIMEOUT), extension)
        except psycopg.Error as error:
            raise as_store_error(error, self.name) from error

    async def _prepare(self, connection: AsyncConnection[Any]) -> str:
        """Check the server, migrate the schema, and say where the extension is."""
        await check_server(connection, self.name)
        await migrate(connection, self._schema, self.name)
        return await self._extension(connection) if self._vectors else ""

    async def _extension(self, connection: AsyncConnection[Any]) -> str:
        """Where pgvector is, which is installed if that is possible; empty if it is not."""
        found = await _found(connection)
        if found:
            return found
        try:
            async with connection.transaction():
                lock = "SELECT pg_advisory_xact_lock(hashtextextended('agentic-kernel vector', 0))"
                await connection.execute(lock)
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as error:
            if not settled(error):
                raise
            refusal = " ".join(str(error).split())
            _log.warning(
                "%s: items are found by their words alone, for the extension vector is not there "
                "and cannot be made: %s",
                self.name,
                refusal,
            )
        return await _found(connection)


async def _found(connection: AsyncConnection[Any]) -> str:
    cursor = cursor_of(connection)
    await cursor.execute(_EXTENSION)
    row = await cursor.fetchone()
    return str(row[0]) if row else ""

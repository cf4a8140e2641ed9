"""Extension: where pgvector is in a database, and the sessions of a memory that know it."""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import AsyncConnection

from agentic_kernel_engine.faults import said

from .errors import settled
from .event_loops import EventLoops, Place, connected
from .place import name_of
from .schema import migrate
from .session import Session, cursor_of

_log: Final = logging.getLogger(__name__)
_TIMEOUT: Final = 10.0
"""Seconds that a call waits for a connection."""
_EXTENSION: Final = """
SELECT quote_ident(nspname) FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
"""


class Opened(NamedTuple):
    """What a memory has on one event loop."""

    session: Session
    extension: str
    """The schema that pgvector is in; empty if it is not there, or nobody asked for it."""

    async def close(self) -> None:
        """Give its connections back, but those of the user's pool."""
        self.session.close()


def sessions(place: Place, schema: str, *, vectors: bool) -> EventLoops[Opened]:
    """A memory's connections, on every event loop that asks.

    Args:
        vectors: Whether the extension is wanted.
    """

    name = name_of(place)

    async def prepare(connection: AsyncConnection[Any]) -> str:
        await migrate(connection, schema, name)
        return await _extension(connection, name) if vectors else ""

    async def make() -> Opened:
        return Opened(*await connected(place, schema, _TIMEOUT, prepare))

    return EventLoops(place, "memory", make)


async def _extension(connection: AsyncConnection[Any], name: str) -> str:
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
        refusal = said(error)
        _log.warning(
            "%s: items are found by their words alone, for the extension vector is not there "
            "and cannot be made: %s",
            name,
            refusal,
        )
    return await _found(connection)


async def _found(connection: AsyncConnection[Any]) -> str:
    cursor = cursor_of(connection)
    await cursor.execute(_EXTENSION)
    row = await cursor.fetchone()
    return str(row[0]) if row else ""

"""Sessions of a memory: its connections, and the schema that pgvector has in the database."""

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
    """The open parts of a memory on one event loop."""

    session: Session
    extension: str
    """The schema of pgvector; empty if it is not installed, or the memory has no embedder."""

    async def close(self) -> None:
        """Close its connections, except those of the user's pool."""
        self.session.close()


def sessions(place: Place, schema: str, *, vectors: bool) -> EventLoops[Opened]:
    """A memory's connections, separate for each event loop.

    Args:
        vectors: True if the memory needs the extension.
    """

    name = name_of(place)

    async def prepare(connection: AsyncConnection[Any]) -> str:
        await migrate(connection, schema, name)
        return await _extension(connection, name) if vectors else ""

    async def make() -> Opened:
        return Opened(*await connected(place, schema, _TIMEOUT, prepare))

    return EventLoops(place, "memory", make)


async def _extension(connection: AsyncConnection[Any], name: str) -> str:
    """The schema of pgvector, which is created if possible; empty if that is not possible."""
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
            "%s: items are found by their words alone, because the extension vector is missing "
            "and cannot be created: %s",
            name,
            refusal,
        )
    return await _found(connection)


async def _found(connection: AsyncConnection[Any]) -> str:
    cursor = cursor_of(connection)
    await cursor.execute(_EXTENSION)
    row = await cursor.fetchone()
    return str(row[0]) if row else ""

"""Indexes of one scope of a memory: by vector and by word, built while other processes write."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, errors

from agentic_kernel_engine.seams import Scope
from agentic_kernel_engine.seams.memories import BadVector

from .errors import NoVectorIndex, as_store_error
from .memory_rows import digest_of
from .session import Session, cursor_of

MOST_DIMENSIONS: Final = 4_000
"""The most numbers of a vector that the index takes."""
_OLDEST: Final = (0, 8)
"""The oldest version of pgvector whose index goes on until enough items of a scope are found."""
_AGAIN: Final = 0.2
"""Seconds between two looks at an index that another process builds."""

_FASTER: Final = (errors.DuplicateTable, errors.UniqueViolation, errors.DeadlockDetected)
"""The errors of a process that builds an index at the same time as another."""

_VERSION: Final = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
_STATE: Final = """
SELECT (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)),
    EXISTS (SELECT FROM pg_stat_progress_create_index
        WHERE datname = current_database() AND coalesce(relid = to_regclass(%s), true))
"""
_SCOPE: Final = """
INSERT INTO {schema}.scopes (digest, tenant, principal, session) VALUES (%s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_KEY: Final = "SELECT key, dimensions FROM {schema}.scopes WHERE digest = %s"


async def make_indexes(session: Session, extension: str, scope: Scope, dimensions: int) -> bool:
    """Make the indexes of a scope for vectors of this length; True if this call made one of them.

    If a process dies while it builds an index, the next call removes the rest and builds it anew.

    Raises:
        NoVectorIndex: The extension is too old, or the vectors are too long.
        BadVector: The vectors of the scope have another length.
        StoreError: The database cannot be reached, or refuses.
    """
    ((version,),) = await session.query(_VERSION)
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise NoVectorIndex(
            f"{session.name}: pgvector {version} is under 0.8; run ALTER EXTENSION vector UPDATE "
            "with a newer version installed"
        )
    if dimensions > MOST_DIMENSIONS:
        raise NoVectorIndex(
            f"{session.name}: the embedder's vectors have {dimensions:,} numbers and the index "
            f"takes at most {MOST_DIMENSIONS:,}; use an embedder with fewer"
        )
    digest = digest_of(scope)
    await session.query(_SCOPE, [digest, scope.tenant, scope.principal, scope.session])
    ((key, there),) = await session.query(_KEY, [digest])
    if there not in (None, dimensions):
        raise BadVector(
            f"the embedder's vectors have {dimensions:,} numbers and those of the scope {there:,}"
        )
    by_vector = (
        f"USING hnsw ((vector::{extension}.halfvec({dimensions})) {extension}.halfvec_ip_ops) "
        f"WHERE scope = {key} AND live AND vector IS NOT NULL"
    )
    by_word = f"USING gin (words) WHERE scope = {key} AND live"
    try:
        async with session.connection() as connection:
            made = [
                await _made(connection, session.schema, f"items_near_{key}", by_vector),
                await _made(connection, session.schema, f"items_words_{key}", by_word),
            ]
            if any(made):
                # Without statistics, the planner does not know which index is worth its while.
                await connection.execute(f"ANALYZE {session.schema}.items")
    except psycopg.Error as error:
        raise as_store_error(error, session.name) from error
    return any(made)


async def _made(connection: AsyncConnection[Any], schema: str, name: str, form: str) -> bool:
    """Make one index, or wait for the process that builds it; True if this call made it."""
    cursor = cursor_of(connection)
    while True:
        await cursor.execute(_STATE, [f"{schema}.{name}", f"{schema}.items"])
        row = await cursor.fetchone()
        assert row is not None
        valid, building = row
        if valid:
            return False
        try:
            if building:
                await asyncio.sleep(_AGAIN)
            elif valid is None:
                create = f"CREATE INDEX CONCURRENTLY {name} ON {schema}.items {form}"
                await connection.execute(create)
                return True
            else:
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{name}")
        except _FASTER:
            continue

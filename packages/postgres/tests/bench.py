"""Bench: where a check is made and of what; the same check gates one store and catches another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from agentic_kernel import KernelError
from agentic_kernel_postgres import PostgresStore
from agentic_kernel_postgres.schema import Migration, migrations

PATIENCE: Final = 60.0
"""Seconds after which a check that has not ended has found something."""
SOON: Final = 3.0
"""Seconds in which what is over in a moment has happened on the busiest machine."""

NEXT: Final = Migration(
    len(migrations()) + 1,
    1,
    """ALTER TABLE @schema@.heads ADD COLUMN IF NOT EXISTS later text DEFAULT 'later';
    CREATE OR REPLACE FUNCTION @schema@.step_3(_id text) RETURNS text LANGUAGE sql AS
    $$ UPDATE @schema@.heads SET later = 'stepped' WHERE id = _id RETURNING later $$;""",
)
"""A step of the schema as a later version may bring it: what is there stays as it is."""


@dataclass(frozen=True)
class Bench:
    """A part of a database that is empty, and the store that is to hold what it promises there."""

    server: str
    schema: str
    kind: type[PostgresStore] = PostgresStore
    later: Migration = NEXT
    """The step by which a rolling upgrade takes the schema on."""

    def store(
        self, place: str | AsyncConnectionPool[Any] | None = None, **options: Any
    ) -> PostgresStore:
        """A store of the kind on this part of the database."""
        return self.kind(place or self.server, schema=self.schema, **options)

    def run_out(self, host: str) -> None:
        """Let the lease of a host run out."""
        with psycopg.connect(self.server) as connection:
            expire = f"UPDATE {self.schema}.hosts SET until = now() WHERE name = %s"
            connection.execute(expire, [host])

    async def blocked(self, count: int) -> None:
        """Wait until so many requests to this part of the database wait for a lock."""
        waits = """SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE %s"""
        async with (
            asyncio.timeout(PATIENCE / 2),
            await AsyncConnection.connect(self.server, autocommit=True) as connection,
        ):
            while True:
                row = await (await connection.execute(waits, [f"%{self.schema}%"])).fetchone()
                if row is not None and row[0] >= count:
                    return
                await asyncio.sleep(0.01)


async def refused(kind: type[KernelError], call: Callable[[], Awaitable[object]]) -> str:
    """With what words a call is refused by this error; "" if it returns."""
    try:
        await call()
    except kind as refusal:
        return str(refusal)
    return ""


async def verdict(check: Callable[[Bench], Awaitable[None]], bench: Bench) -> str:
    """The finding of a check, in a line; "" if the store holds.

    A fault of anything but the store is raised: it proves nothing about the store.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            await check(bench)
    except AssertionError as found:
        return " ".join(str(found).split()) or "an assertion without a word"
    except KernelError as refusal:
        return f"{type(refusal).__name__}: {' '.join(str(refusal).split())}"
    except TimeoutError:
        return f"no end in {PATIENCE:g} s"
    return ""

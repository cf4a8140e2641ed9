"""Several stores that open at once, and two versions of the schema side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from secrets import token_hex

import psycopg
from psycopg import AsyncConnection

from agentic_kernel_postgres import SchemaTooNew
from agentic_kernel_postgres.schema import Migration, migrate, migrations

from ..bench import NEXT, Bench, refused
from ..records import all_events, event, running, step

_AT_ONCE = 8
_ROUNDS = 3
_PREPARED = 40
"""How many reads it takes until each connection has prepared its statement."""

BREAKING = Migration(NEXT.version + 1, NEXT.version, "SELECT 1")
"""A step that only the version before it can work beside."""


async def stores_that_open_at_once_make_the_schema_once(bench: Bench) -> None:
    """None fails, and each step is taken once; in a few schemas, for it is a race."""
    for _ in range(_ROUNDS):
        here = replace(bench, schema=f"{bench.schema}_{token_hex(3)}")
        stores = [here.store() for _ in range(_AT_ONCE)]
        try:
            opened = await asyncio.gather(
                *(store.insert(running(f"{n}")) for n, store in enumerate(stores)),
                return_exceptions=True,
            )
            failed = [fault for fault in opened if fault is not None]
            assert not failed, f"{len(failed)} of {_AT_ONCE} did not open: {failed[0]!s:.120}"
            assert len(await stores[0].find()) == _AT_ONCE, "a Task is lost"
            with psycopg.connect(bench.server) as connection:
                rows = connection.execute(
                    f"SELECT version FROM {here.schema}.versions ORDER BY version"
                )
                taken = [version for (version,) in rows]
                assert taken == [step.version for step in migrations()], f"steps {taken} are noted"
        finally:
            await asyncio.gather(*(store.close() for store in stores))
            with psycopg.connect(bench.server) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {here.schema} CASCADE")


async def two_versions_work_side_by_side(bench: Bench) -> None:
    """The one before goes on while the later one migrates, and beside it from then on."""
    async with bench.store() as store:
        records = [running(f"{n}", owner="host:1") for n in range(4)]
        await asyncio.gather(*(store.insert(each, [event(each)]) for each in records))
        await asyncio.gather(*(store.load("0") for _ in range(_PREPARED)))
        migrated = asyncio.Event()

        async def work(n: int) -> None:
            while not (migrated.is_set() and records[n].version > 20):
                after = step(records[n])
                await store.commit(records[n], after, [event(after)])
                assert await store.load(after.task.id) == after, "a step reads as another"
                records[n] = after

        async def upgrade() -> None:
            steps = (*migrations(), bench.later)
            async with await AsyncConnection.connect(bench.server, autocommit=True) as connection:
                await migrate(connection, bench.schema, "here", steps)
            migrated.set()

        await asyncio.gather(upgrade(), *(work(n) for n in range(4)))
        async with bench.store() as another:
            for record in records:
                assert await another.load(record.task.id) == record, "a step is lost"
                whole = await another.events(record.task.id) == all_events(record.version)
                assert whole, "an event is lost, or there twice"
            await another.commit(records[0], step(records[0]))


async def a_schema_that_left_this_version_behind_is_refused(bench: Bench) -> None:
    """By every call, and it stays as it is."""
    steps = (*migrations(), NEXT, BREAKING)
    async with await AsyncConnection.connect(bench.server, autocommit=True) as connection:
        await migrate(connection, bench.schema, "here", steps)
    store = bench.store()
    try:
        calls: list[Callable[[], Awaitable[object]]] = [
            store.find, lambda: store.insert(running("a")), lambda: store.join("host"),
        ]  # fmt: skip
        for call in calls:
            told = await refused(SchemaTooNew, call)
            right = "upgrade agentic-kernel-postgres" in told
            assert right, f"on a schema that left it behind a store says: {told or 'nothing'}"
    finally:
        await store.close()
    with psycopg.connect(bench.server) as connection:
        for table in ("tasks", "hosts"):
            row = connection.execute(f"SELECT count(*) FROM {bench.schema}.{table}").fetchone()
            assert row == (0,), f"there is something in {table}"

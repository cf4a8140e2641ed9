"""A server of the test's own, killed and started again, and set up so that it may lose data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from agentic_kernel_engine import Record
from agentic_kernel_postgres import PostgresStore, UnsafeServer
from integration.postgres_server import Server

from .records import all_events, event, running, step

pytestmark = pytest.mark.slow

RUNS = 4
PATIENCE = 60.0


@pytest.fixture
def own() -> Iterator[Server]:
    with Server() as server:
        yield server


async def test_a_restart_of_the_server_is_a_delay_and_loses_nothing(own: Server) -> None:
    """Runs that commit meanwhile go on; each step lands once, whatever answer was lost."""
    killed = asyncio.Event()

    async def run(store: PostgresStore, record: Record) -> Record:
        more = 30
        while more:
            after = step(record)
            await store.commit(record, after, [event(after)])
            record = after
            more -= killed.is_set()
        return record

    async with PostgresStore(own.place, timeout=PATIENCE, lease=PATIENCE) as store:
        await store.join("host")
        records = [running(f"{n}", owner="host:1") for n in range(RUNS)]
        for record in records:
            await store.insert(record, [event(record)])
        runs = [asyncio.create_task(run(store, record)) for record in records]
        while (await store.load("0")).version < 20:
            await asyncio.sleep(0)
        await asyncio.to_thread(own.kill)
        await asyncio.to_thread(own.start)
        killed.set()
        for record in await asyncio.gather(*runs):
            assert record.version >= 50
            assert await store.load(record.task.id) == record
            assert await store.events(record.task.id) == all_events(record.version)
        assert await store.alive("host:1")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_a_server_that_does_not_write_through_is_refused(setting: str, own: Server) -> None:
    """And taken as soon as it does."""
    with psycopg.connect(own.place, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {setting} = off")
        _reload(connection, setting, "off")
        store = PostgresStore(own.place)
        with pytest.raises(UnsafeServer, match=f"{setting} must be on, or a crash"):
            await store.insert(running("a"))
        connection.execute(f"ALTER SYSTEM RESET {setting}")
        _reload(connection, setting, "on")
    await store.insert(running("a"))
    await store.close()


def _reload(connection: psycopg.Connection, setting: str, wanted: str) -> None:
    """Have the server read its settings, and wait until a new session has this one."""
    connection.execute("SELECT pg_reload_conf()")
    for _ in range(10_000):
        with psycopg.connect(connection.info.dsn) as fresh:
            if fresh.execute(f"SHOW {setting}").fetchone() == (wanted,):
                return
    raise AssertionError(f"{setting} did not become {wanted}")

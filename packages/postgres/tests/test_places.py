"""Places of a store: connections of its own, a pool of the user's, and their closing."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from agentic_kernel_engine import StoreError
from agentic_kernel_postgres import PostgresStore, embedded

from .proxy import Cut, Proxy
from .records import all_events, event, running, step

Pool = AsyncConnectionPool


async def test_database_url_says_where(
    server: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", server)
    async with PostgresStore(schema=schema) as store:
        await store.insert(running("a"))
    async with PostgresStore(server, schema=schema) as store:
        assert await store.load("a")


@pytest.mark.slow
async def test_without_a_place_it_is_the_server_of_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is made, and started if it does not run."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    # Not in pytest's own folder: run as root, the server has a user of its own, whom others that
    # run pytest shut out of there.
    home = Path(tempfile.mkdtemp(prefix="agentic-kernel-"))
    monkeypatch.chdir(home)
    folder = home / ".agentic-kernel" / "postgres"
    try:
        async with PostgresStore() as store:
            await store.insert(running("a"))
        async with PostgresStore(embedded(folder)) as store:
            assert await store.load("a")
    finally:
        shutil.rmtree(home)


async def test_a_pool_of_the_users_is_used_as_it_is(server: str, schema: str) -> None:
    """Its rows and transactions are the user's own again, and it stays open."""
    pool: Pool[AsyncConnection[dict[str, Any]]] = Pool(
        server, min_size=1, max_size=1, kwargs={"row_factory": dict_row}, open=False
    )
    async with pool:
        async with PostgresStore(pool, schema=schema) as store:
            record = running("a", owner="host:1")
            await store.insert(record, [event(record)])
            await asyncio.gather(store.join("host"), *(store.load("a") for _ in range(8)))
            await store.commit(record, step(record), [event(step(record))])
            assert await store.alive("host:1")
        async with pool.connection() as connection:
            assert not connection.autocommit
            found = await connection.execute("SELECT 1 AS one")
            assert await found.fetchone() == {"one": 1}


async def test_a_lost_answer_is_settled_with_the_only_connection_of_a_pool(
    server: str, schema: str
) -> None:
    async with (
        Proxy(server) as proxy,
        Pool(proxy.place, min_size=1, max_size=1, open=False) as pool,
        PostgresStore(pool, schema=schema) as store,
    ):
        record = running("a", owner="host:1")
        await store.insert(record, [event(record)])
        proxy.cut = Cut.AFTER
        await store.commit(record, step(record), [event(step(record))])
        assert await store.events("a") == all_events(2)


async def test_more_calls_than_connections_wait_for_each_other(server: str, schema: str) -> None:
    async with PostgresStore(server, schema=schema) as store:
        await store.insert(running("a"))
        assert len(await asyncio.gather(*(store.load("a") for _ in range(200)))) == 200


async def test_what_an_event_loop_left_open_is_given_back(server: str, schema: str) -> None:
    """Its thread ends without a wait, and closing the store leaves no connection behind."""
    async with PostgresStore(server, schema=schema) as store:
        await store.insert(running("a"))

        def elsewhere() -> None:
            found.append(asyncio.run(store.load("a")).task.id)

        found: list[str] = []
        for _ in range(3):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.to_thread(thread.join)
        assert found == ["a"] * 3


async def test_a_closed_store_says_so_and_leaves_no_thread(server: str, schema: str) -> None:
    before = set(threading.enumerate())
    store = PostgresStore(server, schema=schema)
    await store.join("host")
    assert {thread.name for thread in set(threading.enumerate()) - before} >= {"postgres-keeper"}
    await store.close()
    await store.close()
    assert "postgres-keeper" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(StoreError, match="closed"):
        await store.load("a")


async def test_a_forked_child_is_refused(
    server: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would share its parent's connections."""
    async with PostgresStore(server, schema=schema) as store:
        await store.insert(running("a"))
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)
            with pytest.raises(StoreError, match="opened by another process"):
                await store.load("a")
        assert await store.load("a")

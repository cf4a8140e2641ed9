"""PostgresStore passes the store contract.

Closed are the three features that look at the store's files or at rows that it reads: PostgresStore
has no file, and the server reads the rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel_conformance import StoreContract, StoreFactory, StoreFeatures
from agentic_kernel_conformance.storage import Damage, Newer, Older
from agentic_kernel_engine import Record, Store
from agentic_kernel_postgres import PostgresStore

from .opening import opened
from .proxy import Cut, Proxy
from .released import fill, released_records

pytestmark = pytest.mark.slow


class TestPostgresStore(StoreContract):
    features = StoreFeatures(
        durable=True, processes=True, threads=True, leases=True, holdable=True, damageable=True,
        cuttable=True, weighed=True, reads_older=True, refuses_newer=True,
    )  # fmt: skip

    @pytest_asyncio.fixture
    async def proxy(self, server: str) -> AsyncIterator[Proxy]:
        async with Proxy(server) as proxy:
            yield proxy

    @pytest.fixture
    def place(self, server: str, request: pytest.FixtureRequest) -> str:
        """The server; through the proxy in the tests that cut a connection."""
        if "cut" not in request.fixturenames:
            return server
        proxy: Proxy = request.getfixturevalue("proxy")
        return proxy.place

    @pytest_asyncio.fixture
    async def store(self, place: str, schema: str) -> AsyncIterator[PostgresStore]:
        async with PostgresStore(place, schema=schema, lease=30.0) as store:
            yield store

    @pytest.fixture
    def cut(self, proxy: Proxy) -> Callable[[str], object]:
        @asynccontextmanager
        async def cut(where: str) -> AsyncIterator[None]:
            proxy.cut = {"before": Cut.BEFORE, "after": Cut.AFTER}[where]
            try:
                yield
            finally:
                proxy.cut = None

        return cut

    @pytest.fixture
    def written(self, server: str) -> Iterator[Callable[[], int]]:
        """The bytes of the server's log, which every write goes through."""
        with psycopg.connect(server, autocommit=True) as connection:

            def written() -> int:
                place = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
                row = connection.execute(place).fetchone()
                assert row is not None
                return int(row[0])

            yield written

    @pytest_asyncio.fixture
    async def reopen(
        self, server: str, schema: str
    ) -> AsyncIterator[Callable[[PostgresStore], Awaitable[PostgresStore]]]:
        opened: list[PostgresStore] = []

        async def reopen(store: PostgresStore) -> PostgresStore:
            await store.close()
            opened.append(PostgresStore(server, schema=schema, lease=30.0))
            return opened[-1]

        yield reopen
        for store in opened:
            await store.close()

    @pytest.fixture
    def factory(self, server: str, schema: str) -> StoreFactory:
        return StoreFactory(f"{opened.__module__}:{opened.__name__}", (server, schema, 3.0))

    @pytest.fixture
    def expire(self, server: str, schema: str) -> Callable[[str], Awaitable[None]]:
        async def expire(host: str) -> None:
            with psycopg.connect(server) as connection:
                run_out = f"UPDATE {schema}.hosts SET until = now() WHERE name = %s"
                connection.execute(run_out, [host])

        return expire

    @pytest.fixture
    def damage(self, server: str, schema: str) -> Damage:
        async def damage(store: Store, task_id: str) -> Store:
            with psycopg.connect(server) as connection:
                spoil = f"UPDATE {schema}.heads SET head = '{{' WHERE id = %s"
                connection.execute(spoil, [task_id])
            return store

        return damage

    @pytest.fixture
    def hold(self, server: str, schema: str) -> Callable[[], object]:
        @asynccontextmanager
        async def hold() -> AsyncIterator[None]:
            with psycopg.connect(server) as connection:
                connection.execute(f"LOCK TABLE {schema}.heads IN EXCLUSIVE MODE")
                yield

        return hold

    @pytest_asyncio.fixture
    async def older(self, server: str, schema: str) -> AsyncIterator[Older]:
        fill(server, schema)
        async with PostgresStore(server, schema=schema, lease=30.0) as store:

            async def older() -> tuple[Store, Sequence[Record]]:
                return store, released_records()

            yield older

    @pytest_asyncio.fixture
    async def newer(self, server: str, schema: str) -> AsyncIterator[Newer]:
        opened: list[PostgresStore] = []

        async def again() -> Store:
            opened.append(PostgresStore(server, schema=schema, lease=30.0))
            return opened[-1]

        @asynccontextmanager
        async def newer(store: Store) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
            """Say that a version 999 migrated the schema, and take it back at the end."""
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"INSERT INTO {schema}.versions VALUES (999, 999)")
                try:
                    yield again
                    found = connection.execute(f"SELECT max(version) FROM {schema}.versions")
                    assert found.fetchone() == (999,)
                finally:
                    connection.execute(f"DELETE FROM {schema}.versions WHERE version = 999")

        yield newer
        for each in opened:
            await each.close()

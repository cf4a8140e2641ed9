"""PostgresStore passes the store contract, with every feature open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel_conformance import StoreContract, StoreFactory, StoreFeatures
from agentic_kernel_conformance.storage import Damage
from agentic_kernel_engine import Store
from agentic_kernel_postgres import PostgresStore

from .opening import opened
from .proxy import Cut, Proxy

pytestmark = pytest.mark.slow


class TestPostgresStore(StoreContract):
    features = StoreFeatures(
        durable=True, processes=True, threads=True, leases=True, holdable=True, damageable=True,
        cuttable=True,
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

"""The rate limits of the server on the stores that several processes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Store
from agentic_kernel_file import FileStore
from agentic_kernel_guard.rules import Limit
from agentic_kernel_postgres import PostgresStore
from agentic_kernel_server.policy import Rates
from agentic_kernel_server.policy.rates import KIND, SHORTEST_EPOCH

from .postgres_server import schema as schema
from .postgres_server import server as server

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
TEN = Limit(10, 60.0, "tenant")


@pytest.fixture(params=["files", "postgres"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Three stores on one place, as three processes open it."""
    async with AsyncExitStack() as stack:
        if request.param == "files":
            opened: list[Store] = []
            for _ in range(3):
                store = FileStore(tmp_path / "state")
                stack.callback(store.close)
                opened.append(store)
            yield opened
            return
        url, name = request.getfixturevalue("server"), request.getfixturevalue("schema")
        yield [await stack.enter_async_context(PostgresStore(url, schema=name)) for _ in range(3)]


async def test_processes_that_race_share_one_limit(stores: list[Store]) -> None:
    now = START

    async def spent(rates: Rates, times: int) -> int:
        return sum([(await rates.spend("c", TEN)).allowed for _ in range(times)])

    several = [Rates(store, lambda: now) for store in stores]
    assert sum(await asyncio.gather(*(spent(rates, 5) for rates in several))) == 10
    now = START + timedelta(seconds=SHORTEST_EPOCH)  # The next record.
    assert sum(await asyncio.gather(*(spent(rates, 5) for rates in several))) == 10
    now = START + timedelta(seconds=3 * SHORTEST_EPOCH)
    swept = await asyncio.gather(*(rates.sweep() for rates in several))
    assert sum(swept) == 1
    found = await stores[0].find(kinds=[KIND])
    assert {record.task.status for record in found} == {TaskStatus.CANCELLED}
    pruned = await stores[0].prune(now + timedelta(seconds=1))
    assert pruned == len(found)

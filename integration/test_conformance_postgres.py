"""A Host over Postgres passes the contracts of a Runtime and a Query, as one over memory does.

That `PostgresStore` passes the contract of a Store is tested in its own package.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import (
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    ScriptedSubstrate,
    ScriptedWork,
)
from agentic_kernel_engine import Host
from agentic_kernel_postgres import PostgresStore

from .levels import conformance_level as conformance_level
from .postgres_server import schema as schema
from .postgres_server import server as server

pytestmark = pytest.mark.slow

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)


class _OnPostgres:
    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, server: str, schema: str) -> AsyncIterator[Host]:
        async with (
            PostgresStore(server, schema=schema) as store,
            Host(ScriptedSubstrate(work), store) as host,
        ):
            yield host


class TestHostOnPostgres(_OnPostgres, RuntimeContract):
    features = FEATURES


class TestHostOnPostgresAsQuery(_OnPostgres, QueryContract):
    features = FEATURES

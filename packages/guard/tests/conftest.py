"""One server for the session, and each store of the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentic_kernel_guard.stores import (
    GuardStore,
    MemoryGuardStore,
    PostgresGuardStore,
    SQLiteGuardStore,
)
from integration.postgres_server import schema, server

__all__ = ["schema", "server", "store"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GuardStore]:
    """A new store of each kind."""
    made: GuardStore
    if request.param == "memory":
        made = MemoryGuardStore()
    elif request.param == "sqlite":
        made = SQLiteGuardStore(tmp_path / "guard.db")
    else:
        place, name = request.getfixturevalue("server"), request.getfixturevalue("schema")
        made = PostgresGuardStore(place, schema=name)
    yield made
    await made.close()

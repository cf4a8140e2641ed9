"""A server of the test's own, set up so that it may lose data."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from agentic_kernel_postgres import PostgresStore, UnsafeServer
from integration.postgres_server import Server

from .records import running

pytestmark = pytest.mark.slow


@pytest.fixture
def own() -> Iterator[Server]:
    with Server() as server:
        yield server


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

"""Databases with the extension pgvector, and without it."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from integration.postgres_server import Server


@pytest.fixture(scope="session")
def plain(server: str) -> Iterator[str]:
    """A database without the extension, for a role that may not make it."""
    name = f"test_{token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
        connection.execute(f"CREATE DATABASE {name} OWNER {name} TEMPLATE template0")
        yield make_conninfo(server, dbname=name, user=name, password=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP ROLE {name}")


@pytest.fixture(scope="session")
def vectors(server: str) -> Iterator[str]:
    """One where the extension can be had: on the server of the tests, or else on another one."""
    asked = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
    with psycopg.connect(server) as connection:
        there = connection.execute(asked).fetchone() is not None
    if there:
        yield server
        return
    with Server() as server_with_it:
        yield server_with_it.place

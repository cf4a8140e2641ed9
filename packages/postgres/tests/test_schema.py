"""Opening a store: the server it refuses, the schema it makes, and what it leaves working."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from agentic_kernel import InvalidValue
from agentic_kernel_engine import StoreError
from agentic_kernel_postgres import PostgresStore, UnsafeServer

from .records import all_events, event, running, step


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("synchronous_commit", "off"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
    ],
)
async def test_a_server_that_may_lose_what_it_acknowledged_is_refused(
    option: str, value: str, server: str, schema: str
) -> None:
    """By the name of the setting, before anything is written."""
    place = make_conninfo(server, options=f"-c {option}={value}")
    with pytest.raises(UnsafeServer, match=f"{option} must .*; it is {value}"):
        await PostgresStore(place, schema=schema).find()
    assert not _made(server, schema)


async def test_every_step_may_be_made_twice(server: str, schema: str) -> None:
    """As after a restore from a copy that lacks the note of it."""
    async with PostgresStore(server, schema=schema) as store:
        record = running("a", owner="host:1")
        await store.insert(record, [event(record)])
    with psycopg.connect(server) as connection:
        connection.execute(f"DELETE FROM {schema}.versions")
    async with PostgresStore(server, schema=schema) as store:
        await store.commit(record, step(record), [event(step(record))])
        assert await store.load("a") == step(record)
        assert await store.events("a") == all_events(2)


async def test_a_store_keeps_in_mind_that_its_schema_is_raised(server: str, schema: str) -> None:
    """So that the later writes of such records do not ask for it; see `batch_of`."""
    async with PostgresStore(server, schema=schema) as store:
        session = (await store._open()).session
        record = running("a", owner="host:1", form="acme/2")
        await store.insert(running("old"))
        assert not session.raised
        await store.insert(record)
        for after in (step(record), step(step(record))):
            assert session.raised
            await store.insert(running(f"beside {after.version}"))
            assert session.raised
            await store.commit(record, after)
            record = after


async def test_stores_of_one_database_know_nothing_of_each_other(server: str, schema: str) -> None:
    names = (schema, f"{schema}_2")
    try:
        async with (
            PostgresStore(server, schema=names[0]) as one,
            PostgresStore(server, schema=names[1]) as other,
        ):
            await one.insert(running("a"))
            await one.join("host")
            assert not await other.find()
            assert not await other.alive("host:1")
            await other.insert(running("a"))
    finally:
        with psycopg.connect(server) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {names[1]} CASCADE")


@pytest.mark.parametrize(
    "name", ["", "a b", "Upper", "1st", 'x"; drop schema public; --', "a" * 41]
)
def test_a_schema_has_a_plain_name(name: str) -> None:
    with pytest.raises(InvalidValue, match="is not a valid name"):
        PostgresStore("postgresql:///", schema=name)


async def test_a_database_that_is_not_there_is_a_typed_error(server: str) -> None:
    """Which names the place, and never its password."""
    place = make_conninfo(server, dbname="nowhere", password="secret")
    store = PostgresStore(place)
    with pytest.raises(StoreError, match=r"nowhere at .* does not exist") as caught:
        await store.load("a")
    assert "secret" not in f"{caught.value}{store!r}"


async def test_what_is_no_place_is_a_typed_error() -> None:
    """Which does not repeat it, for it may hold a password."""
    store = PostgresStore("postgresql//someone:secret@server")
    with pytest.raises(StoreError, match="neither by a postgresql:// URL nor") as caught:
        await store.load("a")
    assert "secret" not in f"{caught.value}{store!r}"


def _made(server: str, schema: str) -> bool:
    with psycopg.connect(server) as connection:
        found = connection.execute("SELECT to_regnamespace(%s)", [schema]).fetchone()
    return found is not None and found[0] is not None

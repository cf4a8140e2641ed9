"""PostgresGuardStore: its messages, and a server that stops in the middle."""

from __future__ import annotations

import os
import signal
import traceback

import psycopg
import pytest

from agentic_kernel_guard.stores import PostgresGuardStore, StoreFailed

from .test_stores import first_version, holds_the_first_version


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://u:s3cr3t pw@[::bad/x",
        "postgresql://u:s3cr3tpw@h:port/x",
        "postgresql://u:s3cr3tpw@h/x?zz=s3cr3tpw",
        "postgresql://u:s3cr3t%zzpw@h/x",
        "postgresql://u:s3cr3t%00pw@h/x",
        "POSTGRESQL://u:s3cr3tpw@h/x",
        "host=h password=s3cr3tpw bogus=1",
        "host=h password='s3cr3tpw",
        "postgresql://u:s3cr3t/pw@127.0.0.1:1/x",
        "postgresql://u:s3cr3t@pw/@127.0.0.1:1/x",
        "postgresql://u:1s3cr3t:pw@127.0.0.1:1/x",
        "postgresql://u:s3cr3tpw@127.0.0.1:1/x",
        "postgresql://u:s3cr3tpw@127.0.0.1:1/x?sslmode=s3cr3tpw",
        "postgresql://u:s3cr3tpw@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/none",
    ],
)
async def test_the_password_of_a_url_is_in_no_message(place: str) -> None:
    store = PostgresGuardStore(place, timeout=2)
    with pytest.raises(StoreFailed) as said:
        await store.last()
    await store.close()
    assert "s3cr3t" not in "".join(traceback.format_exception(said.value)) + repr(said.value)


async def test_a_server_that_stops_does_not_hold_a_call(server: str, schema: str) -> None:
    if os.environ.get("DATABASE_URL"):
        pytest.skip("only a process of the session's own server may be stopped")
    store = PostgresGuardStore(server, schema=schema, timeout=0.5)
    await store.append('{"action":"a"}')
    with store.reading() as run:
        ((process,),) = run("SELECT pg_backend_pid()")
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(StoreFailed, match=r"no answer within 1\.5 seconds"):
            await store.last()
    finally:
        os.kill(process, signal.SIGCONT)
    last = await store.last()
    assert last is not None
    assert last.seq == 1
    await store.close()


async def test_the_tables_of_the_first_version_are_brought_to_this_one(
    server: str, schema: str
) -> None:
    with psycopg.connect(server, autocommit=True) as made:
        made.execute(f"CREATE SCHEMA {schema}".encode())
        made.execute(f"SET search_path = {schema}".encode())
        for sql in first_version():
            made.execute(sql.encode())
    await holds_the_first_version(PostgresGuardStore(server, schema=schema))
    again = PostgresGuardStore(server, schema=schema)
    assert len(await again.links()) == 3
    await again.close()


async def test_tables_of_a_newer_version_are_refused(server: str, schema: str) -> None:
    store = PostgresGuardStore(server, schema=schema)
    await store.append('{"action":"a"}')
    with store.reading() as run:
        run("UPDATE guard_version SET version = 9")
    await store.close()
    newer = PostgresGuardStore(server, schema=schema)
    with pytest.raises(StoreFailed, match="version 9, and this release reads up to 2; upgrade"):
        await newer.last()
    await newer.close()

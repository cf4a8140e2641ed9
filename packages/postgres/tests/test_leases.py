"""Living Hosts, by the clock of the database; and news of the writes of others."""

from __future__ import annotations

import asyncio
import queue
import selectors
import threading
import time
from typing import Any

import psycopg
import pytest

from agentic_kernel_postgres import PostgresStore
from agentic_kernel_postgres.keeper import Keeper

from .records import paused, resumed, running, step

pytestmark = pytest.mark.rule("R14")


def run_out(server: str, schema: str, host: str) -> None:
    """Let the lease of a host run out."""
    with psycopg.connect(server) as connection:
        expire = f"UPDATE {schema}.hosts SET until = now() WHERE name = %s"
        connection.execute(expire, [host])


@pytest.mark.slow
async def test_leases_are_renewed_while_the_event_loop_is_blocked(server: str, schema: str) -> None:
    """And each on its own: one that ran out is not renewed along with the others."""
    async with PostgresStore(server, schema=schema, lease=1.0) as store:
        await store.join("lapsed")
        await store.join("alive")
        run_out(server, schema, "lapsed")
        time.sleep(2.5)  # noqa: ASYNC251
        assert await store.alive("alive:1")
        assert not await store.alive("lapsed:1")


async def test_whoever_was_told_to_be_dead_is_not_renewed(server: str, schema: str) -> None:
    """A renewal that was under way when its host was asked about is waited for, and counts."""
    async with PostgresStore(server, schema=schema, lease=60) as store:
        await store.join("host")
        run_out(server, schema, "host")
        with psycopg.connect(server) as renewing:
            renew = f"UPDATE {schema}.hosts SET until = now() + interval '1 minute'"
            renewing.execute(renew)
            asking = asyncio.create_task(store.alive("host:1"))
            await _until_somebody_waits(server)
            renewing.commit()
            assert await asking
        run_out(server, schema, "host")
        assert not await store.alive("host:1")
        with psycopg.connect(server) as renewing:
            renewing.execute(renew)
        assert not await store.alive("host:1")


async def _until_somebody_waits(server: str) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with (
        asyncio.timeout(30),
        await psycopg.AsyncConnection.connect(server, autocommit=True) as connection,
    ):
        while await (await connection.execute(waits)).fetchone() == (0,):
            await asyncio.sleep(0.01)


@pytest.mark.rule("R8")
async def test_another_process_hears_of_what_concerns_it(server: str, schema: str) -> None:
    """Of a pause, a resume, an end; not of what an owner does to its own running Task."""
    async with (
        PostgresStore(server, schema=schema) as here,
        PostgresStore(server, schema=schema) as there,
    ):
        heard: queue.SimpleQueue[str] = queue.SimpleQueue()

        def fail(task_id: str) -> None:
            raise ValueError(task_id)

        here.listen(fail)  # which keeps nobody else from hearing it
        end = here.listen(heard.put)
        await _until_it_listens(server, f"{schema}_news")
        quiet, asked = running("quiet", owner="host:1"), running("asked", owner="host:1")
        await there.insert(quiet)
        await there.commit(quiet, step(quiet))
        await there.insert(asked)
        posted = asked.changed(version=2, inbox=({"type": "pause", "id": 2},))
        await there.commit(asked, posted)
        rested = paused(posted)
        await there.commit(posted, rested)
        await there.commit(rested, resumed(rested, "go on"))
        assert [await asyncio.to_thread(heard.get, timeout=30) for _ in range(3)] == ["asked"] * 3
        end()


async def _until_it_listens(server: str, channel: str) -> None:
    listens = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND state = 'idle'"
    async with (
        asyncio.timeout(30),
        await psycopg.AsyncConnection.connect(server, autocommit=True) as connection,
    ):
        while await (await connection.execute(listens, [f'LISTEN "{channel}"'])).fetchone() == (0,):
            await asyncio.sleep(0.01)


@pytest.mark.rule("R14")
def test_the_thread_that_renews_leases_ends_when_it_is_asked_and_not_at_the_next_renewal(
    server: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next renewal is days away."""
    waits = threading.Event()
    select = selectors.DefaultSelector.select

    def selected(self: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        if timeout and timeout > 1_000:  # not psycopg's own wait for an answer
            waits.set()
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", selected)
    keeper = Keeper(server, schema, "news", 1_000_000.0, lambda _: None)
    keeper.start()
    assert waits.wait(60)
    closing = threading.Thread(target=keeper.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()

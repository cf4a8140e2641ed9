"""Two Hosts on one server: what one wants, the other notices at once."""

from __future__ import annotations

import asyncio
import threading
import time

import psycopg
import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Job
from agentic_kernel_postgres import PostgresStore

INTERVAL = 60.0
"""Seconds; nobody looks by itself within this test."""


class Forever:
    async def execute(self, job: Job) -> None:
        while True:
            await job.checkpoint(None)
            await asyncio.sleep(0.01)


@pytest.mark.rule("R8")
async def test_a_pause_and_a_kill_from_elsewhere_take_effect_long_before_the_next_look(
    server: str, schema: str
) -> None:
    here, there = PostgresStore(server, schema=schema), PostgresStore(server, schema=schema)
    try:
        async with Host(Forever(), here, interval=INTERVAL) as host:
            task = Task.new(summary="", instructions="", runtime_kind="test")
            await host.dispatch(task)
            await until_heard(here, server, schema)
            async with Host(store=there, interval=INTERVAL) as control:
                begun = time.monotonic()
                await control.pause(task.id)
                await host.wait(task.id, TaskStatus.PAUSED)
                await control.resume(task.id)
                await host.wait(task.id, TaskStatus.RUNNING)
                await control.kill(task.id)
                await host.wait(task.id)
                assert time.monotonic() - begun < INTERVAL / 4
    finally:
        await here.close()
        await there.close()


async def until_heard(store: PostgresStore, server: str, schema: str) -> None:
    """Call out until the store hears it."""
    heard = threading.Event()
    end = store.listen(lambda _: heard.set())
    async with (
        asyncio.timeout(30),
        await psycopg.AsyncConnection.connect(server, autocommit=True) as connection,
    ):
        while not heard.is_set():
            await connection.execute("SELECT pg_notify(%s, 'nobody')", [f"{schema}_news"])
            await asyncio.sleep(0.02)
    end()

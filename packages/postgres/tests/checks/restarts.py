"""The postmaster killed and started again under runs that commit."""

from __future__ import annotations

import asyncio

from agentic_kernel_engine import Record
from agentic_kernel_postgres import PostgresStore
from integration.postgres_server import Server

from ..bench import PATIENCE, Bench
from ..records import all_events, event, running, step

_RUNS = 4
_MORE = 30
"""How many steps each run goes on for, once the server is there again."""


async def a_restart_is_a_delay_and_loses_nothing(bench: Bench) -> None:
    """Runs go on; each step lands once, whatever answer was lost; who is alive stays alive.

    On a server of its own, started and stopped by the check.
    """
    with Server() as own:
        killed = asyncio.Event()

        async def run(store: PostgresStore, record: Record) -> Record:
            more = _MORE
            while more:
                after = step(record)
                await store.commit(record, after, [event(after)])
                record = after
                more -= killed.is_set()
            return record

        async with bench.store(own.place, timeout=PATIENCE / 2, lease=PATIENCE) as store:
            await store.join("host")
            records = [running(f"{n}", owner="host:1") for n in range(_RUNS)]
            for record in records:
                await store.insert(record, [event(record)])
            runs = [asyncio.create_task(run(store, record)) for record in records]
            try:
                while (await store.load("0")).version < 20:
                    await asyncio.sleep(0)
                await asyncio.to_thread(own.kill)
                await asyncio.to_thread(own.start)
                killed.set()
                for record in await asyncio.gather(*runs):
                    task_id, version = record.task.id, record.version
                    assert version > _MORE, f"a run came to version {version} only"
                    assert await store.load(task_id) == record, "a step is lost"
                    whole = await store.events(task_id) == all_events(version)
                    assert whole, "an event is lost, or there twice"
                assert await store.alive("host:1"), "a restart made a living host dead"
            finally:
                for each in runs:
                    each.cancel()
                await asyncio.wait(runs)

"""A pool that is exhausted: who waits, for how long, and what is left when nobody could go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from agentic_kernel_engine import StoreError

from ..bench import SOON, Bench, refused
from ..records import event, running, step

_CALLS = 8


async def one_connection_is_enough(bench: Bench) -> None:
    """No call needs a second connection while it has one; more calls than one take turns."""
    async with (
        AsyncConnectionPool[Any](bench.server, min_size=1, max_size=1, open=False) as pool,
        bench.store(pool, timeout=SOON) as store,
    ):
        records = [running(f"{n}", owner="host:1") for n in range(_CALLS)]
        await asyncio.gather(*(store.insert(each, [event(each)]) for each in records))
        await asyncio.gather(
            store.join("host"),
            *(store.commit(each, step(each), [event(step(each))]) for each in records),
            *(store.load(each.task.id) for each in records),
        )
        for record in records:
            assert await store.load(record.task.id) == step(record), "a commit is not there"


async def an_exhausted_pool_is_a_typed_error(bench: Bench) -> None:
    """In time, and nothing is written then or later; the same calls work on free connections."""
    async with (
        AsyncConnectionPool[Any](bench.server, min_size=1, max_size=2, open=False) as pool,
        bench.store(pool, timeout=0.2) as store,
    ):
        record, other = running("a", owner="host:1"), running("b", owner="host:1")
        await store.insert(record)
        await store.insert(other)
        async with pool.connection(), pool.connection():
            await _told(lambda: store.load("a"))
            await _told(lambda: store.commit(record, step(record)))
            await _told(store.find)
        await store.commit(other, step(other))
        assert await store.load("a") == record, "a commit that was refused landed later"
        await store.commit(record, step(record))
        assert await store.load("a") == step(record), "a commit is not there"


async def callers_who_give_up_leave_the_pool_as_it_was(bench: Bench) -> None:
    """Their connections are free again, whatever they waited for."""
    async with (
        AsyncConnectionPool[Any](bench.server, min_size=2, max_size=2, open=False) as pool,
        bench.store(pool, timeout=SOON) as store,
    ):
        await store.insert(running("a"))
        with psycopg.connect(bench.server) as holding:
            holding.execute(f"LOCK TABLE {bench.schema}.heads IN ACCESS EXCLUSIVE MODE")
            reads = [asyncio.create_task(store.load("a")) for _ in range(2)]
            await bench.blocked(2)
            for read in reads:
                read.cancel()
            await asyncio.wait(reads)
        assert (await store.load("a")).version == 1, "another version"


async def _told(call: Callable[[], Awaitable[object]]) -> None:
    try:
        async with asyncio.timeout(SOON):
            said = await refused(StoreError, call)
    except TimeoutError:
        said = f"nothing for {SOON:g} s, where 0.2 s was the limit"
    assert "raise the pool's max_size" in said, f"without a connection a call says: {said}"

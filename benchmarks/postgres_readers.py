"""How fast PostgresStore answers while a writer holds the Task that is asked for."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext

from figure import Figure
from postgres_server import begun, run, server
from psycopg import AsyncConnection

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host
from agentic_kernel_postgres import PostgresStore

SECONDS = 2.0
"""How long the writer holds it, each time."""
ROUNDS = 6
OTHERS = 50
"""Tasks beside it."""
STEPS = 20
WARMING = 50

Reads = dict[str, list[float]]


def reads() -> list[Figure]:
    """The median and the slowest hundredth of each kind of reading."""
    with server() as place:
        free, held = asyncio.run(_reads(place))
    return [
        Figure(
            name=f"`{name}` while a writer holds the Task for {SECONDS:g} s, {which}",
            ours=of(held[name]), unit="ms", limit=of(free[name]),
            limit_is=f"while nobody does; {len(held[name]):,} reads against {len(free[name]):,}",
            bar=bar * of(free[name]),
        )
        for name in free
        for which, of, bar in (("median", statistics.median, 1.25), ("p99", _p99, 1.5))
    ]  # fmt: skip


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[-1]


async def _reads(place: str) -> tuple[Reads, Reads]:
    """Milliseconds of each read, without the writer and with it; they take turns."""
    async with PostgresStore(place) as store, Host(None, store) as host:
        await store.join("bench")
        for _ in range(OTHERS):
            await store.insert(begun())
        asked = begun()
        await store.insert(asked)
        await run(store, asked, STEPS)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "load": lambda: store.load(asked.task.id),
            "find": lambda: store.find(status=TaskStatus.RUNNING),
            "get": lambda: host.get(asked.task.id),
        }
        for _ in range(WARMING):
            for call in calls.values():
                await call()
        free: Reads = {name: [] for name in calls}
        held: Reads = {name: [] for name in calls}
        for n in range(ROUNDS):
            for times in (free, held) if n % 2 else (held, free):
                async with _held(place, asked.task.id) if times is held else nullcontext():
                    end = time.perf_counter() + SECONDS
                    while time.perf_counter() < end:
                        for name, call in calls.items():
                            began = time.perf_counter()
                            await call()
                            times[name].append((time.perf_counter() - began) * 1e3)
    return free, held


@asynccontextmanager
async def _held(place: str, task_id: str) -> AsyncIterator[None]:
    """Have another session change all rows of a Task, and not be done with it for as long."""
    async with await AsyncConnection.connect(place) as connection:
        for change in (
            "UPDATE agentic_kernel.heads SET version = version + 1 WHERE id = %s",
            "UPDATE agentic_kernel.tasks SET holder = holder WHERE id = %s",
        ):
            changed = await connection.execute(change, [task_id])
            assert changed.rowcount == 1
        yield
        await connection.rollback()

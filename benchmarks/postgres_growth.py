"""What a commit to PostgresStore costs as runs grow long and Tasks many."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

from figure import Figure
from postgres_server import FASTEST, TEXT, begun, run, server, used
from psycopg import AsyncConnection
from series import Series

from agentic_kernel import TaskStatus
from agentic_kernel_engine import MemoryStore, Record, Store
from agentic_kernel_file import FileStore
from agentic_kernel_postgres import PostgresStore

RUNS = 128
"""Enough that whole pages, by which tables grow, make no difference."""
TURNS = (1, 10, 32, 100, 316, 1_000)
WARMING = 50
ROUNDS = 5
PAGE = 100
TASKS = (1, PAGE, 1_000, 10_000, 50_000)
SAMPLES = 200
AT_ONCE = 500

Point = tuple[float, float]


def growth() -> list[Figure | Series]:
    """Bytes and time of a step over 1,000 turns, and over very many Tasks."""
    with server() as place:
        stored, logged = asyncio.run(_bytes(place))
    with server() as place:
        times = asyncio.run(_times(place))
    with server() as place:
        among = asyncio.run(_among(place))
    (early, late), (early_log, late_log), (early_time, late_time) = (
        (dict(points)[32], dict(points)[1_000])
        for points in (stored, logged, times["PostgresStore"])
    )
    medium = " on a memory file system" if FASTEST.name == "shm" else ""
    return [
        Figure(
            name=f"bytes added per step, all tables and indexes, {RUNS} runs, steps 11–32",
            ours=early, unit="bytes", limit=len(TEXT), limit_is="the event alone", bar=450.0,
        ),
        Figure(
            name=f"bytes added per step, all tables and indexes, {RUNS} runs, steps 317–1,000",
            ours=late, unit="bytes", limit=early, limit_is="steps 11–32", bar=1.1 * early,
        ),
        Figure(
            name=f"bytes written to the log per step, {RUNS} runs, steps 317–1,000",
            ours=late_log, unit="bytes", limit=early_log, limit_is="steps 11–32",
            bar=1.1 * early_log,
        ),
        Figure(
            name="a commit of one run, steps 317–1,000, median",
            ours=late_time, unit="µs", limit=early_time, limit_is="steps 11–32",
            bar=1.1 * early_time,
        ),
        *_crowded(among),
        Series(
            "bytes", f"What a step of PostgresStore leaves, {RUNS} runs",
            "steps of each run so far", "bytes per step",
            {"tables and indexes": stored, "write-ahead log": logged},
        ),
        Series(
            "steps", f"A commit of one run{medium}",
            "steps of the run so far", "µs, median", times,
        ),
        Series(
            "tasks", f"PostgresStore with very many Tasks{medium}",
            "Tasks that run", "µs, median", among,
        ),
    ]  # fmt: skip


def _crowded(among: dict[str, list[Point]]) -> list[Figure]:
    """Among the most Tasks, against as many as fill a page."""
    return [
        Figure(
            name=f"{name}, among {TASKS[-1]:,} that run, median",
            ours=dict(points)[TASKS[-1]], unit="µs", limit=dict(points)[PAGE],
            limit_is=f"among {PAGE}", bar=1.5 * dict(points)[PAGE],
        )
        for name, points in among.items()
    ]  # fmt: skip


async def _bytes(place: str) -> tuple[list[Point], list[Point]]:
    """Bytes in tables and indexes, and in the log, for each step up to some."""
    stored: list[Point] = []
    logged: list[Point] = []
    async with (
        PostgresStore(place) as store,
        await AsyncConnection.connect(place, autocommit=True) as connection,
    ):
        await store.join("bench")
        records = [begun() for _ in range(RUNS)]
        for each in records:
            await store.insert(each)
        before = await used(connection)
        for since, turns in pairwise((0, *TURNS)):
            more = turns - since
            records = list(await asyncio.gather(*(run(store, each, more) for each in records)))
            now = await used(connection)
            stored.append((turns, (now[0] - before[0]) / (RUNS * more)))
            logged.append((turns, (now[1] - before[1]) / (RUNS * more)))
            before = now
    return stored, logged


async def _times(place: str) -> dict[str, list[Point]]:
    """Microseconds of a commit up to some step, for each store; they take turns."""
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory(dir=FASTEST) as folder:
        async with PostgresStore(place) as postgres:
            files = FileStore(folder)
            stores = (postgres, files, MemoryStore())
            for store in stores:
                await store.join("bench")
                await _timed(store, WARMING)
            for _ in range(ROUNDS):
                for store in stores:
                    times = await _timed(store, TURNS[-1])
                    found.setdefault(type(store).__name__, []).append(times)
            files.close()
    return {
        name: [
            (turns, 1e6 * statistics.median(t for times in runs for t in times[since:turns]))
            for since, turns in pairwise((0, *TURNS))
        ]
        for name, runs in found.items()
    }


async def _timed(store: Store, steps: int) -> list[float]:
    """Seconds of each commit of a new run."""
    records = [begun()]
    await store.insert(records[0])
    return [await _seconds(lambda: _step(store, records)) for _ in range(steps)]


async def _seconds(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def _step(store: Store, records: list[Record]) -> None:
    """Commit a step of any one of the runs."""
    any_one = random.randrange(len(records))
    records[any_one] = await run(store, records[any_one], 1)


async def _among(place: str) -> dict[str, list[Point]]:
    """Microseconds of a commit, and of two listings, by the number of Tasks that run.

    Of some medians the quickest counts: what the server has on hand besides, once it has taken in
    very many rows, only ever adds.
    """
    found: dict[str, list[Point]] = {}
    async with PostgresStore(place) as store:
        await store.join("bench")
        await _timed(store, WARMING)
        records: list[Record] = []
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "a commit": lambda: _step(store, records),
            f"a page of {PAGE}": lambda: store.find(status=TaskStatus.RUNNING),
            "what nobody runs": lambda: store.find(claimable=True),
        }
        for tasks in TASKS:
            while len(records) < tasks:
                more = [begun() for _ in range(min(AT_ONCE, tasks - len(records)))]
                await asyncio.gather(*(store.insert(each) for each in more))
                records += more
            medians: dict[str, list[float]] = {name: [] for name in asked}
            for _ in range(ROUNDS):
                for name, call in asked.items():
                    times = [await _seconds(call) for _ in range(SAMPLES)]
                    medians[name].append(1e6 * statistics.median(times))
            for name in asked:
                found.setdefault(name, []).append((tasks, min(medians[name])))
    return found

"""PostgresStore: durable steps per second, what a step leaves, and reading beside a writer."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from figure import Figure
from figure import table as table_of_figures
from peers import durable
from peers.durable import Line, times
from postgres_growth import growth
from postgres_readers import reads
from postgres_server import DISK, FASTEST, MEMORY, begun, left, run, server
from psycopg import AsyncConnection
from series import Series

from agentic_kernel_postgres import PostgresStore

RUNS = 32
ROUNDS = 30
STEPS = 100
SHARED_STEPS = 30
LONG_STEPS = 200
PROCESSES = 4
PATIENCE = 60.0
BESIDE_PEERS = 15.0
PLACES = {"on disk": (DISK, (0.5, 3.0)), "on a memory file system": (MEMORY, (0.5, 2.5))}
"""Where the data can be, and the bars there of one run and of many."""


def measure() -> list[Figure | Line | Series]:
    """Steps beside the limit and beside other libraries, several processes, growth, and reading."""
    places = {where: found for where, found in PLACES.items() if found[0] in (DISK, FASTEST)}
    figures = [
        figure for where, (place, bars) in places.items() for figure in _steps(place, where, bars)
    ]
    lines = durable.measure(
        {where: partial(server, place) for where, (place, _) in places.items()}, left
    )
    return [*figures, *_beside(lines), *_shared(), *reads(), *growth(), *lines, *_left(lines)]


def table(findings: Sequence[dict[str, Any]]) -> str:
    """Our figures, and below them the other libraries."""
    figures = [each for each in findings if "bar" in each]
    lines = [each for each in findings if "durable" in each]
    return f"{table_of_figures(figures)}\n\n{durable.table(lines)}"


def _beside(lines: Sequence[Line]) -> list[Figure]:
    """Ours against each library, used in the fastest of the ways that it advises."""
    ours, *others = lines
    found: dict[tuple[str, str], tuple[float, Line]] = {}
    for line in () if ours.absent else others:
        for where in line.steps if line.durable.advised and not line.absent else ():
            ratio = times(ours.steps[where], line.steps[where])
            key = line.durable.contestant.name, where
            if key not in found or ratio < found[key][0]:
                found[key] = ratio, line
    return [
        Figure(
            name=f"durable steps {where}, {RUNS} runs, against {name}",
            ours=ratio, unit="×", limit=1.0,
            limit_is=f"{name} {line.durable.contestant.version}, "
            f"{statistics.median(line.steps[where]):,.0f}/s",
            bar=BESIDE_PEERS, better="higher",
        )
        for (name, where), (ratio, line) in found.items()
    ]  # fmt: skip


def _left(lines: Sequence[Line]) -> list[Series]:
    """What a step leaves, by the length of its run."""
    found = {
        line.durable.contestant.name: [(float(turns), size) for turns, size in line.left.items()]
        for line in lines
        if line.left and not line.absent
    }
    return [Series("peers", "What a step leaves", "steps of a run", "bytes per step", found)]


def _steps(place: Path, where: str, bars: tuple[float, float]) -> list[Figure]:
    with server(place) as address:
        bare, *ratios = asyncio.run(_rounds(address))
    return [
        Figure(
            name=f"durable steps {where}, {runs} run{'s' * (runs > 1)}",
            ours=ratio,
            unit="×",
            limit=1.0,
            limit_is=f"INSERT of one row in autocommit, one async connection, {bare:,.0f}/s",
            bar=bar,
            better="higher",
        )
        for runs, ratio, bar in zip((1, RUNS), ratios, bars, strict=True)
    ]


async def _rounds(server: str) -> tuple[float, float, float]:
    """Bare steps per second; what one run, and many, make of it, compared within each round."""
    bare, one, many = [], [], []
    async with (
        PostgresStore(server) as store,
        await AsyncConnection.connect(server, autocommit=True) as connection,
    ):
        await connection.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, text bytea)")
        await store.join("bench")
        records = [begun() for _ in range(RUNS)]
        for record in records:
            await store.insert(record)
        for _ in range(ROUNDS):
            bare.append(await _bare(connection, STEPS))
            started = time.perf_counter()
            records[0] = await run(store, records[0], STEPS)
            one.append(STEPS / (time.perf_counter() - started) / bare[-1])
        for _ in range(ROUNDS):
            bare.append(await _bare(connection, STEPS))
            started = time.perf_counter()
            records = list(await asyncio.gather(*(run(store, r, SHARED_STEPS) for r in records)))
            many.append(RUNS * SHARED_STEPS / (time.perf_counter() - started) / bare[-1])
    return statistics.median(bare), statistics.median(one), statistics.median(many)


async def _bare(connection: AsyncConnection[Any], steps: int) -> float:
    """The unavoidable work: as many bytes in one row, committed one step after the other."""
    data = b"x" * 360
    started = time.perf_counter()
    for _ in range(steps):
        await connection.execute("INSERT INTO bare (text) VALUES (%s)", (data,))
    return steps / (time.perf_counter() - started)


def _shared() -> list[Figure]:
    """What it brings to spread the runs over processes; the server has to have a core left."""
    with server() as address:
        alone, shared = (_in_processes(address, count) for count in (1, PROCESSES))
    return [
        Figure(
            name=f"durable steps of {RUNS} runs, {PROCESSES} processes against 1",
            ours=shared / alone, unit="×", limit=1.0,
            limit_is=f"one process, {alone:,.0f}/s on {os.cpu_count()} cores",
            bar=0.0, better="higher",
        )
    ]  # fmt: skip


def _in_processes(server: str, count: int) -> float:
    """Steps per second of all runs together."""
    context = multiprocessing.get_context("spawn")
    line = context.Barrier(count + 1)
    workers = [
        context.Process(target=_work, args=(server, f"bench-{n}", RUNS // count, line))
        for n in range(count)
    ]
    for worker in workers:
        worker.start()
    line.wait(PATIENCE)
    started = time.perf_counter()
    line.wait(PATIENCE)
    seconds = time.perf_counter() - started
    for worker in workers:
        worker.join()
    return RUNS * LONG_STEPS / seconds


def _work(server: str, host: str, runs: int, line: Barrier) -> None:
    """Be one process: make ready, and run between the start and the finish."""

    async def work() -> None:
        async with PostgresStore(server) as store:
            await store.join(host)
            records = [begun(host) for _ in range(runs)]
            for record in records:
                await store.insert(record)
            line.wait(PATIENCE)
            await asyncio.gather(*(run(store, record, LONG_STEPS) for record in records))
            line.wait(PATIENCE)

    asyncio.run(work())

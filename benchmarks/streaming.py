"""Streaming: what storing the text in progress costs, and how soon another process sees it."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from figure import Figure
from interrupted import slowest

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job, Loop, Record
from agentic_kernel_engine.events import RUN_DELTA
from agentic_kernel_engine.host import text_flushing as flushing
from agentic_kernel_engine.loop import Delta, FinalAnswer, Plan
from agentic_kernel_file import FileStore

STREAMS = 32
RATE = 100
"""Pieces of each stream a second."""
PIECE = "text "
SECONDS = 4
ROUNDS = 5
WATCHED = 4
"""Groups of streams that another process watches."""
MANY = 1_000
MANY_RATE = 4
MANY_SECONDS = 12
BEFORE = 1.2
"""CPU of the code before it had flushes, as a multiple of today's code without them: the change
that brought flushes made a delta cheaper. Both were measured in turns on one machine."""
NEVER = 3_600
"""An interval of flushes, in seconds, that no stream here reaches."""
MEMORY = Path("/dev/shm")


def measure() -> list[Figure]:
    """CPU and bytes of 32 streams, the wait of a watcher, and the pace of a thousand streams."""
    return [*_cost(), _watched(), *asyncio.run(_many())]


class Talking:
    """A planner whose answer streams, one piece a beat.

    Args:
        seconds: How long an answer takes.
        first: Seconds before its first piece, which is the time at that moment.
    """

    def __init__(self, seconds: float, first: float = 0.0) -> None:
        self._beats = int(seconds * RATE)
        self._first = first

    async def plan(self, context: Any) -> AsyncIterator[Delta | Plan]:
        """The pieces, each on its beat, and then the plan."""
        if self._first:
            await asyncio.sleep(self._first)
            yield Delta(f"{time.monotonic()} ")
        loop = asyncio.get_running_loop()
        began = loop.time()
        for beat in range(1, self._beats + 1):
            await asyncio.sleep(began + beat / RATE - loop.time())
            yield Delta(PIECE)
        yield Plan((FinalAnswer(None),))


def _task() -> Task:
    return Task.new(summary="", instructions="", runtime_kind="bench")


def _folder() -> tempfile.TemporaryDirectory[str]:
    memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return tempfile.TemporaryDirectory(dir=MEMORY if memory else None)


# The cost


def _cost() -> list[Figure]:
    """CPU of a process with the streams, and the growth of its folder; each in turn with none."""
    found: dict[float, list[tuple[float, int]]] = {flushing.SHORTEST: [], NEVER: []}
    for _ in range(ROUNDS):
        for interval, results in found.items():
            command = [sys.executable, __file__, "cost", str(interval)]
            said = subprocess.run(command, check=True, capture_output=True, text=True)
            cpu, grown = json.loads(said.stdout)
            results.append((cpu, grown))
    ours, limit = (statistics.median(cpu for cpu, _ in each) for each in found.values())
    text = STREAMS * SECONDS * RATE * len(PIECE)
    what = f"{STREAMS} streams of {RATE} pieces/s on FileStore"
    return [
        Figure(
            name=f"CPU of {what}", ours=ours / SECONDS * 1e3, unit="ms/s",
            limit=limit / SECONDS * 1e3, limit_is="without flushes",
            bar=1.05 * BEFORE * limit / SECONDS * 1e3,
        ),
        Figure(
            name=f"bytes written by {what}", ours=found[flushing.SHORTEST][-1][1], unit="bytes",
            limit=text, limit_is="the text", bar=4 * text,
        ),
    ]  # fmt: skip


async def _streams(folder: Path) -> tuple[float, int]:
    store = FileStore(folder)
    async with Host(Loop(Talking(SECONDS)), store) as host:
        before, cpu = _used(folder), time.process_time()
        await asyncio.gather(*(host.run(_task()) for _ in range(STREAMS)))
        cpu = time.process_time() - cpu
        grown = _used(folder) - before
    store.close()
    return cpu, grown


def _used(folder: Path) -> int:
    """Bytes of all files, without the zeros that were allocated ahead."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in files)


# Another process


def _watched() -> Figure:
    """Seconds from a stream's first piece to its first text in another process."""
    waits: list[float] = []
    for _ in range(WATCHED):
        with _folder() as folder:
            command = [sys.executable, __file__, "write", folder]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout is not None
                ids = json.loads(writer.stdout.readline())
                waits += asyncio.run(_watch(Path(folder, "state"), ids))
    return slowest(f"first text of {len(waits)} streams in another process, p99", waits, 300)


async def _watch(folder: Path, ids: Sequence[str]) -> list[float]:
    store = FileStore(folder)
    async with Host(store=store) as host:

        async def first(task_id: str) -> float:
            async for event in host.stream(task_id):
                if event.type == RUN_DELTA:
                    return time.monotonic() - float(event.data["text"].split()[0])
            raise AssertionError("the stream ended without text")

        waits = await asyncio.gather(*map(first, ids))
    store.close()
    return waits


async def _write(folder: Path) -> None:
    store = FileStore(folder)
    async with Host(Loop(Talking(1.0, first=1.0)), store) as host:
        ids = [(await host.dispatch(_task())).snapshot.id for _ in range(STREAMS)]
        print(json.dumps(ids), flush=True)
        await asyncio.gather(*map(host.wait, ids))
    store.close()


# Very many


class Timed(FileStore):
    """A store that notes when each commit began and ended."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.times: list[tuple[float, float, str]] = []

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        """Commit, and note the times."""
        began = time.perf_counter()
        await super().commit(before, after, events)
        self.times.append((began, time.perf_counter(), after.task.id))


class Murmuring:
    """A substrate that says something now and then and never commits."""

    async def execute(self, job: Job) -> Any:
        """Emit a piece at each beat."""
        for _ in range(MANY_SECONDS * MANY_RATE):
            await asyncio.sleep(1 / MANY_RATE)
            job.emit({"type": RUN_DELTA, "text": PIECE})


async def _many() -> list[Figure]:
    """The rounds of flushes of a thousand streams: their share of the time, and their distance."""
    with _folder() as folder:
        store = Timed(Path(folder, "state"))
        async with Host(Murmuring(), store) as host:
            for _ in range(MANY):
                await host.dispatch(_task())
            await asyncio.sleep(2.0)  # The streams have begun.
            store.times.clear()
            began = time.perf_counter()
            await asyncio.sleep(MANY_SECONDS - 4.0)
            seconds, times = time.perf_counter() - began, list(store.times)
            await host.drain(timeout=0)
        store.close()
    rounds: list[list[float]] = []
    last: dict[str, float] = {}
    gaps: list[float] = []
    for began, ended, task_id in sorted(times):
        if not rounds or began > rounds[-1][1] + flushing.SHORTEST / 2:
            rounds.append([began, ended])
        rounds[-1][1] = max(rounds[-1][1], ended)
        if task_id in last:
            gaps.append(began - last[task_id])
        last[task_id] = began
    waits = [
        (after[0] - before[1])
        / min(
            max(flushing.SHORTEST, flushing.SHARE * (before[1] - before[0])),
            flushing.LONGEST,
        )
        for before, after in pairwise(rounds)
    ]
    what = f"{MANY:,} streams at once"
    return [
        Figure(
            name=f"shortest wait between two rounds of {what}", ours=min(waits), unit="×",
            limit=1.0, limit_is="the wait that R20 asks for", bar=0.95, better="higher",
        ),
        Figure(
            name=f"commits of {what}", ours=len(times) / seconds, unit="/s",
            limit=MANY / flushing.LONGEST, limit_is="each once in two seconds",
            bar=MANY / flushing.SHORTEST,
        ),
        Figure(
            name=f"longest time without a flush of one of {what}", ours=max(gaps), unit="s",
            limit=min(gaps), limit_is="the shortest", bar=flushing.LONGEST * 1.25,
        ),
    ]  # fmt: skip


def _main(job: str, told: str) -> None:
    if job == "cost":
        # Constants of a program that makes no flush; a Host has no option for that.
        longest = max(flushing.LONGEST, float(told))
        vars(flushing).update(SHORTEST=float(told), LONGEST=longest)
        with _folder() as folder:
            print(json.dumps(asyncio.run(_streams(Path(folder, "state")))))
    else:
        asyncio.run(_write(Path(told, "state")))


if __name__ == "__main__":
    _main(*sys.argv[1:])

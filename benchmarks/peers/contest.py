"""What is asked of every contestant, the same of all."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

Model = Callable[[], Awaitable[None]]
"""What every call of the scripted model awaits, and all that may take time in it."""
Run = Callable[[], Awaitable[None]]
"""One whole run, from the request to the answer; raises if the answer is not the expected one."""
Opened = Callable[[int, Model, bool], AbstractAsyncContextManager[Run]]
"""``opened(turns, model, keeping)`` of a contestant's module: runs that call the tool ``add`` in so
many turns and then answer, with what each step came to kept or not."""

REPEATS = 3
LATENCY = 0.05
"""Seconds of a model call where very many runs wait for theirs."""


async def turn(opened: Opened, keeping: bool, turns: int) -> float:
    """Microseconds of a tool turn in a run of so many, the best of a few after one to warm up.

    Processor time of the whole process: a run never waits here, so on an idle machine it is the
    time that passes, and on a busy one it is still the library's own.
    """
    calls = 0

    async def at_once() -> None:
        nonlocal calls
        calls += 1

    best = float("inf")
    async with opened(turns, at_once, keeping) as run:
        await run()
        for _ in range(REPEATS):
            began = time.process_time()
            await run()
            best = min(best, (time.process_time() - began) / turns)
    if calls != (REPEATS + 1) * (turns + 1):
        raise AssertionError(f"the model was called {calls} times in {REPEATS + 1} runs")
    return best * 1e6


async def together(opened: Opened, keeping: bool, runs: int) -> float:
    """Seconds for so many runs at once, each of two model calls with a tool turn between them."""
    async with opened(1, lambda: asyncio.sleep(LATENCY), keeping) as run:
        await run()
        began = time.perf_counter()
        await asyncio.gather(*(run() for _ in range(runs)))
        return time.perf_counter() - began


async def waiting(opened: Opened, keeping: bool, runs: int) -> float:
    """KiB that stay resident for each of so many runs while all wait for their first answer."""
    warm, arrived, everyone, answer = False, 0, asyncio.Event(), asyncio.Event()

    async def held_back() -> None:
        nonlocal arrived
        if warm:
            arrived += 1
            if arrived == runs:
                everyone.set()
            await answer.wait()

    async with opened(1, held_back, keeping) as run:
        await run()
        warm, before = True, _resident()
        whole = asyncio.gather(*(run() for _ in range(runs)))
        arrival = asyncio.ensure_future(everyone.wait())
        # A run that fails before it waits must not leave this waiting for it.
        either: list[asyncio.Future[Any]] = [whole, arrival]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        kib = (_resident() - before) / runs
        answer.set()
        await whole
    return kib


def _resident() -> float:
    """KiB of this process in memory, with no garbage among them."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1024

"""What is asked of every contestant, the same of all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

Run = Callable[[int], Awaitable[None]]
"""One whole run of so many steps. Each step brings a `text` and is committed before the next
begins. Raises if the run did not get to its end."""
Opened = Callable[[str, str], AbstractAsyncContextManager[Run]]
"""``opened(place, way)`` of a contestant's module: runs on the server at a place, in one of the
ways in which the library can be used."""

RUNS = 32
"""How many go on at once."""
WARMING = 6
"""Steps before it counts: connections are made, and statements prepared."""
SECONDS = 2.0
LEAVING = 1_000
"""Steps in all, before it is looked at what they left: tables grow by whole pages."""
_numbers = random.Random(7)


def text() -> str:
    """What a step brings: 200 characters that do not compress well."""
    return _numbers.randbytes(100).hex()


async def together(opened: Opened, way: str, place: str, steps: int) -> float:
    """Steps per second of all runs at once, each of so many steps, begin and end included.

    Whoever is soon done does it again, until some seconds have passed.
    """
    made = 0
    async with opened(place, way) as run:
        await asyncio.gather(*(run(WARMING) for _ in range(RUNS)))
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            await asyncio.gather(*(run(steps) for _ in range(RUNS)))
            made += RUNS * steps
        return made / (time.perf_counter() - began)


async def left(opened: Opened, way: str, place: str, steps: int) -> float:
    """Make runs of so many steps, for others to see what they leave; returns the steps in all."""
    runs = max(LEAVING // steps, 1)
    async with opened(place, way) as run:
        for _ in range(runs):
            await run(steps)
    return runs * steps

"""Schedulers: run the calls of one batch, one after the other or some of them side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from agentic_kernel import InvalidValue

from ..plans.observation import Observation

Call = Callable[[], Coroutine[Any, Any, Observation]]
"""One call, not yet begun. It turns every failure into an observation."""


class ToolScheduler(Protocol):
    """Runs the calls of a batch."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        """Run the calls; return their observations, in the order of the calls.

        If this is cancelled, no call outlives it.

        Args:
            calls: The calls to run; each is begun at most once.
            concurrent: For each call, True if it may run beside others.
        """
        ...


class SequentialScheduler:
    """Runs one call after the other."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        return [await call() for call in calls]


class ParallelScheduler:
    """Runs neighbouring concurrent calls side by side, and every other call alone.

    So the calls before such a single call end before it begins, and the calls after it begin after
    it ends. A call must not raise. If one does, the others are cancelled, and the exception is
    raised as it is.

    Args:
        limit: The most calls that run at the same time.

    Raises:
        InvalidValue: The limit is below one.
    """

    def __init__(self, limit: int = 8) -> None:
        if limit < 1:
            raise InvalidValue("limit", f"is {limit}; use at least 1")
        self.limit = limit

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        if len(calls) == 1:
            return [await calls[0]()]
        done: list[Observation] = []
        while len(done) < len(calls):
            first = last = len(done)
            while last < len(calls) and concurrent[last]:
                last += 1
            if last - first > 1:
                done += await self._together(calls[first:last])
            else:
                done.append(await calls[first]())
        return done

    async def _together(self, calls: Sequence[Call]) -> list[Observation]:
        places = asyncio.Semaphore(self.limit)

        async def placed(call: Call) -> Observation:
            async with places:
                return await call()

        tasks = [asyncio.create_task(placed(call)) for call in calls]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task in ended:
                    task.result()
            return [task.result() for task in tasks]
        finally:
            await _end(tasks)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel the running calls and wait for them, also if this task is cancelled meanwhile."""
    again = False
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            again = True
    for task in tasks:
        if not task.cancelled():
            task.exception()  # Retrieved, so that asyncio logs no warning.
    if again:
        raise asyncio.CancelledError

"""ToolScheduler: which calls of a batch run side by side, and which alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from agentic_kernel import InvalidValue

from ..plans.observation import Observation

Call = Callable[[], Coroutine[Any, Any, Observation]]
"""One call, not yet begun. It turns whatever goes wrong into an observation."""


class ToolScheduler(Protocol):
    """Runs the calls of a batch."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        """The observations, in the order of the calls, whichever was done first.

        When this is cancelled, no call outlives it.

        Args:
            calls: What to run; none is begun twice.
            concurrent: For each call, whether it may run beside others.
        """
        ...


class SequentialScheduler:
    """One call after the other."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        return [await call() for call in calls]


class ParallelScheduler:
    """Neighbours that may run beside others do; a call that may not waits, and is waited for.

    So what happens before such a call and what happens after it stay before and after. A call that
    raises all the same ends the batch: the others are cancelled, and the exception is raised as it
    is.

    Args:
        limit: How many calls run at the same time at most.

    Raises:
        InvalidValue: The limit is below one.
    """

    def __init__(self, limit: int = 8) -> None:
        if limit < 1:
            raise InvalidValue("limit", f"is {limit}; at least one call has to run")
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
    """Cancel what still runs and wait for it, through every further cancellation of ours."""
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
            task.exception()  # Seen, so that nobody is warned of it.
    if again:
        raise asyncio.CancelledError

"""Schedulers, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from agentic_kernel_engine.loop import Observation
from agentic_kernel_engine.seams import ParallelScheduler
from agentic_kernel_engine.tools.scheduler import Call


class AsTheyEnd:
    """Observations come in the order in which the calls end."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        if not all(concurrent):
            return [await call() for call in calls]
        return [await each for each in asyncio.as_completed([call() for call in calls])]


class AllAtOnce:
    """It gathers all calls, whether or not they may run beside others."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        return list(await asyncio.gather(*(call() for call in calls)))


class AloneTogether(ParallelScheduler):
    """Calls that must run alone wait for each other only, and not for those beside."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        alone = asyncio.Lock()

        async def one(call: Call, beside: bool) -> Observation:
            if beside:
                return await call()
            async with alone:
                return await call()

        return list(await asyncio.gather(*map(one, calls, concurrent)))


class Returns(ParallelScheduler):
    """A call that raises gives its exception in the place of an observation."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        if not all(concurrent):
            return await super().run(calls, concurrent)
        done: list[Any] = await asyncio.gather(*(c() for c in calls), return_exceptions=True)
        return list(done)


class LeavesThem(ParallelScheduler):
    """The calls are shielded, so that a cancellation does not break them off."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        return await asyncio.shield(super().run(calls, concurrent))


class WaitsOnce:
    """It cancels its calls, and does not wait until they have ended."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        done = []
        for call in calls:
            task = asyncio.ensure_future(call())
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                task.cancel()
                raise
            done.append(task.result())
        return done


class Copies(ParallelScheduler):
    """The observations are copied, to be on the safe side."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        done = await super().run(calls, concurrent)
        return [msgspec.structs.replace(each) for each in done]


class TriesAgain(ParallelScheduler):
    """A call whose observation is empty is made again."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        done = await super().run(calls, concurrent)
        return [
            each if each.output else await call() for call, each in zip(calls, done, strict=True)
        ]


class Empties(ParallelScheduler):
    """It takes the calls off the list that it was given."""

    async def run(self, calls: Any, concurrent: Any) -> list[Observation]:
        done = []
        while calls:
            done.append(await calls.pop(0)())
        return done


class OneBatch(ParallelScheduler):
    """Its results are its own, and the next batch begins a new list."""

    done: list[Observation]

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        self.done = []
        for call in calls:
            self.done.append(await call())
        return self.done


class OneLock(ParallelScheduler):
    """All batches share one lock, so that one Task waits for the calls of another."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        async with self.lock:
            return await super().run(calls, concurrent)


class InThreads:
    """Each call has an event loop in a thread of its own."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        return [await asyncio.to_thread(asyncio.run, call()) for call in calls]


class OneAfterTheOther(ParallelScheduler):
    """It says that it runs calls side by side, and has room for one."""

    def __init__(self) -> None:
        super().__init__(1)

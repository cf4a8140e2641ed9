"""Shielded: asyncio tasks of the Host's own, which a caller's cancellation does not reach (R4)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Shielded:
    """A set of asyncio tasks that run to their end, even if their callers stop waiting."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], asyncio.Future[Any] | None] = {}
        """Each task, with the future that its caller waits for, if it has one."""
        # Made once, because there may be very many tasks (memory in benchmarks/host.py).
        self._ended = self._done
        self._around = Context()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin the work and keep hold of it until it is done."""
        return self._started(work, None)

    def at_once(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work synchronously; start a task for the rest of it only if it suspends."""
        try:
            waits_for = work.send(None)
        except StopIteration:
            return
        self.start(_rest(work, waits_for))

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """The work's result; if the caller is cancelled, the work goes on without it.

        Like `asyncio.shield`, but one turn of the event loop less (the step in benchmarks/host.py).
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._started(work, result)
        return result

    async def settle(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; the wait goes on even while the caller is being cancelled.

        Use it for a result that must be known before a cancellation may go on. The work itself is
        bounded. A second cancellation that arrives meanwhile is dropped, because the caller is
        already handling the first one.
        """
        task = self.start(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled():
                    raise
            except Exception:
                break
        return task.result()

    async def idle(self, timeout: float) -> bool:
        """Wait until only the caller's own task is left; False after ``timeout`` seconds."""
        others = self._tasks.keys() - {asyncio.current_task()}
        if not others:
            return True
        _, left = await asyncio.wait(others, timeout=timeout)
        return not left

    def _started(
        self, work: Coroutine[Any, Any, T], result: asyncio.Future[T] | None
    ) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = result
        task.add_done_callback(self._ended, context=self._around)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        result = self._tasks.pop(task)
        if result is not None and result.done():  # The caller has stopped waiting.
            result = None
        if task.cancelled():
            if result is not None:
                result.cancel()
            return
        fault = task.exception()  # Retrieved here, because the caller may have stopped waiting.
        if result is None:
            return
        if fault is None:
            result.set_result(task.result())
        else:
            result.set_exception(fault)


async def _rest(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    """The rest of work that has begun and has suspended."""
    await _driven(work, waits_for)


@coroutine
def _driven(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    try:
        while True:
            try:
                yield waits_for
            except BaseException as fault:
                waits_for = work.throw(fault)
            else:
                waits_for = work.send(None)
    except StopIteration:
        return

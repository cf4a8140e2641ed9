"""Isolation: a call of drivers in an asyncio task of its own, and for a bounded time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

GRACE: Final = 5.0
"""Seconds that a call may take to end after its time, or after it was cancelled."""
_LEFT: Final = set[asyncio.Task[Any]]()
"""Holds the calls that were cancelled, until they end."""
T = TypeVar("T")


async def isolated(
    work: Callable[[], Awaitable[T]], timeout: float
) -> tuple[T | BaseException, asyncio.CancelledError | None]:
    """The outcome of a call, and the cancellation of its caller, if there was one.

    A driver that cancels its own asyncio task does not cancel the caller. If the caller is
    cancelled, so is the call; what it still says counts, because it may have had its effect. A call
    that does not end within `GRACE` after that, or after its time, is left behind.

    Raises:
        CancelledError: The caller was cancelled a second time.
    """
    begun, cancelled = False, None

    async def outcome() -> T | BaseException:
        nonlocal begun
        begun = True
        try:
            return await work()
        except BaseException as error:
            return error

    task = _started(outcome())
    try:
        try:
            if not task.done():
                await asyncio.sleep(0)  # Enough for a call that needs no wait; a timer costs more.
            if not task.done():
                await asyncio.wait([task], timeout=timeout + GRACE)
        except asyncio.CancelledError as error:
            cancelled = error
        if not begun:  # Only a call that has begun can say what it did. It begins in this turn.
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=GRACE)
    finally:
        if not task.done():
            task.cancel()
            _LEFT.add(task)
            task.add_done_callback(_LEFT.discard)
    if not task.done():
        return TimeoutError("the driver did not end after it was cancelled"), cancelled
    return asyncio.CancelledError() if task.cancelled() else task.result(), cancelled


def _started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task; one that needs no wait is done at once, if this Python can do that."""
    # Without the loop's task factory, which `eager_start` passes by, too.
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return asyncio.Task(work, loop=loop)


async def in_time(work: Coroutine[Any, Any, T], until: float) -> T:
    """Return the result of some work.

    The timer is made once the work waits: a call in memory does not, and a timer takes a tenth of
    what an invocation adds to it (benchmarks/guard.py).

    Args:
        until: A time of the event loop.

    Raises:
        TimeoutError: The work still waits at that time; it is cancelled.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    async with asyncio.timeout_at(until):
        return await _rest(work, waits_for)


@coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Return the result of some work that has begun and waits."""
    try:
        while True:
            try:
                yield waits_for
            except BaseException as fault:
                waits_for = work.throw(fault)
            else:
                waits_for = work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]

"""Unwinding: calls that are cancelled, and the asyncio tasks that they leave running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from .rules import RuleError, broken

TURNS: Final = (0, 1, 2, 3, 5, 8, 13)
"""Turns of the event loop before a call is cancelled; by the last one it is in the middle."""
_LATER: Final = 20
"""Turns of the event loop in which the tasks of a call must end after the call."""


async def give_up(
    call: Callable[[], Coroutine[Any, Any, object]], seconds: float, doing: str
) -> None:
    """Make the call once for each of `TURNS`, and cancel it after so many turns of the event loop.

    A call that has returned or failed by then ended in its own way; that end is not judged here.

    Args:
        call: Makes the call.
        seconds: Seconds in which it must end after the cancellation.
        doing: The name of the call, for the report.

    Raises:
        RuleError: It did not end in time, ignored its cancellation, or left a task running.
    """
    for turns in TURNS:
        await _give_up(call, turns, seconds, doing)


async def given_up(call: Coroutine[Any, Any, object], turns: int) -> None:
    """Cancel a call after so many turns of the event loop, and wait until it has ended.

    A call that failed before the cancellation raises its error.
    """
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        await task


async def _give_up(
    call: Callable[[], Coroutine[Any, Any, object]], turns: int, seconds: float, doing: str
) -> None:
    async with nothing_left(doing):
        task = asyncio.create_task(call())
        for _ in range(turns):
            await asyncio.sleep(0)
        asked = task.cancel()
        await asyncio.wait([task], timeout=seconds)
        after = f"{turns} turn{'' if turns == 1 else 's'} of the event loop"
        when = f"{doing}, cancelled after {after},"
        if not task.done():
            raise broken("unwind", f"{when} had not ended {seconds:g} s later")
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, RuleError):
            raise error
        if asked and error is not None:
            raise broken("unwind", f"{when} raised {error!r:.200}") from error
        if asked:
            raise broken("unwind", f"{when} went on and gave {task.result()!r:.200}")


@asynccontextmanager
async def nothing_left(doing: str) -> AsyncIterator[None]:
    """Report asyncio tasks that the block started and left running, and cancel them.

    Raises:
        RuleError: A task is left.
    """
    before = asyncio.all_tasks()
    yield
    for _ in range(_LATER):
        if not asyncio.all_tasks() - before:
            return
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    names = sorted(getattr(task.get_coro(), "__qualname__", task.get_name()) for task in left)
    for task in left:
        task.cancel()
    raise broken("unwind", f"{doing} has ended, and left running: {', '.join(names)}")

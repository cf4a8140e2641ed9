"""Patience: a bound for each wait of a call, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """Bounds waits that come one after the other, as `asyncio.timeout` does.

    A stream has a wait for each of its events, and nearly all of them are short. A timer of its own
    for each would cost more than reading the event. So a wait leaves its timer to the next wait,
    and a timer that fires before the end of the present wait is set again, to that end.

    The event loop keeps a cancelled timer for a while, and the timer keeps its context. So timers
    have an empty context, because that of a call leads to its response.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        """The task that waits; None between two waits."""
        self._end = 0.0
        self._is_over = False
        self._context = Context()

    async def wait(self, seconds: float, awaited: Awaitable[T]) -> T:
        """Return the result of an awaitable.

        Raises:
            TimeoutError: It took longer; it was cancelled.
        """
        task = self._task = asyncio.current_task()
        assert task is not None
        self._is_over, cancelling = False, task.cancelling()
        self._end = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._end:
            self._set()
        try:
            return await awaited
        except asyncio.CancelledError as error:
            if self._is_over and task.cancelling() == cancelling + 1:
                raise TimeoutError from error
            raise
        finally:
            self._task = None
            if self._is_over:
                task.uncancel()

    def close(self) -> None:
        """Give up the timer, after the last wait."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._end, self._fire, context=self._context)

    def _fire(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._end:
            self._set()
        else:
            self._is_over = True
            self._task.cancel()

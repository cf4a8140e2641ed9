"""Threads: run plain functions, so that a function that hangs does not stop the others.

A thread cannot be ended from outside. If its call is over, because of a timeout or because the run
ended, the thread is abandoned: it goes on unobserved until its function returns, and a new thread
takes its place. So functions that hang take no room from others, up to a bound. Beyond the bound,
calls are refused at once until an abandoned thread returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from .. import edges

LIMIT: Final = 32
"""The most functions that run at the same time, by default."""
ABANDONED: Final = 64
"""The most threads that may be abandoned before calls are refused, by default."""
NOTE_NOT_BEGUN: Final = "the function was not begun"
"""A note on the cancellation of a call that still waited for a thread."""
IDLE: Final = 10.0
"""Seconds after which a thread without work ends."""
_MOST: Final = 4_096
"""The largest value of either bound."""
_log = logging.getLogger("agentic_kernel_engine.tools")


class ThreadsExhausted(Exception):
    """A call was refused, and did not begin: too many threads are abandoned.

    Attributes:
        abandoned: Number of abandoned threads.
        limit: The most threads that may be abandoned.
    """

    def __init__(self, abandoned: int, limit: int) -> None:
        self.abandoned = abandoned
        self.limit = limit
        super().__init__(abandoned, limit)

    def __str__(self) -> str:
        return (
            f"{self.abandoned} tool threads hang, and the limit is {self.limit}; the call was not "
            "begun. Use a tool that needs no thread, or end without it. The operator can give the "
            "tools that hang a way to stop, make them async, or raise abandoned= of ToolThreads"
        )


class ToolThreads:
    """Runs functions in threads of its own, in the order in which they come.

    The threads are daemons: the interpreter does not wait for them when it exits. One `ToolThreads`
    may serve several event loops.

    Args:
        limit: The most functions that run at the same time; further ones wait.
        abandoned: The most threads that may be abandoned before calls are refused.

    Raises:
        InvalidValue: A bound is not a whole number from 1 to 4,096.
    """

    def __init__(self, limit: int = LIMIT, *, abandoned: int = ABANDONED) -> None:
        for name, bound in (("limit", limit), ("abandoned", abandoned)):
            edges.whole(bound, name, 1, _MOST)
        self.limit = limit
        self.most_abandoned = abandoned
        self.forget()
        self._named: set[str] = set()

    @property
    def abandoned(self) -> int:
        """Number of threads that still run a function whose call is over."""
        return self._abandoned

    async def run(self, name: str, function: Callable[[], Any]) -> Any:
        """Run a function in a thread, in the context of the caller, and return its result.

        Args:
            name: Name of the tool, for the log.

        Raises:
            ThreadsExhausted: Too many threads are abandoned; the function was not begun.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        work = _Work(name, partial(contextvars.copy_context().run, function), loop, result)
        with self._changed:
            if self._abandoned >= self.most_abandoned:
                raise ThreadsExhausted(self._abandoned, self.most_abandoned)
            if self._idle > len(self._waiting):
                self._changed.notify()
            else:
                self._begin()
            self._waiting.append(work)
        try:
            return await result
        except asyncio.CancelledError as error:
            if self._give_up(work):
                error.add_note(NOTE_NOT_BEGUN)
            raise

    def _begin(self) -> None:
        """Start a thread if one more may run; the lock is held.

        Raises:
            RuntimeError: The system can start no thread, and this object has none for the work.
        """
        if self._busy + self._idle >= self.limit:
            return
        thread = threading.Thread(target=self._work, name="agentic-kernel-tool", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._busy + self._idle:
                raise
        else:
            self._idle += 1

    def _work(self) -> None:
        """Run waiting functions, until none came for `IDLE` seconds or the thread is abandoned."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._changed.wait_for(lambda: bool(self._waiting), IDLE)
                self._idle -= 1
                if not self._waiting:
                    return
                work = self._waiting.popleft()
                self._busy += 1
                work.begun = True
            outcome = work.done()
            with self._changed:
                work.over = True
                if work.abandoned:
                    self._abandoned -= 1
                    return  # Another thread took its place.
                self._busy -= 1
                self._idle += 1
            outcome()
            del work, outcome  # A waiting thread must not keep the function or its result alive.

    def _give_up(self, work: _Work) -> bool:
        """End a call: its function never begins, or its thread is abandoned.

        Returns:
            True if the function never begins.
        """
        with self._changed:
            if work.over:
                return False
            if not work.begun:
                self._waiting.remove(work)
                return True
            work.abandoned = True
            self._busy -= 1
            self._abandoned += 1
            count = self._abandoned
            known = work.name in self._named
            if len(self._named) < _MOST:
                self._named.add(work.name)
            if self._waiting:
                with suppress(RuntimeError):
                    self._begin()
        if not known:
            _log.warning(
                "tool %r did not return when its call ended, and its thread goes on: %d of at most "
                "%d threads are abandoned; give the tool a way to stop. This is logged once for "
                "each tool",
                work.name, count, self.most_abandoned,
            )  # fmt: skip
        return False

    def forget(self) -> None:
        """Reset to no threads: at the beginning, and in a process that was forked."""
        self._changed = threading.Condition()
        self._waiting: deque[_Work] = deque()
        self._busy = self._abandoned = 0
        self._idle = 0
        """Threads that wait for work, or are about to."""


class _Work(msgspec.Struct, eq=False):
    """A function on its way through a thread."""

    name: str
    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[Any]
    begun: bool = False
    over: bool = False
    abandoned: bool = False

    def done(self) -> Callable[[], None]:
        """Run the function; return a callback that hands its outcome to the event loop."""
        try:
            return partial(self.hand_over, self.function(), None)
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
            # A future refuses StopIteration. GeneratorExit would close every coroutine that waits.
            # KeyboardInterrupt comes from the function: a real one reaches only the main thread.
            wrapped = RuntimeError(f"raised {type(error).__name__}")
            wrapped.__cause__ = error
            return partial(self.hand_over, None, wrapped)
        except BaseException as error:
            return partial(self.hand_over, None, error)

    def hand_over(self, value: Any, error: BaseException | None) -> None:
        """Hand the outcome from the thread to the event loop, which may be closed by now."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.settle, value, error)

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Set the outcome; called on the event loop."""
        if self.result.done():
            return
        if error is None:
            self.result.set_result(value)
        else:
            self.result.set_exception(error)


SHARED: Final = ToolThreads()
"""The threads of every tool in this process that was not given others."""
if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=SHARED.forget)
